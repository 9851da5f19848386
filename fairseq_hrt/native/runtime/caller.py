"""Lets the kernel, a C library, ask during a call whether to continue, and keeps the exception of
the Python code that answers, so that it can be raised when the call returns."""

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
        cancelled: the user's function, which returns True to end the call; None: it is not ended.
        raised: the exception that this function or a signal's handler raised during the call.
    """

    cancelled: Optional[Callable[[], bool]] = None
    raised: Optional[BaseException] = None


class Caller:
    """Answers on behalf of a call's caller: some 20 times a second the kernel asks whether to
    continue. An engine uses one Caller for many calls, since making one would add microseconds to
    each.

    Attributes:
        state: the :class:`_State` of the current call: its function ``cancelled``, and the
            exception that was raised in it. After an exception every later question is answered
            by "end", so the engine makes a new Caller for the next call.
        ask: the callback for the kernel, a C function that gets a pointer and writes the answer
            there: 1 to continue, 0 to end.
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
    pending signals. A function would run them in its first line, before any ``try``, and their
    exceptions, such as KeyboardInterrupt, would be lost in the kernel.
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
