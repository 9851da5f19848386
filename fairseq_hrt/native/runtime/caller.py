"""Lets the kernel ask during a call whether to continue, and keeps exceptions for the calling
thread."""

from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional

from . import binding


class Cancelled(Exception):
    """A call ended because ``cancelled`` returned True."""


@dataclass
class _State:
    """The state of a call.

    Attributes:
        cancelled: returns True to end the call.
        raised: what was raised while the kernel worked.
    """

    cancelled: Optional[Callable[[], bool]] = None
    raised: Optional[BaseException] = None


class Caller:
    """Tells the kernel, which asks some 20 times a second, whether a call is to continue. Made once
    per engine, since making one takes microseconds.

    Attributes:
        state: of the current call. Once something was raised, the caller ends every call that asks
            it.
        ask: the kernel's callback.
    """

    def __init__(self) -> None:
        self.state = _State()
        answers = _answers(self.state)
        next(answers)
        self.ask = binding.Ask(answers.send)


def _answers(state: _State) -> Generator[None, Any, None]:
    """Writes into each place that the kernel sends whether the call is to continue.

    A generator, because it resumes inside its ``try``, where Python then runs the handlers of
    pending signals. A function would run them in its first line, before any ``try``, and what they
    raise, such as KeyboardInterrupt, would be lost in the kernel.
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
