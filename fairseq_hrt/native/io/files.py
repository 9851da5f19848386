"""Files that appear whole or not at all.

A file is written under a name of its own beside the target and takes its place when it is complete;
through a link it takes the place of what the link leads to. Names of unfinished files are unique,
so that processes never share one; each is locked by its writer, so that what a killed process left
behind can be told from what another is still writing.
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
from typing import Any, BinaryIO, Iterable, Iterator, Tuple, cast

try:
    import fcntl
except (
    ImportError
):  # Windows: nothing is locked there, and what a killed process leaves behind stays.
    fcntl = None  # type: ignore[assignment]

_MARK = re.compile(r"\.hrt-[0-9a-f]{8}\.partial$")


def content_hash(paths: Iterable[Path]) -> str:
    """SHA-256 (hexadecimal) of the contents of files, in the given order; their names do not
    matter."""
    total = hashlib.sha256()
    for path in paths:
        own = hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                own.update(chunk)
        total.update(own.digest())
    return total.hexdigest()


class NamedFile(io.FileIO):
    """An open file that is named by the errors of writing it, a full disk above all."""

    def __init__(self, descriptor: int, shown: str, closefd: bool = True) -> None:
        super().__init__(descriptor, "wb", closefd=closefd)
        self.shown = shown

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None


def close_stream(stream: Any) -> None:
    """Closes without writing again what could not be written."""
    with suppress(OSError, ValueError):
        stream.flush()
    stream.raw.close()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside ``path`` that takes its place when the block ends; an error leaves what was
    there before.

    It keeps the mode (and where that is allowed the owner) of the file it replaces.

    Raises:
        OSError: it cannot be written, or is a device or pipe, which a file must not replace; the
            error names ``path``.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(
            errno.EEXIST, "a device or pipe, which a file must not replace", str(path)
        )
    partial, descriptor = _create(target, folder=False)
    stream = io.BufferedWriter(NamedFile(descriptor, str(path)))
    try:
        yield cast(BinaryIO, stream)
        stream.flush()
        publish(descriptor, partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        close_stream(stream)


def publish(descriptor: int, partial: Path, target: Path) -> None:
    """Gives a finished file its name, with mode and owner of the file that it replaces.

    Raises:
        OSError: the disk is full or the name cannot be given; the error names ``target``.
    """
    try:
        # Some file systems notice only now that there is no room.
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
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_new(path: Path, text: str) -> bool:
    """Like :func:`write_text`, but leaves a file that is there; whether this call made it. Of
    several processes only one does, where the file system has links."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, descriptor = _create(path, folder=False)
    stream = io.BufferedWriter(NamedFile(descriptor, str(path)))
    try:
        stream.write(text.encode("utf-8"))
        stream.flush()
        # Open, and so locked, until it has its name: another process would take it for a leftover
        # otherwise.
        try:
            os.fsync(descriptor)
            os.link(partial, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without links; what else may be wrong is said by the error of giving the
            # name.
            if path.exists():
                return False
            publish(descriptor, partial, path)
        return True
    finally:
        close_stream(stream)
        with suppress(OSError):
            partial.unlink()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` to be filled; the caller renames it, and whatever is left of it
    goes when the block ends.

    Folders above it are made, and removed again if they stay empty. An error of writing that names
    no file names the target.
    """
    above = [parent for parent in target.absolute().parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial, descriptor = _create(target, folder=True)
        try:
            yield partial
        except OSError as error:
            if error.filename is None and error.errno is not None:
                raise OSError(error.errno, error.strerror, str(target)) from error
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            os.close(descriptor)
    finally:
        for parent in above:
            with suppress(OSError):
                parent.rmdir()


def _create(target: Path, *, folder: bool) -> Tuple[Path, int]:
    """A new file or folder beside ``target`` with a unique name, locked by this process: (path,
    descriptor).

    The descriptor of a folder only holds the lock.
    """
    # 255 bytes is what file systems allow.
    name = os.fsdecode(os.fsencode(target.name)[:230])
    while True:
        partial = target.with_name(f"{name}.hrt-{secrets.token_hex(4)}.partial")
        try:
            if folder:
                os.mkdir(partial)
                descriptor = os.open(partial, os.O_RDONLY)
            else:
                descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        # Between its making and its locking another process may have taken it for a leftover.
        if lock(descriptor) and is_at(descriptor, partial):
            return partial, descriptor
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Locks an open file for as long as it is open; False: another process holds it."""
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
    """Whether an open file still has that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def remove_leftovers(folder: Path, prefix: str = "") -> None:
    """Removes from a folder the unfinished files and folders, with names that begin with
    ``prefix``, of processes that are gone."""
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
