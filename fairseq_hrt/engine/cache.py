"""What a decoder keeps between steps: the encoded source, and keys and values of the tokens so
far."""

from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import torch
from torch import Tensor

# Room of the first buffers: most sentences end within this many tokens, longer ones double it.
INITIAL_CAPACITY = 32


@dataclass
class Memory:
    """The encoded source with its keys and values for each decoder layer; computed once per batch.

    Attributes:
        keys, values: lists with a tensor ``[B, H, S, d]`` for each decoder layer.
        bias: ``[B, 1, 1, S]``, 0 for a source token and -inf for padding; None when nothing is
            padded.
        lengths: LongTensor ``[B]``, the number of source tokens of each sentence, with ``</s>``.
        encoded: ``[B, S, D]``, the encoder's output; None if it was not kept.
    """

    keys: List[Tensor]
    values: List[Tensor]
    bias: Optional[Tensor]
    lengths: Tensor
    encoded: Optional[Tensor] = None

    def __post_init__(self) -> None:
        # Batch and heads are flattened once, not in every step.
        self._flat = [
            (keys.flatten(0, 1), values.flatten(0, 1))  # [B * H, S, d] each
            for keys, values in zip(self.keys, self.values)
        ]

    def layer(self, number: int) -> Tuple[Tensor, Tensor]:
        """(keys, values) of layer ``number`` (0 = first), ``[B * H, S, d]`` each."""
        return self._flat[number]

    def select(self, sentences: Tensor) -> "Memory":
        """The memory of the sentences with these indices, LongTensor ``[B']``."""
        return Memory(
            keys=[keys[sentences] for keys in self.keys],
            values=[values[sentences] for values in self.values],
            bias=None if self.bias is None else self.bias[sentences],
            lengths=self.lengths[sentences],
            encoded=None if self.encoded is None else self.encoded[sentences],
        )


