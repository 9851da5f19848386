"""Decoding options: the generation flags of fairseq that our generators honour; every other one is refused by name."""

import math
from argparse import Namespace
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Union

from fairseq.dataclass.configs import GenerationConfig
from omegaconf import DictConfig

# Options that a decoder reads, by the names of fairseq and of :class:`DecodingOptions`.
_READ = ("beam", "nbest", "lenpen", "unkpen", "min_len", "max_len_a", "max_len_b", "temperature")
HONOURED = frozenset(
    (
        *_READ, "unnormalized", "no_repeat_ngram_size", "retain_iter_history",
        # A given beginning comes with each batch; the decoder that cannot continue one says so.
        "prefix_size",
        # Where a generator is built, a scorer instead.
        "score_reference",
    )
)  # fmt: skip
# What fairseq's commands do by themselves, and two switches that nothing in fairseq reads any more.
LEFT_TO_THE_COMMAND = frozenset(("sacrebleu", "print_step", "no_seed_provided", "no_early_stop", "no_beamable_mm"))
# What else to do, where that is not simply another task.
_INSTEAD = {
    **dict.fromkeys(
        ("iter_decode_eos_penalty", "iter_decode_max_iter", "iter_decode_force_max_iter", "iter_decode_with_beam",
         "iter_decode_with_external_reranker"),
        "an option of fairseq's iterative models (--task translation_lev), whose passes this decoder does not have: leave it out",
    ),
    "replace_unk": "fairseq's commands replace <unk> by counting words after the subwords were joined, which does not lead to "
    "the right source word; --unkpen inf forbids <unk>",
}  # fmt: skip


@dataclass(frozen=True)
class DecodingOptions:
    """fairseq's names and defaults (see ``fairseq-generate --help``).

    Attributes:
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        min_len: fewest tokens before ``</s>``; a sentence whose own maximum is lower is held to that maximum.
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
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"--temperature {self.temperature} must be greater than 0 and finite")
        if math.isnan(self.unkpen) or self.unkpen == -math.inf:
            raise ValueError(f"--unkpen {self.unkpen} must be a number, or inf to forbid <unk>")
        for name in ("lenpen", "max_len_a"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must be a finite number")
        if self.no_repeat_ngram_size < 0:
            raise ValueError(
                f"--no-repeat-ngram-size {self.no_repeat_ngram_size} must not be negative; 0 allows repetitions"
            )
        self._check_lengths()

    def _check_lengths(self) -> None:
        for name in ("max_len_a", "max_len_b"):
            if getattr(self, name) < 0:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must not be negative")
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise ValueError(
                f"--min-len {self.min_len} is greater than the maximum length {self.max_len_b} of a sentence; "
                "lower --min-len or raise --max-len-a/--max-len-b"
            )

    @classmethod
    def check_ranges(cls, args: Union[Namespace, DictConfig, GenerationConfig]) -> None:
        """The ranges of the options that every generator reads, for generators that do not check them.

        Raises:
            ValueError: naming the flag.
        """
        given: Dict[Any, Any] = dict(args) if isinstance(args, DictConfig) else vars(args)
        cls(**{name: given[name] for name in _READ if given.get(name) is not None})

    @classmethod
    def from_args(cls, args: Union[Namespace, DictConfig, GenerationConfig], **overrides: Any) -> "DecodingOptions":
        """Reads the options from whatever fairseq hands to ``build_generator``.

        That is a full :class:`GenerationConfig` on the command line but a bare namespace for validation BLEU and the
        hub interface, so a missing field means fairseq's default. ``--iter-decode-*`` are never read: their default of
        ten iterations is meant for other models and ruins one-pass decoders.

        Raises:
            ValueError: naming each flag that asks for something unsupported.
        """
        given: Dict[Any, Any] = dict(args) if isinstance(args, DictConfig) else vars(args)
        refuse_unknown(given)
        values = {name: given[name] for name in _READ if given.get(name) is not None}
        values["normalize"] = not given.get("unnormalized", False)
        values["no_repeat_ngram_size"] = given.get("no_repeat_ngram_size") or 0
        values["retain_history"] = bool(given.get("retain_iter_history", False))
        values.update(overrides)
        return cls(**values)


def refuse_unknown(given: Dict[str, Any]) -> None:
    """Raises ValueError for generation flags that differ from fairseq's default and that nothing here would honour.

    An allow-list: a flag that a later release of fairseq or another plugin adds is refused, too, until a decoder knows it.

    Args:
        given: values by the names of :class:`GenerationConfig`.
    """
    neutral = {field.name: field.default for field in fields(GenerationConfig)}
    refused: List[str] = []
    for name, value in given.items():
        if name in HONOURED or name in LEFT_TO_THE_COMMAND or name.startswith("_") or value is None:
            continue
        if name not in neutral or value != neutral[name]:
            refused.append(name)
    flags = {name: "--" + name.replace("_", "-") for name in refused}
    for name in refused:
        if name in _INSTEAD:
            raise ValueError(f"{flags[name]}: {_INSTEAD[name]}")
    if refused:
        raise ValueError(f"{', '.join(flags.values())}: not supported by this decoder; use --task translation for it")
