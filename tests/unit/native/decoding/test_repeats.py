"""Repeated n-grams are collapsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.decoding.repeats import collapse_repeats, without_repeated_ngrams


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


def collapsed(words):
    """Immediately repeated n-grams, the longest first, taken out one after the other until there
    are none."""
    for size in (4, 3, 2, 1):
        for place in range(len(words) - 2 * size + 1):
            if words[place : place + size] == words[place + size : place + 2 * size]:
                return collapsed(words[: place + size] + words[place + 2 * size :])
    return words


@given(st.lists(st.integers(4, 6), max_size=10))
def test_no_ngram_is_repeated_at_once(words):
    tokens = [*words, 2]
    places = list(range(len(tokens)))
    result = Hypothesis(list(tokens), -1.0, [float(-place) for place in places], list(places), 3)
    collapse_repeats(result)
    kept = result.tokens[:-1]
    assert result.tokens[-1] == 2 and collapsed(kept) == kept
    assert (kept == words) == (collapsed(words) == words)
    # Values of a token go with it; missing ones do not appear.
    assert [tokens[place] for place in result.token_steps] == result.tokens
    assert (
        result.positional_scores == [float(-place) for place in result.token_steps]
        and result.alignment == []
    )
