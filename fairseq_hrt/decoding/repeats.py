"""Repeated n-grams in finished translations."""

from typing import List, Sequence


def without_repeated_ngrams(tokens: Sequence[object], *, longest: int = 4) -> List[int]:
    """Collapses immediately repeated n-grams, n from ``longest`` down to 1, until nothing repeats:
    the indices that are kept.

    Args:
        tokens: words without ``</s>``.
    """
    kept = list(range(len(tokens)))
    changed = True
    while changed:
        changed = False
        for size in range(longest, 0, -1):
            place = 0
            while place + 2 * size <= len(kept):
                words = [tokens[index] for index in kept[place : place + 2 * size]]
                if words[:size] == words[size:]:
                    del kept[place + size : place + 2 * size]
                    changed = True
                else:
                    place += 1
    return kept
