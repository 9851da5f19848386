"""Worker processes: they start with the settings of their supervisor, and end with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_hrt
from fairseq_hrt.native.server import application, worker
from fairseq_hrt.native.server.settings import Settings

PROGRAM = """
import multiprocessing, sys, time
from fairseq_hrt.native.server.worker import _end_with_supervisor

def work():
    _end_with_supervisor()
    print("started", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """What the supervisor tells; the log of the tests stays as it is."""
    found = Settings(systems=(("a", tmp_path),), allow_hosts=("a.example",))
    monkeypatch.setenv(worker.SETTINGS_VARIABLE, found.to_json())
    monkeypatch.setattr(worker.logging, "basicConfig", lambda **options: None)
    monkeypatch.setattr(worker, "write_in_background", lambda: None)
    return found


def test_the_settings_of_the_supervisor(settings, monkeypatch):
    loaded = []
    monkeypatch.setattr(application.Server, "load", lambda self: loaded.append(self.settings))
    worker.application_from_environment()
    assert loaded == [settings]


def test_a_worker_that_cannot_start(settings, caplog):
    with pytest.raises(SystemExit) as ended:
        worker.application_from_environment()
    assert ended.value.code == worker.CANNOT_START
    assert caplog.records[-1].message.startswith("error: ") and "bundle.json" in caplog.text


def test_a_worker_ends_with_its_supervisor(tmp_path):
    """The standard output ends when the last process that holds it has ended."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(fairseq_hrt.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, tmp_path / "program.py"], stdout=subprocess.PIPE, env=environment
    ) as supervisor:
        assert supervisor.stdout.readline() == b"started\n"
        supervisor.kill()
        assert supervisor.communicate(timeout=60) == (b"", None)
