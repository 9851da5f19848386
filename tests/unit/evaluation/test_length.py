"""Quality and time by source length."""

import pytest
import sacrebleu

from fairseq_hrt.evaluation.comparison import Comparison, Result, Settings
from fairseq_hrt.evaluation.length import by_length, draw_by_length, markdown_by_length, read_limits
from fairseq_hrt.evaluation.quality import Quality
from fairseq_hrt.evaluation.speed import Timing

REFERENCES = ["a b c d e", "f g h i j k", "l m n o p", "q r s t u"]


@pytest.fixture
def comparison():
    results = []
    for name, hypotheses, seconds in (
        ("good", REFERENCES, [0.01, 0.03, 0.05]),
        ("bad", ["a b c d e", "f g h i j x", "l m n o x", "x x x x"], [0.02, 0.06, 0.1]),
    ):
        timing = Timing([[3], [0], [2]], [seconds, seconds])
        quality = Quality(0.0, "", 0.0, "", None, None, 1.0)
        results.append(Result(name, {"task": "t"}, hypotheses, [{}] * 4, quality, {1: timing}))
    return Comparison(results, [], 20, Settings(), {})


def test_bins(comparison):
    bins = by_length(comparison, [3, 10, 11, 40], REFERENCES, [10, 20, 30])
    assert [(own.title, own.sentences) for own in bins] == [
        ("1–10", [0, 1]),
        ("11–20", [2]),
        ("31–", [3]),
    ]
    assert bins[0].bleu["good"] == pytest.approx(100)
    expected = sacrebleu.BLEU().corpus_score(["a b c d e", "f g h i j x"], [REFERENCES[:2]]).score
    assert bins[0].bleu["bad"] == pytest.approx(expected)
    # Sentence 1 was not timed.
    assert bins[0].milliseconds == pytest.approx({"good": 30, "bad": 60})
    assert bins[2].milliseconds == pytest.approx({"good": 10, "bad": 20})
    table = markdown_by_length(comparison, bins)
    assert (
        "| System | 1–10 (2) | 11–20 (1) | 31– (1) |" in table
        and "100.00 (1.00) / 30.0 ms" in table
    )
    assert bins[2].length_ratios == {"good": 1.0, "bad": 0.8}


def test_bleu_is_that_of_the_target_language(comparison):
    texts = ["一个人骑车。", "一个人骑自行车。"]
    comparison.language = "zh"
    comparison.results[0].hypotheses, comparison.results[1].hypotheses = texts, texts[::-1]
    (own,) = by_length(comparison, [3, 3], texts, [10])
    expected = sacrebleu.BLEU(tokenize="zh").corpus_score(texts[::-1], [texts]).score
    assert own.bleu == {"good": pytest.approx(100), "bad": pytest.approx(expected)}


def test_picture(comparison, tmp_path):
    # No mathematics, whatever a system is called.
    comparison.results[1].name = r"costs $\frac{$"
    bins = by_length(comparison, [3, 10, 11, 40], REFERENCES, [10])
    draw_by_length(comparison, bins, [tmp_path / "p.png", tmp_path / "p.svg"])
    assert (tmp_path / "p.png").stat().st_size > 5000 and "source tokens" in (
        tmp_path / "p.svg"
    ).read_text()


@pytest.mark.parametrize("text", ["", "a", "20,10", "10,10", "0,5"])
def test_wrong_limits_are_named(text):
    with pytest.raises(ValueError, match="--length-bins"):
        read_limits(text)
