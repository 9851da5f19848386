"""Adds decoding options (:mod:`..native.options.schema`) to the configurations of tasks, and checks
the options of a training when it begins."""

import math
from dataclasses import Field, field, make_dataclass, replace
from typing import Any, Callable, Container, Dict, Optional, Sequence, Tuple, Type

from fairseq.dataclass import ChoiceEnum
from omegaconf import DictConfig, OmegaConf

from ..native.families import FAMILIES
from ..native.options.conditions import Condition, chosen, flag, given, other_than
from ..native.options.effects import read, set_aside
from ..native.options.option import Option, option, options_in
from ..native.options.schema import EVERY_TASK, MODEL_DRAFTS
from ..native.options.values import KINDS, SCHEMA, options_of

# Read only in training, by every task that can validate with BLEU.
EVAL_BLEU_TOKENIZER = option(
    None,
    "with --eval-bleu: tokenizer of sacreBLEU for the validation, such as zh or ja-mecab;"
    " default: 13a",
    when=Condition(
        "--eval-bleu, and without --eval-tokenized-bleu",
        ("eval_bleu", "eval_tokenized_bleu"),
        lambda measured, tokenised: measured and not tokenised,
    ),
)
# Decoding options for which a family has another default than the schema.
TASK_DEFAULTS = {name: value for family in FAMILIES for name, value in family.default.items()}
# Options that have another condition in training than in decoding: only validation BLEU uses them,
# as a checkpoint does not pass them on to later decodings.
_IN_TRAINING = {
    "rescore_path": given("eval_bleu"),
    "engine": given("eval_bleu"),
    "weights": given("eval_bleu") & other_than("engine", "torch"),
    "ctc_lm_path": given("eval_bleu"),
    "dag_lm_path": given("eval_bleu") & chosen("dag_decode_strategy", "beam"),
    "jacobi_draft_path": given("eval_bleu") & chosen("jacobi_draft", *MODEL_DRAFTS),
}


def with_decoding_options(family: str = "") -> Callable[[Type[Any]], Type[Any]]:
    """A class decorator that adds fields to a task's configuration: a family's decoding options,
    the decoding options that all tasks have, and ``--eval-bleu-tokenizer``.

    Args:
        family: the name of a family in :mod:`..native.families`; empty for a task without options
            of a family.
    """

    def extended(config: Type[Any]) -> Type[Any]:
        own = [_declared(item) for origin in (family, EVERY_TASK) for item in options_of(origin)]
        own.append(("eval_bleu_tokenizer", Optional[str], EVAL_BLEU_TOKENIZER))
        made = make_dataclass(config.__name__, own, bases=(config,))
        made.__doc__, made.__module__, made.__qualname__ = (
            config.__doc__,
            config.__module__,
            config.__qualname__,
        )
        return made

    return extended


def _declared(item: "Field[Any]") -> Tuple[str, Any, Any]:
    """The decoding option ``item`` as the (name, type, field) that ``make_dataclass`` takes, for a
    configuration that fairseq reads."""
    known, (kind, optional) = SCHEMA[item.name], KINDS[item.name]
    default = TASK_DEFAULTS.get(item.name, item.default)
    hint: Any = kind
    if known.choices:
        hint = ChoiceEnum(list(known.choices))
    elif optional:
        hint = Optional[kind]
    known = replace(known, default=default, when=_IN_TRAINING.get(item.name, known.when))
    return item.name, hint, field(default=default, metadata={"help": known.help, "option": known})


def checked_options(declared: Sequence[type], configurations: Sequence[Any]) -> Dict[str, Any]:
    """Checks the options that a training begins with, and returns their values by name.

    Args:
        declared: dataclasses with fields made by :func:`~..native.options.option.option`.
        configurations: objects whose attributes are the options' values, and the values of other
            options that conditions depend on. Later objects override earlier ones; an option that
            none has gets its default.

    Raises:
        ValueError: an option that is not at its default has no effect or is out of range; the
            message names it.
    """
    options = options_in(*declared)
    values = {name: known.default for name, known in options.items()}
    values.update(read(options, *configurations))
    set_aside(values, options=options)
    for name, known in options.items():
        # Options with an origin are those of decoding, which checks their range itself.
        if not known.origin and known.is_asked_for(values[name]):
            _check_range(name, known, values[name])
    return values


def is_stored(config: Any) -> bool:
    """Whether the configuration of a task may have been taken from a checkpoint, where its options
    cannot be told from those of a command.

    ``fairseq-generate`` holds a checkpoint's path beside the task's options. ``fairseq-validate``
    and fairseq's ``from_pretrained`` take the options from the checkpoint, and there its training's
    configuration, without a path, stands beside them.
    """
    around = config._get_parent() if isinstance(config, DictConfig) else None
    return isinstance(around, DictConfig) and OmegaConf.select(around, "common_eval.path") is None


def refuse_options_of_training(
    config: type, values: Any, only: Optional[Container[str]] = None
) -> None:
    """Refuses options of a task that have an effect only in training; called when a command
    decodes.

    Args:
        config: the task's dataclass.
        values: the configuration of the command.
        only: names of the options to look at; None: all.

    Raises:
        ValueError: such an option is given; the message names it.
    """
    declared = options_in(config)
    for name, value in read(declared, values).items():
        known = declared.get(name)
        if known is None or known.origin or known.decodes or not known.is_asked_for(value):
            continue
        if only is not None and name not in only:
            continue
        shown = flag(name) if value is True else f"{flag(name)} {value}"
        raise ValueError(
            f"{shown}: an option of training, which changes no translation; leave it out"
        )


def _check_range(name: str, known: Option, value: Any) -> None:
    if known.least is not None and not value >= known.least:
        wanted = f"at least {known.least:g}"
    elif known.most is not None and not value <= known.most:
        wanted = f"at most {known.most:g}"
    elif known.least is not None and not math.isfinite(value):
        wanted = "a finite number"
    else:
        return
    raise ValueError(f"{flag(name)} {value} must be {wanted}")
