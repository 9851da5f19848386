"""Rules that both engines follow: repetitions, chunk sizes, and the penalty of a choice among translations."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.decoding_rules import (
    check_rescoring_penalty,
    chunk_table,
    without_repeated_ngrams,
)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""), ("a", "a"), ("a a", "a"), ("a a a b", "a b"), ("a b a b c", "a b c"), ("a b c d a b c d", "a b c d"),
        ("a b a", "a b a"), ("x y y x y y x", "x y x"), ("a b b a b b", "a b"),
    ],
)  # fmt: skip
def test_repetitions_are_collapsed(text, expected):
    words = text.split()
    assert " ".join(words[place] for place in without_repeated_ngrams(words)) == expected


@given(words=st.lists(st.sampled_from("ab"), max_size=14))
def test_nothing_repeats_after_deduplication(words):
    places = without_repeated_ngrams(words)
    kept = [words[place] for place in places]
    assert places == sorted(set(places)) and without_repeated_ngrams(kept) == list(range(len(kept)))
    for size in range(1, 5):
        assert all(kept[i : i + size] != kept[i + size : i + 2 * size] for i in range(len(kept) - 2 * size + 1))


def test_chunk_sizes():
    assert chunk_table(None, "", [3, 2]) == [(math.inf, 2)]
    assert chunk_table("4", "", [3, 2]) == [(math.inf, 4)]
    assert chunk_table("auto", "10:1,30:2,inf:1", [2]) == [(10, 1), (30, 2), (math.inf, 1)]
    for choice in ("0", "-1", "2.0", "two", ""):
        with pytest.raises(ValueError, match=r"--hrt-decode-chunk .* is neither a chunk size \(1, 2, …\) nor auto"):
            chunk_table(choice, "", [2])
    for table in ("", "10:1", "30:1,10:2,inf:1", "10:1,10:2,inf:1", "nan:1,inf:2", "10:0,inf:1", "10,inf:1", "10:x,inf:1"):
        with pytest.raises(ValueError, match="--hrt-chunk-table .*10:1,30:2,inf:1"):
            chunk_table("auto", table, [2])


def test_penalties_whose_powers_stay_finite():
    assert [check_rescoring_penalty(lenpen) for lenpen in (-20.0, 0.0, 20.0)] == [-20.0, 0.0, 20.0]
    for lenpen in (20.1, -21, math.inf, math.nan):
        with pytest.raises(ValueError, match="--rescore-lenpen .* must lie between -20 and 20"):
            check_rescoring_penalty(lenpen)


def test_both_engines_have_one_error_for_nan():
    from fairseq_hrt.decoding import NumericalError
    from fairseq_hrt.runtime import engine

    assert NumericalError is engine.NumericalError and issubclass(NumericalError, (ValueError, ArithmeticError))
