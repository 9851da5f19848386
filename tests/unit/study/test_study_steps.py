"""examples/study/steps.py and dodo.py: an entry is run once, continues after it was interrupted,
and is never run twice at a time."""

import fcntl
import json
import multiprocessing
import os
import runpy
import signal
import time

import entries
import matrix
import pytest
import steps
from figures import HERE


def test_an_interrupted_entry_goes_on_where_it_was(store):
    with pytest.raises(ValueError, match="ended with status 3; see .*log"):
        store.run("training")
    folder = store.path("training")
    assert steps.read_record(folder)["state"] == "failed" and not store.finished("training")
    store.run("training")
    assert (folder / "steps").read_text().split() == ["0", "1", "2", "3"]
    record = steps.read_record(folder)
    assert (
        record["state"] == "finished"
        and len(record["attempts"]) == 2
        and (folder / "log").read_text().count("+ ") == 2
    )
    store.run("training")
    assert steps.read_record(folder) == record
    store.run("copied")
    assert (store.folder / "names" / "copied" / "copy").read_text() == "model"


def test_what_another_process_works_on_is_refused(store):
    folder = store.path("training")
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="training: another process works in"):
            store.run("training")
    assert steps.read_record(folder) == {}


KILLS = """
import os, pathlib, signal, time
out = pathlib.Path(os.environ["OUT"])
if not (out / "killed").exists():
    (out / "killed").touch()
    os.kill(os.getppid(), signal.SIGKILL)
    while not (out / "go").exists():
        time.sleep(0.01)
(out / "model.pt").touch()
"""


def test_what_outlives_a_killed_driver_keeps_others_away(tmp_path):
    own = entries.Matrix()
    own.add("kills", "command", command=["python", "-c", KILLS], result="model.pt")
    store = steps.Store(tmp_path / "study", own.entries)
    driver = multiprocessing.get_context("fork").Process(target=store.run, args=["kills"])
    driver.start()
    driver.join(60)
    assert driver.exitcode == -signal.SIGKILL
    with pytest.raises(ValueError, match="kills: another process works in"):
        store.run("kills")
    folder = store.path("kills")
    (folder / "go").touch()
    end = time.monotonic() + 60
    while not store.finished("kills"):
        assert time.monotonic() < end
        try:
            store.run("kills")
        except ValueError:
            time.sleep(0.02)
    assert len(steps.read_record(folder)["attempts"]) == 2


def test_the_time_of_a_killed_driver_is_that_of_its_log(store):
    folder = store.path("training")
    folder.mkdir(parents=True)
    attempt = {"begin": "2026-01-01T00:00:00Z", "seconds": 0.0}
    steps.write_record(folder, {"state": "running", "attempts": [attempt]})
    (folder / "steps").write_text("0\n1\n")
    (folder / "log").write_text("")
    os.utime(folder / "log", (1767225690, 1767225690))
    store.run("training")
    record = steps.read_record(folder)
    assert record["state"] == "finished" and record["attempts"][0]["seconds"] == 90
    assert (folder / "steps").read_text().split() == ["0", "1", "2", "3"]


def test_commands_that_leave_nothing_have_failed(store):
    with pytest.raises(ValueError, match="nothing is not there"):
        store.run("empty")
    assert not store.finished("empty")


def test_what_was_chosen_is_whole_or_not_there(tmp_path, monkeypatch):
    own = entries.Matrix()
    own.add("tuned", "tune", data="d", system="s", grid=["lenpen=1,2"])
    store, codes = steps.Store(tmp_path / "study", own.entries), iter([1, 0])

    def call(arguments, stdout, **_):
        assert arguments[3:] == [
            "tune",
            "d",
            "--system",
            "s",
            "--grid",
            "lenpen=1,2",
            "--print-best",
            "--out",
            str(store.path("tuned")),
        ]
        os.write(stdout.fileno(), b"lenpen=2\n")
        return next(codes)

    monkeypatch.setattr(steps.subprocess, "call", call)
    with pytest.raises(ValueError, match="status 1"):
        store.run("tuned")
    assert not (store.path("tuned") / "best").exists()
    store.run("tuned")
    assert steps.filled("$(tuned/best)", {"tuned": store.path("tuned")}, tmp_path) == "lenpen=2"


@pytest.mark.parametrize(
    "gpu, precision, expected",
    [
        (True, None, {"fp16": True, "num-workers": 2}),
        (True, "", {"fp16": True, "num-workers": 2}),
        (True, "float16", {"fp16": True, "num-workers": 2}),
        (True, "bfloat16", {"bf16": True, "num-workers": 2}),
        (True, "float32", {"bf16": False, "num-workers": 2}),
        (False, "bfloat16", {"bf16": True, "num-workers": 0}),
        (False, "float32", {"bf16": False, "num-workers": 0}),
    ],
)
def test_a_gpu_trains_in_half_precision(monkeypatch, gpu, precision, expected):
    monkeypatch.setattr(steps.torch.cuda, "is_available", lambda: gpu)
    monkeypatch.delenv("PRECISION", raising=False)
    if precision is not None:
        monkeypatch.setenv("PRECISION", precision)
    assert steps.habits_here() == expected


def test_flags():
    assert steps.flags({"a": True, "b": False, "c": [1, 2], "d": "-1"}) == [
        "--a",
        "--c=1",
        "--c=2",
        "--d=-1",
    ]


def test_tasks_of_doit(command, tmp_path, monkeypatch):
    """What is finished is not run again; groups leave out what has to be measured alone."""
    monkeypatch.setenv("STUDY", str(tmp_path))
    first = tmp_path / "entries" / matrix.read_matrix()[0].entries["en-de"].identity
    first.mkdir(parents=True)
    (first / "record.json").write_text(json.dumps({"state": "finished", "attempts": []}))
    tasks = {
        task["basename"]: task for task in runpy.run_path(str(HERE / "dodo.py"))["task_entries"]()
    }
    assert tasks["en-de"]["uptodate"] == [True] and tasks["search-256"]["uptodate"] == [False]
    assert tasks["search-256"]["task_dep"] == ["en-de"]
    assert (
        "test-plenty" in tasks["plenty"]["task_dep"]
        and "speed-plenty" not in tasks["plenty"]["task_dep"]
    )
    listed = command(
        "python", "-m", "doit", "-f", HERE / "dodo.py", "list", "-s", "en-de", "at",
        environment={"STUDY": str(tmp_path)},
    )  # fmt: skip
    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [
        ["R", "at"],
        ["U", "en-de"],
    ]
