"""Finds, checks and loads the compiled kernel, a shared library; tells which instruction set the
kernel uses on this machine."""

import ctypes as C
import json
import os
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import List, NamedTuple, Optional

from .build import HERE, KERNEL, LIBRARY, REPORT, fingerprint

VARIABLE = "FAIRSEQ_HRT_RUNTIME_ISA"
_REBUILD = "python -m fairseq_hrt.native.runtime.build"
_MESSAGE = 512


class LibraryUnavailable(ValueError):
    """The compiled kernel cannot be loaded; the message has the reason and the remedy."""


class InstructionSets(NamedTuple):
    """The instruction sets of the compiled kernel on this machine.

    Attributes:
        compiled: the sets that the library was compiled for, best first.
        usable: those of them that this processor and operating system can run.
        chosen: the set in use.
        reason: why no better set is used; '' if this is the best one of the processor family.
    """

    compiled: List[str]
    usable: List[str]
    chosen: str
    reason: str


def _why_missing(folder: Path, kernel: Path) -> str:
    """Why a folder has no compiled kernel, and the remedy, as the end of a message. ``kernel`` is
    the folder of the C sources, which an installed wheel lacks."""
    try:
        reason = str(json.loads((folder / REPORT).read_text(encoding="utf-8"))["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        reason = ""
    again = (
        _REBUILD
        if kernel.is_dir()
        else "pip install --force-reinstall --no-deps fairseq_hrt (from its sources)"
    )
    if not reason:
        return f"it was never built; fix: {again}"
    if "compiler was found" in reason:
        return (
            f"{reason} when the package was installed; fix: install gcc or clang, or the package"
            f" ziglang, then {again}"
        )
    return f"{reason}; fix: {again}"


def open_library(folder: Path = HERE, kernel: Path = KERNEL) -> C.CDLL:
    """Loads the compiled kernel in ``folder``, after checking that it was built from the C sources
    in the folder ``kernel``, if there are any.

    Raises:
        LibraryUnavailable: the library is missing, out of date or damaged.
    """
    path = folder / LIBRARY
    if not path.is_file():
        raise LibraryUnavailable(
            f"there is no compiled kernel ({LIBRARY}): {_why_missing(folder, kernel)}"
        )
    expected = fingerprint(kernel)
    # Checked before loading: a process keeps a library that it has loaded, even if its file is
    # replaced.
    if expected and b"fh_fingerprint=" + expected.encode() not in path.read_bytes():
        raise LibraryUnavailable(
            f"the compiled kernel is out of date (built from other sources than {kernel}); fix:"
            f" {_REBUILD}"
        )
    try:
        library = C.CDLL(str(path))
        library.fh_choose.restype, library.fh_choose.argtypes = (
            C.c_void_p,
            [C.c_char_p, C.c_char_p, C.c_size_t],
        )
        library.fh_instruction_set.restype, library.fh_instruction_set.argtypes = (
            C.c_char_p,
            [C.c_int],
        )
        library.fh_compiled.restype, library.fh_compiled.argtypes = C.c_int, [C.c_char_p]
        library.fh_usable.restype, library.fh_usable.argtypes = (
            C.c_int,
            [C.c_char_p, C.c_char_p, C.c_size_t],
        )
    except (OSError, AttributeError) as error:
        raise LibraryUnavailable(
            f"the compiled kernel cannot be loaded ({error}); fix: build it again, {_REBUILD}"
        ) from None
    return library


@cache
def load_library() -> C.CDLL:
    """Loads the compiled kernel of this installation, once per process; for errors see
    :func:`open_library`."""
    return open_library(library_folder())


def library_folder() -> Path:
    """The folder that has the compiled kernel: that of this file, or that of the installed package
    if this is a clone in which the kernel was not built."""
    if not (HERE / LIBRARY).is_file():
        for distribution in ("fairseq_hrt_translate", "fairseq_hrt"):
            try:
                installed = metadata.distribution(distribution)
            except metadata.PackageNotFoundError:
                continue
            path = Path(str(installed.locate_file(Path("fairseq_hrt", "native", "runtime"))))
            if (path / LIBRARY).is_file():
                return path
    return HERE


def forced_instruction_set() -> str:
    """The instruction set that the environment variable FAIRSEQ_HRT_RUNTIME_ISA names; '' means the
    best one."""
    return os.environ.get(VARIABLE, "").strip()


def instruction_sets(library: Optional[C.CDLL] = None) -> InstructionSets:
    """Asks the compiled kernel for its instruction sets and for the one that it uses here.

    Args:
        library: the compiled kernel; None: that of :func:`load_library`.

    Raises:
        LibraryUnavailable: the compiled kernel cannot be loaded, or this machine cannot use the
            instruction set that FAIRSEQ_HRT_RUNTIME_ISA names.
    """
    library = library or load_library()
    names: List[bytes] = []
    while library.fh_instruction_set(len(names)):
        names.append(library.fh_instruction_set(len(names)))
    compiled = [name for name in names if library.fh_compiled(name)]
    usable = [name.decode() for name in compiled if library.fh_usable(name, None, 0)]
    why = C.create_string_buffer(_MESSAGE)
    forced = forced_instruction_set()
    table = library.fh_choose(forced.encode(), why, _MESSAGE)
    reason = why.value.decode("utf-8", "replace")
    if not table:
        raise LibraryUnavailable(f"{VARIABLE}={reason}")
    if forced:
        reason = f"{VARIABLE} is set"
    # The name is the first field of the table.
    chosen = C.cast(table, C.POINTER(C.c_char_p))[0] or b""
    return InstructionSets([name.decode() for name in compiled], usable, chosen.decode(), reason)


def describe() -> List[str]:
    """The lines of ``fairseq-hrt doctor`` about the native engine. Raises no error: if the engine
    is not usable, the lines tell why."""
    try:
        found = instruction_sets()
    except LibraryUnavailable as error:
        return [f"not usable: {error}", "translation runs on PyTorch (--engine torch)"]
    lines = [
        f"kernel         {library_folder() / LIBRARY}",
        f"compiled for   {', '.join(found.compiled)}",
        f"runs on        {found.chosen}" + (f" ({found.reason})" if found.reason else ""),
    ]
    try:
        report = json.loads((library_folder() / REPORT).read_text(encoding="utf-8"))
        reasons = {
            "the compiler lacks them; fix: install a newer one, then build again":
                [*map(str, report.get("left_out", []))],
            "the processor that compiled lacks them; a wheel has all (pip install .)":
                [*map(str, report.get("not_here", []))],
        }  # fmt: skip
    except (OSError, ValueError, AttributeError, TypeError):
        reasons = {}
    for reason, names in reasons.items():
        if names:
            lines.append(f"left out       {', '.join(names)}: {reason}")
    return lines
