"""macOS and Windows: what the sources may ask of a system, and what zig's compiler makes of them."""

import ast
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_hrt
from fairseq_hrt.cli import serve
from fairseq_hrt.cli.main import TRANSLATING, module_of
from fairseq_hrt.native.io import files
from fairseq_hrt.native.io.resuming import ResumableOutput
from fairseq_hrt.native.runtime import build
from fairseq_hrt.native.server import process

PACKAGE = Path(fairseq_hrt.__file__).parent
# Headers of C11; those of threads and of complex numbers are not everywhere.
STANDARD = set(
    "assert ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg"
    " stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time wchar".split()
)
# Other headers, and which file may have them under which condition.
OTHERS = {
    "system.h": {"pthread.h"},
    "system.c": {"malloc.h", "windows.h", "sched.h", "sys/mman.h"},
    "dispatch.c": {"sys/syscall.h", "unistd.h", "cpuid.h", "sys/auxv.h"},
    "operations_neon_dotprod.c": {"arm_neon.h"},
    "vectors_avx2.h": {"immintrin.h"},
    "vectors_avx512.h": {"immintrin.h"},
}
# Functions of C11 that a system lacks: Windows has no aligned_alloc, and its clock is another one.
ONLY_SYSTEM = re.compile(
    r"\b(?:pthread_\w+|sched_\w+|clock_gettime|clock|timespec_get|nanosleep|usleep|aligned_alloc"
    r"|posix_memalign|mmap|madvise|syscall|sysconf|getenv|fork|dlopen|[A-Z]\w*SRW\w*)\s*\("
)
# Parts of Python that only Unix has. Attributes of `os` are asked for by hasattr, or in a branch that Windows
# does not take.
UNIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNIX_OS = {
    "cli/child_process.py": {"killpg"},
    "native/bundles/native_decoder.py": {"sched_getaffinity"},
    "native/io/files.py": {"chown", "geteuid", "getegid", "O_NOFOLLOW"},
    "native/io/forks.py": {"register_at_fork"},
    "native/io/progress.py": {"pread"},
}
UNIX_NAMES = re.compile(
    r"fork|forkpty|register_at_fork|sched_\w+|get[erp]*[ug]id|get[ps]?gid|setsid|killpg|pread|pwrite"
    r"|p?readv|chown|lchown|fchown|fchmod|mkfifo|posix_\w+|O_NOFOLLOW|O_NONBLOCK|O_DIRECTORY"
    r"|wait\w*|WNOHANG|sysconf|statvfs|fstatvfs|getloadavg|nice|set_blocking|lockf|sendfile|uname"
)
TARGETS = {"x86_64-windows-gnu": "dll", "aarch64-macos.11.0": "dylib", "x86_64-macos.11.0": "dylib"}
every_target = pytest.mark.parametrize("target", TARGETS)


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_kernel_includes_no_header_that_a_system_lacks():
    """The list is short, so that a file that asks for more is a decision."""
    found = {path.name: set(re.findall(r"#include <(.+)>", without_comments(path)))
             for path in build.sources()}  # fmt: skip
    foreign = {name: {header for header in headers if Path(header).stem not in STANDARD
                      or "/" in header} for name, headers in found.items()}  # fmt: skip
    assert {name: headers for name, headers in foreign.items() if headers} == OTHERS


def test_only_one_file_of_the_kernel_asks_the_system():
    for path in build.sources():
        if path.name != "system.c":
            calls = ONLY_SYSTEM.findall(without_comments(path))
            assert calls == (["syscall("] if path.name == "dispatch.c" else []), path.name


def of_the_light_installation():
    verbs = {f"{module_of(verb)}.py" for verb in TRANSLATING}
    parts = ("main", "command", "reporting", "jobs", "parser", "distribution", "child_process")
    verbs |= {f"{name}.py" for name in parts}
    yield from (PACKAGE / "cli" / name for name in sorted(verbs))
    yield from sorted((PACKAGE / "native").rglob("*.py"))


def test_python_needs_no_module_of_unix():
    """An import of one may fail without an error."""
    used = {}
    for path in of_the_light_installation():
        text = path.read_text(encoding="utf-8")
        if not re.search(rf"\bos\.|import (?:{'|'.join(UNIX_MODULES)})\b", text):
            continue
        tree = ast.parse(text)
        tried = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.Try)
            and any(getattr(handler.type, "id", "") == "ImportError" for handler in node.handlers)
            for part in node.body
        }
        for node in ast.walk(tree):
            names = (
                {alias.name for alias in node.names}
                if isinstance(node, ast.Import)
                else {node.module}
                if isinstance(node, ast.ImportFrom) and not node.level
                else set()
            )
            assert not names & UNIX_MODULES or id(node) in tried, (path, names)
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "os"
                and UNIX_NAMES.fullmatch(node.attr)
            ):
                used.setdefault(path.relative_to(PACKAGE).as_posix(), set()).add(node.attr)
    assert used == UNIX_OS


# ---------------------------------------------------------------- files, as Windows has them


