"""Repeated n-grams are collapsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.decoding.repeats import without_repeated_ngrams


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""), ("a", "a"), ("a a", "a"), ("a a a b", "a b"), ("a b a b c", "a b c"),
        ("a b c d a b c d", "a b c d"), ("a b a", "a b a"), ("x y y x y y x", "x y x"),
        ("a b b a b b", "a b"),
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
        assert all(
            kept[i : i + size] != kept[i + size : i + 2 * size]
            for i in range(len(kept) - 2 * size + 1)
        )
