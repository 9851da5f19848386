"""Decoding steps of fixed shapes and addresses, which a CUDA graph can replay.

:meth:`.transformer.TransformerEngine.step` appends to a cache that grows, and holds its length on
the host. Here the cache has its full capacity from the start, and the number of steps lies on the
device. Written with PyTorch's own functions, as on a CPU, such a step reads the whole cache, used
or not, which costs more than it saves; the kernels of :mod:`.fused` read only slots with tokens. So
both kinds of step exist.
"""

from dataclasses import replace
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import gelu
from torch import Tensor

from .cache import Memory
from .fused import attention_block, cross_attention, embed, fused_linear
from .fused.linear import MOST_ROWS
from .fused.support import Norm
from .graphs import GraphStore
from .layers import PackedDecoderLayer, PackedNorm
from .transformer import TransformerEngine


class EncodedSource:
    """The encoded source of a batch, in tensors whose addresses never change.

    Args:
        store: records the encoder's computation as a CUDA graph.
        engine: the model's engine, which has packed its encoder.
        rows: B, how many sentences fit.
        width: S, how many tokens of each fit.
        eos: the id that ends a source.

    Attributes:
        memory: the encoded sentences of all rows; rows that the last batch did not fill hold
            sentences of an earlier one.
    """

    def __init__(
        self, store: GraphStore, engine: TransformerEngine, rows: int, width: int, *, eos: int
    ) -> None:
        engine.embed_source.reserve(width)
        self.rows, self.width, self._pad = rows, width, engine.pad
        self._tokens = torch.full((rows, width), engine.pad, device=engine.output.weight.device)
        # A row without any word would have nothing to attend to.
        self._tokens[:, -1] = eos
        # Not what a recorded function returns: graphs share their memory, and one that was recorded
        # before may write there while the memory is still read.
        self.memory: Memory = replace(engine.encode_static(self._tokens), encoded=None)
        self._encode = store.record(lambda: self._copy(engine.encode_static(self._tokens)))

    def encode(self, tokens: Tensor) -> Memory:
        """Encodes a batch of source tokens ``[B', S']`` into the first B' rows of :attr:`memory`,
        which is returned; B' and S' may not exceed B and S, for which there is room."""
        count, width = tokens.shape
        if width < self.width:
            tokens = F.pad(tokens, (self.width - width, 0), value=self._pad)
        self._tokens[:count].copy_(tokens)
        self._encode()
        return self.memory

    def take(self, other: Memory, rows: Tensor) -> None:
        """Copies the sentences ``rows``, LongTensor ``[B']``, of another memory of the same width
        into the first B' rows."""
        self._copy(other, rows)

    def _copy(self, other: Memory, rows: Optional[Tensor] = None) -> None:
        """Copies the rows ``rows``, LongTensor ``[B']`` (None: all), of another memory into the
        first rows of this one."""
        own = self.memory
        pairs = [*zip(own.keys, other.keys), *zip(own.values, other.values)]
        assert own.bias is not None and other.bias is not None
        for mine, theirs in [*pairs, (own.bias, other.bias), (own.lengths, other.lengths)]:
            if rows is None:
                mine.copy_(theirs)
            else:
                mine[: rows.numel()].copy_(theirs.index_select(0, rows))


