"""Shows the progress of long work on the standard error. Standard library only, since tqdm is
missing from an installation that only translates.

    with Progress("lines", total=partial(count_lines, path)) as progress:
        for block in blocks:
            ...
            progress.add(len(block))
"""

import os
import stat
import sys
import threading
import time
import zlib
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Callable, Iterator, Optional, TextIO, Union

from .streams import reading

# Seconds until something is shown, and between two figures.
FIRST = 2.0
_ON_A_TERMINAL = 0.5
# Whoever reads a log wants fewer: the time between two lines doubles up to this.
_IN_A_LOG = 60.0
_PIECE = 1 << 20


class Progress:
    """A context manager that counts what is done, such as lines, and shows the count on the
    standard error, from two seconds after its block was entered until it ends.

    On a terminal one line is replaced twice a second; elsewhere lines are added, at intervals that
    grow to a minute.

    Args:
        unit: the name of what is counted, such as "lines".
        total: how many lines (or other units) there are in all, or a function that returns this
            number and is called when progress is first shown; None: not known.
        done: how many of them were done before the work began, e.g. by an interrupted run.
        visible: True: always shown; False: never; None: only where the standard error is a
            terminal.
    """

    def __init__(
        self,
        unit: str,
        total: Union[int, Callable[[], Optional[int]], None] = None,
        *,
        done: int = 0,
        visible: Optional[bool] = None,
    ) -> None:
        self.unit, self.done, self._begun = unit, done, done
        self._total, self._stream = total, sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._visible = self._terminal if visible is None else visible and self._stream is not None
        self._width, self._start = 0, time.monotonic()
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def add(self, count: int) -> None:
        """Counts ``count`` more lines (or other units) as done."""
        self.done += count

    def reach(self, done: int, total: int) -> None:
        """Sets how many lines (or other units) are done, and how many there are in all. Neither
        number includes those that were done before the work began. For use as a callback."""
        self.done, self._total = self._begun + done, self._begun + total

    def __enter__(self) -> "Progress":
        self._start = time.monotonic()
        if self._visible:
            # A thread, as one block may take longer than somebody wants to wait for a sign.
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[type],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._width:
            self._show()
            if self._terminal:
                self._write("\n")

    def _watch(self) -> None:
        wait = FIRST
        while not self._ended.wait(wait):
            if callable(self._total):
                self._total = self._total()
            self._show()
            wait = _ON_A_TERMINAL if self._terminal else min(2 * wait, _IN_A_LOG)

    def _show(self) -> None:
        text = self.text(time.monotonic() - self._start)
        # Covers what a longer line has left.
        self._write(f"\r{text:<{self._width}}" if self._terminal else f"{text}\n")
        self._width = len(text)

    def text(self, seconds: float) -> str:
        """The text to show ``seconds`` after the work began, such as ``1,200 of 5,000 lines, 240/s,
        0:16 left``."""
        counted, rate = self.done - self._begun, (self.done - self._begun) / max(seconds, 1e-9)
        known = self._total if isinstance(self._total, int) else None
        parts = [f"{self.done:,}{'' if known is None else f' of {known:,}'} {self.unit}"]
        if counted:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            if known is not None and known > self.done:
                minutes, rest = divmod(round((known - self.done) / rate), 60)
                parts.append(f"{minutes}:{rest:02} left")
        else:
            parts.append(f"{seconds:.0f} s")
        return ", ".join(parts)

    def _write(self, text: str) -> None:
        stream: TextIO = self._stream
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more.
            self._visible = False


class Doing(Progress):
    """Like :class:`Progress`, for work of which nothing can be counted: shows the seconds since the
    work began, ``reading the model, 12 s``, if the standard error is a terminal.

    Args:
        what: the name of the work, such as "reading the model".
        visible: False: not shown on a terminal either.
    """

    def __init__(self, what: str, *, visible: bool = True) -> None:
        super().__init__(what, visible=None if visible else False)

    def text(self, seconds: float) -> str:
        """The text to show ``seconds`` after the work began."""
        return f"{self.unit}, {seconds:.0f} s"


def count_lines(path: Optional[Path]) -> Optional[int]:
    """Counts the lines of a file, plain or gzip, or of the standard input if ``path`` is None.
    Returns None if the input cannot be read, or can be read only once: a pipe, or gzip on the
    standard input."""
    try:
        if path is None:
            return _count(_standard_pieces())
        if not path.is_file():
            return None
        with reading(path) as file:
            return _count(iter(partial(file.read, _PIECE), b""))
    except (OSError, ValueError, EOFError, zlib.error):
        return None


def _standard_pieces() -> Iterator[bytes]:
    """Yields the content of the standard input's file from its beginning, however much of it was
    read already; the position of later reads does not change.

    Raises:
        ValueError: the standard input is closed, not a plain file, or gzip, or this is Windows.
    """
    if sys.stdin is None or not hasattr(os, "pread"):
        raise ValueError("the standard input is closed, or Windows cannot read it at a position")
    number, place = sys.stdin.fileno(), 0
    if not stat.S_ISREG(os.fstat(number).st_mode):
        raise ValueError("the standard input is not a plain file")
    while piece := os.pread(number, _PIECE, place):
        if not place and piece.startswith(b"\x1f\x8b"):
            raise ValueError("the standard input is compressed with gzip")
        place += len(piece)
        yield piece


def _count(pieces: Iterator[bytes]) -> int:
    count, last = 0, b"\n"
    for piece in pieces:
        count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")
