"""The repair `sentence-bleu`: fairseq's scorer from three numbers, against sacreBLEU."""

import pytest
import sacrebleu
from fairseq.data import Dictionary
from fairseq.scoring.bleu import BleuConfig, Scorer
from hypothesis import given
from hypothesis import strategies as st

words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8).map(" ".join)


def scored(scorer, dictionary, reference, hypothesis):
    scorer.reset(one_init=True)
    scorer.add(dictionary.encode_line(reference), dictionary.encode_line(hypothesis))
    return scorer.score()


@given(words, words)
def test_a_sentence_scores_as_in_sacrebleu(reference, hypothesis):
    dictionary = Dictionary()
    scorer = Scorer(dictionary.pad(), dictionary.eos(), dictionary.unk())
    expected = sacrebleu.sentence_bleu(
        hypothesis,
        [reference],
        smooth_method="add-k",
        smooth_value=1,
        tokenize="none",
        use_effective_order=False,
    )
    assert scored(scorer, dictionary, reference, hypothesis) == pytest.approx(expected.score)


def test_a_configuration_is_taken_as_before():
    scorer = Scorer(BleuConfig(pad=5, eos=6, unk=7))
    assert (scorer.pad, scorer.eos, scorer.unk) == (5, 6, 7)
    scorer = Scorer(5, 6, 7)
    assert (scorer.pad, scorer.eos, scorer.unk) == (5, 6, 7)
