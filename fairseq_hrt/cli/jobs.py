"""Decides which output file of ``fairseq-hrt translate`` belongs to which input file."""

import os
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..native.bundles.bundle import is_bundle
from ..native.io.streams import STANDARD, is_stream, raw_lines, reading, standard_input
from .binary import require_text, text_lines

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Job(NamedTuple):
    """An input file, ``source`` (None: the standard input), and the file for its translation,
    ``target`` (None: the standard output)."""

    source: Optional[Path]
    target: Optional[Path]

    @property
    def compressed(self) -> bool:
        """Whether the output is to be written as gzip, since its name ends in ``.gz``."""
        return self.target is not None and self.target.suffix == ".gz"


def shown(source: Optional[Path]) -> str:
    """The name of an input in messages: its path, or "the standard input" for None."""
    return "the standard input" if source is None else str(source)


def read_line(line: bytes, *, first: bool = False) -> str:
    """Decodes a UTF-8 line and drops its line end; with ``first=True``, for the first line of a
    file, also a byte order mark."""
    return line.removeprefix(BYTE_ORDER_MARK if first else b"").decode("utf-8").rstrip("\r\n")


@contextmanager
def input_lines(source: Optional[Path]) -> Iterator[Iterator[bytes]]:
    """A context with an iterator over the undecoded lines of an input (None: the standard input).

    Raises:
        ValueError: the input is not text.
        OSError: the input cannot be read.
    """
    with reading(source) as file:
        yield text_lines(raw_lines(file, shown(source)), shown(source))


def plan_jobs(files: Sequence[Path], output: Optional[Path], *, resume: bool = False) -> List[Job]:
    """Pairs each input file with its output, and checks both; writes nothing.

    Args:
        files: the input files, ``-`` for the standard input; an empty list means the standard
            input, too.
        output: a file, a pipe, a device, or a folder for files named like the inputs; several
            inputs cannot share a file. None: the standard output.
        resume: whether an interrupted run is continued (``--resume``), so that the outputs must be
            files.

    Raises:
        ValueError: an input is missing, would be overwritten, would share its output file with
            another, or is the standard input although the output is a folder.
    """
    sources = _checked_sources(files)
    if output is not None and (len(sources) > 1 or output.is_dir()):
        if is_stream(output) or output.is_file():
            if resume:
                raise ValueError(
                    f"--resume with several inputs needs a folder, and {output} is not one: give"
                    " another --output"
                )
            if output.is_file():
                raise ValueError(
                    f"{output} is a file: several inputs need a folder; give one as --output"
                )
            return [Job(source, output) for source in sources]
        named = [source for source in sources if source is not None]
        if len(named) < len(sources):
            raise ValueError(
                f"{output} is a folder, and the standard input has no file name to use in it: give"
                " a file instead of -, or a file as --output"
            )
        jobs = [Job(source, output / source.name) for source in named]
    else:
        jobs = [Job(source, output) for source in sources]
    if resume and is_stream(jobs[0].target):
        raise ValueError("--resume needs a file to continue with: give --output FILE")
    _refuse_overwriting(jobs, resume=resume)
    return jobs


def _checked_sources(files: Sequence[Path]) -> List[Optional[Path]]:
    """The inputs as paths, or None for the standard input, checked to be readable text; ``[None]``
    if ``files`` is empty."""
    sources: List[Optional[Path]] = [
        None if os.fspath(file) == STANDARD else file for file in files
    ] or [None]
    for source in sources:
        if source is None:
            standard_input()
        elif not source.exists():
            raise ValueError(
                f"{source} is not a file; to translate a text itself give --text"
                f" {shlex.quote(str(source))}"
            )
        elif is_bundle(source):
            raise ValueError(f"{source} is a bundle: give it first, before the input files")
        elif source.is_dir():
            raise ValueError(f"{source} is a folder: give its files")
        else:
            require_text(source)
    if sources.count(None) > 1:
        raise ValueError("- is given twice: the standard input can be read only once")
    return sources


def _refuse_overwriting(jobs: Sequence[Job], *, resume: bool) -> None:
    taken: Dict[str, Job] = {}
    inputs = {os.path.realpath(job.source) for job in jobs if job.source is not None}
    for job in jobs:
        if job.target is None or is_stream(job.target):
            continue
        for name in _written(job.target, resume=resume):
            # The output is shown as it was given, without resolving links.
            shown = job.target if name == os.path.realpath(job.target) else name
            if name in taken:
                raise ValueError(
                    f"{taken[name].source} and {job.source} would both be written to {shown}:"
                    " rename one of the inputs"
                )
            taken[name] = job
            if name in inputs:
                raise ValueError(
                    f"{shown} is an input: a translation would replace it; give another --output"
                )


def _written(target: Path, *, resume: bool) -> List[str]:
    """The paths of the files that a job writes: its output ``target`` and, with ``--resume``, the
    work files of an interrupted run."""
    path = Path(os.path.realpath(target))
    if not resume:
        return [str(path)]
    from ..native.io.resuming import work_files

    return [str(name) for name in (path, *work_files(path))]
