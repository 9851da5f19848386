"""The package in an environment of its own: normal and editable, and gone after uninstalling."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from imported_models import hugging_face_folder, marian_folder, sentencepiece_model
from native_bundles import with_runtime

from fairseq_hrt.native.bundles.native_bundle import MODEL
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.runtime import library
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
__all__ = ["hugging_face_folder", "marian_folder", "sentencepiece_model"]


# Looked for as a module, pip would make setuptools forget its distutils in this process.
RUNNER = Path(sysconfig.get_path("purelib"), "pip", "__pip-runner__.py")


def finished(*words, **given) -> "subprocess.CompletedProcess[str]":
    # Unit tests check the instruction sets of other processors, without making code of them.
    # Bytecode is written for nobody; pip's options with "no" are chosen by a false value.
    variables = {"FAIRSEQ_HRT_KERNEL_FOR": "here", "PIP_NO_COMPILE": "0"}
    done = subprocess.run(
        [*map(str, words)], env={**os.environ, **variables}, capture_output=True, text=True, **given
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def install(python, *arguments) -> None:
    """With this environment's pip, as ``pip --python`` starts it, and nothing from elsewhere."""
    local = ["--disable-pip-version-check", "install", "--no-index", "--no-build-isolation"]
    finished(python, RUNNER, *local, *arguments)


def uninstall(python, name) -> None:
    finished(python, RUNNER, "--disable-pip-version-check", "uninstall", "--yes", name)


