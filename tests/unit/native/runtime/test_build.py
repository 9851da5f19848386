"""Building the kernel: with any compiler, with none, and again only where something has changed."""

import graphlib
import json
import os
import platform
import re
import sys

import pytest
from small_kernel import built

from fairseq_hrt.native.runtime import build, library

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")


@needs_compiler
def test_a_failed_build_leaves_no_library_behind(small, tmp_path):
    assert built(small, tmp_path).library
    (small[1] / "broken.c").write_text("int broken(void) { return missing; }\n")
    result = built(small, tmp_path)
    assert (
        result.library is None
        and "broken.c does not compile" in result.reason
        and "missing" in result.reason
    )
    assert sorted(os.listdir(small[0])) == [build.REPORT]
    with pytest.raises(library.LibraryUnavailable, match="broken.c does not compile"):
        library.open_library(*small)


def test_without_a_compiler(small, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "/no/such/compiler")
    result = built(small, tmp_path)
    assert result.library is None and result.reason == "no C compiler was found"
    with pytest.raises(
        library.LibraryUnavailable,
        match="no C compiler was found when the package was installed; fix: install gcc or clang",
    ):
        library.open_library(*small)


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="about flags of x86")
def test_an_instruction_set_that_the_compiler_does_not_know_is_left_out(
    small, tmp_path, monkeypatch
):
    wrapper = tmp_path / "cc"
    compiler = " ".join(build.compiler())
    wrapper.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = -mavxvnni ] && exit 1; done\nexec {compiler} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    (small[1] / "operations_avx_vnni.c").write_text("#error not to be compiled\n")
    result = built(small, tmp_path)
    assert result.library and list(result.left_out) == ["avx_vnni"]
    assert json.loads((small[0] / build.REPORT).read_text())["left_out"] == ["avx_vnni"]
    # Nor can it tell that this processor lacks them.
    result = built(small, tmp_path, only_here=True)
    assert list(result.left_out) == ["avx_vnni"] and "avx_vnni" not in result.not_here


@needs_compiler
def test_files_for_other_processors_are_right(kernel):
    """Those that this machine can run are compiled and run by other tests; code is made of all for
    a wheel."""
    command = build.compiler()
    for name in build.instruction_sets(build.target(command).machine):
        flags = build.instruction_set_flags(command, name)
        assert flags, name
        if name in library.instruction_sets(kernel).usable:
            continue
        file = build.KERNEL / f"operations_{name}.c"
        assert not build._run([*command, *build.FLAGS, *flags, "-fsyntax-only", str(file)])


def test_the_fingerprint_is_that_of_names_and_contents(tmp_path):
    assert build.fingerprint(tmp_path) == "" == build.fingerprint(tmp_path / "nothing")
    (tmp_path / "a.c").write_text("int a;")
    (tmp_path / "b.h").write_text("int b;")
    first = build.fingerprint(tmp_path)
    assert len(first) == 16 and int(first, 16) >= 0
    (tmp_path / "notes.txt").write_text("no source")
    assert build.fingerprint(tmp_path) == first and [
        path.name for path in build.sources(tmp_path)
    ] == ["a.c", "b.h"]
    found = {first}
    for name, text in (("a.c", "int c;"), ("b.h", "int b; "), ("d.c", "")):
        (tmp_path / name).write_text(text)
        found.add(build.fingerprint(tmp_path))
    (tmp_path / "d.c").rename(tmp_path / "e.c")
    assert len(found | {build.fingerprint(tmp_path)}) == 5


def test_the_compiler(tmp_path, monkeypatch):
    for name in ("gcc", "clang", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert build.compiler() == ["gcc"]
    monkeypatch.setenv("CC", " mine '-I/a b' -O1 ")
    assert build.compiler() == ["mine", "-I/a b", "-O1"]
    # What was chosen and is not there is not replaced by another.
    monkeypatch.setenv("CC", "yours")
    assert build.compiler() is None
    # Without any, a package may have one.
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build, "_run", lambda command: "" if "ziglang" in command else "no such")
    assert build.compiler()[1:] == ["-I", "-m", "ziglang", "cc", "-mcpu=baseline"]
    monkeypatch.setattr(build, "_run", lambda command: "No module named ziglang")
    assert build.compiler() is None


def test_processor_families():
    assert (
        build.instruction_sets("AMD64")
        == build.instruction_sets("x86_64")
        == ["amx_int8", "avx512_vnni", "avx_vnni", "avx2"]
    )
    assert build.instruction_sets("arm64") == build.instruction_sets("aarch64") == ["neon_dotprod"]
    assert build.instruction_sets("riscv64") == []
    assert {
        name for machine in ("x86_64", "arm64") for name in build.instruction_sets(machine)
    } == set(build.INSTRUCTION_SETS)


