"""Statistics of graphs, from graphs whose figures are known."""

import json
from types import SimpleNamespace

import graph_statistics
import pytest
from graph_statistics import GraphStatistics, TranslationScores, collect, draw, markdown
from matplotlib.figure import Figure

# Of each sentence: log P(a | x), log P(y | a, x), log P(y | x); the second is longer than its
# graph.
SCORES = [(-1.0, -2.0, -2.5), (float("-inf"),) * 3, (-3.0, -4.0, -6.5)]
# The same of the model's own translations.
OWN = [
    TranslationScores(-0.5, -0.25, -0.125),
    TranslationScores(-1.0, -2.0, -0.5),
    TranslationScores(-3.0, -0.75, -2.0),
]
# Of each sentence: passing probability and best token of the vertices between the first and the
# last.
VERTICES = [[(0.9, 0.95), (0.25, 0.5)], [(0.5, 0.91)], []]


class Data(list):
    def num_tokens(self, sentence):
        return self[sentence]


def make_document(inner):
    ends = {"passing": 7.0, "tokens": [{"token": "end", "probability": 7.0}]}
    vertices = [
        {
            "passing": passing,
            "tokens": [
                {"token": "best", "probability": share},
                {"token": "x", "probability": 0.01},
            ],
        }
        for passing, share in inner
    ]
    return {"vertices": [ends, *vertices, ends]}


def make_system(name="DAG", scores=SCORES, graphs=True):
    def rate(models, sample):
        assert models == ["model"]
        return [
            [dict(zip(("path_log_prob", "token_log_prob", "log_likelihood"), scores[number])), {}]
            for number in sample
        ]

    def describe(models, sample):
        assert models == ["model"]
        return [make_document(VERTICES[number]) for number in sample]

    own = dict(describe_graphs=describe) if graphs else {}
    return SimpleNamespace(
        name=name,
        task_name="t",
        dataset=Data([5, 3, 9]),
        collate=list,
        generator=SimpleNamespace(generate=rate, **own),
        models=["model"],
    )


@pytest.mark.parametrize("size", [1, 2, 32])
def test_means_are_those_of_sentences_with_a_path(size, monkeypatch):
    monkeypatch.setattr(
        graph_statistics, "score_translations", lambda generator, sample: [OWN[i] for i in sample]
    )
    found = collect(make_system(), make_system(), batch_size=size)
    assert (found.name, found.sentences, found.without) == ("DAG", 2, 1)
    assert (found.path_nll, found.token_nll, found.nll) == (2.0, 3.0, 4.5)
    assert (found.own_path_nll, found.own_token_nll, found.own_nll) == (1.5, 1.0, 0.875)
    # The graphs of all sentences, without their first and last vertices.
    assert sorted(zip(found.passing, found.token)) == [(0.25, 0.5), (0.5, 0.91), (0.9, 0.95)]


def test_what_is_refused():
    with pytest.raises(
        ValueError, match=r"system 'AT' \(task t\) writes no graph: give a dag_transformer"
    ):
        collect(make_system("AT"), make_system("AT", graphs=False))
    with pytest.raises(
        ValueError,
        match="every reference is longer than its graph; raise --dag-decode-upsample-scale",
    ):
        collect(make_system(scores=[SCORES[1]] * 3), make_system())


RESULTS = [
    GraphStatistics(
        "a | $\\frac{$", 2, 1, 2.0, 3.0, 4.5, 1.5, 1.0, 0.875, [0.25, 0.5, 0.9, 0.75],
        [0.5, 0.91, 0.95, 0.9],
    )
]  # fmt: skip


def test_the_table():
    lines = markdown(RESULTS).splitlines()
    rows = [
        [cell.strip() for cell in line.replace(r"\|", "").strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    assert rows[2][1:] == ["2.00", "3.00", "4.50", "50.0%", "50.0%", "1 of 3"] and rows[5][1:] == [
        "1.50",
        "1.00",
        "0.88",
    ]
    assert [len(row) for row in rows] == [7] * 3 + [4] * 3 and "$" not in rows[2][0] + rows[5][0]
    assert "Of their own translations, repeats kept:" in lines


def test_the_distributions():
    for axes, field in zip(draw(RESULTS).axes, ("passing", "token")):
        # A step's outline rises to its share: as often as the values say, in per cent.
        heights = axes.patches[0].get_xy()[:, 1]
        shares = {
            100 * sum(int(20 * value) == bin for value in getattr(RESULTS[0], field)) / 4
            for bin in range(20)
        }
        assert set(heights.round(6)) == shares and max(shares) > 0
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a | \\$\\frac{\\$"]


# ---------------------------------------------------------------- the command


@pytest.fixture
def measured(monkeypatch):
    """(scored, decoded) of each model; a system is its description with the data's arguments."""
    found = []

    def collect(scored, decoded):
        found.append((scored, decoded))
        return GraphStatistics(
            decoded[0].name, 9, 1, 1.0, 2.0, 2.5, 0.5, 0.25, 0.6, [0.25, 0.75], [0.95, 0.5]
        )

    monkeypatch.setattr(graph_statistics, "FairseqSystem", lambda *given: given)
    monkeypatch.setattr(graph_statistics, "collect", collect)
    monkeypatch.setattr(graph_statistics, "draw", lambda results: Figure())
    return found


def test_all_models_share_a_table(measured, tmp_path, capsys):
    named = ["--system", "name=DAG,path=d.pt", "--system", "name=FA-DAT,path=f.pt,beam=2"]
    graph_statistics.main(["data", *named, "--gen-subset", "test", "--out", str(tmp_path / "out")])
    table = capsys.readouterr().out
    assert "| DAG | 1.00 |" in table and "| FA-DAT | 1.00 |" in table
    for (scored, decoded), options in zip(measured, ({}, {"beam": "2"})):
        assert (
            scored[0].options == {**options, "score_reference": "true"}
            and decoded[0].options == options
        )
        assert scored[1] == decoded[1] == ["data", "--gen-subset", "test"]
    document = json.loads((tmp_path / "out/graph_statistics.json").read_text())
    assert [result["name"] for result in document["results"]] == ["DAG", "FA-DAT"]
    assert (tmp_path / "out/graph_statistics.svg").exists()
