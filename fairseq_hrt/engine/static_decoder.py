"""Decoding steps of fixed shapes and addresses, which a CUDA graph can replay.

:meth:`.transformer.TransformerEngine.step` appends to a cache that grows, and knows its length on
the host. Here the cache has its full capacity from the start, the number of steps lies on the
device, and what is not written yet is masked. On a CPU that costs more than it saves (the whole
capacity is read in every step), so that both kinds of step exist.
"""

from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .cache import Memory
from .graphs import GraphStore
from .layers import PackedCrossAttention, PackedSelfAttention
from .relative_positions import relative_index
from .transformer import TransformerEngine


class EncodedSource:
    """The encoded source of a batch, in tensors that stay where they are.

    Args:
        store: records the encoder.
        engine: of the model, whose encoder it packs.
        rows: B, the sentences that fit.
        width: S, the tokens that fit.
        eos: the id that ends a source.

    Attributes:
        memory: of all rows; those that the last batch did not fill hold an earlier sentence.
    """

    def __init__(
        self, store: GraphStore, engine: TransformerEngine, rows: int, width: int, *, eos: int
    ) -> None:
        engine.embed_source.reserve(width)
        self.rows, self.width, self._pad = rows, width, engine.pad
        self._tokens = torch.full((rows, width), engine.pad, device=engine.output.weight.device)
        # A row without any word would have nothing to attend to.
        self._tokens[:, -1] = eos
        self._encode = store.record(lambda: engine.encode_static(self._tokens))
        self.memory: Memory = self._encode()

    def encode(self, tokens: Tensor) -> Memory:
        """Encodes ``[B', S']``, which must fit."""
        count, width = tokens.shape
        if width < self.width:
            tokens = F.pad(tokens, (self.width - width, 0), value=self._pad)
        self._tokens[:count].copy_(tokens)
        self.memory = self._encode()
        return self.memory

    def take(self, other: Memory, rows: Tensor) -> None:
        """Continues with the sentences ``rows`` ``[B']`` of another memory, of the same width."""
        own, count = self.memory, rows.numel()
        pairs = [*zip(own.keys, other.keys), *zip(own.values, other.values)]
        assert own.bias is not None and other.bias is not None
        for mine, theirs in [*pairs, (own.bias, other.bias), (own.lengths, other.lengths)]:
            mine[:count].copy_(theirs.index_select(0, rows))


