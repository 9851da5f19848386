"""Translations of one model, chosen by another (``--rescore-path``).

As in noisy parallel decoding (Gu et al., 2018, "Non-Autoregressive Neural Machine Translation") a
parallel decoder writes several translations, and an autoregressive model, mostly its teacher, rates
them in a single pass over finished sentences.
"""

from dataclasses import replace
from typing import List, Protocol, Sequence

from ..families import BY_NAME
from ..options.values import DecodingOptions
from .errors import NumericalError
from .hypothesis import Hypothesis, best_first


def require_candidates(count: int, family: str) -> None:
    """Raises ValueError where there is only one translation to choose from; see
    :func:`..families.candidates`."""
    if count < 2:
        raise ValueError(
            "--rescore-path: there is only one translation to choose from; give"
            f" {BY_NAME[family].several_by}"
        )


class Scorer(Protocol):
    """Rates given translations word by word, from left to right."""

    @property
    def longest_source(self) -> int:
        """Tokens of a source that it reads at most, ``</s>`` included."""

    @property
    def longest_target(self) -> int:
        """Tokens of a translation that it reads at most, ``</s>`` included."""

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Sequence[int]]],
        *,
        lenpen: float = 1.0,
    ) -> List[List[Hypothesis]]:
        """Given translations with their log-probabilities.

        Args:
            sources: dictionary ids ending in ``</s>``.
            targets: translations of each source, any number, ``</s>`` last.
            lenpen: ``score`` is the sum of the log-probabilities, divided by the length to this
                power.

        Returns:
            Hypotheses in the order of the translations.

        Raises:
            NumericalError: a probability is NaN.
        """


class Rescorer:
    """Ranks finished translations by log P(y | x) of a model that writes from left to right.

    Args:
        judge: that model, or an ensemble of such.
        lenpen: the sum of the log-probabilities is divided by the length, ``</s>`` included, to
            this power.
    """

    def __init__(self, judge: Scorer, *, lenpen: float = 1.0) -> None:
        # The range of the option: powers of lengths must not overflow.
        self.judge, self.lenpen = judge, DecodingOptions(rescore_lenpen=lenpen).rescore_lenpen

    def rank(
        self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]
    ) -> List[List[Hypothesis]]:
        """The hypotheses of each sentence, best first; what ties stays in order.

        ``score`` and ``positional_scores`` become those of the judge, ``steps`` counts its pass.

        Args:
            sources: dictionary ids ending in ``</s>``.
            found: hypotheses of each sentence, at least one.

        Raises:
            ValueError: a source that is longer than the judge reads.
            NumericalError: NaN.
        """
        longest, reads = max(map(len, sources), default=0), self.judge.longest_source
        if longest > reads:
            raise ValueError(
                f"--rescore-path: a source of {longest} tokens is longer than the {reads} which"
                f" that model reads; leave it out with --max-source-positions {reads}"
                " --skip-invalid-size-inputs-valid-test"
            )
        try:
            judged = self.judge.score(
                sources, [[one.tokens for one in best] for best in found], lenpen=self.lenpen
            )
        except NumericalError as error:
            raise NumericalError(f"--rescore-path: {error}") from None
        return [_ranked(best, opinions) for best, opinions in zip(found, judged)]


def _ranked(best: Sequence[Hypothesis], opinions: Sequence[Hypothesis]) -> List[Hypothesis]:
    rated = [
        replace(
            one,
            score=opinion.score,
            positional_scores=opinion.positional_scores,
            steps=one.steps + 1,
        )
        for one, opinion in zip(best, opinions)
    ]
    return best_first(rated)
