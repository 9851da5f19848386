import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairseq_hrt.child_process import run_module

ROOT = str(Path(__file__).resolve().parents[2])


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
        "import sys\nif __name__ == '__main__':\n    print(sys.argv[1:]), print('wrong', file=sys.stderr), sys.exit(3)\n"
    )
    result = run_module(name, ["--a b", "", "-c", "é"])
    assert (result.returncode, result.stdout, result.stderr) == (3, "['--a b', '', '-c', 'é']\n", "wrong\n")
    assert run_module(module("b = 1\n"), []).returncode == 0


def test_an_error_is_shown(module):
    result = run_module(module("raise ValueError('this')\n"), [])
    assert result.returncode == 1 and result.stderr.endswith("ValueError: this\n")


def running(number):
    """Whether a process lives; one that has ended and that nobody has asked about does not."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux")
@pytest.mark.parametrize("closed", ("", "<&-"))
def test_a_killed_process_leaves_no_child(module, tmp_path, closed):
    name = module("import os, pathlib, sys, time\npathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\ntime.sleep(120)\n")
    program = f"import sys; sys.path.append({str(tmp_path)!r}); from fairseq_hrt.child_process import run_module; run_module({name!r}, ['pid'])"
    parent = subprocess.Popen(
        ["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    child = None
    try:
        deadline = time.monotonic() + 60
        while not child and time.monotonic() < deadline and parent.poll() is None:
            time.sleep(0.02)
            with suppress(OSError, ValueError):
                child = int((tmp_path / "pid").read_text())
        assert child and running(child)
        parent.kill()
        parent.wait()
        while running(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not running(child)
    finally:
        parent.kill()
        if child and running(child):
            os.kill(child, signal.SIGKILL)
