"""The work that parallel decoding did, and what that is worth."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Sequence

from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis
from .decoding import JacobiIteration


@dataclass(frozen=True)
class DecoderSize:
    """The figures that the cost of a pass depends on.

    Attributes:
        layers: decoder layers; width: D; inner: width of the feed-forward layers; vocabulary: V.
        recurrent: they have recurrent cells in the place of self-attention.
    """

    layers: int
    width: int
    inner: int
    vocabulary: int
    recurrent: bool = False

    @classmethod
    def of(cls, model: FairseqEncoderDecoderModel) -> "DecoderSize":
        """Of a Transformer."""
        decoder = model.decoder
        vocabulary, width = decoder.output_projection.weight.shape
        recurrent = hasattr(decoder.layers[0], "cell")
        return cls(
            len(decoder.layers), width, decoder.layers[0].fc1.out_features, vocabulary, recurrent
        )

    def flops(self, tokens: int, keys: int, source: int) -> int:
        """Of a pass of ``tokens`` new tokens over ``keys`` keys and ``source`` source tokens; a
        multiplication and an addition are two. The encoder and the source's keys
        (:meth:`source_flops`) stand apart."""
        d, q, k, m = self.width, tokens, keys, source
        before = 4 * d * d * q if self.recurrent else 8 * d * d * q + 4 * d * q * k
        layer = before + 4 * d * d * q + 4 * d * q * m + 4 * d * self.inner * q
        return self.layers * layer + 2 * d * self.vocabulary * q

    def source_flops(self, source: int) -> int:
        """Keys and values of the source, once a sentence."""
        return self.layers * 4 * self.width * self.width * source


@dataclass
class JacobiStatistics:
    """Sums over everything that was decoded.

    Attributes:
        sentences: translated.
        tokens: written, ``</s>`` included: the passes that one sentence after the other needs, one
            by one.
        row_passes: passes, counted for each sentence that took part.
        iterations: those of the paper, with ``--jacobi-known-length``; else the passes.
        passes: decoder calls of whole batches.
        pushed: tokens put through the decoder, each sentence's own window.
        proved: how many passes proved 1, 2, … tokens.
        flops: of these passes; plain_flops: of decoding word by word.
        mode: how it was decoded.
        draft_seconds, seconds: spent by the draft model, and altogether.
    """

    mode: str = ""
    sentences: int = 0
    tokens: int = 0
    row_passes: int = 0
    iterations: int = 0
    passes: int = 0
    pushed: int = 0
    flops: int = 0
    plain_flops: int = 0
    draft_seconds: float = 0.0
    seconds: float = 0.0
    proved: Counter = field(default_factory=Counter)

    def add(
        self,
        passes: Sequence[JacobiIteration],
        found: Sequence[Hypothesis],
        sources: Sequence[int],
        size: DecoderSize,
    ) -> None:
        """Counts a batch: its passes and translations, and the lengths of its sources."""
        self.sentences += len(found)
        self.iterations += sum(hypothesis.steps for hypothesis in found)
        for own in passes:
            width = len(own.answers)
            self.tokens += own.proved
            self.row_passes += 1
            self.pushed += width
            self.proved[own.proved] += 1
            self.flops += size.flops(width, own.first + width, sources[own.sentence])
        encoded = sum(map(size.source_flops, sources))
        self.flops += encoded
        self.plain_flops += encoded + sum(
            size.flops(1, step + 1, length)
            for hypothesis, length in zip(found, sources)
            for step in range(len(hypothesis.tokens))
        )

    @property
    def iteration_speedup(self) -> float:
        """Passes word by word by executed passes, sentence by sentence."""
        return self.tokens / max(self.row_passes, 1)

    def to_json(self) -> Dict[str, object]:
        """All figures."""
        return {
            **vars(self),
            "proved": dict(sorted(self.proved.items())),
            "iteration_speedup": self.iteration_speedup,
        }

    def report(self) -> str:
        """One line for the log."""
        histogram: List[str] = [
            f"{count}: {passes}" for count, passes in sorted(self.proved.items())
        ]
        return (
            f"jacobi {self.mode}: {self.sentences} sentences, {self.tokens} tokens in"
            f" {self.row_passes} passes ({self.iteration_speedup:.2f} times fewer than word by"
            f" word), {self.pushed} tokens pushed ({self.pushed / max(self.tokens, 1):.2f} for each"
            f" written), {self.flops / 1e9:.2f} GFLOP ({self.flops / max(self.plain_flops, 1):.2f}"
            f" times those of word by word); {self.seconds:.2f} s"
            + (f", {self.draft_seconds:.2f} s of them for drafts" if self.draft_seconds else "")
            + (
                f"; {self.iterations} iterations as the paper counts them"
                if self.iterations > self.row_passes
                else ""
            )
            + f"; tokens proved by a pass: {{{', '.join(histogram)}}}"
        )
