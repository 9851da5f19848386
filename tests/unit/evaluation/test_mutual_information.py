"""The estimate of what a parallel step loses."""

import math

import pytest
import torch

from fairseq_hrt.evaluation.mutual_information import draw, estimate, markdown


def dependent_pairs(count, seed=0):
    """Pairs of coins, the second equal to the first in 9 of 10 cases, as a parallel and an autoregressive model score them."""
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
    assert math.log(result.perplexity) - math.log(result.baseline_perplexity) == pytest.approx(result.nats)


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


def test_table_and_picture(tmp_path):
    # The second name is no mathematics.
    results = [estimate(name, *dependent_pairs(50, seed)) for seed, name in enumerate(("IBDecoder", r"IB+SA(2) $\frac{$"))]
    assert "| IBDecoder | 2.000 |" in markdown(results) and "Natural logarithms, 100 words" in markdown(results)
    draw(results, [tmp_path / "m.png", tmp_path / "m.svg"])
    assert (tmp_path / "m.png").stat().st_size > 5000
