"""Outputs that can be continued: what is finished stays in ``<output>.partial``, and beside it
what it was made from.

``<output>.partial.json`` holds the settings, how many input lines and output bytes are finished,
and the SHA-256 of both. A further run with the same settings and the same input drops what comes
after the finished part and continues there; anything else is refused, so that two runs are never
mixed.
"""

import errno
import hashlib
import itertools
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from .files import content_hash, is_at, lock, publish, remove_leftovers, write_text

logger = logging.getLogger(__name__)

# Contents of the notes.
_KINDS = {
    "settings": dict,
    "lines": int,
    "bytes": int,
    "input": str,
    "output": str,
    "complete": bool,
}
# Options that may name a file although their names do not end like it, and those whose file every
# run writes anew, with times.
_FILES = ("shortlist", "replace_unk")
# Lines of the input that are hashed together: each on its own takes five times as long.
_SKIPPED = 1 << 12
_NOTHING: Mapping[str, Any] = {"lines": 0, "bytes": 0, "complete": False}


def model_files(path: str) -> List[Path]:
    """The checkpoints of a system's path; the files of a bundle, or of a model that was converted
    for CTranslate2."""
    found: List[Path] = []
    for part in map(Path, path.split(os.pathsep)):
        found += (
            sorted(file for file in part.iterdir() if file.is_file()) if part.is_dir() else [part]
        )
    return found


def identified_options(options: Mapping[str, str]) -> Dict[str, str]:
    """Decoding options that a result depends on; a file among them (a language model, a draft's
    checkpoint, a shortlist) by its content instead of its name."""
    found = {}
    for name, value in sorted(options.items()):
        named = name.endswith(("path", "file")) or name in _FILES or os.sep in value
        parts = [Path(part) for part in value.split(os.pathsep)] if named else []
        files = all(part.is_file() for part in parts) and bool(parts)
        found[name] = f"sha256 {content_hash(parts)}" if files else value
    return found


def _of_kind(value: Any, kind: type) -> Any:
    """The value; ValueError for one of another type, or a negative number."""
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise ValueError(f"{value!r:.40} is not a valid {kind.__name__}")
    return value


