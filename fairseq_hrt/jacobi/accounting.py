"""Counts the passes, tokens and operations of parallel decoding, and the operations that decoding
word by word would need."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Sequence

from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis
from .decoding import JacobiIteration


@dataclass(frozen=True)
class DecoderSize:
    """The sizes of a decoder that determine the cost of a pass (a call of the decoder).

    Attributes:
        layers: number of decoder layers.
        width: D, the width of the layers.
        inner: inner width of the feed-forward layers.
        vocabulary: V, the number of words in the target dictionary.
        recurrent: whether recurrent cells replace self-attention.
    """

    layers: int
    width: int
    inner: int
    vocabulary: int
    recurrent: bool = False

    @classmethod
    def of(cls, model: FairseqEncoderDecoderModel) -> "DecoderSize":
        """The sizes of a Transformer's decoder."""
        decoder = model.decoder
        vocabulary, width = decoder.output_projection.weight.shape
        recurrent = hasattr(decoder.layers[0], "cell")
        return cls(
            len(decoder.layers), width, decoder.layers[0].fc1.out_features, vocabulary, recurrent
        )

    def flops(self, tokens: int, keys: int, source: int) -> int:
        """Floating-point operations of a decoder pass over ``tokens`` new tokens, each of which
        attends to ``keys`` target tokens and ``source`` source tokens. The operations of
        :meth:`source_flops` and of the encoder are not included."""
        d, q, k, m = self.width, tokens, keys, source
        before = 4 * d * d * q if self.recurrent else 8 * d * d * q + 4 * d * q * k
        layer = before + 4 * d * d * q + 4 * d * q * m + 4 * d * self.inner * q
        return self.layers * layer + 2 * d * self.vocabulary * q

    def source_flops(self, source: int) -> int:
        """Floating-point operations that compute the keys and values of ``source`` source tokens,
        once per sentence."""
        return self.layers * 4 * self.width * self.width * source


@dataclass
class JacobiStatistics:
    """Sums over all decoded sentences. A pass is a call of the decoder; it verifies a token when it
    shows that the token is the one that greedy search would choose.

    Attributes:
        mode: the mode of decoding, see ``--jacobi-mode``.
        sentences: sentences translated.
        tokens: tokens written, with ``</s>``; decoding word by word takes a pass for each.
        row_passes: passes; one over n sentences counts n times.
        iterations: with ``--jacobi-known-length`` the passes as the paper counts them, up to one
            more per block, in which nothing changes; else equal to ``row_passes``.
        passes: passes; one over a batch of n sentences counts once.
        pushed: tokens that the decoder has read, without padding.
        flops: floating-point operations of all passes, and of the keys and values of the source.
        plain_flops: the floating-point operations that decoding word by word would take.
        draft_seconds: seconds spent on guesses before decoding, e.g. by a draft model.
        seconds: all seconds, ``draft_seconds`` included.
        verified: {n: number of passes that verified n tokens of a sentence}.
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
    verified: Counter = field(default_factory=Counter)

    def add(
        self,
        passes: Sequence[JacobiIteration],
        found: Sequence[Hypothesis],
        sources: Sequence[int],
        size: DecoderSize,
    ) -> None:
        """Adds the counts of a batch.

        Args:
            passes: each pass over each sentence of the batch.
            found: the translation of each sentence.
            sources: the number of source tokens of each sentence.
            size: the sizes of the decoder.
        """
        self.sentences += len(found)
        self.iterations += sum(hypothesis.steps for hypothesis in found)
        for own in passes:
            width = len(own.answers)
            self.tokens += own.verified
            self.row_passes += 1
            self.pushed += width
            self.verified[own.verified] += 1
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
        """The passes that decoding word by word would take, divided by the passes made; both are
        counted once for each sentence."""
        return self.tokens / max(self.row_passes, 1)

    def to_json(self) -> Dict[str, object]:
        """All attributes and :attr:`iteration_speedup`; ``proved`` is ``verified`` sorted."""
        return {
            **vars(self),
            "proved": dict(sorted(self.verified.items())),
            "iteration_speedup": self.iteration_speedup,
        }

    def report(self) -> str:
        """The statistics in one line, for the log."""
        histogram: List[str] = [
            f"{count}: {passes}" for count, passes in sorted(self.verified.items())
        ]
        return (
            f"jacobi {self.mode}: {self.sentences} sentences, {self.tokens} tokens in"
            f" {self.row_passes} passes ({self.iteration_speedup:.2f} times fewer than word by"
            f" word), {self.pushed} tokens read ({self.pushed / max(self.tokens, 1):.2f} for each"
            f" written), {self.flops / 1e9:.2f} GFLOP ({self.flops / max(self.plain_flops, 1):.2f}"
            f" times those of word by word); {self.seconds:.2f} s"
            + (f", {self.draft_seconds:.2f} s of them for drafts" if self.draft_seconds else "")
            + (
                f"; {self.iterations} iterations as the paper counts them"
                if self.iterations > self.row_passes
                else ""
            )
            + f"; tokens verified by a pass: {{{', '.join(histogram)}}}"
        )
