"""examples/scale: how corpora and what is made of them are measured."""

import json
import os
import sys
from argparse import Namespace
from itertools import islice

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")


@pytest.fixture
def growth(load_example):
    return load_example("scale/corpus_growth.py")


@pytest.fixture
def watched(load_example):
    return load_example("scale/watched.py")


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(growth):
    sentences = [line.split() for line in ("the cat sleeps .", "a dog sees the other cat .")]
    lines = list(growth.generated(sentences, 70_000, 1))
    assert list(islice(growth.generated(sentences, 100, 1), 200)) == lines[:100]
    known = {word for sentence in sentences for word in sentence}
    own = [[word for word in line.split() if word not in known] for line in lines]
    assert {len(words) for words in own} == {0, 1} and 0.05 < np.mean(list(map(len, own))) < 0.15
    # There are ever more of them.
    half, whole = (len({word for words in rows for word in words}) for rows in (own[:35_000], own))
    assert whole > 1.2 * half > 500


def test_words_that_no_corpus_has_differ(growth):
    words = [growth.invented(number) for number in range(1, 70_000)]
    assert len(set(words)) == len(words) and all(word.endswith("x") for word in words)


SCRIPT = """
import sys, time
held = []
for number in range(int(sys.argv[2])):
    held.append(b"x" * 20_000_000)
    with open(sys.argv[1], "w") as file:
        file.write(str(number + 1))
    time.sleep(0.3)
"""


def test_a_command_is_watched_to_its_end(watched, tmp_path):
    place = tmp_path / "done"

    def done():
        return int(place.read_text() or 0) if place.exists() else 0

    found = watched.watch([sys.executable, "-c", SCRIPT, str(place), "4"], done)
    assert found.status == 0 and found.samples[-1].done == 4
    assert 70 < found.own_peak < 400 and found.children_peak == 0
    times = [one.seconds for one in found.samples]
    assert times == sorted(times) and found.seconds > 1.2
    assert found.first_after(2).done == 3 and found.first_after(4) is None
    assert found.at(3).done == 3 and found.at(5) is found.samples[-1]


def test_a_command_is_killed_when_so_much_is_done(watched, tmp_path):
    place, log = tmp_path / "done", tmp_path / "log"
    command = [sys.executable, "-c", "print('begun', flush=True)\n" + SCRIPT, str(place), "1000"]
    found = watched.watch(
        command, lambda: int(place.read_text() or 0) if place.exists() else 0, kill_at=2, log=log
    )
    assert (
        found.status == -9 and 2 <= found.samples[-1].done < 1000 and log.read_text() == "begun\n"
    )


def test_children_are_told_apart(watched):
    grow = "x = b'x' * 200_000_000; import time; time.sleep(0.6)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grow!r}])"
    found = watched.watch([sys.executable, "-c", start])
    assert found.children_peak > 190 > found.own_peak > 0


# Stands for a verb: makes five lines, continues where it was, and after each waits to be killed.
VERB = """
import pathlib, sys, time
target = pathlib.Path(sys.argv[1])
time.sleep(0.4)
with open(target, "a") as file:
    file.write("x")
time.sleep(60 * (len(target.read_text()) < 5))
"""


def test_each_state_is_continued_killed_and_continued_again(growth, tmp_path):
    target = tmp_path / "target"
    given = Namespace(work=tmp_path, quickstart=tmp_path)
    found = growth.continued(
        given,
        [sys.executable, "-c", VERB, str(target)],
        [lambda: target.write_text("x"), lambda: target.write_text("xxx")],
        lambda: len(target.read_text()),
    )
    assert [one["killed at"] for one in found] == [2, 4] and target.read_text() == "xxxxx"
    assert all(one["seconds"] > 0.3 for one in found)


def test_what_fails_is_named(growth, tmp_path):
    with pytest.raises(SystemExit, match="exit status 3"):
        growth.run(Namespace(work=tmp_path, quickstart=tmp_path), [sys.executable, "-c", "exit(3)"])


def test_the_state_of_a_run_is_kept(growth, tmp_path):
    plain, killed = tmp_path / "plain", tmp_path / "killed"
    (tmp_path / "plain.partial").write_text("half")
    growth.notes_of(plain).write_text("{}")
    restore = growth.kept(plain, killed, tmp_path / "state")
    (tmp_path / "plain.partial").write_text("more than half")
    restore()
    assert (tmp_path / "killed.partial").read_text() == "half"
    assert growth.notes_of(killed).read_text() == "{}"


def row(part, lines):
    if part == "shortlist":
        return {"lines": lines, "seconds": 2.0, "cpu": 1.5, "MB": 47}
    course = {"cpu at tenths": [lines] * 10, "MB at tenths": [46] * 10}
    again = [{"killed at": lines // 10, "seconds": 0.5, "cpu": 0.25}]
    return {"lines": lines, "seconds": 2.0, "cpu": 1.5, "MB": 47, **course, "continued": again}


def test_what_another_start_measured_stays(growth, tmp_path, monkeypatch, capsys):
    measured = []
    monkeypatch.setattr(growth, "make_model", lambda given: None)
    for part in growth.PARTS:
        monkeypatch.setitem(
            growth.PARTS,
            part,
            lambda given, lines, part=part: measured.append(part) or row(part, lines),
        )
    out = tmp_path / "out"
    place = ["quickstart", "--work", str(tmp_path / "work"), "--out", str(out)]
    with monkeypatch.context() as undrawn:
        # The picture of the second start has all that this one would have.
        undrawn.setattr(growth, "draw", lambda found, path: path.touch())
        assert growth.main([*place, "--lines", "1000", "100"]) == 0
    assert growth.main([*place, "--part", "shortlist", "--lines", "5000"]) == 0
    found = json.loads((out / "corpora.json").read_text())
    assert list(found) == list(growth.PARTS) and found["distill"]["100"] == row("distill", 100)
    assert list(found["shortlist"]) == ["1000", "100", "5000"] and len(measured) == 7
    assert capsys.readouterr().out.count('"killed at"') == 4
    picture = (out / "corpora.svg").read_text()
    assert "processor seconds" in picture and all(part in picture for part in growth.PARTS)


def test_few_lines_are_refused(growth, capsys):
    with pytest.raises(SystemExit, match="2"):
        growth.main(["quickstart", "--work", "work", "--out", "out", "--lines", "9"])
    assert "--lines 9: give 10 or more" in capsys.readouterr().err