@pytest.fixture
def windows(monkeypatch):
    """Renames no open file, as Windows does, and opens no folder."""
    original_replace, original_open = os.replace, os.open

    def is_open(path):
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return os.path.realpath(path) in {os.path.realpath(link) for link in links}

    def replace(source, target):
        if is_open(source) or is_open(target):
            raise PermissionError(13, "used by another process", str(source))
        original_replace(source, target)

    def no_folder(path, *arguments, **named):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return original_open(path, *arguments, **named)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs Linux's list of open files")
    monkeypatch.setattr(files, "WINDOWS", True)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "open", no_folder)


def test_files_are_closed_before_they_are_renamed(windows, tmp_path, monkeypatch):
    for text in ("one\n", "two\n"):
        files.write_text(tmp_path / "a", text)
        assert (tmp_path / "a").read_bytes() == text.encode()
    with pytest.raises(ZeroDivisionError), files.replacing(tmp_path / "a"):
        raise ZeroDivisionError
    assert files.write_new(tmp_path / "b", "b") and not files.write_new(tmp_path / "b", "c")

    def no_links(*unused):
        raise OSError(1, "no links")

    monkeypatch.setattr(os, "link", no_links)
    assert files.write_new(tmp_path / "c", "c")
    with ResumableOutput(tmp_path / "d", {}) as output:
        output.append([b"line\n"], b"line\n")
        output.finish()
        output.forget()
    with files.new_folder(tmp_path / "e") as folder:
        (folder / "f").write_text("f")
        folder.rename(tmp_path / "e")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "d", "e"]
    assert (tmp_path / "a").read_bytes() == b"two\n" and (tmp_path / "d").read_bytes() == b"line\n"


def test_one_process_serves_on_windows(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(serve, "WINDOWS", True)
    with pytest.raises(SystemExit):
        serve.main([str(tmp_path), "--workers", "3"])
    told = "--workers 3: on Windows one process answers; give --threads instead"
    assert capsys.readouterr().err == f"error: {told}\n"


def test_windows_watches_few_sockets(monkeypatch, caplog):
    monkeypatch.setattr(process, "WINDOWS", True)
    monkeypatch.setattr(process, "resource", None)
    assert process.connections_within_limits(100) == 100 and not caplog.messages
    assert process.connections_within_limits(1000) == 448
    (told,) = caplog.messages
    assert told.endswith("a process watches 512 sockets, so it takes 448 connections")


# ---------------------------------------------------------------- zig's compiler


def zig(target):
    if not importlib.util.find_spec("ziglang"):
        pytest.skip("needs the package ziglang")
    return [sys.executable, "-m", "ziglang", "cc", "-target", target]


@every_target
def test_what_asks_the_system_compiles_for_others(target, tmp_path):
    names = ["system.c", "threads.c", "team.c", "memory.c", "dispatch.c"]
    flags = [flag for flag in build.FLAGS if flag not in build.NOT_ON_WINDOWS]
    for name in names:
        subprocess.run(
            [*zig(target), *flags, "-O0", "-Wall", "-Wextra", "-Werror", "-c", build.KERNEL / name],
            check=True, cwd=tmp_path,
        )  # fmt: skip
    assert len(os.listdir(tmp_path)) == len(names)


@pytest.mark.slow
@every_target
def test_a_library_for_another_system(target, tmp_path):
    """Objects are kept, as those of the kernel of this machine are: the first time takes minutes.
    Windows' is run where wine is installed, every instruction set against the portable one."""
    command, objects = zig(target), build.HERE.parents[2] / build.OBJECTS
    name = build.library_name(build.target(command).system)
    built = build.compile_library(tmp_path / name, objects=objects, command=command)
    data = built.library.read_bytes()
    assert name.endswith(TARGETS[target]) and not built.left_out
    assert b"fh_fingerprint=" + build.fingerprint().encode() in data and b"fh_decode" in data
    if target.endswith("-windows-gnu"):
        header = struct.unpack_from("<I", data, 0x3C)[0]
        assert data[header : header + 6] == b"PE\0\0\x64\x86"
        run_under_wine(command, built, tmp_path)
    else:
        magic, family, _, kind, commands, _, _, _ = struct.unpack_from("<8I", data)
        processor = {"x86_64": 7, "aarch64": 12}[built.target.machine] | 0x1000000
        assert (magic, family, kind) == (0xFEEDFACF, processor, 6)
        loads, place = set(), 32
        for _ in range(commands):
            command_kind, size = struct.unpack_from("<2I", data, place)
            loads.add(command_kind)
            place += size
        # Macs with ARM processors load nothing without a signature.
        assert 0x1D in loads or built.target.machine == "x86_64"


def run_under_wine(command, built, tmp_path):
    """The driver of the operations, linked with the library."""
    if not shutil.which("wine"):
        pytest.skip("needs wine")
    driver = Path(__file__).with_name("operations_driver.c")
    flags = [flag for flag in build.FLAGS if flag not in build.NOT_ON_WINDOWS]
    subprocess.run(
        [
            *command,
            *flags,
            "-I",
            build.KERNEL,
            driver,
            built.library,
            "-o",
            tmp_path / "driver.exe",
        ],
        check=True,
    )
    finished = subprocess.run(
        ["wine", tmp_path / "driver.exe", "1", "60"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.split()[-1] == "plain" and len(finished.stdout.split()) > 1
