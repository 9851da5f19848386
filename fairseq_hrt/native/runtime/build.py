"""Compiles the kernel into a shared library. setup.py does it; in a source tree, run
``python -m fairseq_hrt.native.runtime.build``.

Uses the standard library only, because setup.py loads this file before anything is installed. The
library has no Python interface (ctypes calls it), so one build serves all Python versions. The
flags of an instruction set are given for its own C file only; sets that the compiler does not
support are left out. The library carries a fingerprint of its sources, by which :mod:`.library`
recognises and refuses a library that is out of date.

The library is built for the machine that the compiler compiles for, which need not be this one:
``CC="python -I -m ziglang cc -target x86_64-windows-gnu"`` makes a library for Windows anywhere.
"""

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

HERE = Path(__file__).resolve().parent
KERNEL = HERE / "kernel"


def library_name(system: str) -> str:
    """The file name of the compiled kernel on an operating system: ``.so``, ``.dylib`` or ``.dll``.
    ``system`` is a value of :data:`sys.platform`."""
    return "libfairseq_hrt_runtime" + {"darwin": ".dylib", "win32": ".dll"}.get(system, ".so")


LIBRARY = library_name(sys.platform)
REPORT = "kernel_build.json"
OBJECTS = Path("build", "fairseq_hrt_runtime")

FLAGS = (
    "-std=c11 -O3 -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE "
    # a product and a sum must stay two roundings (NumPy computes them so); NaN and infinities keep
    # their meaning
    "-ffp-contract=off -fno-math-errno -fno-trapping-math "
    # an error of newer compilers; older ones would take the result for an int
    "-Werror=implicit-function-declaration"
).split()
# Flags that Windows does without: it has threads of its own, loads a library at any address, and
# has the functions of libm in its C library.
NOT_ON_WINDOWS = ("-fPIC", "-pthread", "-lm")
AVX512 = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512".split()
INSTRUCTION_SETS: Dict[str, List[str]] = {
    "amx_int8": ["-mavx2", "-mfma", *AVX512, "-mamx-tile", "-mamx-int8"],
    "avx512_vnni": ["-mavx2", "-mfma", *AVX512],
    "avx_vnni": ["-mavx2", "-mfma", "-mavxvnni"],
    "avx2": ["-mavx2", "-mfma"],
    "neon_dotprod": ["-march=armv8.2-a+dotprod"],
}
# The macro that compilers define for processors with an instruction set; AMX comes with AVX-512.
MACROS = {
    "amx_int8": "__AMX_INT8__",
    "avx512_vnni": "__AVX512VNNI__",
    "avx_vnni": "__AVXVNNI__",
    "avx2": "__AVX2__",
    "neon_dotprod": "__ARM_FEATURE_DOTPROD",
}
# Flags for `zig cc`, which cross-compiles without a sysroot and rejects those above.
OTHER_SPELLINGS = {"neon_dotprod": ["-mcpu=generic+v8_2a+dotprod"]}
# Processor families as compilers' macros call them, and their names in the tags of wheels; systems,
# as in sys.platform.
FAMILIES = {"__x86_64__": "x86_64", "__aarch64__": "aarch64", "__i386__": "i686"}
SYSTEMS = {"__linux__": "linux", "__APPLE__": "darwin", "_WIN32": "win32"}
# Digits of major, minor and patch release, two each.
_OLDEST_MACOS = "__ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__"


class Target(NamedTuple):
    """The kind of machine that a compiler compiles for.

    Attributes:
        machine: the processor family, a value of FAMILIES.
        system: the operating system, a value of :data:`sys.platform`.
        release: for macOS, (major, minor) of the oldest release that can load the library.
        compiler: which compiler it is, "gcc", "clang" or '' (unknown).
    """

    machine: str
    system: str
    release: Tuple[int, int] = (11, 0)
    compiler: str = ""


