"""The processes of a server: how many files they may open, their start, signals, and their end."""

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from prometheus_client import values

import fairseq_hrt
from fairseq_hrt.native.server import application, process
from fairseq_hrt.native.server.metrics import FOLDER_VARIABLE
from fairseq_hrt.native.server.settings import Settings

ENDLESS = resource.RLIM_INFINITY
PROGRAM = """
import multiprocessing, os, sys, time
from fairseq_hrt.native.server.metrics import FOLDER_VARIABLE
from fairseq_hrt.native.server.process import _end_with_supervisor

def work():
    _end_with_supervisor()
    print("started", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    os.environ[FOLDER_VARIABLE] = sys.argv[1]
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""


@pytest.mark.parametrize(
    "soft, hard, raised, connections",
    [
        (ENDLESS, ENDLESS, None, 1000),
        (4096, 4096, None, 1000),
        (1024, ENDLESS, 1064, 1000),
        (256, 20000, 1064, 1000),
        (256, 600, 600, 536),
        (256, 256, 256, 192),
        (32, 32, 32, 1),
    ],
)
def test_the_limit_of_open_files(monkeypatch, caplog, soft, hard, raised, connections):
    limits = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(process.resource, "setrlimit", lambda *limit: limits.append(limit))
    assert process.connections_within_limits(1000) == connections
    expected = [] if raised is None else [(resource.RLIMIT_NOFILE, (raised, hard))]
    assert limits == expected
    told = [record.message for record in caplog.records]
    assert told == (
        []
        if connections == 1000
        else [
            f"--max-connections 1000: this process may open {raised} files (ulimit -n), so it takes"
            f" {connections} connections"
        ]
    )


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Those of a worker; the log of the tests stays as it is."""
    monkeypatch.setattr(process.logging, "basicConfig", lambda **options: None)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    return Settings(systems=(("a", tmp_path),))


def test_a_worker(settings, monkeypatch):
    """It has its systems and room for its figures before it answers, and tells when it does."""
    loaded, answered, told = [], [], []
    monkeypatch.setattr(application.Server, "load", lambda self: loaded.append(self.settings))

    def answer(made, given, listening, started):
        answered.append((made.state.server.settings, given, listening))
        started()

    monkeypatch.setattr(process, "answer", answer)
    reader, writer = multiprocessing.Pipe(duplex=False)
    process.work(settings, "socket", writer, 0)
    assert loaded == [settings] and answered == [(settings, settings, "socket")]
    assert reader.recv() == "started" and not told
    folder = Path(os.environ[FOLDER_VARIABLE])
    assert all(one.stat().st_blocks * 512 >= 1 << 17 for one in folder.glob("*.db"))
    assert len(list(folder.glob("*.db"))) == 3


def test_a_worker_that_cannot_start(settings, caplog):
    with pytest.raises(SystemExit) as ended:
        process.work(settings, None, None, 0)
    assert ended.value.code == process.CANNOT_START
    assert caplog.records[-1].message.startswith("error: ") and "bundle.json" in caplog.text