@dataclass
class DecoderState:
    """Key and value buffers of R = B * N rows; row b * N + n is beam n of sentence b.

    For recurrent cells the buffers hold the state after every token, so that :meth:`rollback` works
    for these decoders, too.

    Attributes:
        memory: the encoded source of the B sentences.
        cache: ``[layers, 2, R, H, capacity, d]``, keys at index 0 and values at index 1; for
            recurrent cells ``[layers, 1, R, 1, capacity, D]``. It grows by doubling.
        positions: LongTensor ``[1 or R, capacity]``, the position of each cached token; one row
            while all rows agree.
        length: the number of cached tokens of the longest row.
        lengths: LongTensor ``[R]``, the number of cached tokens of each row once rows were rolled
            back to different lengths; None while all are equal.
    """

    memory: Memory
    cache: Tensor
    positions: Tensor
    length: int = 0
    lengths: Optional[Tensor] = None
    # [B], the sentences still decoded, as indices into the encoded batch; hooks report them.
    sentences: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    def __post_init__(self) -> None:
        self._flat: List[Tuple[Tensor, Tensor]] = []
        self._spare: Optional[Tensor] = None
        self._spare_flat: List[Tuple[Tensor, Tensor]] = []

    def layer(self, number: int) -> Tuple[Tensor, Tensor]:
        """The buffers for (keys, values) of layer ``number`` (0 = first), ``[R * H, capacity, d]``
        each."""
        if not self._flat:
            layers, _, rows, heads, capacity, width = self.cache.shape
            # [layers, 2, R, H, capacity, d] -> 2 * layers times [R * H, capacity, d]
            flat = self.cache.view(2 * layers, rows * heads, capacity, width).unbind()
            self._flat = list(zip(flat[::2], flat[1::2]))
        return self._flat[number]

    @property
    def rows(self) -> int:
        """R, the rows decoded at present."""
        return self.cache.size(2)

    @property
    def capacity(self) -> int:
        """How many tokens of a row fit before the buffers grow."""
        return self.cache.size(4)

    def reserve(self, length: int) -> None:
        """Makes room for ``length`` tokens per row; what is cached is kept."""
        if length <= self.capacity:
            return
        capacity = max(length, 2 * self.capacity, INITIAL_CAPACITY)
        # Zeros, not uninitialised memory: a row shorter than the longest has unwritten slots, which
        # are masked but multiplied by 0, and 0 * NaN is NaN.
        cache = self.cache.new_zeros(*self.cache.shape[:4], capacity, self.cache.size(5))
        cache[..., : self.length, :] = self.cache[..., : self.length, :]
        positions = self.positions.new_zeros(self.positions.size(0), capacity)  # [1 or R, capacity]
        positions[:, : self.length] = self.positions[:, : self.length]
        self.cache, self._flat, self.positions = cache, [], positions

    def slots(self, count: int) -> Tensor:
        """The slots of the buffers (indices along ``capacity``) where the next q = ``count`` tokens
        of each row are stored: LongTensor ``[R, q]``."""
        ahead = torch.arange(count, device=self.cache.device)  # [q]
        starts = ahead.new_full((self.rows,), self.length) if self.lengths is None else self.lengths
        return starts.unsqueeze(1) + ahead  # [R, q]

    def place(self, positions: Tensor) -> Tensor:
        """Stores the positions of the next q tokens, LongTensor ``[q]`` or ``[R, q]``.

        Returns:
            The positions of the cached and the new tokens, LongTensor ``[1 or R, T + q]``.
        """
        count = positions.size(-1)
        if self.lengths is None and positions.dim() == 1:
            self.positions[:, self.length : self.length + count] = positions
        else:
            if self.positions.size(0) == 1:
                self.positions = self.positions.repeat(self.rows, 1)  # [R, capacity]
            self.positions.scatter_(1, self.slots(count), positions.expand(self.rows, count))
        return self.positions[:, : self.length + count]

    def append(self, number: int, projected: Tensor) -> Tuple[Tensor, Tensor]:
        """Writes ``projected`` ``[2, R, H, q, d]``, the new keys and values of layer ``number``,
        behind the layer's cached ones.

        The buffers must have room (:meth:`reserve`). :attr:`length` stays as it is: the caller
        advances it after the last layer.

        Returns:
            (keys, values) of the cached and the new tokens, ``[R * H, T + q, d]`` each.
        """
        total = self.length + projected.size(3)
        self.write(number, projected)
        keys, values = self.layer(number)  # [R * H, capacity, d] each
        return keys.narrow(1, 0, total), values.narrow(1, 0, total)

    def last_states(self, number: int) -> Tensor:
        """The recurrent state ``[R, D]`` of layer ``number`` after the last cached token of each
        row; zeros before the first token."""
        cache = self.cache[number, 0, :, 0]  # [R, capacity, D]
        if self.length == 0:
            return cache.new_zeros(cache.size(0), cache.size(2))  # [R, D]
        if self.lengths is None:
            return cache[:, self.length - 1]  # [R, D]
        # [R, 1, D]
        last = (self.lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, cache.size(2))
        return cache.gather(1, last).squeeze(1).masked_fill(self.lengths.eq(0).unsqueeze(1), 0.0)

    def write(self, number: int, values: Tensor) -> None:
        """Writes ``[1 or 2, R, H, q, d]`` (keys and values, or recurrent states) behind the cached
        tokens of layer ``number``."""
        cache, count = self.cache[number], values.size(3)  # [1 or 2, R, H, capacity, d]
        if self.lengths is None:
            cache.narrow(3, self.length, count).copy_(values)
        else:
            cache.scatter_(3, self.slots(count)[None, :, None, :, None].expand_as(values), values)

    def rollback(self, length: int, *, lengths: Optional[Tensor] = None) -> None:
        """Forgets the last tokens by changing a length; nothing is copied.

        Args:
            length: tokens to keep, of the longest row; no more than it has.
            lengths: LongTensor ``[R]``, tokens to keep of each row; no more than it has. None: all
                rows keep ``length``.
        """
        self.length, self.lengths = length, lengths

    def reorder(self, rows: Tensor, *, sentences: Optional[Tensor] = None) -> None:
        """Continues with the given rows in the given order, as beam search does after pruning.

        Args:
            rows: LongTensor ``[R']``, indices of present rows, N for each sentence kept.
            sentences: LongTensor ``[B']``, indices of the present sentences to keep; None when all
                of them stay.
        """
        if rows.numel() == self.rows:
            # Copy into a spare buffer of the same size and swap the two: nothing is allocated.
            if self._spare is None or self._spare.shape != self.cache.shape:
                self._spare, self._spare_flat = torch.empty_like(self.cache), []
            torch.index_select(self.cache, 2, rows, out=self._spare)
            self.cache, self._spare = self._spare, self.cache
            self._flat, self._spare_flat = self._spare_flat, self._flat
        else:
            self.cache, self._flat = self.cache.index_select(2, rows), []
        if self.positions.size(0) > 1:
            self.positions = self.positions[rows]
        if self.lengths is not None:
            self.lengths = self.lengths[rows]
        if sentences is not None:
            self.memory = self.memory.select(sentences)
            self.sentences = self.sentences[sentences]
