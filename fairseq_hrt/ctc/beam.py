"""Prefix beam search: the most probable texts, each summed over the outputs that print it (Hannun
et al., 2014)."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..engine import LanguageModel

_NEVER = float("-inf")
Words = Tuple[int, ...]


class Text(NamedTuple):
    """What the search has found.

    Attributes:
        words: ids, without ``</s>``.
        log_prob: log P(text).
        bonus: the language model's weighted log-probability, ``</s>`` included; 0 without one.
    """

    words: Words
    log_prob: float
    bonus: float


def prefix_beam(
    blanks: Sequence[float],
    candidates: Sequence[Sequence[Tuple[int, float]]],
    *,
    beam: int,
    longest: int,
    language_model: Optional[LanguageModel] = None,
) -> List[Text]:
    """The best texts of a sentence, by log-probability and bonus, those of prefixes in the search.

    Exact if ``candidates`` holds all words and ``beam`` all prefixes; otherwise a probability is
    that of the outputs which the search has seen.

    Args:
        blanks: log-probability of the blank at each position.
        candidates: the words that each position may write, with their log-probabilities.
        beam: prefixes that are kept after each position.
        longest: the most words of a text.
        language_model: its score counts in the choice of prefixes.
    """
    # Log-probabilities of the outputs that print a prefix, apart by whether they end with a blank
    # or with the prefix's last word.
    kept: Dict[Words, Tuple[float, float]] = {(): (0.0, _NEVER)}
    bonus = _Bonus(language_model)
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
        ranks = {prefix: _sum(*parts) + bonus.of(prefix) for prefix, parts in found.items()}
        best = sorted(found, key=lambda prefix: (-ranks[prefix], prefix))[:beam]
        kept = {prefix: (found[prefix][0], found[prefix][1]) for prefix in best}
    return [Text(prefix, _sum(*parts), bonus.at_end(prefix)) for prefix, parts in kept.items()]


class _Bonus:
    """What a language model adds to the scores of prefixes; nothing without one."""

    def __init__(self, model: Optional[LanguageModel]) -> None:
        self.model = model
        # The model's state behind a prefix, and the prefix's bonus.
        self.known: Dict[Words, Tuple[Any, float]] = {}
        if model is not None:
            self.known[()] = (model.start(), 0.0)

    def of(self, prefix: Words) -> float:
        """The bonus of a prefix whose beginnings were asked for before."""
        if self.model is None:
            return 0.0
        if prefix not in self.known:
            state, before = self.known[prefix[:-1]]
            following, more = self.model.step(state, prefix[-1])
            self.known[prefix] = (following, before + more)
        return self.known[prefix][1]

    def at_end(self, prefix: Words) -> float:
        """The bonus of a text."""
        if self.model is None:
            return 0.0
        state, before = self.known[prefix]
        return before + self.model.step(state, None)[1]


def _sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    low, high = sorted((one, other))
    return high if low == _NEVER else high + math.log1p(math.exp(low - high))
