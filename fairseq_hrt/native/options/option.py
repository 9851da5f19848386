"""An option with what is known of it: the metadata of the field that declares it. Standard library
only.

    beam: int = option(5, "hypotheses that the search keeps", least=1)

Decoding options are fields of :class:`.schema.Schema`, those of models and trainings of the
families' configurations. Default, range and condition stand there and nowhere else.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional, Tuple, Union

from .conditions import Condition, same

# Where a decoding option comes from, if not from the task of a family: fairseq-generate's own
# flags, a caller in Python, every task of ours.
FAIRSEQ, CALLER, EVERY_TASK = "fairseq", "caller", "task"
# Numbers beyond these overflow.
LARGEST_COUNT = (1 << 30) - 1
LARGEST_WEIGHT = 1e6
LARGEST_PENALTY = 20.0


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its name and type. The attributes from ``origin`` on are
    those of decoding options.

    Attributes:
        default: its value where nobody gives it.
        help: its help text; empty where fairseq has it, or no command line.
        least, most: limits of a number.
        when: what it needs to have an effect; None: nothing.
        neutral: values that ask for nothing, as None and the default do: a ``min_len`` of 0.
        acts_as: the value that it amounts to where it has no effect. Such an option is not refused
            but reported: in greedy decoding of graphs a ``beam`` of 5 is one of 1.
        origin: FAIRSEQ, CALLER, EVERY_TASK, or the family whose task declares it; empty: the family
            that its name begins with.
        choices: of a text.
        native: whether the native engine honours it; the choices that it honours.
        torch: whether PyTorch's engine honours it.
        kernel: its field in ``fh_options``, if it has one.
        request: what a request of the server may choose: (least, most) of a number, words, or True
            for a switch.
        several: its value where several translations are wanted; True: at least as many.
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
    several: Any = None

    def is_asked_for(self, value: Any) -> bool:
        """Whether a value asks for something."""
        return value is not None and not any(
            same(value, none) for none in (self.default, *self.neutral)
        )


def option(default: Any, help: str = "", **more: Any) -> Any:
    """A field of a dataclass that is an option; a list as default is copied for each.

    Args:
        more: further attributes of :class:`Option`.
    """
    metadata = {"help": help, "option": Option(default, help, **more)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def count(default: Any, help: str = "", *, least: int = 1, **more: Any) -> Any:
    """The field of an integer, as large as fits."""
    return option(default, help, least=least, most=LARGEST_COUNT, **more)


def options_in(*configurations: type) -> Dict[str, Option]:
    """The options that dataclasses declare by :func:`option`, by name."""
    return {
        own.name: own.metadata["option"]
        for configuration in configurations
        for own in fields(configuration)
        if "option" in own.metadata
    }
