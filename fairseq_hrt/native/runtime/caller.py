"""Lets the kernel ask during a call whether to continue, and keeps exceptions that are raised
meanwhile, so that the call can raise them when it returns."""

from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional

from . import binding


class Cancelled(Exception):
    """A call of the engine was ended because its argument ``cancelled``, a function, returned
    True."""


@dataclass
class _State:
    """The state of a call of the kernel.

    Attributes:
        cancelled: the caller's function, which returns True to end the call.
        raised: the exception that this function or a signal's handler raised during the call.
    """

    cancelled: Optional[Callable[[], bool]] = None
    raised: Optional[BaseException] = None


class Caller:
    """Answers the kernel, which asks some 20 times a second whether a call is to continue. An
    engine makes one Caller for many calls, since making one takes microseconds.

    Attributes:
        state: the state of the current call. Once an exception was raised, the kernel is always
            told to end the call, so the engine needs a new Caller for the next one.
        ask: the function that the kernel calls.
    """

    def __init__(self) -> None:
        self.state = _State()
        answers = _answers(self.state)
        next(answers)
        self.ask = binding.Ask(answers.send)


def _answers(state: _State) -> Generator[None, Any, None]:
    """Receives a pointer each time the kernel asks, and writes there 1 if the call is to continue,
    else 0.

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
