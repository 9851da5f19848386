"""fairseq's task configurations with the decoding options of a family, made from the schema
(:mod:`..native.options.values`)."""

from dataclasses import Field, field, make_dataclass
from typing import Any, Callable, Optional, Tuple, Type

from fairseq.dataclass import ChoiceEnum

from ..native.options.schema import EVERY_TASK
from ..native.options.values import KINDS, SCHEMA, options_of

# Read in training alone, and by every task that can validate by BLEU.
EVAL_BLEU_TOKENIZER: Any = field(
    default=None,
    metadata={
        "help": (
            "with --eval-bleu: tokenizer of sacreBLEU for the validation, such as zh or ja-mecab;"
            " default: 13a"
        )
    },
)


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
    option, (kind, optional) = SCHEMA[item.name], KINDS[item.name]
    default = option.task_default if option.task_default is not None else item.default
    hint: Any = kind
    if option.choices:
        hint = ChoiceEnum(list(option.choices))
    elif optional:
        hint = Optional[kind]
    return item.name, hint, field(default=default, metadata={"help": option.help})
