"""Relative positions in the self-attention of a decoding step.

If all tokens stand ``stride`` apart, the vectors are slices of one table per layer; otherwise they
are looked up by an index ``[1 or R, q, T]``.
"""

from typing import Dict, List, Optional, Sequence, Tuple

from torch import Tensor

from .cache import INITIAL_CAPACITY, DecoderState
from .layers import PackedDecoderLayer, PackedSelfAttention
from .relative_positions import EvenDistances, relative_index


class Distances:
    """The relative positions of one decoding step, from its new tokens to all that they attend to,
    for all layers. Either ``tables`` or ``index`` is given.

    Args:
        count: q, the number of new tokens.
        tables: one table of relative position vectors per layer, if token i of every row stands at
            position i * stride.
        index: otherwise, for each pair of tokens, the row of its vector in the table of a layer:
            LongTensor ``[1 or R, q, T]``, see :func:`.relative_positions.relative_index`.
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
        """Adds the relative position vectors r to the attention of one layer: the products q · r to
        the bias or, if there is a single new token and ``tables`` are given, r to the keys.

        Args:
            attention: the layer's self-attention.
            layer: the layer's number (0 = first).
            queries: ``[R, H, q', d]``, scaled.
            keys: ``[R * H, T, d]``, of cached and new tokens, the new ones at the end.
            bias: the additive mask, ``[1 or R, 1, 1 or q', T]``, or None.
            chosen: LongTensor ``[q']``, indices of the new tokens that have queries; None: all.

        Returns:
            (keys, bias) for the attention; the bias is ``[R, H, q', T]`` where products were added.
        """
        if self.tables is None:
            assert self.index is not None
            index = self.index if chosen is None else self.index[:, chosen]  # [1 or R, q', T]
            relative = attention.relative_bias(queries, index)  # [R, H, q', T]
        elif self.count == 1:
            # q (k + r) is cheaper than q k + q r when there is only one query.
            return keys + self.tables[layer].behind(keys.size(1)), bias  # [R * H, T, d]
        else:
            relative = self.tables[layer].products(queries, keys.size(1), chosen, self.count)
        # [R, H, q', T], added in place.
        return keys, relative if bias is None else relative.add_(bias)


class StepDistances:
    """Makes :class:`Distances` for the steps of one decoder.

    Args:
        tables: the relative position vectors of each layer, ``[2w + 1, d]``, for distances -w to w
            between two tokens.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self._tables, self._window = tables, tables[0].size(0) // 2
        # {stride: one table per layer}
        self._even: Dict[int, List[EvenDistances]] = {}

    def forget(self) -> None:
        """Drops the tables made so far; call this when the relative vectors may have changed."""
        self._even.clear()

    def between(self, state: DecoderState, positions: Tensor, remember: bool) -> Distances:
        """The distances from the new tokens to all cached and new tokens.

        Args:
            state: the cache; with ``remember`` it has the new tokens' positions already
                (:meth:`.DecoderState.place`).
            positions: LongTensor ``[q]`` or ``[R, q]``, of the new tokens.
            remember: whether the new tokens are added to the cache, as in
                :meth:`TransformerEngine.step`; False: they see only each other.
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
            asking = positions.expand(state.rows, count)  # [R, q]
            index = relative_index(asking, state.positions[:, :total], self._window)  # [R, q, T]
        return Distances(count, index=index)

    def _evenly(self, stride: int, total: int) -> List[EvenDistances]:
        """One table per layer, for at least ``total`` tokens that stand ``stride`` apart."""
        tables = self._even.get(stride)
        if tables is None or tables[0].count < total:
            count = max(2 * total, INITIAL_CAPACITY)
            tables = [EvenDistances(table, stride, count) for table in self._tables]
            self._even[stride] = tables
        return tables


def step_distances(layers: Sequence[PackedDecoderLayer]) -> Optional[StepDistances]:
    """The :class:`StepDistances` of a decoder with these layers; None if it has no relative
    positions."""
    tables = [layer.attention.relative_keys for layer in layers]
    present = [table for table in tables if table is not None and table.size(0) > 1]
    return StepDistances(present) if present else None
