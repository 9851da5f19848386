"""Finished translations in the order of their scores."""

from fairseq_hrt.native.decoding.hypothesis import Hypothesis, best_first


def test_the_best_comes_first_and_ties_keep_their_order():
    scores = [-2.0, -1.0, -2.0, 0.0, -1.0]
    found = [Hypothesis([number], score, []) for number, score in enumerate(scores)]
    assert [one.tokens for one in best_first(found)] == [[3], [1], [4], [0], [2]]
