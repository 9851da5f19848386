"""Options of the family, with their help texts."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from .drafts import DRAFTS
from .windows import MODES


@dataclass
class JacobiTaskConfig(TranslationConfig):
    """How tokens are guessed and how many at a time."""

    jacobi_mode: ChoiceEnum(list(MODES)) = field(
        default="frontier",
        metadata={
            "help": "frontier: a window slides with the first token that is not proved; pj: the whole sentence (up to "
            "--max-len-a/-b); pgj: blocks one after the other; hgj: blocks up to --jacobi-prefix-length, then one by one"
        },
    )
    jacobi_block_size: int = field(default=3, metadata={"help": "pgj, hgj: tokens of a block (b)"})
    jacobi_window: Optional[int] = field(
        default=None,
        metadata={
            "help": "frontier: tokens guessed and checked at a time (w); 1 is ordinary greedy decoding. Default: chosen by "
            "what passes of different widths and the guesses cost on this machine and how many guesses come true"
        },
    )
    jacobi_prefix_length: Optional[int] = field(
        default=None, metadata={"help": "hgj: tokens decoded in blocks before it goes on one by one (m); default: all"}
    )
    jacobi_draft: ChoiceEnum(list(DRAFTS)) = field(
        default="previous",
        metadata={
            "help": "frontier: where guesses come from. previous: the model's own answers to wrong guesses; ngram: what "
            "followed the last words in earlier sentences; source: what follows the last word in the source (one "
            "dictionary for both sides); hrt, bidirectional, dag: the translation of such a model (--jacobi-draft-path)"
        },
    )
    jacobi_draft_path: Optional[str] = field(
        default=None, metadata={"help": "checkpoint of the model whose translation is checked; greedy, with its own task"}
    )
    jacobi_draft_options: str = field(
        default="{}",
        metadata={"help": "options of that model's task as a Python dictionary, e.g. \"{'hrt_decode_chunk': '3'}\""},
    )
    jacobi_cost_file: Optional[str] = field(
        default=None,
        metadata={
            "help": "JSON file in which the measured costs are kept between runs; default: fairseq_hrt/jacobi_costs.json in "
            "the user's cache folder"
        },
    )
