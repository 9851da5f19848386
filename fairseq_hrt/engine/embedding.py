"""Token and position vectors of an encoder or decoder, without fairseq's general-purpose
modules."""

from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from .layers import FairseqModule, PackedNorm


class PackedEmbedding:
    """scale * E[token] + P[position], followed by a layer normalisation if the model has one.

    Args:
        tokens: ``[V', E]``, the token vectors; special symbols follow the dictionary's.
        scale: factor of the token vectors.
        positions: fairseq's learned or sinusoidal module, a module with the method
            ``slot_table(count)`` → ``[count, D]``, or None for a model without positions.
        pad: id of padding; in fairseq's tables position 0 is row ``pad + 1``.
        norm: ``layernorm_embedding`` or None.
        projection: ``[D, E]`` if token vectors have another width than the model, else None.
        side: "source" or "target", for error messages.
        zero: id of a token that is embedded as zeros, or None.
    """

    def __init__(
        self,
        tokens: Tensor,
        *,
        scale: float,
        positions: Optional[FairseqModule],
        pad: int,
        norm: Optional[nn.LayerNorm],
        projection: Optional[Tensor] = None,
        side: str = "target",
        zero: Optional[int] = None,
    ) -> None:
        self.tokens, self.scale, self.pad, self.side, self.zero = tokens, scale, pad, side, zero
        self.norm = None if norm is None else PackedNorm(norm)
        self.projection = projection
        self.module = positions
        self.own_table = hasattr(positions, "slot_table")
        self.offset = 0 if self.own_table else pad + 1
        self.table: Optional[Tensor] = None

    @torch.no_grad()
    @torch.inference_mode(False)
    def reserve(self, count: int) -> None:
        """Makes sure that positions 0 to ``count - 1`` have vectors.

        Raises:
            ValueError: positions are learned, and the model has fewer than ``count``.
        """
        size = self.offset + count
        if self.module is None or (self.table is not None and self.table.size(0) >= size):
            return
        if self.own_table:
            table = self.module.slot_table(count)
        elif isinstance(self.module, LearnedPositionalEmbedding):
            table = self.module.weight
            if table.size(0) < size:
                option = {"source": "--max-source-positions", "target": "--max-target-positions"}[
                    self.side
                ]
                fix = (
                    "lower --max-len-b or train"
                    if self.side == "target"
                    else "split the sentence or train"
                )
                raise ValueError(
                    f"position {count - 1} is needed but the model has learned"
                    f" {table.size(0) - self.offset}; {fix} with a larger {option}"
                )
        else:
            table = SinusoidalPositionalEmbedding.get_embedding(
                size, self.module.embedding_dim, self.module.padding_idx
            )
        self.table = table.to(device=self.tokens.device, dtype=self.tokens.dtype)

    def refresh(self) -> None:
        """Computes the table of a ``slot_table`` module again, as its weights may have changed."""
        if self.own_table and self.table is not None:
            count, self.table = self.table.size(0), None
            self.reserve(count)

    def __call__(self, tokens: Tensor, positions: Optional[Tensor]) -> Tensor:
        """Vectors ``[R, q, D]``.

        Args:
            tokens: LongTensor ``[R, q]``.
            positions: LongTensor ``[q]`` or ``[R, q]``; None: 0 to q - 1.
        """
        x, scale = torch.embedding(self.tokens, tokens), self.scale  # [R, q, E]
        if self.zero is not None:
            x.masked_fill_(tokens.eq(self.zero).unsqueeze(-1), 0.0)
        if self.projection is not None:
            x, scale = F.linear(x * scale, self.projection), 1.0  # [R, q, D]
        if self.table is not None:
            if positions is None:
                vectors = self.table[self.offset : self.offset + tokens.size(1)]  # [q, D]
            else:
                vectors = torch.embedding(  # [q, D] or [R, q, D]
                    self.table, positions + self.offset if self.offset else positions
                )
            x = torch.add(vectors, x, alpha=scale)  # [R, q, D]
        elif scale != 1.0:
            x = x * scale
        return x if self.norm is None else self.norm(x)
