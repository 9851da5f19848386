"""Opens the inputs and outputs that a command line may name: files, gzip, links, devices, pipes,
the standard streams.

A regular output file is replaced when it is complete (:mod:`.files`); a device, a named pipe, ``-``
or ``/dev/fd/63`` of a process substitution is written directly.
"""

import gzip
import io
import os
import re
import stat
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Optional, Union, cast

from .files import WINDOWS, NamedFile, close_stream, replacing

STANDARD = "-"
STANDARD_OUTPUT = "the standard output"
_DESCRIPTOR = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|\d+)/fd)/(\d+)")
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def descriptor_of(path: Union[str, Path]) -> Optional[int]:
    """The number of this process's file descriptor that a path names: ``/dev/fd/N``,
    ``/dev/stdout`` or a link to one of these; None for other paths."""
    name = os.fspath(path)
    for _ in range(40):
        name = os.path.abspath(name)
        found = _DESCRIPTOR.fullmatch(name)
        if found and not (
            found[0].startswith("/proc/")
            and found[0].split("/")[2] not in ("self", "thread-self", str(os.getpid()))
        ):
            return int(found[1])
        if name in _STREAMS:
            return _STREAMS[name]
        try:
            name = os.path.join(os.path.dirname(name), os.readlink(name))
        except OSError:
            return None
    return None


def is_stream(path: Optional[Path]) -> bool:
    """Whether an output is written directly, and not by replacing a file: ``-`` or None (the
    standard output), ``/dev/fd/N``, a device or a pipe."""
    if path is None or os.fspath(path) == STANDARD or descriptor_of(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class _Prefixed(io.RawIOBase):
    """A stream that first gives the bytes ``head``, which were already read from ``source``, and
    then the rest of ``source``."""

    def __init__(self, head: bytes, source: BinaryIO) -> None:
        self.head, self.source = head, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # read1, for readinto may wait for more data than are available.
        found = self.head[: len(buffer)] or self.source.read1(len(buffer))  # type: ignore[attr-defined]
        self.head = self.head[len(found) :]
        buffer[: len(found)] = found
        return len(found)


def standard_input() -> BinaryIO:
    """The standard input as a binary stream; raises ValueError if it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("the standard input is closed: give a file, or < /dev/null for no input")
    return cast(BinaryIO, getattr(sys.stdin, "buffer", sys.stdin))


@contextmanager
def reading(path: Optional[Path]) -> Iterator[BinaryIO]:
    """Opens an input: a file, ``-`` or None (the standard input), a device or a pipe; gzip is
    recognised by its first two bytes and decompressed.

    Raises:
        ValueError: the standard input is closed.
        OSError: the file cannot be opened.
    """
    if path is None or os.fspath(path) == STANDARD:
        yield _decompressed(standard_input())
        return
    descriptor = descriptor_of(path)
    with open(path if descriptor is None else os.dup(descriptor), "rb") as file:
        yield _decompressed(file)


def _decompressed(source: BinaryIO) -> BinaryIO:
    head = source.read(1)
    # The two bytes of gzip may arrive separately. In text the second may be late: read it only
    # behind 0x1f.
    if head == b"\x1f":
        head += source.read(1)
    stream = cast(BinaryIO, io.BufferedReader(_Prefixed(head, source)))
    return (
        cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb")) if head == b"\x1f\x8b" else stream
    )


def raw_lines(source: BinaryIO, name: str, longest: int = -1) -> Iterator[bytes]:
    """Yields the lines of a stream unchanged. Only a line feed ends a line; a line of more than
    ``longest`` bytes is cut into several, unless ``longest`` is negative.

    Raises:
        ValueError: gzip data are damaged or truncated; the message contains ``name``.
    """
    try:
        yield from iter(lambda: source.readline(longest), b"")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{name}: damaged gzip data: {error}; copy or compress the file again"
        ) from error


def _standard_output() -> BinaryIO:
    if sys.stdout is None or sys.stdout.closed:
        raise ValueError("the standard output is closed: give a file to write to")
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
    except OSError:
        # Replaced by an object without a descriptor, as in a notebook.
        return cast(BinaryIO, sys.stdout.buffer)
    if WINDOWS and sys.stdout.isatty():
        # Python writes Unicode to a console of Windows, a descriptor the bytes of its code page.
        return cast(BinaryIO, sys.stdout.buffer)
    return cast(BinaryIO, io.BufferedWriter(NamedFile(descriptor, STANDARD_OUTPUT, closefd=False)))


@contextmanager
def writing(path: Optional[Path]) -> Iterator[BinaryIO]:
    """Opens an output: a file that appears when the block ends without an error, or a stream
    (:func:`is_stream`).

    Raises:
        ValueError: the standard output is closed.
        OSError: the output cannot be written; the error names it.
    """
    if not is_stream(path):
        with replacing(cast(Path, path)) as file:
            yield file
        return
    if path is None or os.fspath(path) == STANDARD:
        stream = _standard_output()
    else:
        descriptor = descriptor_of(path)
        # dup() keeps the position: opening a redirection anew would write from its file's
        # beginning.
        descriptor = os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor)
        stream = cast(BinaryIO, io.BufferedWriter(NamedFile(descriptor, str(path))))
    try:
        yield stream
        stream.flush()
    finally:
        if stream is not getattr(sys.stdout, "buffer", None):
            close_stream(cast(io.BufferedWriter, stream))
