"""Prefix beam search for the most probable texts; the probability of a text is the sum over all
outputs (of words and blanks) that print it (Hannun et al., 2014)."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..engine import LanguageModel

_NEVER = float("-inf")
Words = Tuple[int, ...]


class Text(NamedTuple):
    """A text that the search has found, with its scores.

    Attributes:
        words: ids, without ``</s>``.
        log_prob: log P(text).
        bonus: the language model's weighted log-probability, ``</s>`` included; 0 without such a
            model.
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
    """Searches for the most probable texts of a sentence. Returns at most ``beam`` texts, sorted by
    log-probability plus the language model's score without ``</s>``.

    Exact if ``candidates`` holds all words and there are never more than ``beam`` prefixes;
    otherwise a text's probability sums only the outputs that the search has seen.

    Args:
        blanks: the blank's log-probability at each position.
        candidates: for each position the words that it may write, without the blank, with their
            log-probabilities.
        beam: the number of prefixes that are kept after each position.
        longest: the most words of a text.
        language_model: its score counts when prefixes are chosen; None: none is used.
    """
    # Log-probabilities of the outputs that print a prefix: of those that end with a blank, and of
    # those that end with the prefix's last word.
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
                    # The word continues its run; only after a blank is it written once more.
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
    """The bonus of each prefix: the weighted log-probability that a language model gives to the
    prefix; 0 without a language model."""

    def __init__(self, model: Optional[LanguageModel]) -> None:
        self.model = model
        # The model's state behind a prefix, and the prefix's bonus.
        self.known: Dict[Words, Tuple[Any, float]] = {}
        if model is not None:
            self.known[()] = (model.start(), 0.0)

    def of(self, prefix: Words) -> float:
        """The bonus of a prefix, without ``</s>``. It builds on that of the prefix without its last
        word, which must have been asked for before."""
        if self.model is None:
            return 0.0
        if prefix not in self.known:
            state, before = self.known[prefix[:-1]]
            following, more = self.model.step(state, prefix[-1])
            self.known[prefix] = (following, before + more)
        return self.known[prefix][1]

    def at_end(self, prefix: Words) -> float:
        """The bonus of a whole text ``prefix``, ``</s>`` included; :meth:`of` must have been called
        for this text before."""
        if self.model is None:
            return 0.0
        state, before = self.known[prefix]
        return before + self.model.step(state, None)[1]


def _sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    low, high = sorted((one, other))
    return high if low == _NEVER else high + math.log1p(math.exp(low - high))
