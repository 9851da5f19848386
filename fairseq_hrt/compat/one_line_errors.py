"""Ends a command of fairseq with one line where this package refuses an option or a file.

fairseq 0.12.2 shows the whole traceback of every error, also of another process (30 to 130 lines).
``LOGLEVEL=DEBUG``, which fairseq reads for its log, keeps the traceback. Only refusals by this
package or by fairseq's loading of checkpoints, and missing files that the user named, become one
line; all other errors stay as they are.
"""

import contextlib
import os
import queue
import sys
import threading
import time
from typing import Any, Callable, NoReturn, Optional

from .display import escaped, refuse
from .importing import around
from .mismatched_weights import MismatchedWeightsError

_REFUSALS = (ValueError, OSError, MismatchedWeightsError)
_PACKAGE = __name__.partition(".")[0]
# Seconds after which a thread is left alone that loads a batch for ever.
_PATIENCE = 10


class Refusal(ValueError):
    """Carries the one-line message of an error from a process that fairseq has started to the
    process that started it."""


def explained(error: Optional[BaseException]) -> Optional[str]:
    """The message, in one line, of the refusal that caused an error: a ValueError, OSError or
    MismatchedWeightsError that this package or fairseq's loading of checkpoints raised, or a
    missing file that fairseq was to open. None if ``error`` has no such cause."""
    while error is not None:
        if type(error).__name__ == "ProcessRaisedException":
            # PyTorch passes on the text of the other process's traceback.
            last = str(error).rstrip().rpartition("\n")[2]
            _, found, message = last.partition(f"{Refusal.__name__}: ")
            return message if found else None
        place = _raised_in(error)
        ours = place.partition(".")[0] == _PACKAGE or place == "fairseq.checkpoint_utils"
        # A file that the user names, such as a dictionary, or the text of fairseq-interactive.
        missing = isinstance(error, FileNotFoundError) and place.startswith("fairseq")
        unread = isinstance(error, OSError) and place == "fileinput"
        if missing or unread or (ours and isinstance(error, _REFUSALS)):
            return _line(error)
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
    return None


def _line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return escaped(" ".join(text.split()) or type(error).__name__)


def _raised_in(error: BaseException) -> str:
    """The name of the module whose code raised an error; empty if unknown."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else str(place.tb_frame.f_globals.get("__name__", ""))


def _debugging() -> bool:
    return os.environ.get("LOGLEVEL", "").upper() == "DEBUG"


def _ending(refused: Callable[[str], Any]) -> Callable[..., Any]:
    """A wrapper for main functions of fairseq, as :func:`.importing.around` takes it. If the main
    function raises an error for which :func:`explained` has a message, ``refused`` is called with
    it, and its result returned; other errors are passed on."""

    def run(main: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return main(*args, **kwargs)
        except Exception as error:
            message = None if _debugging() else explained(error)
            if message is None:
                raise
        # Outside of the handler: the traceback is not shown beside it.
        return refused(message)

    return run


def _pass_on(message: str) -> None:
    raise Refusal(message)


def _end(message: str) -> NoReturn:
    """Ends a command with an error message of one line and exit status 2."""
    _stop_loading()
    refuse(message)


def _stop_loading() -> None:
    """Stops fairseq's threads that load batches. If Python shuts down while such a thread is in
    PyTorch's code, the process is aborted (status 134)."""
    iterators = sys.modules.get("fairseq.data.iterators")
    kind, end = getattr(iterators, "BackgroundConsumer", ()), time.monotonic() + _PATIENCE
    for thread in threading.enumerate():
        if isinstance(thread, kind):
            # It ends behind the next batch, for which its queue needs room.
            thread._max_len = 0
            while thread.is_alive() and time.monotonic() < end:
                with contextlib.suppress(queue.Empty):
                    thread._queue.get(timeout=0.05)


def _plugin(import_user_module: Any, args: Any) -> Any:
    """Imports the folder of ``--user-dir``. If there is none, fairseq's error, a bare path, is
    replaced by one that explains it."""
    try:
        return import_user_module(args)
    except FileNotFoundError as error:
        if error.errno is not None:
            raise
        raise FileNotFoundError(
            f"--user-dir {args.user_dir}: there is no such folder; fairseq-hrt --user-dir prints"
            " that of fairseq_hrt"
        ) from None


_command, _worker = _ending(_end), _ending(_pass_on)

REPAIR = around(
    "one-line-errors",
    "a refused option ends in a traceback",
    {
        "fairseq_cli.train:cli_main": _command,
        "fairseq_cli.generate:cli_main": _command,
        "fairseq_cli.interactive:cli_main": _command,
        "fairseq_cli.validate:cli_main": _command,
        # hydra itself shows what is raised around it.
        "fairseq_cli.hydra_train:_hydra_main": _command,
        "fairseq.distributed.utils:distributed_main": _worker,
        "fairseq.utils:import_user_module": _plugin,
    },
)
