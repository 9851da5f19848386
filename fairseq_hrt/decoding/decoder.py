"""What either engine can do with a model: PyTorch's (:mod:`..engine`) and the native one
(:mod:`..runtime`)."""

from typing import List, Protocol, Sequence

from ..options import DecodingOptions
from .hypothesis import Hypothesis


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


class Decoder(Scorer, Protocol):
    """Translates."""

    def decode(
        self, sources: Sequence[Sequence[int]], options: DecodingOptions, *, every: bool = False
    ) -> List[List[Hypothesis]]:
        """Hypotheses of each source, best first, ``options.nbest`` at most.

        Args:
            sources: dictionary ids ending in ``</s>``.
            every: all hypotheses that the search has found, regardless of ``options.nbest``.

        Raises:
            UnsupportedOption: an option that this engine or this model does not honour.
            NumericalError: a probability is NaN.
        """