def different_settings(known: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """What differs between two descriptions of a run, in words; empty: nothing."""
    names = sorted(name for name in {*known, *mine} if known.get(name) != mine.get(name))
    return ", ".join(f"{name}: {known.get(name)!r} then, {mine.get(name)!r} now" for name in names)


def work_files(target: Path) -> Tuple[Path, Path]:
    """The files beside an output that is being written: what is finished of it, and the notes of
    what it was made from."""
    return target.with_name(target.name + ".partial"), target.with_name(
        target.name + ".partial.json"
    )


class ResumableOutput:
    """One output file of a run that can be interrupted.

    Use as a context manager; :meth:`skip` the input that is done, :meth:`append` the rest,
    :meth:`finish`, and when all files of the run are finished :meth:`forget`.

    Args:
        path: the output.
        settings: whatever shapes it besides the input; compared with those of the run before.

    Raises:
        ValueError: another run with other settings, or a running process, owns the partial file.
        OSError: it cannot be written.

    Attributes:
        finished: the output itself is complete; only the input's hash is left to compare.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.target = Path(os.path.realpath(path))
        self.partial, self.notes = work_files(self.target)
        self.settings = json.loads(json.dumps(dict(settings)))
        self._descriptor: Optional[int] = None
        self._input, self._output = hashlib.sha256(), hashlib.sha256()
        self.lines = self.bytes = 0
        self.finished = False

    def __enter__(self) -> "ResumableOutput":
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None and self._descriptor is not None and not self.finished:
            # No half block; what it was is translated again.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.bytes)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        if self.target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.target))
        self.target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.target.parent, self.target.name + ".")
        known = self._read_notes()
        if known is None and self.partial.exists():
            raise ValueError(
                f"{self.partial} exists, but --resume did not write it: remove it or give"
                " another output"
            )
        if known is not None:
            changes = different_settings(known["settings"], self.settings)
            if changes:
                raise ValueError(
                    f"{self.partial} was begun with other settings ({changes}); {self._remedy()}"
                )
        if (
            known is not None
            and known["complete"]
            and not self.partial.exists()
            and self._is_whole(self.target, known)
        ):
            self._done, self.lines, self.finished = known, known["lines"], True
            return
        if known is None:
            # Before the file itself: one without notes is somebody else's.
            self._write_notes(complete=False)
        self._descriptor = os.open(
            self.partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666
        )
        # Between opening and locking the other process may have ended, and the file may have got
        # its final name.
        if not lock(self._descriptor) or not is_at(self._descriptor, self.partial):
            raise ValueError(f"{self.partial}: another process is writing it")
        known = self._read_notes() or _NOTHING
        if not self._is_whole(self.partial, known):
            logger.warning("%s is damaged: starting anew", self.partial)
            known = _NOTHING
            os.ftruncate(self._descriptor, 0)
        os.ftruncate(self._descriptor, known["bytes"])
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self._done, self.lines, self.bytes = known, known["lines"], known["bytes"]

    def _remedy(self) -> str:
        return (
            f"give the same again, or remove {self.partial.name} and {self.notes.name} to start"
            " anew"
        )

    def _read_notes(self) -> Optional[Mapping[str, Any]]:
        try:
            found = json.loads(self.notes.read_text(encoding="utf-8"))
            return {name: _of_kind(found[name], kind) for name, kind in _KINDS.items()}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self.notes} is damaged: remove it and {self.partial.name} to start anew"
            ) from error

    def _write_notes(self, *, complete: bool) -> None:
        notes = {
            "settings": self.settings, "lines": self.lines, "bytes": self.bytes,
            "input": self._input.hexdigest(), "output": self._output.hexdigest(),
            "complete": complete,
        }  # fmt: skip
        write_text(self.notes, json.dumps(notes, indent=1, ensure_ascii=False) + "\n")

    def _is_whole(self, path: Path, known: Mapping[str, Any]) -> bool:
        """Whether a file begins with (if complete: is) what the notes say; takes over the hash."""
        total, left = hashlib.sha256(), known["bytes"]
        try:
            if known["complete"] and path.stat().st_size != left:
                return False
            with open(path, "rb") as file:
                while left and (chunk := file.read(min(left, 1 << 20))):
                    total.update(chunk)
                    left -= len(chunk)
        except OSError:
            return False
        if left or (known["bytes"] and total.hexdigest() != known["output"]):
            return False
        self._output = total
        return True

    def skip(self, source: Iterator[bytes]) -> None:
        """Takes from the input the lines that are done.

        Raises:
            ValueError: they are not those of the run before.
        """
        left = self.lines
        while left and (block := list(itertools.islice(source, min(left, _SKIPPED)))):
            self._input.update(b"".join(block))
            left -= len(block)
        if (self.lines and self._input.hexdigest() != self._done["input"]) or (
            self.finished and next(source, None) is not None
        ):
            raise ValueError(
                f"the input is not the one that {self.partial} was begun with; {self._remedy()}"
            )

    def append(self, lines: List[bytes], data: bytes) -> None:
        """Adds the output of some input lines (as they were read); a whole block, to continue after
        it.

        Raises:
            OSError: the disk is full; the error names the file.
        """
        assert self._descriptor is not None
        if not lines and self.bytes:
            # The output of an empty input was there before the interruption.
            return
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.partial)) from error
        self._input.update(b"".join(lines))
        self._output.update(data)
        self.lines, self.bytes = self.lines + len(lines), self.bytes + len(data)
        self._write_notes(complete=False)

    def finish(self) -> None:
        """Gives the finished file its name; the notes stay until :meth:`forget`, for the other
        files of the run.

        Raises:
            OSError: it cannot be given.
        """
        if self.finished:
            return
        assert self._descriptor is not None
        # First the notes: killed in between, the next run finds a complete partial file, and
        # nothing left to do but this.
        self._write_notes(complete=True)
        publish(self._descriptor, self.partial, self.target)
        self.finished = True

    def forget(self) -> None:
        """Removes the notes."""
        self.notes.unlink(missing_ok=True)
