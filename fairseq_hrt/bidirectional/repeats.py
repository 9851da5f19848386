"""Repetitions where two directions meet."""

from typing import Tuple


def deduplicate(tokens: list, *, longest: int = 4) -> Tuple[list, list]:
    """Collapses immediately repeated n-grams, n from ``longest`` down to 1, until nothing repeats.

    Args:
        tokens: words without ``</s>``.

    Returns:
        (tokens kept, their indices).
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
    return [tokens[index] for index in kept], kept
