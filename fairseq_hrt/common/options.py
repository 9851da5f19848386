"""Decoding options: the part of fairseq's generation flags that our generators honour; the rest is refused by name."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any, List, Union

from fairseq.dataclass.configs import GenerationConfig
from omegaconf import DictConfig

# Flags that ask for another search than ours. (field, value that means "not asked for", flag)
REFUSED = (
    ("sampling", False, "--sampling"),
    ("diverse_beam_groups", -1, "--diverse-beam-groups"),
    ("diversity_rate", -1.0, "--diversity-rate"),
    ("constraints", None, "--constraints"),
    ("match_source_len", False, "--match-source-len"),
    ("lm_path", None, "--lm-path"),
    ("print_alignment", None, "--print-alignment"),
    ("decoding_format", None, "--decoding-format"),
)


@dataclass(frozen=True)
class DecodingOptions:
    """fairseq's names and defaults (see ``fairseq-generate --help``).

    Attributes:
        static_weights: the models do not change while they are decoded; False for validation during training.
    """

    beam: int = 5
    nbest: int = 1
    lenpen: float = 1.0
    unkpen: float = 0.0
    min_len: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    temperature: float = 1.0
    normalize: bool = True
    no_repeat_ngram_size: int = 0
    retain_history: bool = False
    static_weights: bool = True

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"--beam {self.beam}: at least one hypothesis has to be kept; --beam 1 is greedy search")
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(f"--nbest {self.nbest} with --beam {self.beam}: --nbest must lie between 1 and --beam")
        if self.temperature <= 0:
            raise ValueError(f"--temperature {self.temperature} must be greater than 0")

    @classmethod
    def from_args(cls, args: Union[Namespace, DictConfig, GenerationConfig], **overrides: Any) -> "DecodingOptions":
        """Reads the options from whatever fairseq hands to ``build_generator``.

        That is a full :class:`GenerationConfig` on the command line but a bare namespace for validation BLEU and the
        hub interface, so a missing field means fairseq's default. ``--iter-decode-*`` are never read: their default of
        ten iterations is meant for other models and ruins one-pass decoders.

        Raises:
            ValueError: naming each flag that asks for something unsupported.
        """
        given = dict(args) if isinstance(args, DictConfig) else vars(args)
        refused: List[str] = [
            flag for name, neutral, flag in REFUSED if given.get(name, neutral) not in (neutral, None)
        ]
        if refused:
            raise ValueError(f"{', '.join(refused)}: not supported by this decoder; use --task translation for it")
        names = ("beam", "nbest", "lenpen", "unkpen", "min_len", "max_len_a", "max_len_b", "temperature")
        fields = {name: given[name] for name in names if given.get(name) is not None}
        fields["normalize"] = not given.get("unnormalized", False)
        fields["no_repeat_ngram_size"] = given.get("no_repeat_ngram_size") or 0
        fields["retain_history"] = bool(given.get("retain_iter_history", False))
        fields.update(overrides)
        return cls(**fields)
