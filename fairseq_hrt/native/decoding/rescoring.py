"""Reranks the translations of one model by the scores of another (``--rescore-path``).

This is noisy parallel decoding (Gu et al., 2018, "Non-Autoregressive Neural Machine Translation"):
a parallel decoder writes several translations, and an autoregressive model, usually its teacher,
scores them in a single pass.
"""

from dataclasses import replace
from typing import List, Protocol, Sequence

from ..families import BY_NAME
from ..options.values import DecodingOptions
from .errors import NumericalError
from .hypothesis import Hypothesis, best_first


def require_candidates(count: int, family: str) -> None:
    """Raises ValueError if a search finds only one translation, so that a rescorer has no choice.

    Args:
        count: the most translations that the search can find (:func:`..families.candidates`).
        family: the name of the models' family, for the fix in the message.
    """
    if count < 2:
        raise ValueError(
            "--rescore-path: there is only one translation to choose from; give"
            f" {BY_NAME[family].several_by}"
        )


class Scorer(Protocol):
    """Scores given translations with a left-to-right model."""

    @property
    def longest_source(self) -> int:
        """The longest source that the model accepts, in tokens with ``</s>``."""

    @property
    def longest_target(self) -> int:
        """The longest translation that the model accepts, in tokens with ``</s>``."""

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Sequence[int]]],
        *,
        lenpen: float = 1.0,
    ) -> List[List[Hypothesis]]:
        """Scores translations by their log-probabilities.

        Args:
            sources: dictionary ids of each source, ``</s>`` last.
            targets: any number of translations of each source, ``</s>`` last.
            lenpen: a hypothesis's ``score`` is the sum of log-probabilities / length ** lenpen.

        Returns:
            A hypothesis for each translation, in lists like those of ``targets``.

        Raises:
            NumericalError: a probability is NaN.
        """


class Rescorer:
    """Ranks finished translations by log P(y | x) of a left-to-right model.

    Args:
        judge: the scorer of that left-to-right model, or of an ensemble of such models.
        lenpen: log P(y | x) is divided by length ** lenpen, where the length counts ``</s>``.
    """

    def __init__(self, judge: Scorer, *, lenpen: float = 1.0) -> None:
        # DecodingOptions checks the range of lenpen: powers of lengths must not overflow.
        self.judge, self.lenpen = judge, DecodingOptions(rescore_lenpen=lenpen).rescore_lenpen

    def rank(
        self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]
    ) -> List[List[Hypothesis]]:
        """Sorts the hypotheses of each sentence by the judge's scores, best first; those with equal
        scores keep their order.

        The results have the judge's ``score`` and ``positional_scores``; their ``steps``, numbers
        of decoder passes, include the judge's pass.

        Args:
            sources: dictionary ids of each source, ``</s>`` last.
            found: hypotheses of each sentence, at least one.

        Raises:
            ValueError: a source is longer than the judge accepts.
            NumericalError: a probability is NaN.
        """
        longest, reads = max(map(len, sources), default=0), self.judge.longest_source
        if longest > reads:
            raise ValueError(
                f"--rescore-path: a source of {longest} tokens is longer than the {reads} which"
                f" the rescoring model reads; skip longer sources by --max-source-positions {reads}"
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