def test_a_worker_without_room_for_its_figures(settings, caplog):
    """It would be killed at every request."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, before[1]))
    try:
        with pytest.raises(SystemExit) as ended:
            process.work(settings, None, None, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ended.value.code == process.CANNOT_START
    (record,) = caplog.records
    assert record.message == (
        f"error: no room for the metrics of a worker in {settings.systems[0][1].parent} (File too"
        " large): set TMPDIR to a folder with 408 kB for each worker"
    )


def test_a_worker_ends_with_its_supervisor(tmp_path):
    """The standard output ends when the last process that holds it has ended. It removes what the
    supervisor could not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "counter_1.db").write_bytes(b"x")
    environment = {**os.environ, "PYTHONPATH": str(Path(fairseq_hrt.__file__).parents[1])}
    command = [sys.executable, tmp_path / "program.py", tmp_path / "figures"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as supervisor:
        assert supervisor.stdout.readline() == b"started\n"
        supervisor.kill()
        assert supervisor.communicate(timeout=60) == (b"", None)
    assert not (tmp_path / "figures").exists()


@contextlib.contextmanager
def own_signals():
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals():
    """Each is obeyed once, and a second one ends the process; those that are ignored stay so."""
    stopped = []
    with own_signals():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process.at_signals(lambda: stopped.append(True))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
            assert signal.getsignal(number) is signal.SIG_DFL
        signal.raise_signal(signal.SIGHUP)
        assert stopped == [True, True]


def test_a_worker_takes_a_signal_twice(monkeypatch):
    """A service manager signals the whole group; the supervisor then signals its workers, too."""
    stopped = []
    monkeypatch.setattr(process.multiprocessing, "parent_process", lambda: "the supervisor")
    with own_signals():
        process.at_signals(lambda: stopped.append(True))
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert stopped == [True, True]


class Worker:
    """A process that has ended, or runs until it is told to end."""

    made: ClassVar = []

    def __init__(self, target, args):
        self.args, self.pid = args, 1000 + len(self.made)
        self.sentinel, self._end = os.pipe()
        self.exitcode, self.calls = None, []
        self.made.append(self)

    def start(self):
        threading.Thread(target=self.life, args=(self,)).start()

    def end(self, code):
        self.exitcode = code
        os.close(self._end)

    def terminate(self):
        self.calls.append("terminate")

    def join(self, seconds=None):
        self.calls.append(("join", seconds))

    def kill(self):
        self.calls.append("kill")


@pytest.fixture
def supervised(monkeypatch, settings):
    """A function that supervises workers with a life of their own; (address was told, forgotten
    ones)."""

    def supervise(life, workers=2):
        context, told, forgotten = multiprocessing.get_context("spawn"), [], []
        fake = type("Context", (), {"Pipe": context.Pipe, "Process": Worker})()
        monkeypatch.setattr(Worker, "made", [])
        monkeypatch.setattr(Worker, "life", staticmethod(life), raising=False)
        monkeypatch.setattr(process.multiprocessing, "get_context", lambda kind: fake)
        monkeypatch.setattr(process, "forget_worker", forgotten.append)
        monkeypatch.setattr(process, "RESTART_SECONDS", 0.01)
        with own_signals(), process.bound_socket("127.0.0.1", 0) as listening:
            process.supervise(settings, listening, lambda: told.append(True), workers)
            assert listening.fileno() == -1
        return told, forgotten

    return supervise


def test_workers_that_die_are_replaced(supervised):
    """Also where a replacement cannot start; all are told to end, and made to."""

    def life(worker):
        worker.args[2].send("started")
        if worker.pid < 1003:
            worker.end(process.CANNOT_START if worker.pid == 1002 else -9)
        elif worker.pid == 1004:
            os.kill(os.getpid(), signal.SIGTERM)

    told, forgotten = supervised(life)
    # Both, and the first replacement, which has the number of the one that was seen to die first.
    assert told == [True] and len(forgotten) == 3 and set(forgotten) == {0, 1}
    for worker in Worker.made[3:]:
        assert worker.calls == ["terminate", ("join", 31.0), "kill", ("join", None)]


def test_workers_that_cannot_start_any_more_are_replaced_less_and_less_often(
    supervised, monkeypatch
):
    now, pauses, wait = [0.0], [], process.multiprocessing.connection.wait
    waits, told = iter(range(100)), threading.Event()

    def at_once(objects, seconds):
        if seconds is None and next(waits):
            told.set()
        if not seconds:
            return wait(objects, seconds)
        pauses.append(seconds)
        now[0] += seconds
        return []

    def life(worker):
        if worker.pid == 1000:
            worker.args[2].send("started")
            told.wait(20)
        if worker.pid == 1014:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            worker.end(process.CANNOT_START)

    monkeypatch.setattr(process.multiprocessing.connection, "wait", at_once)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    supervised(life, 1)
    assert pauses == pytest.approx([min(0.01 * 2**number, 30) for number in range(14)])
    assert {worker.args[3] for worker in Worker.made} == {0}


def test_workers_that_cannot_start_end_the_server(supervised):
    with pytest.raises(ValueError, match="a worker cannot start; the log above tells why"):
        supervised(lambda worker: worker.end(process.CANNOT_START))
    assert len(Worker.made) == 2
