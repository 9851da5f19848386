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


# Stands for a verb: makes five lines, continues where it was, and is slow enough to be killed.
VERB = """
import pathlib, sys, time
target = pathlib.Path(sys.argv[1])
while len(target.read_text()) < 5:
    time.sleep(0.4)
    with open(target, "a") as file:
        file.write("x")
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


def row(lines):
    course = {"cpu at tenths": [lines] * 10, "MB at tenths": [46] * 10}
    again = [{"killed at": lines // 10, "seconds": 0.5, "cpu": 0.25}]
    own = {"lines": lines, "seconds": 2.0, "cpu": 1.5, "MB": 47, **course}
    more = {"cpu of translating": 1.0, "MB of fairseq-preprocess": 50}
    return {**own, **more, "continued": again, "same bytes": True}


def test_tables_and_picture(load_example, tmp_path):
    module = load_example("scale/corpus_tables.py")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    files[0].write_text(json.dumps({"translate": [row(100)]}))
    average = [{"checkpoints": 2, "seconds": 3.0, "cpu": 2.5, "MB": 90}]
    files[1].write_text(json.dumps({"translate": [row(1000)], "average": average}))
    assert module.main([*map(str, files), "--out", str(tmp_path / "out")]) == 0
    made = {
        one["title"]: one
        for one in json.loads((tmp_path / "out/corpora.json").read_text())["tables"]
    }
    assert made["translate"]["columns"] == ["lines", "seconds", "cpu", "MB"]
    assert made["translate"]["rows"] == [[100, 2.0, 1.5, 47], [1000, 2.0, 1.5, 47]]
    assert made["average"]["rows"] == [[2, 3.0, 2.5, 90]]
    assert made["kill -9, started again: until new lines are written"]["rows"][1] == [
        "translate", 1000, 100, 0.5, 0.25, True,
    ]  # fmt: skip
    assert all(len(row) == len(one["columns"]) for one in made.values() for row in one["rows"])
    assert "processor seconds" in (tmp_path / "out" / "corpora.svg").read_text()


def test_random_words_are_a_training_set(load_example, tmp_path):
    from fairseq.data import data_utils

    module = load_example("scale/large_models.py")
    module.write_data(tmp_path / "data", 50, 30, 1)
    source, target = (
        data_utils.load_indexed_dataset(str(tmp_path / "data" / f"train.en-de.{language}"))
        for language in module.LANGUAGES
    )
    known = {}
    for number in range(30):
        for word, other in zip(source[number].tolist(), target[number].tolist()):
            assert known.setdefault(word, other) == other and (word == 2) == (other == 2)
        assert len(source[number]) == module.LENGTH + 1 and source[number].max() < 54


def test_few_lines_are_refused(growth, capsys):
    with pytest.raises(SystemExit, match="2"):
        growth.main(["quickstart", "--work", "work", "--lines", "9"])
    assert "--lines 9: give 10 or more" in capsys.readouterr().err