@needs_compiler
def test_only_what_has_changed_is_compiled_again(small, tmp_path):
    (small[1] / "other.c").write_text("int other(void) { return 1; }\n")

    def objects():
        result = build.build(small[0], kernel=small[1], objects=tmp_path / "objects")
        assert result.library, result.reason
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "objects").iterdir()}

    first = objects()
    assert objects() == first and all(name.endswith(".o") for name in first)
    (small[1] / "other.c").write_text("int other(void) { return 2; }\n")
    # The file itself, and the one that carries the fingerprint of all.
    new = set(objects()) - set(first)
    assert sorted(name.split("-")[0] for name in new) == ["dispatch", "other"]


def test_a_tree_without_sources(monkeypatch, capsys):
    monkeypatch.setattr(build, "sources", lambda: [])
    assert build.main() == 1 and "install fairseq_hrt again" in capsys.readouterr().err


def test_the_command_says_what_came_of_it(monkeypatch, capsys, tmp_path):
    for result, status, text in (
        (build.Built(None, "broken.c … error"), 1, "not built: broken.c … error\n"),
        (
            build.Built(tmp_path / "lib.so", instruction_sets=["avx2", "plain"]),
            0,
            f"{tmp_path / 'lib.so'}: avx2, plain\n",
        ),
    ):
        monkeypatch.setattr(build, "build", lambda result=result, **given: result)
        assert build.main() == status and "".join(capsys.readouterr()) == text


def cross_compiler(folder, macro, spelling):
    """Claims to compile for another processor; takes one spelling of an instruction set's flags
    and leaves out flags of processors."""
    wrapper = folder / "cross-cc"
    wrapper.write_text(f"""#!/bin/sh
case " $* " in *" -dM "*) echo "#define {macro} 1"; exit 0;; esac
for word; do
    shift
    case $word in
    {spelling}) ;;
    -march=* | -mcpu=*) echo "unknown processor $word"; exit 1;;
    *) set -- "$@" "$word";;
    esac
done
exec {" ".join(build.compiler())} "$@"
""")
    wrapper.chmod(0o755)
    return str(wrapper)


@needs_compiler
@pytest.mark.parametrize("spelling", ["-march=armv8.2-a+dotprod", "-mcpu=generic+v8_2a+dotprod"])
def test_instruction_sets_are_those_of_the_target(small, tmp_path, monkeypatch, spelling):
    """What the compiler compiles for decides, not the machine that it runs on; and it may spell its
    flags as zig does."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("CC", cross_compiler(tmp_path, "__aarch64__", spelling))
    result = built(small, tmp_path)
    assert (result.target.machine, list(result.instruction_sets)) == (
        "aarch64",
        ["neon_dotprod", "plain"],
    ), result.reason
    assert json.loads((small[0] / build.REPORT).read_text())["target"][:2] == [
        "aarch64", sys.platform,
    ]  # fmt: skip


@needs_compiler
def test_a_target_that_is_not_known_is_taken_for_this_machine(tmp_path):
    for command in ([cross_compiler(tmp_path, "__riscv", "none")], ["/no/such/compiler"]):
        assert build.target(command)[:2] == (platform.machine(), sys.platform)
    here = build.target(build.compiler())
    assert here.system == sys.platform
    assert build.instruction_sets(here.machine) == build.instruction_sets(platform.machine())


def compiler_with(folder, *macros):
    """Only tells what it compiles for."""
    wrapper = folder / "telling-cc"
    lines = "".join(f"echo '#define {macro}'\n" for macro in macros)
    wrapper.write_text(f"#!/bin/sh\n{lines}")
    wrapper.chmod(0o755)
    return [str(wrapper)]


def test_what_this_processor_lacks(tmp_path, monkeypatch):
    """A source tree's library is for where it is, so what only other processors run is not
    compiled."""
    macros = ["__x86_64__ 1", "__linux__ 1", "__AVX2__ 1", "__AVX512VNNI__ 1", "__AVX512F__ 1"]
    command = compiler_with(tmp_path, *macros)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert build.lacking_here(command) == ["amx_int8", "avx_vnni"]
    assert build.lacking_here(["/no/such/compiler"]) == [], "it does not tell"
    # Another machine may lack others.
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert build.lacking_here(command) == []


@needs_compiler
def test_a_library_for_this_processor_alone(small, tmp_path, monkeypatch, kernel):
    lacking = build.lacking_here(build.compiler())
    assert not set(lacking) & set(library.instruction_sets(kernel).usable)
    for name in lacking:
        (small[1] / f"operations_{name}.c").write_text("#error not to be compiled\n")
    result = built(small, tmp_path, only_here=True)
    assert list(result.not_here) == lacking and not set(lacking) & set(result.instruction_sets)
    monkeypatch.setattr(library, "library_folder", lambda: small[0])
    (told,) = [line for line in library.describe() if "pip install ." in line] or [""]
    assert told == (
        f"left out       {', '.join(lacking)}: the processor that compiled lacks them; a wheel has"
        " all (pip install .)"
        if lacking
        else ""
    )


@pytest.mark.parametrize(
    ("macros", "library", "tag"),
    [
        (["_WIN32 1", "__x86_64__ 1", "__clang__ 1"], "libfairseq_hrt_runtime.dll", "win_amd64"),
        (["_WIN32 1", "__aarch64__ 1"], "libfairseq_hrt_runtime.dll", "win_arm64"),
        (["_WIN32 1", "__i386__ 1"], "libfairseq_hrt_runtime.dll", "win32"),
        (
            ["__APPLE__ 1", "__aarch64__ 1", f"{build._OLDEST_MACOS} 110000"],
            "libfairseq_hrt_runtime.dylib",
            "macosx_11_0_arm64",
        ),
        (
            ["__APPLE__ 1", "__x86_64__ 1", f"{build._OLDEST_MACOS} 150500"],
            "libfairseq_hrt_runtime.dylib",
            "macosx_15_0_x86_64",
        ),
        # A processor's first systems are not those of 10.9.
        (
            ["__APPLE__ 1", "__x86_64__ 1", f"{build._OLDEST_MACOS} 1090"],
            "libfairseq_hrt_runtime.dylib",
            "macosx_11_0_x86_64",
        ),
        (["__linux__ 1", "__aarch64__ 1"], "libfairseq_hrt_runtime.so", "linux_aarch64"),
    ],
)
def test_the_library_and_its_wheel_are_named_for_the_target(tmp_path, macros, library, tag):
    target = build.target(compiler_with(tmp_path, *macros))
    assert (build.library_name(target.system), build.platform_tag(target)) == (library, tag)


@needs_compiler
def test_what_windows_links_otherwise(small, tmp_path, monkeypatch):
    """Neither position-independent code nor the libraries of threads and mathematics, which clang
    for Windows refuses; and what a linker writes beside the library is removed."""
    wrapper, seen = tmp_path / "windows-cc", tmp_path / "seen"
    wrapper.write_text(f"""#!/bin/sh
