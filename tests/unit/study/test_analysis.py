"""examples/study/analysis.py: what was measured, as a table, curves and files."""

import json
import sys
from dataclasses import dataclass

from analysis import curves, report, table
from matplotlib.figure import Figure


@dataclass
class Row:
    name: str
    value: float


def test_results_are_printed_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["look.py"])
    rows, folder = [Row("é", 0.5), Row("b", 1.0)], tmp_path / "new" / "folder"
    report(None, "figures", "| é |\n", rows, Figure())
    assert not list(tmp_path.iterdir())
    report(folder, "figures", "| é |\n", rows)
    assert sorted(path.name for path in folder.iterdir()) == ["figures.json", "figures.md"]
    report(folder, "figures", "| é |\n", rows, Figure(figsize=(2, 1)))
    assert capsys.readouterr().out == "| é |\n" * 3
    assert (folder / "figures.md").read_text(encoding="utf-8") == "| é |\n"
    document = json.loads((folder / "figures.json").read_text())
    assert document == {
        "command": ["look.py"],
        "results": [{"name": "é", "value": 0.5}, {"name": "b", "value": 1.0}],
    }
    assert (folder / "figures.png").stat().st_size
    assert "<svg" in (folder / "figures.svg").read_text()


def test_tables_and_curves():
    assert (
        table(["a", "b", "c"], [["x", "1", "2"]])
        == "| a | b | c |\n|---|---:|---:|\n| x | 1 | 2 |\n"
    )
    (axes,) = curves({"one": ([1, 2], [3, 4]), "$\\frac{$": ([1], [2])}, "across", "up").axes
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[1, 3], [2, 4]], [[1, 2]]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("across", "up")
    # A name is not mathematics.
    assert axes.get_legend().get_texts()[1].get_text() == "\\$\\frac{\\$"
