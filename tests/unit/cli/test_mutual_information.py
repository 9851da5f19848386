"""``fairseq-hrt mutual-information``: every model scores the references, and is compared with the baseline."""

import json
import math

import pytest

from fairseq_hrt import systems
from fairseq_hrt.cli import mutual_information as verb
from fairseq_hrt.evaluation import mutual_information

# log-probabilities of one sentence of two words
SCORES = {"one": [math.log(0.5)] * 2, "two": [math.log(0.25)] * 2, "again": [math.log(0.5)] * 2}
BASELINE = ["data", "--baseline", "name=one,path=one.pt"]


@pytest.fixture
def scored(monkeypatch):
    """The descriptions and data of the systems that have scored."""
    found = []
    monkeypatch.setattr(systems, "FairseqSystem", lambda *given: found.append(given) or given[0])
    monkeypatch.setattr(mutual_information, "score_references", lambda system: [SCORES[system.name]] * 5)
    monkeypatch.setattr(mutual_information, "draw", lambda results, paths: [path.touch() for path in paths])
    return found


def test_systems_are_compared_with_the_baseline(scored, tmp_path, capsys):
    more = ["--system", "name=two,path=two.pt,beam=3", "--system", "name=again,path=one.pt", "--out", str(tmp_path)]
    verb.main([*BASELINE, *more])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    # Twice as probable a word: log 2 nats.
    assert rows[1].startswith("| two | 4.000 | 2.000 | 0.6931 |") and rows[2].startswith(
        "| again | 2.000 | 2.000 | 0.0000 |"
    )
    assert [spec.options for spec, _ in scored] == [
        {"score_reference": "true"}, {"beam": "3", "score_reference": "true"}, {"score_reference": "true"},
    ]  # fmt: skip
    assert {tuple(data) for _, data in scored} == {("data", "--gen-subset", "valid")}
    assert [row["name"] for row in json.loads((tmp_path / "mutual_information.json").read_text())["results"]] == [
        "two",
        "again",
    ]


def test_the_seed_reaches_the_bootstrap(scored, monkeypatch, capsys):
    seeds, estimate = [], mutual_information.estimate
    monkeypatch.setattr(
        mutual_information, "estimate", lambda *given, seed: seeds.append(seed) or estimate(*given, seed=seed)
    )
    verb.main([*BASELINE, "--system", "name=two,path=x"])
    verb.main([*BASELINE, "--system", "name=two,path=x", "--seed", "7"])
    assert seeds == [1, 7]


def test_two_models_of_one_name(scored, capsys):
    with pytest.raises(SystemExit) as end:
        verb.main([*BASELINE, "--system", "name=one,path=other.pt"])
    assert end.value.code == 2 and len(scored) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "error: two models are called 'one': give each a name of its own"
