"""A module in a process of its own: as python -m runs it, and gone when its parent is."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairseq_hrt.cli.child_process import run_module

ROOT = str(Path(__file__).resolve().parents[2])
SLEEPS = """
import os, pathlib, subprocess, sys, time
own = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])
pathlib.Path('new').write_text(f'{os.getpid()} {own.pid}')
os.rename('new', sys.argv[1])
time.sleep(120)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module where only this process looks."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text):
        (tmp_path / "own_module.py").write_text(text)
        return "own_module"

    return write


def test_arguments_output_and_status(module):
    name = module(
        "import sys\nif __name__ == '__main__':\n    print(sys.argv[1:]), print('wrong',"
        " file=sys.stderr), sys.exit(3)\n"
    )
    result = run_module(name, ["--a b", "", "-c", "é"])
    assert (result.returncode, result.stdout, result.stderr) == (
        3,
        "['--a b', '', '-c', 'é']\n",
        "wrong\n",
    )
    assert run_module(module("b = 1\n"), []).returncode == 0


def test_an_error_is_shown(module):
    result = run_module(module("raise ValueError('this')\n"), [])
    assert result.returncode == 1 and result.stderr.endswith("ValueError: this\n")


def test_its_input_is_empty(module):
    name = module("import os, select\nprint(select.select([0], [], [], 10)[0] and os.read(0, 1))\n")
    assert run_module(name, []).stdout == "b''\n"


def test_nothing_is_taken_from_the_current_folder(module, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "runpy", "subprocess", "threading", "signal", "fairseq_hrt"):
        (here / f"{name}.py").write_text("raise SystemExit('taken from the current folder')\n")
    monkeypatch.chdir(here)
    # Python passes over what is not text.
    monkeypatch.setattr(sys, "path", [tmp_path, *(entry for entry in sys.path if entry)])
    result = run_module(module("print('right')\n"), [])
    assert (result.returncode, result.stdout, result.stderr) == (0, "right\n", "")


def running(number):
    """Whether a process lives; one that has ended and that nobody has asked about does not."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux")
@pytest.mark.parametrize(
    "closed, number",
    [("", signal.SIGKILL), ("<&-", signal.SIGKILL), ("", signal.SIGINT)],
    ids=("killed", "killed without input", "interrupted"),
)
def test_a_process_that_ends_leaves_nothing_running(module, tmp_path, closed, number):
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from fairseq_hrt.cli.child_process import"
        f" run_module; run_module({module(SLEEPS)!r}, ['pids'])"
    )
    parent = subprocess.Popen(
        ["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT}, stderr=subprocess.DEVNULL,
        # Ignored where a shell has started the tests in the background, and inherited from there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    left = []
    try:
        deadline = time.monotonic() + 60
        while not left and time.monotonic() < deadline and parent.poll() is None:
            time.sleep(0.02)
            with suppress(OSError):
                left = list(map(int, (tmp_path / "pids").read_text().split()))
        assert len(left) == 2 and all(map(running, left))
        parent.send_signal(number)
        parent.wait(60)
        while any(map(running, left)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(running, left))
    finally:
        parent.kill()
        for process in filter(running, left):
            os.kill(process, signal.SIGKILL)
