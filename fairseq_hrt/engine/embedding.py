"""Token and position vectors of an encoder or decoder, without fairseq's general-purpose
modules."""

from typing import List, Optional

import torch
import torch.nn.functional as F
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from .layers import FairseqModule, PackedNorm


def position_vectors(positions: FairseqModule, count: int, pad: int) -> Tensor:
    """Vectors of positions 0 to ``count - 1``: ``[count, D]``. If positions are learned, all of
    them are returned, which may be more or fewer than ``count``.

    Args:
        positions: the module that computes or has learned the vectors, see
            :class:`PackedEmbedding`.
        count: how many vectors are needed.
        pad: id of padding; fairseq's tables have position 0 in row ``pad + 1``.
    """
    if hasattr(positions, "slot_table"):
        vectors: Tensor = positions.slot_table(count)
    elif isinstance(positions, LearnedPositionalEmbedding):
        vectors = positions.weight[pad + 1 :]
    else:
        vectors = SinusoidalPositionalEmbedding.get_embedding(
            pad + 1 + count, positions.embedding_dim, positions.padding_idx
        )[pad + 1 :]
    return vectors


class PackedEmbedding:
    """scale * E[token] + P[position], followed by a layer normalisation if the model has one.

    Args:
        tokens: ``[V', E]``, vectors of the dictionary's tokens and of special symbols behind them.
        scale: factor of the token vectors.
        positions: fairseq's learned or sinusoidal module, None for a model without positions, or a
            module with the method ``slot_table(count)`` → ``[count, D]``.
        pad: id of padding, see :func:`position_vectors`.
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
        self.table: Optional[Tensor] = None
        # Earlier tables, which recorded computations still read.
        self._former: List[Tensor] = []

    @torch.no_grad()
    @torch.inference_mode(False)
    def reserve(self, count: int) -> None:
        """Makes sure that positions 0 to ``count - 1`` have vectors.

        Raises:
            ValueError: positions are learned, and the model has fewer than ``count``.
        """
        if self.module is None or (self.table is not None and self.table.size(0) >= count):
            return
        # At least twice as many as before, or the tables that are kept would outgrow the last one.
        size = count if self.table is None else max(count, 2 * self.table.size(0))
        table = position_vectors(self.module, size, self.pad)
        if table.size(0) < count:
            option = {"source": "--max-source-positions", "target": "--max-target-positions"}[
                self.side
            ]
            fix = (
                "lower --max-len-b or train"
                if self.side == "target"
                else "split the sentence or train"
            )
            raise ValueError(
                f"position {count - 1} is needed but the model has learned {table.size(0)}"
                f" positions; {fix} with a larger {option}"
            )
        if self.table is not None:
            self._former.append(self.table)
        self.table = table.to(device=self.tokens.device, dtype=self.tokens.dtype)

    def refresh(self) -> None:
        """Recomputes the table of position vectors if the position module computes it
        (``slot_table``), as it then depends on weights that may have changed."""
        if hasattr(self.module, "slot_table") and self.table is not None:
            count, self.table = self.table.size(0), None
            self.reserve(count)

    def __call__(
        self, tokens: Tensor, positions: Optional[Tensor], vectors: Optional[Tensor] = None
    ) -> Tensor:
        """The sums of token and position vectors, ``[R, q, D]``.

        Args:
            tokens: LongTensor ``[R, q]``.
            positions: LongTensor ``[q]`` or ``[R, q]``; None: 0 to q - 1.
            vectors: ``[R, q, E]``, used in place of the vectors of ``tokens``; None: the vectors
                of ``tokens`` are looked up.
        """
        x = torch.embedding(self.tokens, tokens) if vectors is None else vectors  # [R, q, E]
        scale = self.scale
        if self.zero is not None:
            x.masked_fill_(tokens.eq(self.zero).unsqueeze(-1), 0.0)
        if self.projection is not None:
            x, scale = F.linear(x * scale, self.projection), 1.0  # [R, q, D]
        if self.table is not None:
            if positions is None:
                places = self.table[: tokens.size(1)]  # [q, D]
            else:
                places = torch.embedding(self.table, positions)  # [q, D] or [R, q, D]
            x = torch.add(places, x, alpha=scale)
        elif scale != 1.0:
            x = x * scale
        return x if self.norm is None else self.norm(x)
