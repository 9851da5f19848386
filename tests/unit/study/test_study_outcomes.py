"""examples/study/outcomes.py and figures.py: what an entry measured, and what is kept of it."""

import json

import entries
import figures
import outcomes
import pytest
import steps

REFERENCES = [
    "ein hund läuft über die straße .",
    "zwei frauen sitzen im park .",
    "ein kind spielt mit einem ball .",
] * 4
TRANSLATIONS = {
    "A": [line.replace("ball", "hund") for line in REFERENCES],
    "B": [" ".join(reversed(line.split())) for line in REFERENCES],
}


def measured(name, bleu, seconds):
    """What a benchmark writes of a system; ``seconds`` of each of three repeats."""
    timings = {
        "1": {
            "batches": [[0], [1]],
            "seconds": [[own / 2, own / 2] for own in seconds],
            "decoder_calls": 8,
        }
    }
    return {
        "name": name,
        "quality": {"bleu": bleu, "chrf": 60.0, "length_ratio": 1.0, "valid_share": None},
        "timings": timings,
        "identical": 3,
    }


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A store with a finished training, choice, benchmark and analysis."""
    own = entries.Matrix()
    own.add("data", "prepare", script="x")
    own.add("model", "train", options={"max-update": 50})
    own.add("tuned", "tune", system="s")
    own.add(
        "test", "benchmark", {"B": "A"}, systems=["A", "B"], options={"references": "${data}/test"}
    )
    own.add("analysis", "command", command=["python"], result="found.md")
    own.add("later", "benchmark", systems=["A"])
    store = steps.Store(tmp_path / "study", own.entries)
    for name in ("data", "model", "tuned", "test", "analysis"):
        folder = store.path(name)
        folder.mkdir(parents=True)
        attempt = {
            "seconds": 90,
            "processor": "P",
            "cores": 2,
            "threads": 1,
            "commit": "c",
            "begin": "b",
            "versions": {"gpu": "G"},
        }
        steps.write_record(folder, {"state": "finished", "attempts": [attempt, attempt]})
    (store.path("data") / "test").write_text("".join(line + "\n" for line in REFERENCES))
    (store.path("model") / "log").write_text(
        "epoch 001:     20 / 25 loss=9, num_updates=20, lr=1\n"
    )
    (store.path("analysis") / "found.md").write_text("| a |\n")
    (store.path("tuned") / "best").write_text("lenpen=1.4\n")
    systems = [
        measured("A", 39.25, [4, 1, 1]),
        measured(outcomes.REFERENCE, 30.0, [8, 4, 2]),
        measured("B", 38.0, [1, 1, 1]),
    ]
    (store.path("test") / "results.json").write_text(json.dumps({"systems": systems}))
    (store.path("test") / "table.md").write_text("ranges")
    for number, (name, lines) in enumerate(
        {"A": TRANSLATIONS["A"], outcomes.REFERENCE: REFERENCES, "B": TRANSLATIONS["B"]}.items(), 1
    ):
        (store.path("test") / f"translations_{number}_{name.split()[0]}.txt").write_text(
            "".join(line + "\n" for line in lines)
        )
    monkeypatch.setattr(outcomes, "read_matrix", lambda: (own, {}))
    return store


def test_finished_entries_are_added_and_published_ones_stand(finished, tmp_path, capsys):
    path = tmp_path / "outcomes.jsonl"
    kept = {"identity": finished.entries["tuned"].identity, "name": "tuned", "best": "lenpen=9"}
    path.write_text(json.dumps(kept) + "\n")
    command = ["--study", str(finished.folder), "--outcomes", str(path)]
    assert outcomes.main(command) == 0
    found = {outcome["name"]: outcome for outcome in figures.read_outcomes(path)}
    assert list(found) == ["tuned", "data", "model", "test", "analysis"]
    assert found["tuned"] == kept and found["analysis"]["texts"] == {"found.md": "| a |\n"}
    assert (
        found["model"]["epochs"] == 2
        and found["model"]["seconds"] == 180
        and found["model"]["starts"] == 2
    )
    assert found["model"]["gpu"] == "G" and "gpu" not in found["test"]
    assert "new: data, model, test, analysis" in capsys.readouterr().out
    first = path.read_text()
    outcomes.main(command)
    assert path.read_text() == first


def test_a_published_name_is_not_used_again(finished, tmp_path, capsys):
    path = tmp_path / "outcomes.jsonl"
    other = json.dumps({"identity": "0" * 12, "name": "tuned"}) + "\n"
    path.write_text(other)
    with pytest.raises(SystemExit):
        outcomes.main(["--study", str(finished.folder), "--outcomes", str(path)])
    assert "tuned is published as another entry" in capsys.readouterr().err
    assert path.read_text() == other


def test_figures_of_a_benchmark(finished, tmp_path):
    (tmp_path / "outcomes.jsonl").write_text("")
    outcomes.main(["--study", str(finished.folder), "--outcomes", str(tmp_path / "outcomes.jsonl")])
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "speeds.json").write_text(
        json.dumps({"tables": [{"rows": [["x", "3.2 (3.0–3.4)"]]}]})
    )
    own = figures.Figures(tmp_path)
    # Ratios are taken within repeats: 2, 4 and 2, although the medians are 4 and 1 seconds.
    assert [
        own.value(f"test/A/{quantity}")
        for quantity in ("bleu", "times@1", "sentences@1", "identical")
    ] == [
        39.25,
        2,
        2,
        3,
    ]
    assert own.value("speeds#0.0.1") == "3.2 (3.0–3.4)"
    assert own.outcome("test")["p"] == {
        f"B against {finished.entries['test'].identity}/A": pytest.approx(0.001, abs=0.002)
    }
    for place in (
        "test/C/bleu",
        "test/A/comet",
        "test/A/ms@32",
        "later/A/bleu",
        "speeds#0.1.0",
        "other#0.0.0",
        "test:x.json:a",
    ):
        with pytest.raises(ValueError, match="there is no figure"):
            own.value(place)


def test_the_bootstrap_is_sacrebleus():
    assert outcomes.paired_bootstrap(TRANSLATIONS["A"], TRANSLATIONS["A"], REFERENCES) == 1
    assert outcomes.paired_bootstrap(TRANSLATIONS["A"], TRANSLATIONS["B"], REFERENCES) < 0.01


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"name": "a"}', '{"name": "a", "identity": "1"}\n{"name": "b", "identity": "1"}'],
)
def test_a_wrong_line_is_named(tmp_path, line):
    (tmp_path / "outcomes.jsonl").write_text(line)
    with pytest.raises(ValueError, match=r"outcomes.jsonl, line \d is not an outcome"):
        figures.read_outcomes(tmp_path / "outcomes.jsonl")


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("a >= b - 0.3", True),
        ("a > b or a < 0", False),
        ("a + a == 2 * b or a < b and a / b < 1", True),
    ],
)
def test_conditions(condition, expected):
    assert figures.evaluate(condition, {"a": 1.0, "b": 1.2}) is expected


@pytest.mark.parametrize("condition", ["__import__('os')", "a.real", "c > 1", "a if b else a"])
def test_nothing_else_is_evaluated(condition):
    with pytest.raises(ValueError, match="neither a number nor one of a, b"):
        figures.evaluate(condition, {"a": 1.0, "b": 1.2})
