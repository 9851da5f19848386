"""Options of the family, with their help texts."""

from dataclasses import dataclass
from typing import Optional

from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..native.options.conditions import Condition, at_least, chosen
from ..native.options.option import option
from ..training import ConventionsConfig, DistillationConfig
from ..training.task_options import with_decoding_options

_SEVERAL_WORDS = Condition(
    "two or more words a step (--bidirectional-directions times --bidirectional-tokens-per-step,"
    " --bidirectional-block)",
    ("bidirectional_block", "bidirectional_directions", "bidirectional_tokens_per_step"),
    lambda block, directions, words: (block or directions * words) > 1,
)
_WORDS_SEE_EACH_OTHER = Condition(
    "two or more words a step that see each other (--bidirectional-tokens-per-step 2 or more, or no"
    " --bidirectional-independent-directions)",
    (*_SEVERAL_WORDS.reads, "bidirectional_independent_directions"),
    lambda block, directions, words, independent: (
        (block or directions * words) > 1 and (words > 1 or not independent)
    ),
)
_SEVERAL_DIRECTIONS = at_least("bidirectional_directions", 2)


@dataclass
class BidirectionalModelConfig(ConventionsConfig):
    """fairseq's Transformer options, and those for the order in which the decoder writes."""

    bidirectional_directions: int = option(
        2,
        "h, directions of writing: 1 from left to right, 2 from both ends, 4 or more (even)"
        " from both ends of several segments",
    )
    bidirectional_tokens_per_step: int = option(
        1, "c, words that each direction writes in one decoder step; above 1: semi-autoregressive"
    )
    bidirectional_block: Optional[int] = option(
        None,
        "z, words of one decoder step where it is not directions times tokens per step: 1"
        " with two directions is an autoregressive model in interleaved order, the baseline"
        " of the mutual information",
    )
    bidirectional_distinct_starts: bool = option(
        False,
        "begin directions from right to left (with --bidirectional-middle-to-side: to the"
        " right end) with <s> and the others with </s>, instead of all with </s>: what is"
        " fine-tuned from a left-to-right model tells its ends apart from the first update"
        " on, otherwise it may take a thousand",
        when=_SEVERAL_DIRECTIONS,
    )
    bidirectional_vanilla_mask: bool = option(
        False,
        "ablation: words of one step do not attend each other's inputs to their right",
        when=_WORDS_SEE_EACH_OTHER,
    )
    bidirectional_vanilla_positions: bool = option(
        False,
        "ablation: count the positions 0, 1, 2, ... in the order of writing",
        when=_SEVERAL_DIRECTIONS,
    )
    bidirectional_middle_to_side: bool = option(
        False,
        "ablation, two directions: write from the middle of the sentence to its ends",
        when=chosen("bidirectional_directions", "2"),
    )
    bidirectional_independent_directions: bool = option(
        False,
        "ablation: a direction does not attend the words of the others",
        when=_SEVERAL_DIRECTIONS,
    )


@with_decoding_options("bidirectional")
@dataclass
class BidirectionalTaskConfig(DistillationConfig, TranslationConfig):
    """Options of ``translation_bidirectional``, for training samples and decoding."""

    bidirectional_train_dead_slots: bool = option(
        False,
        "teach the slots behind </s> in the last step of a sentence to write </s> too",
        when=_SEVERAL_WORDS,
    )
    bidirectional_truncate_target: bool = option(
        False,
        "cut targets (references of every subset) that are longer than"
        " --max-target-positions at their end, before the words are put in order; without"
        " it fairseq leaves such pairs out",
        decodes=True,
    )
    seed: int = II("common.seed")