class StaticDecoder:
    """The decoder of one model, with a cache of fixed capacity.

    Token i of a row stands in slot i of the cache, at position i * ``stride`` of the sentence.

    Args:
        engine: the model's engine.
        source: the encoded source.
        beams: N, the hypotheses of each sentence.
        capacity: C, the number of slots.
        stride: distance between the positions of neighbouring tokens.
        block: q, the number of new tokens of a row in each step.
        causal: new tokens do not see later new tokens.
        visible: BoolTensor ``[C, C]``, the slots (columns) that the token in each slot (row) may
            see if ``causal`` allows it, too; None: all.
    """

    def __init__(
        self,
        engine: TransformerEngine,
        source: EncodedSource,
        *,
        beams: int,
        capacity: int,
        stride: int = 1,
        block: int = 1,
        causal: bool = True,
        visible: Optional[Tensor] = None,
    ) -> None:
        self.engine, self.source, self.beams, self.block = engine, source, beams, block
        self.capacity, self._stride, self._causal, self._visible = capacity, stride, causal, visible
        self.rows = source.rows * beams
        heads, width = source.memory.keys[0].size(1), source.memory.keys[0].size(3)
        device = engine.output.weight.device
        shape = (len(engine.layers), 2, self.rows, heads, capacity, width)
        if engine.recurrent:
            # Only the last state of each row.
            shape = (len(engine.layers), 1, self.rows, 1, 1, heads * width)
        # Zeros: what is masked is multiplied by 0, and 0 * NaN is NaN.
        self.cache = torch.zeros(shape, dtype=engine.dtype, device=device)
        # The second cache, into which reorder() writes.
        self._other = torch.zeros_like(self.cache) if beams > 1 else None
        self._ahead = torch.arange(block, device=device)  # [q]

    def features(self, tokens: Tensor, first: Tensor) -> Tuple[Tensor, Optional[Norm]]:
        """Decodes the next q tokens of every row.

        Args:
            tokens: LongTensor ``[R, q]``.
            first: LongTensor ``[1]`` or ``[R]``, the slot of the first of these tokens. What stands
                in later slots is forgotten.

        Returns:
            Features ``[R * q, D]``, and the layer normalisation that is still to be applied to
            them, or None.
        """
        engine = self.engine
        x = self._embed(tokens, first)  # [R * q, D]
        visible = None
        if self._visible is not None:
            visible = self._visible.index_select(0, first + self._ahead)  # [q, C]
        # With post-norm, the sum of a residual block is normalised by the kernels that read it.
        pending: Optional[Norm] = None
        for number, layer in enumerate(engine.layers):
            before = _norm(layer.attention_norm) if layer.before else pending
            if layer.cell is None:
                mixed = self._attend(layer, number, x, before, first, visible)
                output = layer.attention.output
                x = fused_linear(
                    mixed, output.weight, output.bias, residual=x, residual_norm=pending
                )
            else:
                x = _normed(x, pending) + self._recur(layer, number, _normed(x, before))
            x, pending = _behind(layer, layer.attention_norm, x)
            x = self._attend_to_source(layer, number, x, pending)
            x, pending = _behind(layer, layer.cross_norm, x)
            x = _feed_forward(layer, x, pending)
            x, pending = _behind(layer, layer.final_norm, x)
        if engine.norm is not None:
            x, pending = _normed(x, pending), _norm(engine.norm)
        if engine.project_out is not None:
            x, pending = F.linear(_normed(x, pending), engine.project_out), None
        return x, pending

    def logits(self, tokens: Tensor, first: Tensor) -> Tensor:
        """Unnormalised scores ``[R * q, V]`` for the token that follows each of ``tokens``
        ``[R, q]``; arguments as for :meth:`features`."""
        return self.engine.logits(_normed(*self.features(tokens, first)))

    def reorder(self, rows: Tensor) -> None:
        """Writes the cache's rows in the order ``rows`` ``[R]`` into a second cache, which
        :meth:`swap` makes the present one."""
        assert self._other is not None
        torch.index_select(self.cache, 2, rows, out=self._other)

    def swap(self) -> None:
        """Exchanges the two caches. A recorded step always reads the one that was present when it
        was recorded, and writes the other."""
        assert self._other is not None
        self.cache, self._other = self._other, self.cache

    def clear(self) -> None:
        """Forgets all tokens by zeroing the caches. Even masked slots must not keep a NaN, which a
        row that ran on after its end may have left: 0 * NaN is NaN."""
        self.cache.zero_()
        if self._other is not None:
            self._other.zero_()

    def take(self, other: "StaticDecoder", rows: Tensor) -> None:
        """Copies the cached tokens of ``rows``, LongTensor ``[R']``, of another decoder into the
        first R' rows. Both are of the same model, and ``other`` has no larger capacity."""
        length = other.cache.size(4)
        self.cache[:, :, : rows.numel(), :, :length].copy_(other.cache.index_select(2, rows))

    def _embed(self, tokens: Tensor, first: Tensor) -> Tensor:
        """Embeds tokens ``[R, q]`` at the positions of slot ``first`` and those behind it:
        ``[R * q, D]``."""
        own, places = self.engine.embed, first  # [1] or [R]
        if self.block > 1:
            ahead = first.unsqueeze(1) + self._ahead  # [1 or R, q]
            places = ahead.expand_as(tokens).reshape(-1)  # [R * q]
        if self._stride > 1:
            places = places * self._stride
        if own.projection is not None:
            if own.table is not None:
                places = places.clamp(max=own.table.size(0) - 1)
            return own(tokens.view(-1, 1), places.view(-1, 1)).squeeze(1)
        return embed(
            tokens.view(-1),
            own.tokens,
            own.table,
            places if own.table is not None else None,
            scale=own.scale,
            norm=None if own.norm is None else _norm(own.norm),
            zero=own.zero,
        )

    def _recur(self, layer: PackedDecoderLayer, number: int, x: Tensor) -> Tensor:
        """The recurrent cells of layer ``number``: ``x`` ``[R * q, D]`` → ``[R * q, D]``; the state
        after the last token of each row replaces the cached one."""
        cell, last = layer.cell, self.cache[number, 0, :, 0, 0]  # [R, D]
        assert cell is not None
        states = cell.states(x.view(self.rows, self.block, -1), last)  # [R, q, D]
        last.copy_(states[:, -1])
        return torch.relu(states).flatten(0, 1)

    def _attend(
        self,
        layer: PackedDecoderLayer,
        number: int,
        x: Tensor,
        norm: Optional[Norm],
        first: Tensor,
        visible: Optional[Tensor],
    ) -> Tensor:
        """The self-attention of layer ``number`` before its output projection, ``[R * q, D]``; the
        new tokens' keys and values are added to the cache.

        Args:
            x: ``[R * q, D]``, the new tokens' vectors.
            norm: the layer normalisation that is applied to ``x`` first, or None.
            first: LongTensor ``[1]`` or ``[R]``, the slot of the first new token.
            visible: BoolTensor ``[q, C]``, the slots that each new token may see; None: all.
        """
        attention, cache = layer.attention, self.cache[number].flatten(1, 2)  # [2, R * H, C, d]
        fused = fused_linear(x, attention.all.weight, attention.all.bias, norm=norm)
        mixed = attention_block(
            fused.view(self.rows, self.block, -1),
            cache[0],
            cache[1],
            first,
            heads=attention.heads,
            scale=attention.scale,
            causal=self._causal,
            visible=visible,
            relative=attention.relative_keys,
            stride=self._stride,
        )
        return mixed.flatten(0, 1)

    def _attend_to_source(
        self, layer: PackedDecoderLayer, number: int, x: Tensor, pending: Optional[Norm]
    ) -> Tensor:
        """``x`` ``[R * q, D]``, normalised by ``pending`` unless that is None, plus its attention
        to the source in layer ``number``."""
        attention, memory = layer.cross, self.source.memory
        norm = _norm(layer.cross_norm) if layer.before else pending
        queries = fused_linear(x, attention.query.weight, attention.query.bias, norm=norm)
        keys, values = memory.layer(number)  # [B * H, S, d] each
        mixed = cross_attention(
            queries.view(self.rows, -1),
            keys,
            values,
            heads=attention.heads,
            scale=attention.scale,
            beams=self.beams,
            bias=memory.bias,
        )
        output = attention.output
        return fused_linear(
            mixed.view_as(x), output.weight, output.bias, residual=x, residual_norm=pending
        )


