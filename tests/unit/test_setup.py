"""What setup.py makes of a kernel that was compiled for another processor, and without a
compiler."""

import runpy
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.errors import SetupError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("machine", "system", "tag"),
    [
        ("x86_64", "linux", "linux_x86_64"),
        ("aarch64", "linux", "linux_aarch64"),
        ("aarch64", "darwin", "macosx_11_0_arm64"),
        ("x86_64", "win32", "win_amd64"),
    ],
)
def test_a_wheel_is_tagged_as_its_kernel(monkeypatch, tmp_path, machine, system, tag):
    """Otherwise pip would install a library on machines that cannot run it."""
    commands = runpy.run_path(str(ROOT / "setup.py"), run_name="commands")
    loaded = commands["kernel_build"]()

    def built(folder, objects, only_here):
        assert not only_here, "a wheel may go to another machine"
        return loaded.Built(
            folder / loaded.library_name(system),
            compiler="cc",
            target=loaded.Target(machine, system),
            instruction_sets=["plain"],
        )

    monkeypatch.setattr(loaded, "build", built)
    monkeypatch.setitem(commands["Build"].run.__globals__, "kernel_build", lambda: loaded)
    distribution = Distribution(
        {
            "name": "fairseq_hrt",
            "packages": [],
            "cmdclass": {"build_py": commands["Build"], "bdist_wheel": commands["Wheel"]},
        }
    )
    build_py = distribution.get_command_obj("build_py")
    build_py.build_lib = str(tmp_path)
    wheel = distribution.get_command_obj("bdist_wheel")
    wheel.ensure_finalized()
    assert wheel.get_tag() == ("py3", "none", "any"), "nothing was compiled yet"
    distribution.run_command("build_py")
    assert wheel.get_tag() == ("py3", "none", tag)
    name = loaded.library_name(system)
    assert any(file.endswith(name) for file in build_py.get_outputs())


@pytest.mark.parametrize("editable, chosen, only_here", [
    (False, None, False), (True, None, True), (False, "here", True), (True, "all", False),
    (False, "mine", "FAIRSEQ_HRT_KERNEL_FOR=mine: give here"),
])  # fmt: skip
def test_for_which_processors_a_kernel_is_compiled(
    monkeypatch, tmp_path, editable, chosen, only_here
):
    commands = runpy.run_path(str(ROOT / "setup.py"), run_name="commands")
    loaded, asked = commands["kernel_build"](), []
    monkeypatch.setattr(
        loaded, "build", lambda *_, **given: asked.append(given["only_here"]) or loaded.Built(None)
    )
    monkeypatch.setitem(commands["Build"].run.__globals__, "kernel_build", lambda: loaded)
    monkeypatch.delenv("FAIRSEQ_HRT_KERNEL_FOR", raising=False)
    if chosen:
        monkeypatch.setenv("FAIRSEQ_HRT_KERNEL_FOR", chosen)
    distribution = Distribution({"packages": [], "cmdclass": {"build_py": commands["Build"]}})
    build_py = distribution.get_command_obj("build_py")
    build_py.build_lib, build_py.editable_mode = str(tmp_path), editable
    if isinstance(only_here, str):
        with pytest.raises(SetupError, match=only_here):
            distribution.run_command("build_py")
    else:
        distribution.run_command("build_py")
        assert asked == [only_here]


@pytest.mark.parametrize("only_translation", [False, True])
def test_without_a_compiler(monkeypatch, tmp_path, only_translation):
    """The plugin has PyTorch to translate with; the installation that has not is not made, with one
    line that tells why."""
    monkeypatch.setenv("CC", "/no/such/compiler")
    commands = runpy.run_path(str(ROOT / "setup.py"), run_name="commands")
    chosen = commands["setup_arguments"](only_translation=only_translation)["cmdclass"]
    distribution = Distribution({"name": "x", "packages": [], "cmdclass": chosen})
    distribution.get_command_obj("build_py").build_lib = str(tmp_path)
    (tmp_path / "fairseq_hrt" / "runtime").mkdir(parents=True)
    if not only_translation:
        distribution.run_command("build_py")
        return
    with pytest.raises(
        SetupError, match="no C compiler was found; fix: install a C compiler"
    ) as refused:
        distribution.run_command("build_py")
    assert "\n" not in str(refused.value)
