"""An option of decoding, as the schema describes it. Standard library only."""

from dataclasses import dataclass, field
from typing import Any, Optional, Tuple, Union

from .conditions import Condition

# Where an option comes from: fairseq-generate's own flags, a family's task, every task of ours, or
# a caller in Python.
FAIRSEQ, CALLER, EVERY_TASK = "fairseq", "caller", "task"
# Numbers beyond these overflow.
LARGEST_COUNT = (1 << 30) - 1
LARGEST_WEIGHT = 1e6
LARGEST_PENALTY = 20.0


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its name, type and default.

    Attributes:
        origin: FAIRSEQ, CALLER, EVERY_TASK, or the family whose task declares it.
        help: its help text; empty where fairseq has it, or no command line.
        least, most: of a number.
        choices: of a text.
        native: whether the native engine honours it; the choices that it honours.
        torch: whether PyTorch's engine honours it.
        kernel: its field in ``fh_options``, if it has one.
        request: what a request of the server may choose: (least, most) of a number, words, or True
            for a switch.
        several: its value where several translations are wanted; True: at least as many.
        when: what it needs to have an effect; None: nothing.
        task_default: the default where a task declares it, if that is another.
    """

    origin: str
    help: str = ""
    least: Optional[float] = None
    most: Optional[float] = None
    choices: Tuple[str, ...] = ()
    native: Union[bool, Tuple[str, ...]] = True
    torch: bool = True
    kernel: str = ""
    request: Any = None
    several: Any = None
    when: Optional[Condition] = None
    task_default: Optional[str] = None


def option(default: Any, origin: str, help: str = "", **more: Any) -> Any:
    """A field of the schema; ``more``: further attributes of :class:`Option`."""
    return field(default=default, metadata={"option": Option(origin, help, **more)})


def count(default: Any, origin: str, help: str = "", *, least: int = 1, **more: Any) -> Any:
    """The field of an integer, as large as fits."""
    return option(default, origin, help, least=least, most=LARGEST_COUNT, **more)