case " $* " in *" -dM "*) echo "#define _WIN32 1"; echo "#define __clang__ 1"; exit 0;; esac
echo "$*" >> {seen}
case " $* " in *" -shared "*) for word; do case $word in */fairseq*|*/lib*.dll) echo x > $word.pdb;; esac; done;; esac
exec {" ".join(build.compiler())} "$@"
""")
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    result = built(small, tmp_path)
    assert result.library == small[0] / "libfairseq_hrt_runtime.dll", result.reason
    assert sorted(os.listdir(small[0])) == [build.REPORT, result.library.name]
    words = seen.read_text().split()
    assert "-std=c11" in words and "-shared" in words and not {*build.NOT_ON_WINDOWS} & {*words}


def test_gcc_for_windows_is_refused(small, tmp_path, monkeypatch):
    """Its code ends at the first vector that it has put on the stack."""
    told = compiler_with(tmp_path, "_WIN32 1", "__x86_64__ 1", "__GNUC__ 14")
    monkeypatch.setenv("CC", told[0])
    result = built(small, tmp_path)
    assert result.library is None and "gcc for Windows" in result.reason
    assert "set CC to clang, or install the package ziglang" in result.reason


def test_the_tag_of_a_wheel(monkeypatch):
    tag = build.platform_tag(build.Target(platform.machine(), sys.platform))
    assert "-" not in tag and "." not in tag and tag.endswith(platform.machine().replace("-", "_"))
    # As cross builds choose it, where the compiler does not tell.
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", "linux-riscv64")
    assert build.platform_tag(build.Target("riscv64", "linux")) == "linux_riscv64"


def test_files_of_the_kernel_need_each_other_in_one_direction():
    """By the functions that they define and name."""
    code = {
        path.name: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for path in build.KERNEL.glob("*.c")
    }
    home = {
        function: name
        for name, text in code.items()
        for function in re.findall(r"^[a-z][\w *]*\b(fh_\w+)\([^;{}]*\) {$", text, re.MULTILINE)
    }
    needed = {
        name: {home[word] for word in re.findall(r"\w+", text) if word in home} - {name}
        for name, text in code.items()
    }
    assert len(home) > 100 and any(needed.values())
    graphlib.TopologicalSorter(needed).prepare()
