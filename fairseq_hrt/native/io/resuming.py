"""Output files whose writing can be interrupted and resumed.

The finished part is kept in ``<output>.partial``. Beside it, the notes ``<output>.partial.json``
hold the settings, the numbers of input lines and output bytes that are finished, and the SHA-256 of
these lines and of these bytes. A later run with the same settings and input continues behind the
finished part; a run with other settings or input is refused, so that results are never mixed.
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

from .files import BINARY, content_hash, is_at, lock, publish, remove_leftovers, write_text

logger = logging.getLogger(__name__)

# The fields of the notes and their types.
_KINDS = {
    "settings": dict,
    "lines": int,
    "bytes": int,
    "input": str,
    "output": str,
    "complete": bool,
}
# Options that may name a file although their own names do not end in "path" or "file".
_FILES = ("shortlist", "replace_unk")
# Input lines that are hashed at a time: one at a time takes five times as long.
_SKIPPED = 1 << 12
_NOTHING: Mapping[str, Any] = {"lines": 0, "bytes": 0, "complete": False}


def model_files(path: str) -> List[Path]:
    """The files of a model that a command line names by ``path``: checkpoints separated by
    ``os.pathsep``, or the folder of a bundle or of a model converted for CTranslate2, with all of
    the folder's files."""
    found: List[Path] = []
    for part in map(Path, path.split(os.pathsep)):
        found += (
            sorted(file for file in part.iterdir() if file.is_file()) if part.is_dir() else [part]
        )
    return found


def identified_options(options: Mapping[str, str]) -> Dict[str, str]:
    """The decoding options, {name: value}, in the form in which a resumed run compares them with
    those of the earlier run. The path of a file (language model, draft checkpoint, shortlist) is
    replaced by the hash of the file's content."""
    found = {}
    for name, value in sorted(options.items()):
        named = name.endswith(("path", "file")) or name in _FILES or os.sep in value
        parts = [Path(part) for part in value.split(os.pathsep)] if named else []
        files = all(part.is_file() for part in parts) and bool(parts)
        found[name] = f"sha256 {content_hash(parts)}" if files else value
    return found


def _of_kind(value: Any, kind: type) -> Any:
    """Returns ``value``; ValueError if its type is not ``kind`` or it is a negative integer."""
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise ValueError(f"{value!r:.40} is not a valid {kind.__name__}")
    return value


def different_settings(known: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """Describes how the settings of this run, ``mine``, differ from those of an earlier one,
    ``known``; empty if they are equal."""
    names = sorted(name for name in {*known, *mine} if known.get(name) != mine.get(name))
    return ", ".join(f"{name}: {known.get(name)!r} then, {mine.get(name)!r} now" for name in names)


def work_files(target: Path) -> Tuple[Path, Path]:
    """The paths of the partial file and of the notes that belong to the output ``target``."""
    return target.with_name(target.name + ".partial"), target.with_name(
        target.name + ".partial.json"
    )


class ResumableOutput:
    """An output file whose writing can be resumed after an interruption; a context manager.

    Inside the block, :meth:`skip` the input lines whose output is done, :meth:`append` the output
    of the others, and :meth:`finish`. Once all files of the run are finished, :meth:`forget`
    removes the notes, the JSON file beside the output that describes the finished part.

    Args:
        path: the output.
        settings: all settings that the output depends on, as values that JSON can hold; they must
            equal the settings in the notes of an earlier run.

    Raises:
        ValueError: the partial file belongs to a run with other settings or to a running process.
        OSError: the file cannot be written.

    Attributes:
        lines, bytes: how many input lines and output bytes are done.
        finished: whether the output is complete. If an earlier run has completed it, this run only
            calls :meth:`skip`, which checks that the input is still the same.
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
            # Drop an incomplete block; it will be translated again.
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
                f"{self.partial} exists, but --resume did not write it: remove this file or give"
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
            # Notes first: a partial file without notes would be taken for somebody else's.
            self._write_notes(complete=False)
        self._descriptor = os.open(
            self.partial, os.O_RDWR | os.O_CREAT | BINARY | getattr(os, "O_NOFOLLOW", 0), 0o666
        )
        # Before it was locked, another process may have finished it and renamed it.
        if not lock(self._descriptor) or not is_at(self._descriptor, self.partial):
            raise ValueError(
                f"{self.partial}: another process is writing it; wait for its end, or give another"
                " output"
            )
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
            f"give the same input and settings again, or remove {self.partial.name} and"
            f" {self.notes.name} to start anew"
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
        """Whether a file begins with the output that the notes ``known`` describe, and holds
        nothing else if this output is complete. If so, stores the output's hash in ``_output``."""
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
        """Reads and discards the lines of the input ``source`` whose output is done already, after
        comparing their hash with that in the notes.

        Raises:
            ValueError: the lines differ from those of the earlier run.
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
        """Appends ``data``, the output of the input ``lines``, and updates the notes, so that a
        later run can resume after these lines.

        Raises:
            OSError: the disk is full; the error names the file.
        """
        assert self._descriptor is not None
        if not lines and self.bytes:
            # The output of an empty input has been written already.
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
        """Renames the finished file to its target. The notes stay until :meth:`forget`, since other
        files of the run may be unfinished.

        Raises:
            OSError: the file cannot be renamed.
        """
        if self.finished:
            return
        assert self._descriptor is not None
        # Notes first: if the process is killed here, the next run only has to rename the file.
        self._write_notes(complete=True)
        publish(self._descriptor, self.partial, self.target, self._close)
        self.finished = True

    def forget(self) -> None:
        """Removes the notes, once all files of the run are finished."""
        self.notes.unlink(missing_ok=True)
