"""Compiles the kernel into a shared library. setup.py does it; in a source tree, run
``python -m fairseq_hrt.native.runtime.build``.

Uses the standard library only, because setup.py loads this file before anything is installed. The
library has no Python interface (ctypes calls it), so one serves all Python versions. The flags of
an instruction set are given for its own file only; sets that the compiler does not support are left
out. The library carries a fingerprint of its sources, by which :mod:`.library` refuses one that is
out of date.
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
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

HERE = Path(__file__).resolve().parent
KERNEL = HERE / "kernel"
LIBRARY = "libfairseq_hrt_runtime" + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
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
AVX512 = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512".split()
INSTRUCTION_SETS: Dict[str, List[str]] = {
    "amx_int8": ["-mavx2", "-mfma", *AVX512, "-mamx-tile", "-mamx-int8"],
    "avx512_vnni": ["-mavx2", "-mfma", *AVX512],
    "avx_vnni": ["-mavx2", "-mfma", "-mavxvnni"],
    "avx2": ["-mavx2", "-mfma"],
    "neon_dotprod": ["-march=armv8.2-a+dotprod"],
}
# Flags for `zig cc`, which cross-compiles without a sysroot and rejects those above.
OTHER_SPELLINGS = {"neon_dotprod": ["-mcpu=generic+v8_2a+dotprod"]}
# Processor families as compilers' macros call them, and their names in the tags of wheels.
FAMILIES = {"__x86_64__": "x86_64", "__aarch64__": "aarch64", "__i386__": "i686"}


class Built(NamedTuple):
    """The outcome of a build.

    Attributes:
        library: its path; None if there is none.
        reason: why there is none, in one line.
        compiler: the command that compiled.
        machine: the processor family that the library runs on.
        instruction_sets: those compiled, the portable one included.
        left_out: instruction sets of this processor family that the compiler does not support.
    """

    library: Optional[Path]
    reason: str = ""
    compiler: str = ""
    machine: str = ""
    instruction_sets: Sequence[str] = ()
    left_out: Sequence[str] = ()


class CompilationError(Exception):
    """A file does not compile; the message is the compiler's."""


def sources(kernel: Path = KERNEL) -> List[Path]:
    """The C files and headers, sorted."""
    return sorted(path for path in kernel.glob("*") if path.suffix in (".c", ".h"))


def fingerprint(kernel: Path = KERNEL) -> str:
    """16 hexadecimal digits of the names and contents of all sources; '' without sources (an
    installed wheel)."""
    found = sources(kernel)
    digest = hashlib.sha256()
    for path in found:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if found else ""


def compiler() -> Optional[List[str]]:
    """The C compiler: $CC, or the first of cc, gcc and clang; None if there is none."""
    chosen = os.environ.get("CC", "").strip()
    for command in [chosen] if chosen else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if shutil.which(words[0]):
            return words
    return None


def instruction_sets(machine: str) -> List[str]:
    """The instruction sets of a processor family, named as by :func:`target_machine` or
    :func:`platform.machine`."""
    machine = machine.lower()
    if machine in ("x86_64", "amd64"):
        return ["amx_int8", "avx512_vnni", "avx_vnni", "avx2"]
    return ["neon_dotprod"] if machine in ("aarch64", "arm64") else []


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


