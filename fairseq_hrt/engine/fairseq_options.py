"""Reads decoding options from fairseq's commands and configurations; refuses those that no decoder
of this package supports."""

from argparse import Namespace
from dataclasses import fields, is_dataclass
from typing import Any, Container, Dict, Iterable, List, Union

from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.tasks.translation import TranslationConfig
from omegaconf import DictConfig

from ..native.options.conditions import NORMALISED, at_least, did_you_mean, given, other_than
from ..native.options.effects import set_aside
from ..native.options.misplaced import DECODING
from ..native.options.option import Option
from ..native.options.schema import FAIRSEQ
from ..native.options.values import SCHEMA, DecodingOptions, flag, options_of, read_value

Arguments = Union[Namespace, DictConfig, GenerationConfig]

# fairseq's generation flags that are supported.
HONOURED = frozenset(
    (
        *(own.name for own in options_of(FAIRSEQ)),
        # Builds a scorer instead of a generator.
        "score_reference",
    )
)
# Flags that fairseq's commands handle themselves, and two that nothing in fairseq reads any more.
LEFT_TO_THE_COMMAND = frozenset(
    ("sacrebleu", "print_step", "no_seed_provided", "no_early_stop", "no_beamable_mm")
)
# Messages for flags whose remedy is not another task.
_INSTEAD = {
    **dict.fromkeys(
        (
            "iter_decode_eos_penalty",
            "iter_decode_max_iter",
            "iter_decode_force_max_iter",
            "iter_decode_with_beam",
            "iter_decode_with_external_reranker",
        ),
        "an option of fairseq's iterative models (--task translation_lev), whose passes this"
        " decoder does not have: leave it out",
    ),
    "replace_unk": (
        "fairseq's commands replace <unk> by counting words after the subwords were joined, which"
        " finds the wrong source words; give --unkpen inf instead, which forbids <unk>"
    ),
}
# All options of fairseq's commands and of its translation task, under all their names.
_OF_FAIRSEQ = {
    name.lstrip("-").replace("-", "_")
    for config in (FairseqConfig(), *vars(FairseqConfig()).values(), TranslationConfig())
    if is_dataclass(config)
    for own in fields(config)
    for name in (own.name, own.metadata.get("argparse_alias", ""))
}
_DEFAULT = {own.name: own.default for own in fields(GenerationConfig)}
_ITERATIVE = [name for name in _DEFAULT if name.startswith("iter_decode_")]
_BY_WORD = ("sampling", "match_source_len", "diversity_rate", "diverse_beam_groups")
_OWN_BY_WORD = [own.name for own in options_of(FAIRSEQ) if own.name != "retain_iter_history"]
# The conditions under which fairseq's own searches read their options.
_WHEN = {
    **dict.fromkeys((*_OWN_BY_WORD, *_BY_WORD), other_than("task", "translation_lev")),
    **dict.fromkeys(_ITERATIVE, other_than("task", "translation")),
    **dict.fromkeys(("sampling_topk", "sampling_topp"), given("sampling")),
    "lenpen": other_than("task", "translation_lev") & NORMALISED,
    "diverse_beam_strength": at_least("diverse_beam_groups", 1),
    "retain_dropout_modules": given("retain_dropout"),
}
_SEARCHES = {
    name: Option(_DEFAULT[name], when=when, neutral=(1,) if name == "beam" else ())
    for name, when in _WHEN.items()
}


def options_of_command(args: Arguments, task: Any, **overrides: Any) -> DecodingOptions:
    """Reads the options from what fairseq passes to ``build_generator``, and from the task's
    configuration.

    ``--iter-decode-*`` are never read: their default of ten iterations is for other models and
    would ruin one-pass decoders.

    Args:
        args: a full :class:`GenerationConfig` on the command line, but a bare namespace for
            validation BLEU and the hub interface: a missing field means fairseq's default.
        task: the task's configuration.
        overrides: {name: value} of options, in place of the values in ``args`` and ``task``.

    Raises:
        ValueError: unsupported flags, or a bad value; the message names the flags.
    """
    refuse_unknown(_mapping(args))
    values = _given(args)
    # Decoding options only: other values may be interpolated from configurations that are absent.
    own = task if isinstance(task, DictConfig) else vars(task)
    values.update(
        (name, own[name])
        for name, option in SCHEMA.items()
        if option.origin != FAIRSEQ and name in own
    )
    return DecodingOptions(
        **{**{name: read_value(name, value) for name, value in values.items()}, **overrides}
    )


def check_ranges(args: Arguments) -> None:
    """Checks the ranges of fairseq's options, for generators that do not check them.

    Raises:
        ValueError: a value is out of range; the message names the flag.
    """
    DecodingOptions.parse(_given(args))


def require_decoding_options(names: Iterable[str], subject: str) -> None:
    """Refuses options of fairseq's commands that decoders of this package's commands do not read,
    such as ``--num-shards``; options of plugins' tasks pass.

    Args:
        names: the options that the user gave.
        subject: whose options these are; the message begins with it.

    Raises:
        ValueError: there is such an option; the message names it.
    """
    for name in names:
        if name in _OF_FAIRSEQ and name not in DECODING:
            raise ValueError(f"{subject}: {flag(name)} has no effect here; leave it out")


def require_effect(config: DictConfig, named: Container[str]) -> None:
    """Refuses options of fairseq's own searches that have no effect.

    Args:
        config: the command's configuration.
        named: names of the options that the user gave; only these are refused.

    Raises:
        ValueError: such an option is given; the message names it and what it needs.
    """
    set_aside({**config.generation, "task": config.task._name}, named, _SEARCHES)


def refuse_unknown(given: Dict[str, Any]) -> None:
    """Raises ValueError for generation flags that differ from fairseq's default and that no decoder
    here supports.

    An allow-list: flags that later releases of fairseq or other plugins add are refused until a
    decoder supports them.

    Args:
        given: {name of the flag's field in :class:`GenerationConfig`: value}.
    """
    neutral = {field.name: field.default for field in fields(GenerationConfig)}
    refused: List[str] = []
    for name, value in given.items():
        if name in HONOURED or name in LEFT_TO_THE_COMMAND or name.startswith("_") or value is None:
            continue
        if name not in neutral or value != neutral[name]:
            refused.append(name)
    for name in refused:
        if name in _INSTEAD:
            raise ValueError(f"{flag(name)}: {_INSTEAD[name]}")
        if name in SCHEMA:
            # --eval-bleu-args holds fairseq's options alone.
            raise ValueError(
                f"{name}: an option of the task, not of fairseq's search; give"
                f" {flag(name)} {given[name]} on the command line"
            )
        if name not in neutral:
            raise ValueError(
                f"{flag(name)}: fairseq's search has no such option{did_you_mean(name, [*neutral])}"
            )
    if refused:
        flags = ", ".join(map(flag, refused))
        raise ValueError(f"{flags}: not supported by this decoder; decode with --task translation")


def _given(args: Arguments) -> Dict[str, Any]:
    """{name: value} of the flags of fairseq that are supported and given."""
    found = _mapping(args)
    names = [own.name for own in options_of(FAIRSEQ)]
    return {name: found[name] for name in names if found.get(name) is not None}


def _mapping(args: Any) -> Dict[str, Any]:
    return dict(args) if isinstance(args, DictConfig) else vars(args)
