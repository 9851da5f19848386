"""examples/study: the driver runs each content once, survives being killed, and loses nothing."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

# Stands in for a training: goes on from its checkpoint, one line a step, says how far it is.
TRAINING = """
import sys, time
from pathlib import Path
out, steps, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
checkpoint = out / "steps"
for step in range(len(checkpoint.read_text().split()) if checkpoint.exists() else 0, steps):
    time.sleep(pause)
    with checkpoint.open("a") as file:
        file.write(f"{step}\\n")
    print(f"num_updates={step + 1}", flush=True)
(out / "model.pt").write_text("model")
"""


def command(name, code, result="done", **fields):
    return {
        "name": name,
        "kind": "command",
        "command": ["python", "-c", textwrap.dedent(code)],
        "result": result,
        **fields,
    }


def writes(name, text="x", **fields):
    return command(
        name,
        f"import os, pathlib; pathlib.Path(os.environ['OUT'], 'done').write_text({text!r})",
        **fields,
    )


@pytest.fixture
def make(study, tmp_path):
    def build(*entries, at_once=2):
        resolved = study.matrix.resolve({"entry": list(entries)})
        return study.runner.Runner(resolved, study.store.Store(tmp_path / "out"), tmp_path, at_once)

    return build


def work(runner):
    runner.run(pause=0.01)
    return runner


def test_everything_is_run_once_and_recorded(make, tmp_path):
    entries = [
        writes("a"),
        command("b", "import shutil; shutil.copy(r'${a}/done', r'${out}/done')"),
        writes("twin", note="same as a"),
    ]
    runner = work(make(*entries))
    a, b, twin = runner.entries
    assert runner.failed == {} and a.identity == twin.identity
    record = runner.store.record(b)
    assert (
        record["state"] == "finished"
        and record["parents"] == {"a": a.identity}
        and len(record["attempts"]) == 1
    )
    attempt = record["attempts"][0]
    assert (
        attempt["versions"]["python"]
        and attempt["processor"]
        and attempt["commit"] == "unknown"
        and attempt["threads"] == 1
    )
    assert (tmp_path / "out" / "names" / "b").resolve() == runner.store.path(b)
    before = (runner.store.path(a) / "record.json").stat().st_mtime_ns
    again = work(make(*entries))
    assert (again.store.path(a) / "record.json").stat().st_mtime_ns == before


def test_a_name_follows_the_matrix(make, tmp_path):
    work(make(writes("first", "one"), writes("second", "two")))
    # What was the second is now called the first, and nothing of it is left to run.
    renamed = work(make(writes("first", "two"), writes("old", "one")))
    assert [
        (tmp_path / "out" / "names" / name / "done").read_text() for name in ("first", "old")
    ] == ["two", "one"]
    assert all(len(renamed.store.record(entry)["attempts"]) == 1 for entry in renamed.entries)


def test_cpu_time_is_recorded_over_all_commands(make, study, monkeypatch):
    runner = make(command("a", "pass"))
    out = runner.store.path(runner.entries[0])
    busy = (
        "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end:"
        f" pass\nopen(r'{out}/done', 'w')"
    )
    monkeypatch.setattr(
        study.runner,
        "steps_of",
        lambda entry, folders: [study.steps.Step([sys.executable, "-c", busy])] * 2,
    )
    (attempt,) = work(runner).store.record(runner.entries[0])["attempts"]
    # What the last look did not see is lost; interpreters take time to start.
    assert attempt["cpu_seconds"] > 0.4


def test_what_failed_stops_only_what_needs_it_and_is_tried_again(make, tmp_path):
    flag = tmp_path / "flag"
    fails = command(
        "a",
        f"import os, pathlib; p = pathlib.Path({str(flag)!r}); assert p.exists();"
        " pathlib.Path(os.environ['OUT'], 'done').touch()",
    )
    entries = [fails, command("b", "open(r'${a}/done'); open(r'${out}/done', 'w')"), writes("c")]
    runner = work(make(*entries))
    assert set(runner.failed) == {"a"} and "status 1" in runner.failed["a"]
    a, b, c = runner.entries
    assert (
        runner.store.record(a)["state"] == "failed"
        and runner.store.record(b) == {}
        and runner.store.finished(c)
    )
    assert "AssertionError" in runner.store.log_tail(a)
    flag.touch()
    runner = work(make(*entries))
    assert (
        runner.failed == {}
        and runner.store.finished(b)
        and len(runner.store.record(a)["attempts"]) == 2
    )


def test_a_command_that_leaves_nothing_has_failed(make):
    runner = work(make(command("a", "pass")))
    assert "is not there" in runner.failed["a"]


def test_of_a_finished_training_the_average_and_the_last_state_are_kept(make, study, monkeypatch):
    runner = make({"name": "m", "kind": "train", "data": "d", "options": {"max-update": 1}})
    out = runner.store.path(runner.entries[0])
    names = ("checkpoint_1_5.pt", "checkpoint_best.pt", "checkpoint_last.pt")
    code = f"import pathlib; p = pathlib.Path({str(out)!r}); (p / 'checkpoints').mkdir()\n" + "".join(
        f"(p / 'checkpoints/{name}').touch()\n" for name in names
    ) + "(p / 'model.pt').touch()"  # fmt: skip
    monkeypatch.setattr(
        study.runner,
        "steps_of",
        lambda entry, folders: [study.steps.Step([sys.executable, "-c", code])],
    )
    work(runner)
    assert runner.store.finished(runner.entries[0]) and (out / "model.pt").exists()
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["checkpoint_last.pt"]


def test_no_more_than_so_many_at_once_and_what_must_be_alone_is(make, tmp_path):
    log = tmp_path / "log"
    code = f"""
        import os, pathlib, time
        with open({str(log)!r}, "a") as file: file.write(f"+{{os.environ['OUT']}}\\n")
        time.sleep(0.15)
        with open({str(log)!r}, "a") as file: file.write(f"-{{os.environ['OUT']}}\\n")
        pathlib.Path(os.environ["OUT"], "done").touch()
    """
    runner = work(
        make(
            *(
                command(f"e{number}", textwrap.dedent(code) + f"# {number}", alone=number == 3)
                for number in range(5)
            )
        )
    )
    alone = str(runner.store.path(runner.entries[3]))
    running, most = set(), 0
    for line in log.read_text().split():
        (running.add if line[0] == "+" else running.discard)(line[1:])
        most = max(most, len(running))
        assert alone not in running or len(running) == 1
    assert most <= 2


def test_standard_output_becomes_a_file_only_when_it_is_whole(make, study, tmp_path, monkeypatch):
    runner = make(command("a", "print('half', flush=True); raise SystemExit(1)", result="best"))
    out = runner.store.path(runner.entries[0])
    step = study.steps.Step(
        [sys.executable, "-c", runner.entries[0].fields["command"][2]], output=out / "best"
    )
    monkeypatch.setattr(study.runner, "steps_of", lambda entry, folders: [step])
    assert set(work(runner).failed) == {"a"} and not (out / "best").exists()


def test_a_matrix_may_grow_while_it_is_worked_through(study, tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text('[[entry]]\nname = "a"\nkind = "command"\ncommand = ["true"]\nresult = "log"\n')
    matrix = study.command.MatrixFile(path, None, True)
    assert [entry.name for entry in matrix.reread()] == ["a"]
    for text, names in (
        (path.read_text() * 2, ["a"]),
        (path.read_text() + path.read_text().replace('"a"', '"b"'), ["a", "b"]),
    ):
        path.write_text(text)
        os.utime(path, ns=(1, time.time_ns()))
        assert [entry.name for entry in matrix.reread()] == names


def test_threads_are_those_of_trainings_alone(study, tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text(
        '[[entry]]\nname = "m"\nkind = "train"\ndata = "d"\noptions = { max-update = 9 }\n'
        '[[entry]]\nname = "c"\nkind = "command"\ncommand = ["true", "${m}"]\nresult = "log"\n'
    )
    matrix, plain = (study.command.MatrixFile(path, None, True, threads) for threads in (3, None))
    assert [entry.threads for entry in matrix.entries] == [3, 1]
    assert [entry.threads for entry in plain.entries] == [1, 1]
    assert [entry.identity for entry in matrix.entries] == [
        entry.identity for entry in plain.entries
    ]
    path.write_text(path.read_text().replace('"c"', '"b"'))
    os.utime(path, ns=(1, 1))
    assert [(entry.name, entry.threads) for entry in matrix.reread()] == [("m", 3), ("b", 1)]


@pytest.mark.parametrize("option", ["--threads", "--at-once"])
def test_none_at_all_is_refused(study, capsys, option):
    with pytest.raises(SystemExit):
        study.command.main(["run", option, "0"])
    assert f"{option}: 0: give a number of 1 or more" in capsys.readouterr().err


def test_share_and_time_left(study, tmp_path):
    train = {"kind": "train", "data": "d", "options": {"max-update": 10}, "minutes": 30}
    entries = study.matrix.resolve(
        {
            "entry": [
                writes("a", minutes=2),
                {"name": "m", **train},
                {"name": "n", **train, "average": 2},
            ]
        }
    )
    store = study.store.Store(tmp_path)
    left = study.runner.minutes_left
    assert left(entries, store, 2) == 31
    a, m, _ = entries
    for entry, state, seconds in ((a, "finished", 240), (m, "running", 600)):
        store.prepare(entry)
        store.write(entry, {"state": state, "attempts": [{"seconds": seconds}]})
    # The guesses were half of what is needed; m has said nothing yet.
    assert left(entries, store, 1) == pytest.approx(120)
    (store.path(m) / "log").write_text("num_updates=2, lr\n num_updates=4, lr\n")
    assert study.runner.share_done(m, store) == 0.4
    assert left(entries, store, 1) == pytest.approx(15 + 60)


def test_named_entries_bring_what_they_need(study):
    entries = study.matrix.resolve(
        {
            "entry": [
                writes("a"),
                command("b", "r'${a}'"),
                writes("c", text="y", alone=True),
                command("d", "r'${c}'"),
            ]
        }
    )
    assert [entry.name for entry in study.command.chosen(entries, ["b"], True)] == ["a", "b"]
    assert [entry.name for entry in study.command.chosen(entries, None, False)] == ["a", "b"]
    with pytest.raises(ValueError, match="no entry 'x'"):
        study.command.chosen(entries, ["x"], True)


def start(study, matrix, out):
    driver = [
        sys.executable,
        str(study.folder / "study.py"),
        "run",
        "--matrix",
        str(matrix),
        "--out",
        str(out),
        "--nice",
        "0",
    ]
    return subprocess.Popen(driver, stderr=subprocess.PIPE, text=True)


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_driver_goes_on_and_trains_nothing_twice(study, tmp_path, how):
    script, matrix, out = tmp_path / "training.py", tmp_path / "matrix.toml", tmp_path / "out"
    script.write_text(TRAINING)
    entry = {
        "name": "m",
        "kind": "command",
        "command": ["python", str(script), "${out}", "12", "0.15"],
        "result": "model.pt",
    }
    matrix.write_text(
        "[[entry]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
    )
    (found,) = study.matrix.read_matrix(matrix)
    store = study.store.Store(out)
    steps = store.path(found) / "steps"
    driver = start(study, matrix, out)
    until(lambda: steps.exists() and len(steps.read_text().split()) >= 2)
    driver.send_signal(how)
    driver.communicate(timeout=30)
    assert driver.returncode == (-how if how == signal.SIGKILL else 143)
    # Killed at once, it leaves its command running; otherwise it stops it.
    assert store.busy(found) == (how == signal.SIGKILL)
    assert store.record(found)["state"] == ("running" if how == signal.SIGKILL else "stopped")
    driver = start(study, matrix, out)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 0, errors
    assert steps.read_text().split() == [str(step) for step in range(12)]
    record = store.record(found)
    assert record["state"] == "finished" and len(record["attempts"]) == 2
    driver = start(study, matrix, out)
    driver.communicate(timeout=60)
    assert driver.returncode == 0 and store.record(found) == record


def test_two_drivers_do_not_share_a_folder(study, tmp_path, capsys):
    (tmp_path / "matrix.toml").write_text("")
    lock = study.store.Store(tmp_path / "out").lock(tmp_path / "out" / "lock")
    with pytest.raises(SystemExit):
        study.command.main(
            ["run", "--matrix", str(tmp_path / "matrix.toml"), "--out", str(tmp_path / "out")]
        )
    assert "another driver works in" in capsys.readouterr().err
    os.close(lock)


def test_generations_of_one_processor_name_are_told_apart(study, monkeypatch):
    first = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\n\n"
    for text, expected in (
        (first + first.replace("25", "26"), "AMD EPYC (family 25, model 17)"),
        ("model name\t: Other\n", "Other"),
    ):
        monkeypatch.setattr(study.store.Path, "read_text", lambda *_, text=text, **__: text)
        assert study.store.processor() == expected
