"""Removes repeated n-grams from finished translations."""

from typing import List, Sequence

from .hypothesis import Hypothesis


def without_repeated_ngrams(tokens: Sequence[object]) -> List[int]:
    """Removes immediate repetitions of n-grams, n from 4 down to 1, until there are none.
    Returns the indices of the words that are kept: [0, 1, 4] for «a b a b c». ``tokens`` are words
    without ``</s>``."""
    kept = list(range(len(tokens)))
    changed = True
    while changed:
        changed = False
        for size in range(4, 0, -1):
            place = 0
            while place + 2 * size <= len(kept):
                words = [tokens[index] for index in kept[place : place + 2 * size]]
                if words[:size] == words[size:]:
                    del kept[place + size : place + 2 * size]
                    changed = True
                else:
                    place += 1
    return kept


def collapse_repeats(hypothesis: Hypothesis) -> None:
    """Removes immediately repeated n-grams, n up to 4, from a hypothesis, in place; its score stays
    the one that the search computed."""
    kept = without_repeated_ngrams(hypothesis.tokens[:-1])
    kept.append(len(hypothesis.tokens) - 1)
    for name in (
        "tokens", "positional_scores", "token_steps", "token_directions", "alignment",
    ):  # fmt: skip
        values = getattr(hypothesis, name)
        setattr(hypothesis, name, [values[place] for place in kept] if values else values)