class Built(NamedTuple):
    """The outcome of a build.

    Attributes:
        library: path of the library; None if the build failed.
        reason: why it failed, in one line.
        compiler: the compiler's command.
        target: the machine that the library runs on.
        instruction_sets: the compiled instruction sets, the portable one ("plain") included.
        left_out: instruction sets of this processor family that the compiler does not support.
        not_here: instruction sets that were left out because this processor lacks them, in a build
            for this processor only.
    """

    library: Optional[Path]
    reason: str = ""
    compiler: str = ""
    target: Target = Target(platform.machine(), sys.platform)
    instruction_sets: Sequence[str] = ()
    left_out: Sequence[str] = ()
    not_here: Sequence[str] = ()


class CompilationError(Exception):
    """The kernel cannot be compiled or linked; the message contains the compiler's output."""


def sources(kernel: Path = KERNEL) -> List[Path]:
    """The paths of the kernel's C files and headers, sorted."""
    return sorted(path for path in kernel.glob("*") if path.suffix in (".c", ".h"))


def fingerprint(kernel: Path = KERNEL) -> str:
    """The first 16 hexadecimal digits of a hash of the names and contents of all sources in the
    folder ``kernel``; '' if it has none (an installed wheel)."""
    found = sources(kernel)
    digest = hashlib.sha256()
    for path in found:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if found else ""


def compiler() -> Optional[List[str]]:
    """The command of the C compiler, as a list of words: $CC or, if that is not set, the first of
    cc, gcc, clang and the package ziglang that exists; None if there is none."""
    chosen = os.environ.get("CC", "").strip()
    if sys.platform == "win32":
        chosen = chosen.replace("\\", "/")
    for command in [chosen] if chosen else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if shutil.which(words[0]):
            return words
    # -I: also where pip hides the packages of its environment. Unless it is told otherwise, zig
    # compiles for this very processor.
    zig = [sys.executable, "-I", "-m", "ziglang"]
    if not chosen and not _run([*zig, "version"]):
        return [*zig, "cc", "-mcpu=baseline"]
    return None


def instruction_sets(machine: str) -> List[str]:
    """The instruction sets of a processor family for which the kernel has special code, best first;
    empty if there are none. ``machine`` is a value of FAMILIES or of :func:`platform.machine`."""
    machine = machine.lower()
    if machine in ("x86_64", "amd64"):
        return ["amx_int8", "avx512_vnni", "avx_vnni", "avx2"]
    return ["neon_dotprod"] if machine in ("aarch64", "arm64") else []


def lacking_here(command: List[str]) -> List[str]:
    """Returns which of its family's :func:`instruction_sets` this processor lacks, as the compiler
    ``command`` reports; empty if the compiler cannot tell or compiles for another machine."""
    machine, here = target(command), platform.machine().lower()
    # Windows and macOS have names of their own.
    here = {"amd64": "x86_64", "arm64": "aarch64"}.get(here, here)
    if (machine.machine.lower(), machine.system) != (here, sys.platform):
        return []
    defined = _macros([*command, "-march=native"]).split()
    return [
        name
        for name in instruction_sets(machine.machine)
        if defined and MACROS[name] not in defined
    ]


def _run(command: Sequence[str]) -> str:
    """Runs a command; returns '' if it succeeds, else its output."""
    try:
        finished = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=900
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (
        ""
        if finished.returncode == 0
        else (finished.stderr or finished.stdout or f"exit status {finished.returncode}").strip()
    )