def _feed_forward(layer: PackedDecoderLayer, x: Tensor, pending: Optional[Norm]) -> Tensor:
    own = layer.feed_forward
    inner, outer, activation = own.inner, own.outer, _ACTIVATIONS.get(own.activation)
    norm = _norm(layer.final_norm) if layer.before else pending
    hidden = fused_linear(x, inner.weight, inner.bias, norm=norm, activation=activation)
    if activation is None:
        hidden = own.activation(hidden)
    return fused_linear(hidden, outer.weight, outer.bias, residual=x, residual_norm=pending)


# Activations that fused_linear applies itself.
_ACTIVATIONS = {torch.relu_: "relu", gelu: "gelu"}


def _norm(norm: PackedNorm) -> Norm:
    return norm.weight, norm.bias, norm.eps


def _behind(
    layer: PackedDecoderLayer, norm: PackedNorm, x: Tensor
) -> Tuple[Tensor, Optional[Norm]]:
    """The output ``[M, D]`` of a residual block, and the normalisation that its readers still have
    to apply, or None. ``x``: the sum that the block computes; ``norm``: the block's own norm."""
    if layer.before:
        return x, None
    # With many rows it is cheaper to normalise here, once, than in each kernel that reads x.
    return (x, _norm(norm)) if x.size(0) <= MOST_ROWS else (norm(x), None)


def _normed(x: Tensor, norm: Optional[Norm]) -> Tensor:
    return x if norm is None else torch.layer_norm(x, x.shape[-1:], *norm)
