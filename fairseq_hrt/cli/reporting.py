"""Ends a verb of ``fairseq-hrt``: an error becomes one line and an exit status, never a traceback.

Exit status 0: done, or the reader of the output (``| head``) has gone; 2: an error; 130: Ctrl-C;
128 + number: another signal that ends the process. Half-written files are removed first.
"""

import argparse
import errno
import io
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Dict, Iterator, Optional, TextIO, cast

from ..native.io.escaping import printable
from ..native.io.files import WINDOWS
from ..native.io.streams import STANDARD_OUTPUT

# The most characters of a message; messages that list all choices are shorter.
LONGEST_MESSAGE = 4000


class _Terminated(BaseException):
    """Raised when a signal asks the process to end; ``number`` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _ClosedOutput:
    """Stands in for ``sys.stdout`` if the standard output was closed before the start: writing to
    it raises "Bad file descriptor", the error that other programs report."""

    closed = True
    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STANDARD_OUTPUT)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


@contextmanager
def reporting(parser: argparse.ArgumentParser) -> Iterator[None]:
    """A context for a verb's work: errors in options and files, and signals, end the process with
    one line on the standard error.

    Args:
        parser: its ``exit`` writes that line and ends the process.

    Raises:
        SystemExit: an error or a signal has ended the work.
    """
    _replace_closed_streams()
    _write_utf8()
    handlers: Dict[int, Any] = {}
    handled = sys.exc_info()[1]
    try:
        try:
            _end_by_exception(handlers)
            yield
            write_output("")
        except BaseException as error:
            end_by_signal(parser, error, handled)
            raise
    except BrokenPipeError as error:
        _discard_output()
        # The reader (`| head`) has seen enough. For a pipe that was given by name it is an error.
        if error.filename not in (None, STANDARD_OUTPUT):
            parser.exit(2, f"error: {error}\n")
    except (ValueError, OSError, ArithmeticError, MemoryError) as error:
        _discard_output()
        parser.exit(2, f"error: {_one_line(error)}\n")
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        parser.exit(2, f"error: not enough memory: {_one_line(error)}; give a smaller batch size\n")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def end_by_signal(
    parser: argparse.ArgumentParser, error: BaseException, handled: Optional[BaseException]
) -> None:
    """Ends the process with one line if ``error`` is the exception of a signal, or was raised in
    its place: a library whose cleanup fails, as that of OmegaConf may for an object that is half
    made, raises another error, from which somebody may conclude that a file is damaged.
    ``handled``: the exception that the caller was handling before, which is none of these."""
    found: Optional[BaseException] = None if isinstance(error, SystemExit) else error
    while found is not None and found is not handled:
        if isinstance(found, KeyboardInterrupt):
            parser.exit(128 + signal.SIGINT, "interrupted\n")
        if isinstance(found, _Terminated):
            parser.exit(128 + found.number, f"ended by {signal.Signals(found.number).name}\n")
        found = found.__context__


def write_output(text: str) -> None:
    """Writes to standard output and flushes it.

    Raises:
        OSError: the standard output cannot be written; the error names it.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python's error does not name the file.
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


def _replace_closed_streams() -> None:
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None:
        sys.stdout = cast(TextIO, _ClosedOutput())


def _write_utf8() -> None:
    """Makes redirected output UTF-8 on Windows, as it is elsewhere, so that it can hold all
    characters."""
    for stream in (sys.stdout, sys.stderr):
        if WINDOWS and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")


def _one_line(error: BaseException) -> str:
    """The error's message as one line of printable characters, since it may quote a bundle of
    unknown origin."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = f"{' -> '.join(names)}: {error.strerror}"
    line = printable(" ".join(text.split()) or type(error).__name__)
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…"


def _is_out_of_memory(error: RuntimeError) -> bool:
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def _end_by_exception(replaced: Dict[int, Any]) -> None:
    """Makes SIGTERM and SIGHUP raise an exception, as Ctrl-C does, so that half-written files are
    removed. Adds the replaced handlers to ``replaced`` by signal number, so that they can be
    restored.

    A signal that is ignored (nohup) or handled already keeps its handler; outside of the main
    thread nothing is changed.
    """

    def end(number: int, frame: Optional[FrameType]) -> None:
        raise _Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            replaced[number] = signal.SIG_DFL
            signal.signal(number, end)


def _discard_output() -> None:
    """Drops buffered output that could not be written, since Python would try again at exit and
    report another error."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
