"""Writes the log in a thread, so that requests never wait for whoever reads it."""

import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress

LOG_FORMAT, LOG_TIME = "%(asctime)s %(message)s", "%H:%M:%S"
# Lines that may wait to be written.
MOST_LINES = 1000
# Seconds that the end of the process waits for them.
LAST_SECONDS = 1.0


class BackgroundHandler(logging.Handler):
    """Writes log lines in a thread. If their reader falls behind, at most :data:`MOST_LINES` lines
    wait; further ones are dropped, and their number is logged later.

    Args:
        descriptor: the file descriptor to write to. Python's own streams are not used: they are
            locked while they wait for a reader, and a process that ends waits for the lock.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        # Lines queued, and dropped: changed under the handler's lock. Lines done with, of these not
        # written, and missing ones that the log has mentioned: changed by the thread alone.
        self._said = self._dropped = 0
        self._done = self._lost = self._told = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Gives a record to the thread that writes, or drops it if :data:`MOST_LINES` wait."""
        if self._lines.qsize() >= MOST_LINES:
            self._dropped += 1
            return
        try:
            self._lines.put(self.format(record) + "\n")
            self._said += 1
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Waits until all lines are written, but for at most :data:`LAST_SECONDS`."""
        deadline = time.monotonic() + LAST_SECONDS
        while self._done < self._said and time.monotonic() < deadline:
            time.sleep(0.002)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            self._lost += not self._written(line)
            missing = self._dropped + self._lost - self._told
            if missing and self._lines.empty():
                text = "%d lines are missing from the log: nobody read it"
                record = logging.LogRecord(
                    __name__, logging.WARNING, __file__, 0, text, (missing,), None
                )
                if self._written(self.format(record) + "\n"):
                    self._told += missing
            self._done += 1

    def _written(self, text: str) -> bool:
        left = text.encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while left:
                left = left[os.write(self._descriptor, left) :]
        return not left


def write_in_background() -> None:
    """From now on has a thread write what is logged to the standard error, Python's warnings
    included: replaces the root logger's handlers for that stream."""
    logging.captureWarnings(True)
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            # A stream that a program has put in its place may be no file.
            with suppress(OSError, ValueError):
                other = BackgroundHandler(handler.stream.fileno())
                other.setLevel(handler.level)
                other.setFormatter(handler.formatter)
                root.removeHandler(handler)
                root.addHandler(other)