class StaticDecoder:
    """The decoder of one model, with a cache of fixed capacity.

    The tokens of step s stand in the slots s * q to s * q + q - 1 of the cache.

    Args:
        engine: of the model.
        source: the encoded source.
        beams: N.
        places: LongTensor ``[C]``, the position in the sentence of each slot; C is the capacity.
        visible: BoolTensor ``[C, C]``, the slots (columns) that the token in each slot (row) sees.
        block: q, the new tokens of a step.
    """

    def __init__(
        self,
        engine: TransformerEngine,
        source: EncodedSource,
        *,
        beams: int,
        places: Tensor,
        visible: Tensor,
        block: int = 1,
    ) -> None:
        self.engine, self.source, self.beams, self.block = engine, source, beams, block
        self.rows, self.capacity = source.rows * beams, places.numel()
        heads, width = source.memory.keys[0].size(1), source.memory.keys[0].size(3)
        device = places.device
        shape = (len(engine.layers), 2, self.rows, heads, self.capacity, width)
        if engine.recurrent:
            # Only the last state of each row.
            shape = (len(engine.layers), 1, self.rows, 1, 1, heads * width)
        # Zeros: what is masked is multiplied by 0, and 0 * NaN is NaN.
        self.cache = torch.zeros(shape, dtype=engine.dtype, device=device)
        self._spare = torch.empty_like(self.cache) if beams > 1 else None
        self._places = places  # [C]
        self._mask = torch.zeros(self.capacity, self.capacity, dtype=engine.dtype, device=device)
        self._mask.masked_fill_(~visible, float("-inf"))  # [C, C]
        self._ahead = torch.arange(block, device=device)  # [q]
        self._index: Optional[Tensor] = None
        if engine.distances is not None:
            tables = [layer.attention.relative_keys for layer in engine.layers]
            window = next(table.size(0) for table in tables if table is not None) // 2
            self._index = relative_index(places, places, window)  # [C, C]
        # Recorded steps read this table even if the engine makes a longer one later.
        self._table = engine.embed.table

    def features(self, tokens: Tensor, step: Tensor) -> Tensor:
        """Decodes the next q tokens of every row.

        Args:
            tokens: LongTensor ``[R, q]``.
            step: LongTensor ``[1]``, the number of steps so far.

        Returns:
            ``[R, q, D]``.
        """
        engine = self.engine
        slots = step if self.block == 1 else step * self.block + self._ahead  # [q]
        x = engine.embed(tokens, self._places.index_select(0, slots))  # [R, q, D]
        mask = self._mask.index_select(0, slots)  # [q, C]
        index = None if self._index is None else self._index.index_select(0, slots)  # [q, C]
        memory = self.source.memory
        for number, layer in enumerate(engine.layers):
            if layer.cell is not None:
                x = layer.block(x, layer.attention_norm, lambda y: self._recur(number, y))  # noqa: B023
            else:
                x = layer.block(
                    x,
                    layer.attention_norm,
                    lambda y: self._attend(layer.attention, number, y, slots, mask, index),  # noqa: B023
                )
            x = layer.block(
                x,
                layer.cross_norm,
                lambda y: self._ask(layer.cross, memory.keys[number], memory.values[number], y),  # noqa: B023
            )
            x = layer.block(x, layer.final_norm, layer.feed_forward)
        if engine.norm is not None:
            x = engine.norm(x)
        return x if engine.project_out is None else F.linear(x, engine.project_out)

    def reorder(self, rows: Tensor) -> None:
        """Continues with the rows ``[R]`` in this order."""
        assert self._spare is not None
        torch.index_select(self.cache, 2, rows, out=self._spare)
        self.cache.copy_(self._spare)

    def take(self, other: "StaticDecoder", rows: Tensor) -> None:
        """Continues with the rows ``[R']`` of another decoder of the same model, whose capacity is
        at most this one's."""
        length = other.cache.size(4)
        self.cache[:, :, : rows.numel(), :, :length].copy_(other.cache.index_select(2, rows))

    def _recur(self, number: int, x: Tensor) -> Tensor:
        """A layer's recurrent cells: ``[R, q, D]`` → ``[R, q, D]``."""
        cell, last = self.engine.layers[number].cell, self.cache[number, 0, :, 0, 0]  # [R, D]
        assert cell is not None
        states = cell.states(x, last)  # [R, q, D]
        last.copy_(states[:, -1])
        return torch.relu(states)

    def _attend(
        self,
        attention: PackedSelfAttention,
        number: int,
        x: Tensor,
        slots: Tensor,
        mask: Tensor,
        index: Optional[Tensor],
    ) -> Tensor:
        """Self-attention of ``[R, q, D]``, whose keys and values are added to the cache."""
        rows, count, _ = x.shape
        # [3, R, H, q, d]
        fused = attention.all(x).view(rows, count, 3, attention.heads, -1).permute(2, 0, 3, 1, 4)
        queries, cache = fused[0], self.cache[number]  # [R, H, q, d], [2, R, H, C, d]
        cache.index_copy_(3, slots, fused[1:])
        bias = mask[None, None]  # [1, 1, q, C]
        if index is not None:
            relative = attention.relative_bias(queries, index[None])  # [R, H, q, C]
            bias = relative.mul_(attention.scale).add_(bias)
        mixed = F.scaled_dot_product_attention(
            queries, cache[0], cache[1], attn_mask=bias, scale=attention.scale
        )  # [R, H, q, d]
        return attention.output(mixed.transpose(1, 2).reshape(rows, count, -1))

    def _ask(
        self, attention: PackedCrossAttention, keys: Tensor, values: Tensor, x: Tensor
    ) -> Tensor:
        """Attention of ``[R, q, D]`` to the source, ``[B, H, S, d]``."""
        batch, heads, _, width = keys.shape
        # [B, H, N * q, d]: the beams of a sentence are so many queries.
        queries = attention.query(x).view(batch, -1, heads, width).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=self.source.memory.bias, scale=attention.scale
        )  # [B, H, N * q, d]
        return attention.output(mixed.transpose(1, 2).reshape(x.shape))


def causal(capacity: int, device: torch.device) -> Tensor:
    """BoolTensor ``[C, C]``: each token sees itself and those before it."""
    return torch.ones(capacity, capacity, dtype=torch.bool, device=device).tril_()


def places_of(capacity: int, stride: int, longest: int, device: torch.device) -> Tensor:
    """Positions of tokens that stand ``stride`` apart, ``[C]``; the model has ``longest``."""
    return (torch.arange(capacity, device=device) * stride).clamp_(max=longest - 1)


def static_refusal(engines: List[TransformerEngine]) -> Optional[str]:
    """Why these models cannot be decoded by static steps; None if they can."""
    if len(engines) > 1:
        return "an ensemble"
    engine = engines[0]
    if not engine.encoder_layers:
        return f"an encoder of type {type(engine.model.encoder).__name__}"
    if not engine.static_weights:
        return "weights that are being trained"
    return None
