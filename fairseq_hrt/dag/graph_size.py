"""The number of vertices of a sentence's graph."""

from typing import Any, NamedTuple, Sequence, cast

import torch
from torch import Tensor

from ..engine import Memory


class UpsampleScale(NamedTuple):
    """lambda, the vertices per token, or the range from which training draws it."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> "UpsampleScale":
        """Reads a number, ``8``, which is both ends of the range, or a range, ``4~8``.

        Raises:
            ValueError: another format, or a number that is not positive.
        """
        ends = str(text).split("~")
        try:
            values = [float(end) for end in ends]
        except ValueError:
            values = []
        if not 1 <= len(values) <= 2 or not 0 < values[0] <= values[-1] < float("inf"):
            raise ValueError(
                f"--dag-upsample-scale {text!r}: give a positive number such as 8, or a range such"
                " as 4~8"
            )
        return cls(values[0], values[-1])

    @property
    def middle(self) -> float:
        """The middle of the range, used wherever lambda is not drawn."""
        return (self.low + self.high) / 2

    def at(self, uniform: Tensor) -> Tensor:
        """lambda for uniform random numbers in [0, 1), ``[B]`` → ``[B]``."""
        return self.low + (self.high - self.low) * uniform


def vertices_from_source(source_tokens: Tensor, scale: Tensor, besides: int = 0) -> Tensor:
    """The number of vertices of graphs that are sized by the source: L = ⌊scale * (source tokens -
    besides)⌋ + besides, at least 2; LongTensor ``[B]``.

    Args:
        source_tokens: LongTensor ``[B]``, number of tokens, start and end symbols included.
        scale: lambda, ``[B]`` or a number.
        besides: how many of these tokens, as start and end symbols, get one vertex each instead of
            ``scale`` vertices.
    """
    return (_floor(scale * (source_tokens - besides)) + besides).clamp(min=2)


def vertices_from_target(words: Tensor, scale: Tensor) -> Tensor:
    """The number of vertices of graphs that are sized by the target: L = ⌊scale * words⌋ + 2, two
    for ``<s>`` and ``</s>``, which ``words`` ``[B]`` does not count; LongTensor ``[B]``."""
    return _floor(scale * words) + 2


def vertices_of_encoded(
    decoders: Sequence[Any], memories: Sequence[Memory], scale: float
) -> Tensor:
    """L, the number of vertices, of encoded sentences: LongTensor ``[B]``; it may exceed the
    decoders' positions.

    Args:
        decoders: the decoders of an ensemble's models; all must determine sizes in the same way.
        memories: the encoded sources, one :class:`Memory` for each decoder.
        scale: lambda, the vertices per token.
    """
    decoder, lengths = decoders[0], memories[0].lengths
    scales = torch.full(lengths.shape, scale, dtype=torch.double, device=lengths.device)  # [B]
    if decoder.length_head is None:
        return decoder.rule.of_source(lengths, scales)
    parts = []
    for own, memory in zip(decoders, memories):
        encoded = cast(Tensor, memory.encoded)
        padding = torch.zeros(encoded.shape[:2], dtype=torch.bool, device=lengths.device)  # [B, S]
        if memory.bias is not None:
            padding = memory.bias.flatten(1).ne(0)  # [B, S]
        parts.append(torch.log_softmax(own.length_head(encoded, padding).float(), -1))
    words = decoder.length_head.words(torch.stack(parts).sum(0), lengths)  # [B]
    return vertices_from_target(words, scales)


def _floor(value: Tensor) -> Tensor:
    # In floating point 0.7 * 90 is a little less than 63.
    return (value.double() + 1e-6).floor().long()
