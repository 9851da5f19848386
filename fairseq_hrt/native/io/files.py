"""Writes files atomically: they appear complete or not at all.

A file is written under a temporary name in the same folder and renamed to its target when it is
complete; a symbolic link stays, and the file it leads to is replaced. Temporary names are unique to
a process, and the files locked by it, so that the leftovers of a killed process can be told from
files still being written.
"""

import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Optional, Tuple, cast

try:
    import fcntl
except (
    ImportError
):  # Windows: files are not locked there, and leftovers of killed processes are not removed.
    fcntl = None  # type: ignore[assignment]

# Windows would write "\r\n" for "\n".
BINARY = getattr(os, "O_BINARY", 0)
WINDOWS = os.name == "nt"
_MARK = re.compile(r"\.hrt-[0-9a-f]{8}\.partial$")


def content_hash(paths: Iterable[Path]) -> str:
    """SHA-256 (hexadecimal) of the contents of files in this order; names are not hashed."""
    total = hashlib.sha256()
    for path in paths:
        own = hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                own.update(chunk)
        total.update(own.digest())
    return total.hexdigest()


class NamedFile(io.FileIO):
    """A file open for writing. Errors, such as a full disk, name the file as ``shown``.

    Args:
        descriptor: the open file's descriptor.
        shown: the file's name for messages.
        closefd: whether closing this object closes the descriptor, too.
    """

    def __init__(self, descriptor: int, shown: str, closefd: bool = True) -> None:
        super().__init__(descriptor, "wb", closefd=closefd)
        self.shown = shown

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None


def close_stream(stream: Any) -> None:
    """Closes a buffered stream; data that cannot be flushed are dropped without an error."""
    with suppress(OSError, ValueError):
        stream.flush()
    stream.raw.close()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that replaces ``path`` when the block ends; after an error ``path`` is
    as it was before.

    The new file has the mode and, if permitted, the owner of the file it replaces.

    Raises:
        OSError: ``path`` cannot be written, or is a device or pipe; the error names it.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(
            errno.EEXIST,
            "a device or pipe, which a file must not replace; give another path",
            str(path),
        )
    partial, descriptor = _create(target)
    stream = io.BufferedWriter(NamedFile(descriptor, str(path)))
    try:
        yield cast(BinaryIO, stream)
        stream.flush()
        publish(descriptor, partial, target, lambda: close_stream(stream))
    except BaseException:
        close_stream(stream)
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        close_stream(stream)


def publish(descriptor: int, partial: Path, target: Path, close: Callable[[], None]) -> None:
    """Renames a finished temporary file to ``target``, with the mode and owner of the file that it
    replaces.

    Args:
        descriptor: the descriptor of the open temporary file.
        partial: the path of the temporary file.
        target: the path that the file gets.
        close: closes the descriptor. It is called on Windows only, which renames no open file;
            elsewhere the file stays locked, or another process could take it for a leftover.

    Raises:
        OSError: the disk is full or renaming fails; the error names ``target``.
    """
    try:
        # Some file systems report a full disk only now.
        os.fsync(descriptor)
        if target.exists():
            known = target.stat()
            os.chmod(partial, stat.S_IMODE(known.st_mode))
            if hasattr(os, "chown") and (known.st_uid, known.st_gid) != (
                os.geteuid(),
                os.getegid(),
            ):
                with suppress(PermissionError):
                    os.chown(partial, known.st_uid, known.st_gid)
        if WINDOWS:
            close()
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically; its folder is created if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_new(path: Path, text: str) -> bool:
    """Like :func:`write_text`, but keeps an existing file. Returns whether the file was written. If
    several processes write it at the same time, only one does, if the file system has hard
    links."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, descriptor = _create(path)
    stream = io.BufferedWriter(NamedFile(descriptor, str(path)))
    try:
        stream.write(text.encode("utf-8"))
        stream.flush()
        try:
            os.fsync(descriptor)
            os.link(partial, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without hard links; for any other reason publish() raises an error.
            if path.exists():
                return False
            publish(descriptor, partial, path, lambda: close_stream(stream))
        return True
    finally:
        close_stream(stream)
        with suppress(OSError):
            partial.unlink()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Makes a temporary folder beside ``target``, which the caller fills and renames to ``target``.
    If it was not renamed, it is removed at the end of the block.

    Missing parent folders are made, and removed again if they stay empty. An OSError of the block
    that names no file is raised again with the name of ``target``.
    """
    above = [parent for parent in target.absolute().parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial, descriptor = _create_folder(target)
        try:
            yield partial
        except OSError as error:
            if error.filename is None and error.errno is not None:
                raise OSError(error.errno, error.strerror, str(target)) from error
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if descriptor is not None:
                os.close(descriptor)
    finally:
        for parent in above:
            with suppress(OSError):
                parent.rmdir()


def _create(target: Path) -> Tuple[Path, int]:
    """Makes a file with a unique name beside ``target`` and locks it; returns (path,
    descriptor)."""

    def opened(partial: Path) -> int:
        return os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | BINARY, 0o666)

    return _create_by(opened, target)


def _create_folder(target: Path) -> Tuple[Path, Optional[int]]:
    """Makes a folder with a unique name beside ``target`` and locks it; returns (path, descriptor).
    The descriptor only holds the lock; None on Windows, where folders cannot be opened."""

    def opened(partial: Path) -> int:
        os.mkdir(partial)
        return os.open(partial, os.O_RDONLY)

    if not WINDOWS:
        return _create_by(opened, target)
    partial = _unique(target)
    os.mkdir(partial)
    return partial, None


def _unique(target: Path) -> Path:
    # File systems allow names of 255 bytes.
    name = os.fsdecode(os.fsencode(target.name)[:230])
    return target.with_name(f"{name}.hrt-{secrets.token_hex(4)}.partial")


def _create_by(opened: Callable[[Path], int], target: Path) -> Tuple[Path, int]:
    while True:
        partial = _unique(target)
        try:
            descriptor = opened(partial)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        # Before it was locked, another process may have removed it as a leftover: try again.
        if lock(descriptor) and is_at(descriptor, partial):
            return partial, descriptor
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Locks an open file until it is closed. Returns False if another process has locked it; True
    also where files cannot be locked (Windows, some file systems)."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks.
        return True
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has the name ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def remove_leftovers(folder: Path, prefix: str = "") -> None:
    """Removes the temporary files and folders that killed processes have left in ``folder`` and
    whose names begin with ``prefix``. Does nothing on Windows."""
    if fcntl is None or not folder.is_dir():
        return
    for entry in list(os.scandir(folder)):
        if not (entry.name.startswith(prefix) and _MARK.search(entry.name)) or entry.is_symlink():
            continue
        with suppress(OSError):
            is_folder = entry.is_dir()
            descriptor = os.open(
                entry.path, (os.O_RDONLY if is_folder else os.O_RDWR) | os.O_NOFOLLOW
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path) if is_folder else os.unlink(entry.path)
            finally:
                os.close(descriptor)
