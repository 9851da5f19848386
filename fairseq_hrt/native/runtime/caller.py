"""Whether a call of the kernel is to continue, and what is raised in the thread that made it."""

from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional

from . import binding


class Cancelled(Exception):
    """A call ended because ``cancelled`` said so."""


@dataclass
class _State:
    """Of a call: whether nobody wants its results any more, and what was raised while the kernel
    worked."""

    cancelled: Optional[Callable[[], bool]] = None
    raised: Optional[BaseException] = None


class Caller:
    """Asked by the kernel, some 20 times a second, whether a call is to continue. Made once, for
    that takes microseconds.

    Attributes:
        state: of the call; one that has raised something ends whatever asks it.
        ask: for the kernel.
    """

    def __init__(self) -> None:
        self.state = _State()
        answers = _answers(self.state)
        next(answers)
        self.ask = binding.Ask(answers.send)


def _answers(state: _State) -> Generator[None, Any, None]:
    """Answers whether a call is to continue, each time that the kernel sends the place for the
    answer.

    A generator, because it continues within its ``try``: that is where Python runs the handlers of
    signals that have come since. In the first line of a function they would run before any ``try``,
    and what they raise, such as KeyboardInterrupt, would be lost in the kernel.
    """
    while True:
        try:
            while True:
                goes_on = yield
                goes_on[0] = state.raised is None and not (state.cancelled and state.cancelled())
        except GeneratorExit:
            return
        except BaseException as error:  # the caller's, whatever it is
            state.raised = error