def built(sources, place, *kinds) -> Path:
    """The wheel of sources in the folder ``place``, by what pip asks of setuptools; ``kinds``:
    sdist, too."""
    calls = "".join(f"build_meta.build_{kind}({str(place)!r});" for kind in ("wheel", *kinds))
    finished(
        sys.executable, "-c", f"from setuptools import build_meta; {calls}", cwd=sources
    )  # fmt: skip
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.fixture(autouse=True)
def _only_what_is_installed(monkeypatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of what is built: building leaves files behind."""
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
def distributions(sources, tmp_path_factory) -> Path:
    """A folder with the wheel and the sources as a file."""
    folder = tmp_path_factory.mktemp("distributions")
    built(sources, folder, "sdist")
    return folder


@pytest.fixture(scope="module")
def wheel(distributions) -> Path:
    return next(distributions.glob("*.whl"))


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
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(finished(python, "-I", "-c", program).stdout.strip())


def assert_gone(python: Path, cwd: Path) -> None:
    """An interpreter starts in silence, has neither the package nor what waits for fairseq."""
    assert not (site_packages(python) / STARTUP).exists()
    program = (
        "import sys; print([f for f in sys.meta_path if 'Repair' in str(f)]); import fairseq_hrt"
    )
    end = subprocess.run([python, "-c", program], cwd=cwd, capture_output=True, text=True)
    assert end.stdout == "[]\n" and end.stderr.startswith("Traceback")
    assert "No module named 'fairseq_hrt'" in end.stderr.splitlines()[-1]


def test_install_and_uninstall(wheel, environment, tmp_path):
    # The wheel is what pip would build of the sources.
    install(environment, "--no-deps", wheel)
    assert (site_packages(environment) / STARTUP).is_file()
    package = site_packages(environment) / "fairseq_hrt"
    kernel = package / "native" / "runtime" / LIBRARY
    assert kernel.is_file() == (compiler() is not None)
    # Whatever is called fairseq wakes the startup line, before anything of this package.
    (tmp_path / "fairseq.py").touch()
    program = "import fairseq, sys; print(sys.modules['fairseq_hrt.compat'].__file__)"
    found = finished(environment, "-c", program, cwd=tmp_path).stdout.strip()
    assert found == str(package / "compat" / "__init__.py")
    program = (
        "from fairseq_hrt.native.runtime import library; print(*library.describe(), sep='\\n')"
    )
    described = finished(environment, "-c", program, cwd=package.parent).stdout.splitlines()
    assert f"kernel         {kernel}" in described or compiler() is None
    assert finished(environment.with_name("fairseq-hrt"), "--version").stdout.startswith(
        "fairseq_hrt "
    )
    uninstall(environment, "fairseq_hrt")
    assert not kernel.parent.exists()
    assert_gone(environment, tmp_path)


def test_editable_install_and_uninstall(sources, environment, tmp_path):
    """Whatever is called fairseq wakes the startup line, which finds the tree."""
    kernel = sources / "fairseq_hrt" / "native" / "runtime" / LIBRARY
    kernel.unlink(missing_ok=True)
    install(environment, "--no-deps", "--editable", sources)
    assert kernel.is_file() == (compiler() is not None)
    (tmp_path / "fairseq.py").touch()
    program = (
        "import fairseq, importlib.util, sys; print(sys.modules['fairseq_hrt.compat'].__file__,"
        " importlib.util.find_spec('fairseq_hrt').origin)"
    )
    found = finished(environment, "-c", program, cwd=tmp_path).stdout.split()
    package = sources / "fairseq_hrt"
    assert found == [str(package / "compat" / "__init__.py"), str(package / "__init__.py")]
    uninstall(environment, "fairseq_hrt")
    assert kernel.is_file() == (compiler() is not None)
    assert_gone(environment, tmp_path)


def test_without_a_compiler(sources, tmp_path, monkeypatch):
    """The wheel holds everything but the runtime; what an earlier build with a compiler left behind
    is not in it."""
    stale = sources / "fairseq_hrt" / "native" / "runtime" / LIBRARY
    stale.write_bytes(b"of an earlier build")
    monkeypatch.setenv("CC", "/no/such/compiler")
    wheel = built(sources, tmp_path)
    stale.unlink()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not any(LIBRARY in name for name in archive.namelist())
        archive.extractall(tmp_path)
    place = tmp_path / "fairseq_hrt" / "native" / "runtime"
    installed = functools.partial(library.open_library, place, place / "kernel")
    monkeypatch.setattr(library, "load_library", installed)
    told = "no C compiler was found when the package was installed; fix: install gcc or clang"
    assert told in "".join(library.describe())


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_sources_and_wheels_hold_the_kernel(sources, wheel, distributions):
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
    modules = {str(path.relative_to(sources)) for path in sources.glob("fairseq_hrt/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        held = {Path(name).name for name in archive.getnames()}
    assert {
        path.name for path in (sources / "fairseq_hrt" / "native" / "runtime" / "kernel").iterdir()
    } <= held


def bring(name, packages):
    """Installs what is in this environment, as it is, with its bytecode: pip finds it there."""
    for file in importlib.metadata.files(name):
        if ".." in file.parts:
            continue
        found = file.locate()
        compiled = Path(importlib.util.cache_from_source(found))
        for one in (found, compiled) if file.suffix == ".py" else (found,):
            if one.is_file():
                place = packages / file.parent / one.relative_to(found.parent)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(one, place)


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_an_installation_that_only_translates(
    sources, tmp_path, marian_folder, hugging_face_folder
):
    """In an empty environment, with NumPy, safetensors and nothing else, within 130 MB; with two
    more packages it imports models."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    packages = site_packages(python)
    wheel = built(sources / "examples" / "translate_only", tmp_path)
    for name in ("numpy", "safetensors"):
        bring(name, packages)
    install(python, wheel)
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if "METADATA" in name))
    needed = re.findall(r"^Requires-Dist: (\w+)[^;\n]*$", metadata.decode(), re.M)
    importing = re.findall(r'^Requires-Dist: (\w+).*extra == "import"$', metadata.decode(), re.M)
    assert needed == ["numpy", "safetensors"] and not (packages / STARTUP).exists()
    assert sorted(importing) == ["PyYAML", "sentencepiece"]
    assert (
        sum(
            path.stat().st_size
            for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
        )
        < 130e6
    )
    with_runtime(tmp_path / "bundle", "hrt")
    lines = ["a b", "", "b a"]

    def command(*arguments):
        return subprocess.run(
            [folder / "bin" / "fairseq-hrt", *arguments],
            cwd=tmp_path,
            input="".join(f"{line}\n" for line in lines),
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

    for name in importing:
        bring(name, packages)
    imported = command("import", source, "--output", "imported")
    assert imported.returncode == 0 and "the native engine's model alone" in imported.stdout, (
        imported.stderr
    )
    import_model(source, tmp_path / "whole", Wishes(runtime="int8"))
    assert (tmp_path / "imported" / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()
    expected = from_pretrained(tmp_path / "whole", engine="native").translate(lines)
    assert command("translate", "imported").stdout.split("\n") == [*expected, ""]
    assert any(expected)
    # As many models of OPUS-MT are stored: by PyTorch, before its version 1.6.
    stored = hugging_face_folder("marian", "stored")
    (stored.path / "model.safetensors").unlink()
    weights = {name: torch.from_numpy(value) for name, value in stored.tensors.items()}
    path = stored.path / "pytorch_model.bin"
    torch.save(weights, path, _use_new_zipfile_serialization=False)
    assert command("import", stored.path, "--output", "without").returncode == 0
    import_model(stored.path, tmp_path / "with", Wishes(runtime="int8"))
    assert (tmp_path / "without" / MODEL).read_bytes() == (tmp_path / "with" / MODEL).read_bytes()
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