def _macros(command: List[str]) -> str:
    """The macros that a compiler predefines, as lines ``#define NAME VALUE``; '' if it cannot list
    them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "empty.c").touch()
        try:
            said = subprocess.run(
                [*command, "-dM", "-E", str(Path(folder, "empty.c"))],
                capture_output=True,
                timeout=900,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return said.stdout.decode(errors="replace")


def target(command: List[str]) -> Target:
    """The machine that the compiler ``command`` compiles for, read from the macros that it
    predefines; if they do not tell the processor or system, those of this machine are taken."""
    # "#define NAME VALUE"
    lines = [line.split() for line in _macros(command).splitlines()]
    macros = {words[1]: words[-1] for words in lines if len(words) > 1}
    oldest = macros.get(_OLDEST_MACOS, "").zfill(6)
    release = (int(oldest[:-4]), int(oldest[-4:-2])) if oldest.isdecimal() else (0, 0)
    return Target(
        next((name for macro, name in FAMILIES.items() if macro in macros), platform.machine()),
        next((name for macro, name in SYSTEMS.items() if macro in macros), sys.platform),
        max(release, (11, 0)),
        "clang" if "__clang__" in macros else "gcc" if "__GNUC__" in macros else "",
    )


def instruction_set_flags(command: List[str], name: str) -> Optional[List[str]]:
    """The flags by which the compiler ``command`` switches on the instruction set ``name``; None if
    it does not support this set."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "empty.c")
        file.write_text("int empty;\n")
        for flags in filter(None, (INSTRUCTION_SETS[name], OTHER_SPELLINGS.get(name))):
            if not _run(
                [*command, *flags, "-Werror", "-c", str(file), "-o", str(file.with_suffix(".o"))]
            ):
                return flags
    return None


def compile_library(
    library: Path,
    *,
    kernel: Path = KERNEL,
    objects: Path = OBJECTS,
    extra: Sequence[str] = (),
    command: Optional[List[str]] = None,
    only_here: bool = False,
) -> Built:
    """Compiles and links the kernel.

    Args:
        library: the file to write; an older one stays until the new one is complete.
        kernel: folder of the C sources.
        objects: folder for object files, which later builds use again; their names contain a hash
            of source, headers, compiler and flags, so none is out of date.
        extra: flags for every file and the linker, e.g. sanitizers.
        command: the compiler; by default :func:`compiler`.
        only_here: leave out the instruction sets that this processor lacks, since compiling for
            each takes ten seconds.

    Raises:
        CompilationError: there is no compiler, or it fails.
    """
    command = command or compiler()
    if not command:
        raise CompilationError("no C compiler was found")
    machine = target(command)
    if machine.system == "win32" and machine.compiler == "gcc":
        raise CompilationError(
            "gcc for Windows would make a library that crashes, since it misaligns vectors of 32"
            " bytes (gcc's bug 54412): set CC to clang, or install the package ziglang"
        )
    known = {
        name: instruction_set_flags(command, name) for name in instruction_sets(machine.machine)
    }
    # A compiler that does not know a set cannot tell whether this processor has it.
    lacking = lacking_here(command) if only_here else []
    not_here = [name for name in lacking if known[name]]
    compiled = {name: flags for name, flags in known.items() if flags and name not in not_here}
    have = [f"-DFH_HAVE_{name.upper()}" for name in compiled]
    stamp = f'-DFH_FINGERPRINT="{fingerprint(kernel)}"'
    headers = b"".join(path.read_bytes() for path in sources(kernel) if path.suffix == ".h")
    objects.mkdir(parents=True, exist_ok=True)
    # $CC may be another compiler by the same name. Not by --version, for which zig writes a file.
    version = _macros(command)

    def for_system(flags: Sequence[str]) -> List[str]:
        left_out = NOT_ON_WINDOWS if machine.system == "win32" else ()
        return [flag for flag in flags if flag not in left_out]

    def compiled_object(source: Path) -> Optional[Path]:
        name = source.stem[len("operations_") :] if source.stem.startswith("operations_") else ""
        if name in INSTRUCTION_SETS and name not in compiled:
            return None
        flags = [*for_system(FLAGS), *extra, *compiled.get(name, [])]
        if source.stem == "dispatch":
            flags += [*have, stamp]
        what = (
            "\0".join([*command, version, *flags, source.name]).encode()
            + source.read_bytes()
            + headers
        )
        file = objects / f"{source.stem}-{hashlib.sha256(what).hexdigest()[:16]}.o"
        if not file.exists():
            # Renamed when complete: another build may look for the same file.
            unfinished = file.with_suffix(f".{os.getpid()}")
            said = _run([*command, *flags, "-c", str(source), "-o", str(unfinished)])
            if said:
                raise CompilationError(f"{source.name} does not compile: {said}")
            unfinished.replace(file)
        return file

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        files = [
            file
            for file in pool.map(
                compiled_object, (path for path in sources(kernel) if path.suffix == ".c")
            )
            if file
        ]
    library.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own: linkers for Windows write more than the library.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unfinished = Path(folder, library.name)
        said = _run(
            [
                *(*command, *extra, "-shared", "-o", str(unfinished), *map(str, files)),
                *for_system(["-pthread", "-lm"]),
            ]
        )
        if said:
            raise CompilationError(f"the library cannot be linked: {said}")
        unfinished.replace(library)
    left_out = [name for name, flags in known.items() if not flags]
    have_compiled = [*compiled, "plain"]
    return Built(library, "", shlex.join(command), machine, have_compiled, left_out, not_here)


