"""Counters of encoder calls, decoder calls and decoded tokens."""

from dataclasses import dataclass
from typing import Sequence

from ..native.decoding import Hypothesis


@dataclass
class GenerationCounters:
    """The work of a generator since the last :meth:`reset`.

    Attributes:
        encoder_calls: batches encoded, counted once for each model of an ensemble.
        decoder_calls: decoder forward passes over a batch, counted once for each model as well.
        decoder_tokens: tokens fed to the decoder, padding and pruned beams included.
        sentences: sentences translated.
        known: False for runtimes that do not report their calls, such as CTranslate2.
    """

    encoder_calls: int = 0
    decoder_calls: int = 0
    decoder_tokens: int = 0
    sentences: int = 0
    known: bool = True

    def reset(self) -> None:
        """Sets all counts to 0."""
        self.encoder_calls = self.decoder_calls = self.decoder_tokens = self.sentences = 0

    def add(self, found: Sequence[Sequence[Hypothesis]], *, rescored: bool) -> None:
        """Counts a batch that the native engine has decoded; :attr:`decoder_tokens` stays as it is.

        Args:
            found: hypotheses of each sentence, best first.
            rescored: whether a rescoring model has encoded the batch as well.
        """
        self.encoder_calls += 2 if rescored else 1
        self.sentences += len(found)
        # The passes of a batch are those of its longest translation.
        self.decoder_calls += max((best[0].steps for best in found), default=0)
