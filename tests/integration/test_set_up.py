"""examples/setup_env.sh with a Python that installs nothing and notes what it is asked for."""

import os
import re
import shutil
import signal
import subprocess

import pytest
from recipe_scripts import ROOT, until

pytestmark = pytest.mark.skipif(not shutil.which("flock"), reason="two at once need flock")

# Makes an environment whose Python is this script; waits while there is a file "hold".
PYTHON = """#!/bin/bash
echo "$*" >>"$CALLS"
case "$*" in
*"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*"pip --version"*) [ -x .venv/bin/python ] ;;
*"m.version('fairseq')"*) [ -e .venv/fairseq ] ;;
*"pip"*" wheel "*) sleep "$BUILDING" && mkdir -p .venv/wheels ;;
*"pip"*" install --no-deps fairseq"*) touch .venv/fairseq ;;
esac
"""


@pytest.fixture
def started(tmp_path):
    """A function that starts the set-up in a folder of its own, whose fairseq takes so many
    seconds to build."""
    folder = tmp_path / "clone"
    for name in (
        "setup.py", "pyproject.toml", "constraints.txt", "examples/setup_env.sh",
        "fairseq_hrt/compat/startup.py", "fairseq_hrt/native/runtime/build.py",
    ):  # fmt: skip
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    kernel = folder / "fairseq_hrt/native/runtime/kernel"
    kernel.mkdir()
    for name in ("some.c", "some.h"):
        (kernel / name).touch()
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    calls = tmp_path / "calls"
    running = []

    def start(building="0"):
        environment = {**os.environ, "PYTHON": str(python), "CALLS": str(calls)}
        process = subprocess.Popen(
            ["bash", "examples/setup_env.sh"], cwd=folder, text=True, start_new_session=True,
            env={**environment, "BUILDING": building},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        running.append(process)
        return process

    start.calls = lambda: calls.read_text().splitlines() if calls.exists() else []
    start.stamp = folder / ".venv/setup.stamp"
    yield start
    for process in running:
        process.kill()
        process.stdout.close()


def is_building(started):
    return any(" wheel " in call for call in started.calls())


def test_two_at_once_set_up_once(started):
    first = started(building="1")
    until(lambda: is_building(started))
    second = started()
    assert "waiting for another set-up of this folder" in second.communicate(timeout=30)[0]
    assert second.returncode == 0 and first.wait(30) == 0
    # How long it takes, and how long it has taken.
    shown = first.stdout.read()
    assert "about 100 s" in shown.splitlines()[0]
    assert re.search(r"\[\d+ s\] looking it over\n.*\.venv is ready\n$", shown), shown
    calls = started.calls()
    assert sum("-m venv" in call for call in calls) == 1
    assert started.stamp.read_text()
    # What is there is not made again.
    third = started()
    assert third.communicate(timeout=30)[0] == "" and started.calls() == calls


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_an_interrupted_set_up(started, number):
    # A length that no other process sleeps.
    first = started(building="86.4321")
    until(lambda: is_building(started))
    if number == signal.SIGINT:
        os.killpg(first.pid, number)
    else:
        first.send_signal(number)
    assert first.wait(30) == 128 + number
    assert not started.stamp.exists()

    def sleeps():
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        return "sleep 86.4321" in listed

    until(lambda: not sleeps())
    # The next one begins where it was.
    assert started().wait(30) == 0 and started.stamp.exists()
