"""examples/measure/decoding_growth.py: curves of the native runtime's time."""

import json

import pytest


@pytest.fixture
def growth(load_example, monkeypatch):
    module = load_example("measure/decoding_growth.py")
    monkeypatch.setattr(module, "RECIPES", {"multi30k": (64, 64, (1, 1), 2, 40)})
    monkeypatch.setitem(module.CURVES, "source tokens", [2, 4])
    monkeypatch.setitem(module.CURVES, "words of the vocabulary", [30, 40])
    monkeypatch.setitem(module.CURVES, "sentences in a batch", [1, 3])
    monkeypatch.setattr(module, "TOKENS", 1)
    monkeypatch.setattr(module, "LENGTH", 3)
    return module


def test_curves_are_printed_written_and_drawn(growth, tmp_path, capsys):
    growth.main(["--repeats", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "growth.json").read_text())
    assert list(found) == list(growth.CURVES)
    for curve, values in growth.CURVES.items():
        assert f"| ms a sentence, by {curve} | {values[0]} | {values[1]} | p |" in printed
        for name in growth.SYSTEMS:
            assert list(found[curve][name]) == list(map(str, values))
            assert all(milliseconds > 0 for milliseconds in found[curve][name].values())
    picture = (tmp_path / "growth.svg").read_text()
    assert all(curve in picture for curve in growth.CURVES)


def test_the_exponent_is_that_of_the_last_step(growth):
    times = {
        "linear": {2: 1.0, 4: 2.0},
        "quadratic": {2: 1.0, 4: 4.0},
        "constant": {2: 3.0, 4: 3.0},
    }
    lines = growth.table("source tokens", times)[2:]
    assert [line.split(" | ")[-1] for line in lines] == ["1.0 |", "2.0 |", "0.0 |"]


def test_repeats_that_measure_nothing_are_refused(growth, capsys):
    with pytest.raises(SystemExit, match="2"):
        growth.main(["--repeats", "0"])
    assert "--repeats 0 must be at least 1" in capsys.readouterr().err