def build(
    folder: Path = HERE,
    *,
    kernel: Path = KERNEL,
    objects: Path = OBJECTS,
    only_here: bool = False,
) -> Built:
    """Builds the kernel's library into ``folder``, with a report for ``fairseq-hrt doctor``
    (``kernel_build.json``). If this fails, no error is raised: :attr:`Built.library` is None, and
    :attr:`Built.reason` tells why.

    A failed build removes an older library. For the other arguments see :func:`compile_library`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = compiler()
    name = library_name(target(command).system) if command else LIBRARY
    try:
        built = compile_library(
            folder / name, kernel=kernel, objects=objects, command=command, only_here=only_here
        )
    except (CompilationError, OSError) as error:
        # Windows keeps a library that a process has loaded; its fingerprint is then refused.
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)
        lines = str(error).splitlines() or [type(error).__name__]
        # the first line names the file, the first one with "error" is what stops the compiler
        reason = next(
            (f"{lines[0]} … {line.strip()}" for line in lines[1:] if "error" in line), lines[0]
        )
        built = Built(None, reason, shlex.join(command or []))
    told = {**built._asdict(), "library": built.library.name if built.library else None}
    (folder / REPORT).write_text(json.dumps(told, indent=1), encoding="utf-8")
    return built


def platform_tag(machine: Target) -> str:
    """The platform tag of a wheel for the machines that can run a library, such as
    ``linux_x86_64``. ``machine`` is the library's :attr:`Built.target`."""
    import sysconfig

    family, (major, minor) = machine.machine, machine.release
    if machine.system == "darwin":
        # From macOS 11 on, tags name the major release only.
        shown = f"{major}_{minor if major == 10 else 0}"
        return f"macosx_{shown}_{'arm64' if family == 'aarch64' else family}"
    if machine.system == "win32":
        names = {"x86_64": "amd64", "aarch64": "arm64"}
        return "win32" if family == "i686" else f"win_{names.get(family, family.lower())}"
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    known = machine.system == "linux" and family in FAMILIES.values()
    return f"linux_{family}" if known else tag


def main() -> int:
    """Builds the kernel's library in this source tree, for this processor; returns the exit
    status, 1 if the build fails."""
    if not sources():
        sys.stderr.write(
            f"there are no C sources in {KERNEL}: install fairseq_hrt again from its sources\n"
        )
        return 1
    built = build(objects=HERE.parents[2] / OBJECTS, only_here=True)
    if not built.library:
        sys.stderr.write(f"not built: {built.reason}\n")
        return 1
    sys.stdout.write(f"{built.library}: {', '.join(built.instruction_sets)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
