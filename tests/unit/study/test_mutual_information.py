"""The estimate of what a parallel step loses."""

import json
import math
from types import SimpleNamespace

import mutual_information
import pytest
import torch
from mutual_information import estimate, markdown


def dependent_pairs(count, seed=0):
    """Pairs of coins, the second equal to the first in 9 of 10 cases, as a parallel and an
    autoregressive model score them."""
    torch.manual_seed(seed)
    parallel, autoregressive = [], []
    for _ in range(count):
        same = bool(torch.rand(()) < 0.9)
        parallel.append([math.log(0.5), math.log(0.5)])
        autoregressive.append([math.log(0.5), math.log(0.9 if same else 0.1)])
    return parallel, autoregressive


def test_the_mutual_information_of_coins():
    """Half of a pair's log 2 - H(0.9) falls to each word."""
    truth = (math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / 2
    result = estimate("coins", *dependent_pairs(4000))
    assert result.low < truth < result.high and result.high - result.low < 0.04
    assert result.nats == pytest.approx(truth, abs=0.02)
    assert result.perplexity == pytest.approx(2) and result.words == 8000
    assert math.log(result.perplexity) - math.log(result.baseline_perplexity) == pytest.approx(
        result.nats
    )


def test_the_interval_covers_the_truth_in_about_95_of_100_trials():
    truth = (math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / 2
    covered = 0
    for seed in range(60):
        result = estimate("coins", *dependent_pairs(150, seed), seed=seed)
        covered += result.low <= truth <= result.high
    assert 50 <= covered <= 60


def test_sentences_of_different_lengths_weigh_by_their_words():
    result = estimate("m", [[-1.0], [-2.0, -2.0, -2.0]], [[0.0], [-1.0, -1.0, -2.0]])
    assert result.nats == pytest.approx((1 + 2) / 4)


def test_other_sentences_are_refused():
    with pytest.raises(ValueError, match="m and its baseline"):
        estimate("m", [[-1.0]], [[-1.0, -2.0]])


def test_data_without_targets_are_refused():
    system = SimpleNamespace(
        name="m", dataset=[0], collate=lambda numbers: {"id": torch.tensor([0]), "target": None}
    )
    with pytest.raises(ValueError, match="m: the data have no targets"):
        mutual_information.score_references(system)


def test_the_table():
    shown = markdown([estimate("IB|Decoder", *dependent_pairs(50))])
    assert "| IB&#124;Decoder | 2.000 |" in shown and "Natural logarithms, 100 words" in shown


# ---------------------------------------------------------------- the command

# log-probabilities of one sentence of two words
SCORES = {"one": [math.log(0.5)] * 2, "two": [math.log(0.25)] * 2, "again": [math.log(0.5)] * 2}
BASELINE = ["data", "--baseline", "name=one,path=one.pt"]


@pytest.fixture
def scored(monkeypatch):
    """The descriptions and data of the systems that have scored."""
    found = []
    monkeypatch.setattr(
        mutual_information, "FairseqSystem", lambda *given: found.append(given) or given[0]
    )
    monkeypatch.setattr(
        mutual_information, "score_references", lambda system: [SCORES[system.name]] * 5
    )
    return found


def test_systems_are_compared_with_the_baseline(scored, tmp_path, capsys):
    more = ["--system", "name=two,path=two.pt,beam=3", "--system", "name=again,path=one.pt"]
    more += ["--out", str(tmp_path)]
    mutual_information.main([*BASELINE, *more])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    # Twice as probable a word: log 2 nats.
    assert rows[1].startswith("| two | 4.000 | 2.000 | 0.6931 |") and rows[2].startswith(
        "| again | 2.000 | 2.000 | 0.0000 |"
    )
    assert [spec.options for spec, _ in scored] == [
        {"score_reference": "true"}, {"beam": "3", "score_reference": "true"},
        {"score_reference": "true"},
    ]  # fmt: skip
    assert {tuple(data) for _, data in scored} == {("data", "--gen-subset", "valid")}
    found = json.loads((tmp_path / "mutual_information.json").read_text())["results"]
    assert [row["name"] for row in found] == ["two", "again"]


def test_the_seed_reaches_the_bootstrap(scored, monkeypatch, capsys):
    seeds, estimate = [], mutual_information.estimate
    monkeypatch.setattr(
        mutual_information,
        "estimate",
        lambda *given, seed: seeds.append(seed) or estimate(*given, seed=seed),
    )
    mutual_information.main([*BASELINE, "--system", "name=two,path=x"])
    mutual_information.main([*BASELINE, "--system", "name=two,path=x", "--seed", "7"])
    assert seeds == [1, 7]


def test_two_models_of_one_name(scored, capsys):
    with pytest.raises(SystemExit) as end:
        mutual_information.main([*BASELINE, "--system", "name=one,path=other.pt"])
    assert end.value.code == 2 and len(scored) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "error: two models are called 'one': give each a name of its own"
    )
