"""The workflows run what is in the repository, with pinned actions and no more permissions than
reading takes."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fairseq_hrt.native.runtime import build

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
# A step may run these besides scripts of the repository: programs of this environment or of the
# machine.
PROGRAMS = {"python", "source", "ruff", "mypy", "actionlint"}


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def project(folder):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow):
    """The words of every command line."""
    return [
        shlex.split(line) for step in steps(workflow) for line in step.get("run", "").splitlines()
    ]


def _numbers(release):
    return [int(part) for part in release.split(".")]


def test_there_are_workflows_for_tests_and_wheels():
    assert {path.stem for path in WORKFLOWS} == {"tests", "wheels"}


@every_workflow
def test_actions_are_pinned_and_nothing_may_be_written(path):
    workflow, text = read(path), path.read_text(encoding="utf-8")
    assert workflow["permissions"] == {} and "secrets." not in text
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read"} and job["timeout-minutes"] <= 60
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    pinned = re.findall(r"uses: (\S+@[0-9a-f]{40}) # v\d+\.\d+\.\d+$", text, re.M)
    assert used and pinned == used
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@every_workflow
def test_what_is_run_is_there(path):
    workflow = read(path)
    for program, *arguments in commands(workflow):
        if program == "bash":
            assert (ROOT / arguments[0]).is_file(), arguments[0]
        else:
            assert program in PROGRAMS, program
        if arguments[:3] == ["-m", "pip", "install"]:
            # What was built there is found there.
            ours = ["--find-links", ".", "fairseq_hrt_translate"]
            assert arguments[3:] == ours or all(
                re.fullmatch(r"[\w-]+==[\d.]+", word) for word in arguments[3:]
            ), arguments
        # Only steps of their own say what the events or people wrote.
        assert not [word for word in arguments if "${{ github" in word]
    # PyYAML reads the key "on" as true.
    for pattern in (workflow[True]["pull_request"] or {}).get("paths", ()):
        assert list(ROOT.glob(pattern)), pattern


def test_the_tests_are_those_of_the_instructions_on_every_python():
    workflow = read(ROOT / ".github" / "workflows" / "tests.yml")
    classifiers = project(".")["project"]["classifiers"]
    supported = [line.split(" :: ")[-1] for line in classifiers if re.search(r":: 3\.\d+$", line)]
    releases = json.loads((ROOT / "docs" / "tested_releases.json").read_text(encoding="utf-8"))
    assert workflow["jobs"]["tests"]["strategy"]["matrix"] == {"include": releases}
    assert sorted({one["python"] for one in releases}, key=_numbers) == supported
    # The oldest PyTorch that is allowed, and the one that the set-up takes.
    known = sorted({one["torch"] for one in releases}, key=_numbers)
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    set_up = (ROOT / "examples" / "setup_env.sh").read_text(encoding="utf-8")
    assert known[0] == f"{oldest}.0" and f":-torch=={known[-1]}}}" in set_up
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"(?s)\| Python \| PyTorch \|\n\| -+ \| -+ \|\n(.*?)\n\n", page)
    assert table.splitlines() == [
        f"| {python} | {', '.join(one['torch'] for one in releases if one['python'] == python)} |"
        for python in supported
    ]
    instructions = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = {" ".join(words) for words in commands(workflow)}
    for command in ("bash examples/setup_env.sh test", "bash tests/run.sh"):
        assert command in shown and command in instructions
    assert {"ruff check", "ruff format --check", "mypy"} <= shown


def test_wheels_of_both_distributions_for_both_processors():
    matrix = read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]["wheels"]["strategy"][
        "matrix"
    ]
    assert {machine["name"] for machine in matrix["machine"]} <= set(build.FAMILIES.values())
    # Native runners: nothing is emulated.
    assert [("arm" in machine["runner"]) for machine in matrix["machine"]] == [False, True]
    for distribution in matrix["distribution"]:
        settings = project(distribution["folder"])
        assert settings["project"]["name"] == distribution["name"]
        assert settings["tool"]["cibuildwheel"]["build"].startswith("cp310-manylinux_*")


def test_wheels_for_other_systems():
    """Tagged for what zig is told to compile for, and run where they run."""
    job = read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]["others"]
    compiler = next(step for step in job["steps"] if step.get("name") == "Build")["env"]["CC"]
    assert compiler == "python -I -m ziglang cc -target ${{ matrix.machine.target }}"
    tags = {}
    for machine in job["strategy"]["matrix"]["machine"]:
        family, system = machine["target"].split("-")[:2]
        system, _, release = system.partition(".")
        oldest = (int(release.split(".")[0]), 0) if release else (11, 0)
        target = build.Target(family, {"macos": "darwin", "windows": "win32"}[system], oldest)
        tags[machine["name"]] = build.platform_tag(target)
        assert machine["runner"].startswith(system)
        assert ("intel" in machine["runner"]) == (machine["name"] == "macosx_11_0_x86_64")
    assert len(tags) == 3 and all(name == tag for name, tag in tags.items())


def test_wheels_are_tested_on_every_python_without_pytorch(tmp_path):
    """The command that cibuildwheel is given passes where neither conftest.py nor PyTorch can be
    imported."""
    settings = project("examples/translate_only")
    wheels = settings["tool"]["cibuildwheel"]
    minor = [
        line.rsplit(".", 1)[-1]
        for line in project(".")["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    assert wheels["build"].split() == [f"cp3{number}-manylinux_*" for number in minor]
    program, *arguments = shlex.split(wheels["test-command"].format(project=ROOT))
    assert program == "pytest" and Path(arguments[-1]).is_file()
    start = (
        "import sys; sys.modules['torch'] = None; import pytest;"
        " sys.exit(pytest.main(sys.argv[1:]))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", start, *arguments, "-k", "halves", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0 and " passed" in finished.stdout, (
        finished.stdout + finished.stderr
    )