def target_machine(command: List[str]) -> str:
    """The processor family that a compiler compiles for, which may not be this machine's; this
    machine's if it is not in FAMILIES."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "empty.c").touch()
        try:
            said = subprocess.run(
                [*command, "-dM", "-E", str(Path(folder, "empty.c"))],
                capture_output=True,
                timeout=900,
            )
        except (OSError, subprocess.TimeoutExpired):
            return platform.machine()
    words = set(said.stdout.decode(errors="replace").split())
    return next((name for macro, name in FAMILIES.items() if macro in words), platform.machine())


def instruction_set_flags(command: List[str], name: str) -> Optional[List[str]]:
    """The flags of an instruction set as the compiler accepts them; None if it accepts none."""
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
    target: Path,
    *,
    kernel: Path = KERNEL,
    objects: Path = OBJECTS,
    extra: Sequence[str] = (),
    machine: str = "",
    command: Optional[List[str]] = None,
) -> Built:
    """Compiles and links the kernel; raises CompilationError.

    Args:
        target: the library to write; an older one stays until the new one is complete.
        objects: folder for object files; a hash of all inputs in their names keeps them up to date.
        extra: flags for every file and the linker, e.g. sanitizers.
        machine: processor family to compile for; by default the compiler's target.
        command: the compiler; by default :func:`compiler`.
    """
    command = command or compiler()
    if not command:
        raise CompilationError("no C compiler was found")
    machine = machine or target_machine(command)
    wanted = instruction_sets(machine)
    known = ((name, instruction_set_flags(command, name)) for name in wanted)
    compiled = {name: flags for name, flags in known if flags}
    have = [f"-DFH_HAVE_{name.upper()}" for name in compiled]
    stamp = f'-DFH_FINGERPRINT="{fingerprint(kernel)}"'
    headers = b"".join(path.read_bytes() for path in sources(kernel) if path.suffix == ".h")
    objects.mkdir(parents=True, exist_ok=True)
    # $CC may be another compiler by the same name
    version = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, errors="replace"
    ).stdout

    def compiled_object(source: Path) -> Optional[Path]:
        name = source.stem[len("operations_") :] if source.stem.startswith("operations_") else ""
        if name in INSTRUCTION_SETS and name not in compiled:
            return None
        flags = [*FLAGS, *extra, *compiled.get(name, [])]
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
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    said = _run(
        [*command, *extra, "-shared", "-pthread", "-o", str(unfinished), *map(str, files), "-lm"]
    )
    if said:
        raise CompilationError(f"the library cannot be linked: {said}")
    unfinished.replace(target)
    left_out = [name for name in wanted if name not in compiled]
    return Built(target, "", shlex.join(command), machine, [*compiled, "plain"], left_out)


def build(folder: Path = HERE, *, kernel: Path = KERNEL, objects: Path = OBJECTS) -> Built:
    """Builds the library and a report for the doctor into ``folder``. Never fails: without a
    library, :attr:`Built.reason` tells why.

    A failed build removes an older library.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        built = compile_library(folder / LIBRARY, kernel=kernel, objects=objects)
    except (CompilationError, OSError) as error:
        (folder / LIBRARY).unlink(missing_ok=True)
        lines = str(error).splitlines() or [type(error).__name__]
        # the first line names the file, the first one with "error" is what stops the compiler
        reason = next(
            (f"{lines[0]} … {line.strip()}" for line in lines[1:] if "error" in line), lines[0]
        )
        built = Built(None, reason, shlex.join(compiler() or []))
    told = {**built._asdict(), "library": built.library.name if built.library else None}
    (folder / REPORT).write_text(json.dumps(told, indent=1), encoding="utf-8")
    return built


def platform_tag(machine: str = "") -> str:
    """The wheel tag of the machines that can run a library built on this system.

    Args:
        machine: :attr:`Built.machine`, which is not this machine's after cross-compilation.
    """
    import sysconfig

    if sys.platform == "darwin":
        # a universal Python, but a library for one processor family
        return f"macosx_11_0_{'arm64' if machine == 'aarch64' else machine or platform.machine()}"
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"linux_{machine}" if machine in FAMILIES.values() and tag.startswith("linux_") else tag


def main() -> int:
    """Builds the library in this source tree; returns the exit status."""
    if not sources():
        sys.stderr.write(
            "there are no C sources beside this file: install the package again instead\n"
        )
        return 1
    built = build(objects=HERE.parents[2] / OBJECTS)
    if not built.library:
        sys.stderr.write(f"not built: {built.reason}\n")
        return 1
    sys.stdout.write(f"{built.library}: {', '.join(built.instruction_sets)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
