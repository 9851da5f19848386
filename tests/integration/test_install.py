"""The package in an environment of its own: normal and editable, and gone after uninstalling."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from imported_models import marian_folder, sentencepiece_model
from native_bundles import with_runtime

from fairseq_hrt.native.bundles.native_bundle import MODEL
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.runtime.build import (
    LIBRARY,
    OBJECTS,
    REPORT,
    compiler,
    platform_tag,
    target,
)

ROOT = Path(__file__).resolve().parents[2]
STARTUP = "fairseq_hrt_startup.pth"

pytestmark = pytest.mark.slow
# Fixtures of the unit tests.
__all__ = ["marian_folder", "sentencepiece_model"]


def pip(*arguments, **variables) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
        # Unit tests check the instruction sets of other processors, without making code of them.
        # Bytecode is written for nobody; pip's options with "no" are chosen by a false value.
        env={**os.environ, "FAIRSEQ_HRT_KERNEL_FOR": "here", "PIP_NO_COMPILE": "0", **variables},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def built_wheel(sources, place, **variables) -> Path:
    """The wheel of sources, in the folder ``place``."""
    pip(
        "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, sources, **variables
    )  # fmt: skip
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.fixture(autouse=True)
def _only_what_is_installed(monkeypatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of what is built: building leaves files behind."""
    import shutil

    folder = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__", LIBRARY, REPORT)
    shutil.copytree(ROOT / "fairseq_hrt", folder / "fairseq_hrt", ignore=ignore)
    light = Path("examples", "translate_only")
    shutil.copytree(
        ROOT / light, folder / light, ignore=shutil.ignore_patterns("build", "*.egg-info")
    )
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder)
    if (ROOT / OBJECTS).is_dir():
        # named by all that they depend on; compiling takes longer than the rest of these tests
        shutil.copytree(ROOT / OBJECTS, folder / OBJECTS)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory) -> Path:
    return built_wheel(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment(tmp_path) -> Path:
    """An interpreter that sees fairseq and torch, but no startup line of this environment."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # a path line adds the directory without running the .pth files in it
    (site_packages(python) / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def site_packages(python: Path) -> Path:
    output = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    return Path(output.strip())


def imports(name: str, python: Path, cwd: Path) -> str:
    """'' if a package can be imported by this interpreter, its last line of complaint if not."""
    finished = subprocess.run(
        [python, "-c", f"import {name}"], cwd=cwd, capture_output=True, text=True
    )
    return "" if finished.returncode == 0 else finished.stderr.splitlines()[-1]


@pytest.mark.parametrize("editable", [False, True], ids=["normal", "editable"])
def test_install_and_uninstall(sources, wheel, environment, tmp_path, editable):
    install = ["--python", environment, "install", "--no-deps", "--no-build-isolation"]
    # The wheel is what pip would build of the sources.
    pip(*install, *(["--editable", sources] if editable else [wheel]))
    assert (site_packages(environment) / STARTUP).is_file()
    # The startup line alone lets fairseq be imported: before anything of this package is.
    program = "import fairseq, runpy; runpy.run_module('fairseq_hrt', run_name='__main__')"
    doctor = subprocess.run(
        [environment, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    where = sources if editable else site_packages(environment)
    assert str(where / "fairseq_hrt") in doctor.stdout
    kernel = where / "fairseq_hrt" / "native" / "runtime" / LIBRARY
    assert kernel.is_file() == (compiler() is not None)
    assert f"kernel         {kernel}" in doctor.stdout or compiler() is None

    pip("--python", environment, "uninstall", "--yes", "fairseq_hrt")
    assert editable or not kernel.parent.exists()
    assert not (site_packages(environment) / STARTUP).exists()
    assert "No module named" in imports("fairseq_hrt", environment, tmp_path)
    if not editable and sys.version_info >= (3, 11):
        assert "mutable default" in imports("fairseq", environment, tmp_path)
    silent = subprocess.run([environment, "-c", "pass"], capture_output=True, text=True)
    assert silent.stdout + silent.stderr == ""


def test_without_a_compiler(sources, environment, tmp_path):
    """Everything but the runtime is installed; what an earlier build with a compiler left behind is
    not."""
    stale = sources / "fairseq_hrt" / "native" / "runtime" / LIBRARY
    stale.write_bytes(b"of an earlier build")
    wheel = built_wheel(sources, tmp_path, CC="/no/such/compiler")
    stale.unlink()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not any(LIBRARY in name for name in archive.namelist())
    pip("--python", environment, "install", "--no-deps", wheel)
    doctor = subprocess.run(
        [environment, "-m", "fairseq_hrt"], cwd=tmp_path, capture_output=True, text=True
    )
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert (
        "no C compiler was found when the package was installed; fix: install gcc or clang"
        in doctor.stdout
    )


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_sources_and_wheels_hold_the_kernel(sources, wheel, tmp_path):
    assert wheel.name.endswith(f"-py3-none-{platform_tag(target(compiler()))}.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert f"fairseq_hrt/native/runtime/{LIBRARY},sha256=" in record
    assert "fairseq_hrt/py.typed" in names and not [name for name in names if name.endswith(".md")]
    assert (
        "Description-Content-Type: text/markdown" in metadata
        and (ROOT / "README.md").read_text().splitlines()[0] in metadata
    )
    # Raw text is translated without any extra.
    assert {"Requires-Dist: subword-nmt==0.3.8", "Provides-Extra: all"} <= set(
        metadata.splitlines()
    )
    assert not [name for name in names if name.endswith((".c", ".h"))]
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)],
        cwd=sources,
        check=True,
    )
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {Path(name).name for name in archive.getnames()}
    assert {
        path.name for path in (sources / "fairseq_hrt" / "native" / "runtime" / "kernel").iterdir()
    } <= held


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_an_installation_that_only_translates(sources, tmp_path, marian_folder):
    """In an empty environment, with NumPy, safetensors and nothing else, within 130 MB; with two
    more packages it imports models."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    wheel = built_wheel(sources / "examples" / "translate_only", tmp_path)
    pip("--python", python, "install", wheel)
    packages = site_packages(python)
    installed = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert installed == {"fairseq_hrt_translate", "numpy", "safetensors"}
    assert not (packages / STARTUP).exists()
    assert (
        sum(
            path.stat().st_size
            for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink()
        )
        < 130e6
    )
    with_runtime(tmp_path / "bundle", "hrt")
    lines = "".join(f"{line}\n" for line in ("a b", "", "b a"))

    def command(*arguments):
        return subprocess.run(
            [folder / "bin" / "fairseq-hrt", *arguments],
            cwd=tmp_path,
            input=lines,
            capture_output=True,
            text=True,
        )

    translated = command("translate", "bundle")
    assert translated.returncode == 0 and translated.stdout.count("\n") == 3, translated.stderr
    assert "No problem found." in command("doctor").stdout
    source = marian_folder(int8=True).path
    for arguments, message in (
        (["bundle", "model.pt", "--data", "data", "--output", "other"], "only translates"),
        (["import", source, "--output", "imported"], "pip install PyYAML"),
        (["--options"], "only translates"),
    ):
        refused = command(*arguments)
        assert (
            refused.returncode == 2
            and refused.stderr.count("\n") == 1
            and message in refused.stderr
        )

    pip("--python", python, "install", f"{wheel}[import]")
    imported = command("import", source, "--output", "imported")
    assert imported.returncode == 0 and "the native engine's model alone" in imported.stdout, (
        imported.stderr
    )
    import_model(source, tmp_path / "whole", Wishes(runtime="int8"))
    assert (tmp_path / "imported" / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()
    assert command("translate", "imported").stdout == command("translate", "whole").stdout != ""
    refused = command("translate", "imported", "--engine", "torch")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr


def test_startup_line_that_was_left_behind_is_silent(wheel, environment, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(STARTUP, site_packages(environment))
        record = archive.read(
            next(name for name in archive.namelist() if name.endswith("/RECORD"))
        ).decode()
    assert f"\n{STARTUP},sha256=" in "\n" + record
    finished = subprocess.run(
        [environment, "-c", "import this_is_missing"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "No module named 'this_is_missing'" in finished.stderr
    assert "fairseq" not in finished.stderr
    (tmp_path / "fairseq.py").write_text("stock = True")
    finished = subprocess.run(
        [environment, "-c", "import fairseq; print(fairseq.stock)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (finished.stdout.strip(), finished.stderr) == ("True", "")


def test_startup_line_is_one_line(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(STARTUP).decode()
    assert text.startswith("import ") and text.count("\n") == 1
