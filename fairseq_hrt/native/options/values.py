"""The values of decoding options: read from text, checked, passed to either engine. :mod:`.schema`
declares the options; :mod:`..families` checks a family's options together.

Standard library only: the native engine needs neither PyTorch nor fairseq.
"""

import math
from dataclasses import Field, dataclass, fields
from typing import Any, Container, Dict, List, Mapping, Sequence, Tuple, get_args, get_type_hints

from ..families import FAMILIES, Family
from .conditions import did_you_mean
from .conditions import flag as flag
from .option import LARGEST_WEIGHT, Option
from .schema import SCHEMA as SCHEMA
from .schema import Schema


class UnsupportedOption(ValueError):
    """An engine does not support an option; the message names the option and the remedy."""


@dataclass(frozen=True)
class DecodingOptions(Schema):
    """The values of all decoding options, which :class:`.schema.Schema` declares; ValueError if
    one is out of range, no permitted choice, or contradicts another."""

    def __post_init__(self) -> None:
        for name, option in SCHEMA.items():
            _check_type(name, getattr(self, name))
            _check_choice(name, getattr(self, name), option)
        if self.beam < 1:
            raise ValueError(
                f"--beam {self.beam}: at least one hypothesis has to be kept; --beam 1 is greedy"
                " search"
            )
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(
                f"--nbest {self.nbest} with --beam {self.beam}: --nbest must lie between 1 and"
                " --beam"
            )
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"--temperature {self.temperature} must be greater than 0 and finite")
        if not (abs(self.unkpen) <= LARGEST_WEIGHT or self.unkpen == math.inf):
            raise ValueError(
                f"--unkpen {self.unkpen}: give a number from {-LARGEST_WEIGHT:g} to"
                f" {LARGEST_WEIGHT:g}, or inf to forbid <unk>"
            )
        for family in FAMILIES:
            family.check_options(self)
        for name, option in SCHEMA.items():
            _check_range(name, getattr(self, name), option)
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise ValueError(
                f"--min-len {self.min_len} is greater than the maximum length {self.max_len_b} of a"
                " sentence; lower --min-len or raise --max-len-a/--max-len-b"
            )

    @property
    def normalize(self) -> bool:
        """Whether hypotheses are ranked by log-probability / length ** lenpen."""
        return not self.unnormalized

    @classmethod
    def parse(cls, options: Mapping[str, Any], **own: Any) -> "DecodingOptions":
        """Reads options by the names of ``fairseq-generate``, with values as text or of the right
        type: ``{"beam": "1", "hrt_decode_chunk": "3"}``.

        Args:
            options: {name: value}, from which the caller has removed options that do not change
                what is decoded (``cpu``, ``post_process``, …).
            own: values of the right type, by name, that override ``options``.

        Raises:
            UnsupportedOption: an option is unknown; the message names it.
            ValueError: a value cannot be read, is out of range or contradicts another.
        """
        values: Dict[str, Any] = {}
        for name, value in options.items():
            if name in SCHEMA:
                values[name] = read_value(name, value)
            elif _text(value) not in NEUTRAL.get(name, ()):
                meant = did_you_mean(name, list(SCHEMA))
                raise UnsupportedOption(
                    f"{flag(name)} {_text(value)}: the native engine has no such"
                    f" option{f'{meant} Else' if meant else ';'} use --engine torch"
                )
        return cls(**{**values, **own})

    def changed(self) -> Dict[str, Any]:
        """The values that differ from the defaults, by name."""
        return {
            own.name: getattr(self, own.name)
            for own in fields(self)
            if getattr(self, own.name) != own.default
        }


def read_value(name: str, value: Any) -> Any:
    """Converts the value of an option, a text or an object of fairseq's configuration, to the
    option's type.

    Raises:
        ValueError: the value does not have this type; the message names the option.
    """
    kind, optional = KINDS[name]
    text = _text(value)
    if optional and text == "None":
        return None
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", ""):
            raise ValueError(f"{flag(name)} {text!r} is neither true nor false")
        return text.lower() in ("true", "1", "")
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{flag(name)} {text!r} is not {_a(kind)}") from None


def check_value(name: str, text: str) -> None:
    """Checks the value of an option, given as text, by itself, without regard to the other options.

    Raises:
        ValueError: the text is not a value of the option's type (``--beam x``), is out of range or
            none of the choices; the message names the option.
    """
    value = read_value(name, text)
    _check_choice(name, value, SCHEMA[name])
    _check_range(name, value, SCHEMA[name])


def options_of(origin: str) -> List["Field[Any]"]:
    """The dataclass fields of the options with one origin (see :attr:`.option.Option.origin`), e.g.
    those that the task of the family ``hrt`` declares."""
    return [own for own in fields(DecodingOptions) if SCHEMA[own.name].origin == origin]


