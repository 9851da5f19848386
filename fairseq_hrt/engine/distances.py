"""How relative positions enter the self-attention of one step: by a table where tokens stand
evenly, else by an index."""

from typing import List, Optional, Protocol, Tuple

from torch import Tensor

from .layers import PackedSelfAttention
from .relative_positions import EvenDistances


class Distances(Protocol):
    """Relative positions of the new tokens of a step, for all layers."""

    def apply(
        self,
        attention: PackedSelfAttention,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        bias: Optional[Tensor],
        chosen: Optional[Tensor],
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Keys and bias that hold the distances, too.

        Args:
            attention: of the layer.
            layer: its number.
            queries: ``[R, H, q', d]``, scaled.
            keys: ``[R * H, T, d]``, those of the new tokens at the end.
            bias: ``[1 or R, 1, 1 or q', T]`` or None.
            chosen: LongTensor ``[q']``, the new tokens that ask; None: all.
        """


class EvenlySpaced:
    """Every token i stands at position i * stride.

    Args:
        tables: of each layer.
        count: q, the new tokens.
    """

    def __init__(self, tables: List[EvenDistances], count: int) -> None:
        self.tables, self.count = tables, count

    def apply(
        self,
        attention: PackedSelfAttention,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        bias: Optional[Tensor],
        chosen: Optional[Tensor],
    ) -> Tuple[Tensor, Optional[Tensor]]:
        table, total = self.tables[layer], keys.size(1)
        if self.count == 1:
            # q (k + r) for one query is cheaper than q k + q r.
            return keys + table.behind(total), bias
        return keys, _added(table.products(queries, total, chosen, self.count), bias)


class Indexed:
    """Tokens stand anywhere.

    Args:
        index: rows of the relative tables, LongTensor ``[1 or R, q, T]``; see
            :func:`.relative_positions.relative_index`.
    """

    def __init__(self, index: Tensor) -> None:
        self.index = index

    def apply(
        self,
        attention: PackedSelfAttention,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        bias: Optional[Tensor],
        chosen: Optional[Tensor],
    ) -> Tuple[Tensor, Optional[Tensor]]:
        index = self.index if chosen is None else self.index[:, chosen]
        return keys, _added(attention.relative_bias(queries, index), bias)


def _added(relative: Tensor, bias: Optional[Tensor]) -> Tensor:
    """The sum, in the memory of the first."""
    return relative if bias is None else relative.add_(bias)
