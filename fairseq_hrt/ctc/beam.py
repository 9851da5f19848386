"""Prefix beam search: the most probable texts, each summed over the outputs that print it (Hannun
et al., 2014)."""

import math
from typing import Dict, List, Sequence, Tuple

_NEVER = float("-inf")
Words = Tuple[int, ...]


def prefix_beam(
    blanks: Sequence[float],
    candidates: Sequence[Sequence[Tuple[int, float]]],
    *,
    beam: int,
    longest: int,
) -> List[Tuple[Words, float]]:
    """The best texts of a sentence, best first: (words, log-probability).

    Exact if ``candidates`` holds all words and ``beam`` all prefixes; otherwise a probability is
    that of the outputs which the search has seen.

    Args:
        blanks: log-probability of the blank at each position.
        candidates: the words that each position may write, with their log-probabilities.
        beam: prefixes that are kept after each position.
        longest: the most words of a text.
    """
    # Log-probabilities of the outputs that print a prefix, apart by whether they end with a blank
    # or with the prefix's last word.
    kept: Dict[Words, Tuple[float, float]] = {(): (0.0, _NEVER)}
    for blank, words in zip(blanks, candidates):
        found: Dict[Words, List[float]] = {}

        def add(prefix: Words, place: int, score: float, found: Dict = found) -> None:
            own = found.setdefault(prefix, [_NEVER, _NEVER])
            own[place] = _sum(own[place], score)

        for prefix, (with_blank, with_word) in kept.items():
            total = _sum(with_blank, with_word)
            add(prefix, 0, total + blank)
            for word, score in words:
                if prefix and word == prefix[-1]:
                    # The same run continues; a blank between them begins the word anew.
                    add(prefix, 1, with_word + score)
                    total_before = with_blank
                else:
                    total_before = total
                if len(prefix) < longest and total_before > _NEVER:
                    add((*prefix, word), 1, total_before + score)
        best = sorted(found.items(), key=lambda item: (-_sum(*item[1]), item[0]))[:beam]
        kept = {prefix: (parts[0], parts[1]) for prefix, parts in best}
    return [(prefix, _sum(*parts)) for prefix, parts in kept.items()]


def _sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    low, high = sorted((one, other))
    return high if low == _NEVER else high + math.log1p(math.exp(low - high))