def require_native_search(family: Family) -> None:
    """Refuses a family that only PyTorch decodes.

    Raises:
        UnsupportedOption: the native engine does not decode the family; the message names its task.
    """
    if not family.native:
        raise UnsupportedOption(
            f"the native engine does not support the family {family.name} (--task {family.task});"
            " use --engine torch"
        )


def require_native(options: DecodingOptions) -> None:
    """Checks that the native engine supports all options whose values differ from the defaults.

    Raises:
        UnsupportedOption: the engine does not support one; the message names it.
    """
    for name, value in options.changed().items():
        native = SCHEMA[name].native
        if native is False:
            raise UnsupportedOption(
                f"{flag(name)} {value}: the native engine has no such option; use --engine torch"
            )
        if isinstance(native, tuple) and value not in native:
            raise UnsupportedOption(
                f"{flag(name)} {value}: the native engine has {', '.join(native)}; use --engine"
                " torch for others"
            )


def require_torch(options: DecodingOptions) -> None:
    """Checks that PyTorch's engine supports all options whose values differ from the defaults.

    Raises:
        UnsupportedOption: the engine does not support one; the message names it.
    """
    for name, value in options.changed().items():
        if not SCHEMA[name].torch:
            raise UnsupportedOption(
                f"{flag(name)} {value}: only the native engine has this option; use --engine native"
            )


def forced_ids(
    options: DecodingOptions, symbols: Sequence[str], never: Container[str]
) -> List[int]:
    """The target ids of the words that ``--forced-start`` names; an empty list without that option.

    Args:
        options: the decoding options.
        symbols: the words of the target dictionary, in the order of their ids.
        never: symbols that no translation may begin with: padding and ``</s>``.

    Raises:
        ValueError: the option is blank, has a word that is not in the dictionary or is in
            ``never``, or ``--prefix-size`` is given as well.
    """
    if options.forced_start is None:
        return []
    if options.prefix_size:
        raise ValueError(
            f"--forced-start {options.forced_start} with --prefix-size {options.prefix_size}: both"
            " set how translations begin; leave one out"
        )
    words, known = (
        options.forced_start.split(),
        {word: number for number, word in enumerate(symbols)},
    )
    if not words:
        raise ValueError(
            f"--forced-start {options.forced_start!r} is blank; give words of the target"
            " dictionary, or leave it out"
        )
    for word in words:
        if word not in known or word in never:
            raise ValueError(
                f"--forced-start {options.forced_start}: {word} is not a word of the target"
                " dictionary; give words or subwords as the dictionary lists them"
            )
    return [known[word] for word in words]


def _text(value: Any) -> str:
    # Members of fairseq's ChoiceEnum are written as their values.
    return str(getattr(value, "value", value))


def _a(kind: type) -> str:
    return "an integer" if kind is int else "a number"


def _check_type(name: str, value: Any) -> None:
    kind, optional = KINDS[name]
    if kind in (int, float) and not (value is None and optional):
        accepted: Any = (int, float) if kind is float else int
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise ValueError(f"{flag(name)} {value!r} is not {_a(kind)}")


def _check_choice(name: str, value: Any, option: Option) -> None:
    if option.choices and value is not None and value not in option.choices:
        raise ValueError(f"{flag(name)} {value}: choose one of {', '.join(option.choices)}")


def _check_range(name: str, value: Any, option: Option) -> None:
    if value is None or (option.least is None and option.most is None):
        return
    least = -math.inf if option.least is None else option.least
    most = math.inf if option.most is None else option.most
    # No comparison with nan is true.
    if not least <= value <= most:
        raise ValueError(f"{flag(name)} {value}: give a number from {least:g} to {most:.10g}")


def _kind(hint: Any) -> Tuple[type, bool]:
    """(type, whether None is permitted) of a type annotation: (int, True) of ``Optional[int]``."""
    inner = [own for own in get_args(hint) if own is not type(None)]
    return (inner[0], True) if inner else (hint, False)


KINDS: Dict[str, Tuple[type, bool]] = {
    name: _kind(hint) for name, hint in get_type_hints(DecodingOptions).items() if name in SCHEMA
}
# Flags of fairseq-generate that are not in the schema, with the values at which they do nothing.
NEUTRAL: Dict[str, Tuple[str, ...]] = {
    "sampling": ("False", "false"),
    "diverse_beam_groups": ("-1",),
    "diversity_rate": ("-1.0", "-1"),
    "constraints": ("None",),
    "match_source_len": ("False", "false"),
    "lm_path": ("None",),
    "score_reference": ("False", "false"),
}
