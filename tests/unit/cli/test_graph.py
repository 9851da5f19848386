"""``fairseq-hrt graph``: the graph of a sentence in every form."""

import json
from types import SimpleNamespace

import pytest

from fairseq_hrt.cli import graph as verb
from fairseq_hrt.evaluation import graph_picture, systems

DOCUMENT = {"translation": "Ja é", "vertices": [], "links": []}


class Writer:
    """A system that writes graphs; notes what it is asked for."""

    def __init__(self, spec, data):
        self.name, self.data, self.models, self.task_name = spec.name, data, ["model"], spec.task
        if spec.task != "without":
            self.generator = SimpleNamespace(
                describe_graphs=self.describe_graphs, graph_dot=self.graph_dot
            )
        else:
            self.generator = None
        Writer.last = self

    def collate_text(self, lines):
        return lines

    def describe_graphs(self, models, sample):
        assert models == ["model"]
        self.sample = sample
        return [DOCUMENT]

    def graph_dot(self, document, *, least):
        return f"digraph {least}"


@pytest.fixture
def drawn(monkeypatch):
    found = []
    monkeypatch.setattr(systems, "FairseqSystem", Writer)
    monkeypatch.setattr(
        graph_picture, "draw_graph", lambda *given, least: found.append((*given, least))
    )
    return found


def test_the_graph_is_printed_written_and_drawn(drawn, tmp_path, capsys, works):
    out = tmp_path / "new" / "out"
    verb.main(
        [
            "data",
            "--system",
            "name=DAG,path=d.pt",
            "--text",
            "a b",
            "--least",
            "0.25",
            "--out",
            str(out),
        ]
    )
    assert capsys.readouterr().out == "Ja é\n" and works == ["loading DAG"]
    assert Writer.last.sample == ["a b"] and Writer.last.data == ["data", "--gen-subset", "test"]
    assert json.loads((out / "graph.json").read_text(encoding="utf-8")) == DOCUMENT and "é" in (
        out / "graph.json"
    ).read_text("utf-8")
    assert (out / "graph.dot").read_text() == "digraph 0.25"
    assert drawn == [(DOCUMENT, [out / "graph.png", out / "graph.svg"], 0.25)]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--system", "name=AT,path=a.pt,task=without"],
            "system 'AT' (task without) writes no graph: give a dag_transformer",
        ),
        ([], "no system is given; add --system"),
        (["--system", "name=DAG,path=d.pt", "--text", " "], "--text has no words"),
    ],
)
def test_what_is_refused(drawn, tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        verb.main(["data", "--out", str(tmp_path / "out"), *arguments])
    assert (
        end.value.code == 2
        and message in capsys.readouterr().err
        and not (tmp_path / "out").exists()
    )
