"""N-gram models read by kenlm: refused by name, natural logarithms."""

import math
import sys

import pytest

from fairseq_hrt.engine import LanguageModel


def test_a_language_model_that_cannot_be_read_is_named(kenlm):
    with pytest.raises(ValueError, match="--dag-lm-path missing: cannot read"):
        LanguageModel("missing", ["w0"], 1.0, option="--dag-lm-path")


def test_the_package_of_language_models_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(
        ValueError, match="--ctc-lm-path needs the package kenlm: pip install kenlm"
    ):
        LanguageModel("lm", ["w0"], 1.0, option="--ctc-lm-path")


def test_scores_of_a_language_model_are_natural_logarithms(kenlm):
    """Ten times as improbable costs ln 10, times the weight; each step continues from the word
    before."""
    model = LanguageModel("lm", ["w0", "w1", "w2"], 0.5, option="--dag-lm-path")
    state, score = model.step(model.start(), 0)
    assert score == pytest.approx(-3.0 * 0.5 * math.log(10)) and state.word == "w0"
    state, score = model.step(model.step(state, 1)[0], 2)
    assert score == pytest.approx(-5.0 * 0.5 * math.log(10))
    assert model.step(state, None)[1] == pytest.approx(-1.0 * 0.5 * math.log(10))
