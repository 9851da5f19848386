"""Hypotheses after the search."""

from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.decoding import Hypothesis
from fairseq_hrt.runtime.results import deduplicate


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
    deduplicate(result)
    kept = result.tokens[:-1]
    assert result.tokens[-1] == 2 and collapsed(kept) == kept
    assert (kept == words) == (collapsed(words) == words)
    # Values of a token go with it; missing ones do not appear.
    assert [tokens[place] for place in result.token_steps] == result.tokens
    assert (
        result.positional_scores == [float(-place) for place in result.token_steps]
        and result.alignment == []
    )
