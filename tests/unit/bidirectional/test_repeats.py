"""Repetitions are collapsed, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.bidirectional.repeats import deduplicate


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""), ("a", "a"), ("a a", "a"), ("a a a b", "a b"), ("a b a b c", "a b c"), ("a b c d a b c d", "a b c d"),
        ("a b a", "a b a"), ("x y y x y y x", "x y x"), ("a b b a b b", "a b"),
    ],
)  # fmt: skip
def test_repetitions_are_collapsed(text, expected):
    words, kept = deduplicate(text.split())
    assert " ".join(words) == expected and [text.split()[place] for place in kept] == words


@given(words=st.lists(st.sampled_from("ab"), max_size=14))
def test_nothing_repeats_after_deduplication(words):
    kept, places = deduplicate(words)
    assert places == sorted(set(places)) and deduplicate(kept)[0] == kept
    for size in range(1, 5):
        assert all(kept[i : i + size] != kept[i + size : i + 2 * size] for i in range(len(kept) - 2 * size + 1))
