"""Building the kernel, refusing one that must not be loaded, choosing an instruction set."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_kernel import built

from fairseq_hrt.cli import doctor
from fairseq_hrt.native.runtime import build, library

KERNEL = build.KERNEL
DRIVER = Path(__file__).with_name("operations_driver.c")


needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")


@needs_compiler
def test_the_library_carries_its_sources_fingerprint(small, tmp_path):
    result = built(small, tmp_path)
    assert result.library == small[0] / build.LIBRARY and "plain" in result.instruction_sets
    (small[1] / "new.h").write_text("/* a change */\n")
    with pytest.raises(
        library.LibraryUnavailable,
        match="out of date .* fix: python -m fairseq_hrt.native.runtime.build",
    ):
        library.open_library(*small)
    built(small, tmp_path)
    # The refused one must not have been loaded: the process would keep it.
    library.open_library(*small)
    # An installed wheel has no sources to compare with.
    shutil.rmtree(small[1])
    assert library.instruction_sets(library.open_library(*small)).chosen == "plain"


def test_a_library_that_was_never_built_or_is_none(tmp_path):
    with pytest.raises(library.LibraryUnavailable, match="it was never built; fix: "):
        library.open_library(tmp_path)
    (tmp_path / build.LIBRARY).write_bytes(b"not a library")
    with pytest.raises(library.LibraryUnavailable, match="out of date"):
        library.open_library(tmp_path)
    with pytest.raises(library.LibraryUnavailable, match="cannot be loaded .* fix: "):
        library.open_library(tmp_path, tmp_path / "no sources")


@needs_compiler
def test_a_library_of_another_kind_is_refused(small, tmp_path):
    (small[1] / "dispatch.c").write_text("int nothing;\n")
    assert built(small, tmp_path).library
    shutil.rmtree(small[1])
    with pytest.raises(library.LibraryUnavailable, match="cannot be loaded .*fh_choose"):
        library.open_library(*small)


def test_the_best_instruction_set_is_chosen(kernel, monkeypatch):
    monkeypatch.delenv(library.VARIABLE, raising=False)
    found = library.instruction_sets(kernel)
    assert found.chosen == found.usable[0] and found.usable[-1] == "plain"
    assert set(found.usable) <= set(found.compiled)
    # linux reports what it found, in its own words
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    if platform.machine() == "x86_64" and flags:
        there = {
            "avx512_vnni": {"avx512_vnni", "avx512bw", "avx512dq", "avx512vl"},
            "avx2": {"avx2", "fma"},
        }
        for name, needed in there.items():
            assert kernel.fh_usable(name.encode(), None, 0) == (needed <= set(flags))


def test_an_instruction_set_can_be_forced(kernel, monkeypatch):
    monkeypatch.setenv(library.VARIABLE, "plain")
    found = library.instruction_sets(kernel)
    assert (found.chosen, found.reason) == ("plain", f"{library.VARIABLE} is set")
    for wrong in ("avx1024", "neon_dotprod" if platform.machine() == "x86_64" else "avx2"):
        monkeypatch.setenv(library.VARIABLE, wrong)
        with pytest.raises(
            library.LibraryUnavailable, match=f"{library.VARIABLE}={wrong}: .* give one of: .*plain"
        ):
            library.instruction_sets(kernel)


def test_the_doctor_says_what_the_runtime_runs_on(kernel, monkeypatch):
    assert any(line.startswith("runs on") for line in doctor.examine().sections["Runtime"])
    monkeypatch.setenv(library.VARIABLE, "avx1024")
    assert "avx1024" in library.describe()[0]
    monkeypatch.setattr(library, "load_library", lambda: library.open_library(Path("/nowhere")))
    assert "never built" in library.describe()[0] and "--engine torch" in library.describe()[1]


def test_the_runtime_imports_numpy_alone():
    """Neither torch nor fairseq, whatever the package itself imports."""
    program = f"""
import importlib, pathlib, sys, types
folder = pathlib.Path({str(build.HERE)!r})
package = types.ModuleType("fairseq_hrt")
package.__path__ = [str(folder.parents[1])]
sys.modules["fairseq_hrt"] = package
for name in ("torch", "fairseq", "omegaconf", "hydra", "sacrebleu"):
    sys.modules[name] = None
for file in sorted(folder.glob("*.py")):
    importlib.import_module("fairseq_hrt.native.runtime" + ("" if file.stem == "__init__" else "." + file.stem))
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
