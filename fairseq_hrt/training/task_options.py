"""fairseq's task configurations with the decoding options of a family, made from the schema
(:mod:`..native.options.schema`); and the options of a training, checked as it begins."""

import math
from dataclasses import Field, field, make_dataclass, replace
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Type

from fairseq.dataclass import ChoiceEnum

from ..native.families import FAMILIES
from ..native.options.conditions import Condition, flag, given
from ..native.options.effects import read, set_aside
from ..native.options.option import Option, option, options_in
from ..native.options.schema import EVERY_TASK
from ..native.options.values import KINDS, SCHEMA, options_of

# Read in training alone, and by every task that can validate by BLEU.
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
# Defaults of decoding options where a family's task declares them, if they are others.
TASK_DEFAULTS = {name: value for family in FAMILIES for name, value in family.default.items()}
# Conditions of decoding options as a training begins: it hands no file on to later decodings.
_IN_TRAINING = {"rescore_path": given("eval_bleu")}


def with_decoding_options(family: str = "") -> Callable[[Type[Any]], Type[Any]]:
    """Adds the fields of a family's decoding options, and of those that every task of ours has, to
    a task's configuration; and how it validates.

    Args:
        family: see :mod:`..native.families`; empty for a task without options of its own.
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
    """(name, type, field) in the dialect that fairseq reads."""
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
    """The values of options as a training begins with them.

    Args:
        declared: dataclasses whose fields they are, declared by
            :func:`~..native.options.option.option`.
        configurations: that hold the values, later ones before earlier ones, and what conditions
            read besides; defaults stand for what none of them holds.

    Raises:
        ValueError: an option that has no effect, or a number beyond its limits; by name.
    """
    options = options_in(*declared)
    values = {name: known.default for name, known in options.items()}
    values.update(read(options, *configurations))
    set_aside(values, options=options)
    for name, known in options.items():
        # Those of decoding are checked where something is decoded.
        if not known.origin and known.is_asked_for(values[name]):
            _check_range(name, known, values[name])
    return values


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
