"""``fairseq-hrt graph-statistics``: every model is measured with and without its references."""

import json

import pytest

from fairseq_hrt import systems
from fairseq_hrt.cli import graph_statistics as verb
from fairseq_hrt.evaluation import graph_statistics
from fairseq_hrt.evaluation.graph_statistics import GraphStatistics


@pytest.fixture
def measured(monkeypatch):
    """(scored, decoded) of each model; a system is its description with the data's arguments."""
    found = []

    def collect(scored, decoded):
        found.append((scored, decoded))
        return GraphStatistics(decoded[0].name, 9, 1, 1.0, 2.0, 2.5, 0.5, 0.25, 0.6, [0.25, 0.75], [0.95, 0.5])

    monkeypatch.setattr(systems, "FairseqSystem", lambda *given: given)
    monkeypatch.setattr(graph_statistics, "collect", collect)
    monkeypatch.setattr(graph_statistics, "draw", lambda results, paths: [path.touch() for path in paths])
    return found


def test_all_models_share_a_table(measured, tmp_path, capsys):
    named = ["--system", "name=DAG,path=d.pt", "--system", "name=FA-DAT,path=f.pt,beam=2"]
    verb.main(["data", *named, "--gen-subset", "test", "--out", str(tmp_path / "out")])
    table = capsys.readouterr().out
    assert "| DAG | 1.00 |" in table and "| FA-DAT | 1.00 |" in table
    for (scored, decoded), options in zip(measured, ({}, {"beam": "2"})):
        assert scored[0].options == {**options, "score_reference": "true"} and decoded[0].options == options
        assert scored[1] == decoded[1] == ["data", "--gen-subset", "test"]
    document = json.loads((tmp_path / "out/graph_statistics.json").read_text())
    assert [result["name"] for result in document["results"]] == ["DAG", "FA-DAT"]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".md", ".json", ".png", ".svg"}


def test_without_a_folder_nothing_is_written(measured, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    verb.main(["data", "--system", "name=DAG,path=d.pt"])
    assert "| DAG |" in capsys.readouterr().out and not list(tmp_path.iterdir())
    assert measured[0][0][1] == ["data", "--gen-subset", "valid"]
    with pytest.raises(SystemExit) as end:
        verb.main(["data"])
    assert end.value.code == 2 and "--system" in capsys.readouterr().err
