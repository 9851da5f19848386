"""constraints.txt names one release of everything that is installed besides PyTorch, on every
Python, and what needs it agrees."""

import re
import runpy
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LINES = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
# As setup_env.sh installs them.
EXTRAS = ("examples", "test")


def markers(python, extra=""):
    # The first release of each Python is the one most easily left without a line.
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "extra": extra,
    }


def applies(requirement, python, extras=("",)):
    return requirement.marker is None or any(
        requirement.marker.evaluate(markers(python, extra)) for extra in extras
    )


def releases(python):
    """{name: release} for a Python."""
    chosen = [line for line in LINES if applies(line, python)]
    found = {
        canonicalize_name(line.name): re.fullmatch(r"==([\w.]+)", str(line.specifier))[1]
        for line in chosen
    }
    assert len(found) == len(chosen), "a name twice"
    return found


def wanted():
    arguments = runpy.run_path(str(ROOT / "setup.py"), run_name="requirements")["setup_arguments"]()
    lines = [
        *arguments["install_requires"],
        *(line for extra in EXTRAS for line in arguments["extras_require"][extra]),
    ]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != "torch"]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_what_setup_py_names_is_there_and_allowed(python):
    found = releases(python)
    for requirement in wanted():
        if applies(requirement, python):
            release = found.get(canonicalize_name(requirement.name))
            assert release and requirement.specifier.contains(release), f"{requirement}: {release}"


def test_what_these_need_is_there_too():
    """Everything reached from them in this environment, by the requirements of each, on this
    Python."""
    python = ".".join(map(str, sys.version_info[:2]))
    found, seen, open_ = releases(python), set(), wanted()
    while open_:
        requirement = open_.pop()
        key = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
        if key in seen or not applies(requirement, python):
            continue
        seen.add(key)
        release = found.get(key[0])
        assert release, f"{requirement} is not in constraints.txt"
        assert requirement.specifier.contains(release), f"{requirement}: {release}"
        needs = map(Requirement, metadata.requires(requirement.name) or ())
        open_ += [need for need in needs if applies(need, python, ("", *requirement.extras))]
    assert len(seen) > 40


def test_any_pytorch_may_be_chosen():
    """Neither it nor what only it needs: releases of PyTorch fix the release of SymPy, for
    example."""
    names = {canonicalize_name(line.name) for line in LINES}
    assert not names & {"torch", "triton", "sympy", "networkx", "filelock", "fsspec", "mpmath"}
    assert not [name for name in names if name.startswith("nvidia")]


def test_setup_env_installs_these():
    script = (ROOT / "examples" / "setup_env.sh").read_text(encoding="utf-8")
    assert 'install --no-build-isolation -e ".[$extras]" --constraint constraints.txt' in script
    chosen = [extras.split(",") for extras in re.findall(r" extras=(\S+) ;;", script)]
    assert chosen[1] == list(EXTRAS)
    # All that verbs and recipes need, of which the tests have everything.
    arguments = runpy.run_path(str(ROOT / "setup.py"), run_name="requirements")["setup_arguments"]()
    needed, tested = (
        {line for extra in extras for line in arguments["extras_require"][extra]}
        for extras in chosen
    )
    assert needed <= tested
    # Words of Chinese and Japanese, whose releases shape data, are installed by who has such text.
    others = {*arguments["extras_require"]["chinese"], *arguments["extras_require"]["japanese"]}
    assert needed == set(arguments["extras_require"]["all"]) - others
    # Another set of releases is another environment.
    assert "pyproject.toml constraints.txt" in script
    assert (ROOT / "constraints.txt").read_text(encoding="utf-8").count(
        f"--extra {' --extra '.join(EXTRAS)}"
    ) == 1
