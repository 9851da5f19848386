"""Declares options as fields of dataclasses, with their help, range and condition in the fields'
metadata. Standard library only.

    beam: int = option(5, "hypotheses that the search keeps", least=1)

Decoding options are fields of :class:`.schema.Schema`, options of models and trainings are fields
of the families' configurations. Default, range and condition are declared there and nowhere else.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional, Tuple, Union

from .conditions import Condition, same

# Origins of decoding options that no family's task declares: fairseq-generate's own flags, a caller
# in Python, every task of ours.
FAIRSEQ, CALLER, EVERY_TASK = "fairseq", "caller", "task"
# Numbers beyond these overflow.
LARGEST_COUNT = (1 << 30) - 1
LARGEST_WEIGHT = 1e6
LARGEST_PENALTY = 20.0


@dataclass(frozen=True)
class Option:
    """The properties of an option besides its name and type. The attributes from ``origin`` on
    matter for decoding options only.

    Attributes:
        default: the option's value if none is given.
        help: the help text; empty if fairseq has a text for this option, or if it has no flag.
        least, most: limits of a number, both permitted; None: no limit.
        when: the condition under which the option has an effect; None: always.
        neutral: further values that count as not given, besides None and the default: a ``min_len``
            of 0.
        acts_as: the value that decoding uses, whatever is given, where the condition does not hold;
            a given value then causes a warning: in greedy decoding of graphs a ``beam`` of 5 acts
            as 1. None: a given value is refused there.
        origin: who declares the option: FAIRSEQ (``fairseq-generate``), CALLER (an argument in
            Python, without a flag), EVERY_TASK (all tasks of this package), or the family whose
            task does; empty: the family with whose name the option's name begins.
        choices: the permitted texts; empty: all.
        native: whether the native engine supports the option, or those of its choices that the
            native engine supports.
        torch: whether PyTorch's engine supports the option.
        kernel: the name of the option's field in ``fh_options``, the structure that is passed to
            the native engine's C library; empty if it has none.
        request: what a request to the server may choose: (least, most) of a number, permitted
            words, or True for a switch; None: nothing.
        rates: whether the option changes the scores of given translations (``--score-reference``).
        decodes: for an option of a task's training, whether it also changes decoding.
        several: the value that makes the search find several translations; True: any number that is
            at least the number of translations wanted; None: this option does not decide it.
    """

    default: Any = None
    help: str = ""
    least: Optional[float] = None
    most: Optional[float] = None
    when: Optional[Condition] = None
    neutral: Tuple[Any, ...] = ()
    acts_as: Any = None
    origin: str = ""
    choices: Tuple[str, ...] = ()
    native: Union[bool, Tuple[str, ...]] = True
    torch: bool = True
    kernel: str = ""
    request: Any = None
    rates: bool = False
    decodes: bool = False
    several: Any = None

    def is_asked_for(self, value: Any) -> bool:
        """Whether ``value`` counts as given: it is neither None nor the default nor one of the
        values in ``neutral``."""
        return value is not None and not any(
            same(value, none) for none in (self.default, *self.neutral)
        )


def option(default: Any, help: str = "", **more: Any) -> Any:
    """Declares an option as a field of a dataclass. If the default is a list, each instance gets a
    copy of it.

    Args:
        default, help, more: the attributes of :class:`Option`, by their names.
    """
    metadata = {"help": help, "option": Option(default, help, **more)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def count(default: Any, help: str = "", *, least: int = 1, **more: Any) -> Any:
    """Declares an integer option, from ``least`` to LARGEST_COUNT, 2 ** 30 - 1; see
    :func:`option`."""
    return option(default, help, least=least, most=LARGEST_COUNT, **more)


def options_in(*configurations: type) -> Dict[str, Option]:
    """The options that the dataclasses ``configurations`` declare by :func:`option`: {name:
    option}."""
    return {
        own.name: own.metadata["option"]
        for configuration in configurations
        for own in fields(configuration)
        if "option" in own.metadata
    }
