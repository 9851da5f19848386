"""How relative positions enter the self-attention of one step: by a table where tokens stand
evenly, else by an index."""

from typing import Dict, List, Optional, Sequence, Tuple

from torch import Tensor

from .cache import INITIAL_CAPACITY, DecoderState
from .layers import PackedDecoderLayer, PackedSelfAttention
from .relative_positions import EvenDistances, relative_index


class Distances:
    """Relative positions of the new tokens of a step, for all layers.

    Args:
        tables: of each layer, where every token i stands at position i * stride.
        index: where tokens stand anywhere, rows of the relative tables, LongTensor
            ``[1 or R, q, T]``; see :func:`.relative_positions.relative_index`.
        count: q, the new tokens.
    """

    def __init__(
        self,
        count: int,
        tables: Optional[List[EvenDistances]] = None,
        index: Optional[Tensor] = None,
    ) -> None:
        self.count, self.tables, self.index = count, tables, index

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
        if self.tables is None:
            assert self.index is not None
            index = self.index if chosen is None else self.index[:, chosen]
            relative = attention.relative_bias(queries, index)
        elif self.count == 1:
            # q (k + r) for one query is cheaper than q k + q r.
            return keys + self.tables[layer].behind(keys.size(1)), bias
        else:
            relative = self.tables[layer].products(queries, keys.size(1), chosen, self.count)
        # The sum, in the memory of the first.
        return keys, relative if bias is None else relative.add_(bias)


class StepDistances:
    """The distances of a model's steps.

    Args:
        tables: the relative position vectors of each layer, ``[2w + 1, d]``.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self._tables, self._window = tables, tables[0].size(0) // 2
        # By stride.
        self._even: Dict[int, List[EvenDistances]] = {}

    def forget(self) -> None:
        """Drops what was made of the vectors, which may have changed."""
        self._even.clear()

    def between(self, state: DecoderState, positions: Tensor, remember: bool) -> Distances:
        """Between the new tokens at ``positions`` and all that they may see; those are in the state
        already if it will remember them.

        Args:
            positions: LongTensor ``[q]`` or ``[R, q]``.
        """
        count = positions.size(-1)
        total = state.length + count
        agreed = state.lengths is None and positions.dim() == 1
        if agreed and state.stride is not None:
            return Distances(count, tables=self._evenly(state.stride, total))
        if not remember:
            index = relative_index(positions, positions, self._window).view(-1, count, count)
        elif agreed:
            index = relative_index(positions[None], state.positions[:1, :total], self._window)
        else:
            asking = positions.expand(state.rows, count)
            index = relative_index(asking, state.positions[:, :total], self._window)
        return Distances(count, index=index)

    def _evenly(self, stride: int, total: int) -> List[EvenDistances]:
        """The tables of all layers for at least ``total`` tokens that stand ``stride`` apart."""
        tables = self._even.get(stride)
        if tables is None or tables[0].count < total:
            count = max(2 * total, INITIAL_CAPACITY)
            tables = [EvenDistances(table, stride, count) for table in self._tables]
            self._even[stride] = tables
        return tables


def step_distances(layers: Sequence[PackedDecoderLayer]) -> Optional[StepDistances]:
    """The distances of a decoder; None where its positions are not relative."""
    tables = [layer.attention.relative_keys for layer in layers]
    present = [table for table in tables if table is not None and table.size(0) > 1]
    return StepDistances(present) if present else None
