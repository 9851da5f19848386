"""Position vectors of slots (see :mod:`.slots`)."""

from typing import Any, Optional

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from .slots import slot_positions


class SlotPositions(SinusoidalPositionalEmbedding):
    """Sinusoidal position vectors of slots, the target positions in the order of writing; like
    fairseq's sinusoids they are not saved in checkpoints.

    One direction has fairseq's positions, so that an ordinary Transformer keeps its vectors. Two
    directions have positions +1, -1, +2, -2, …; the sinusoid of -p is that of p with its sines
    negated. More directions add a learned vector per direction to the sinusoid of the step.

    Args:
        width: D, the width of a vector.
        padding_idx: id of padding; fairseq's positions begin at ``padding_idx + 1``.
        directions: h, the directions of writing.
        size: number of slots whose vectors are computed now; those of later slots are computed when
            they are needed.
        vanilla: whether to count positions as with one direction (ablation, IBDecoder's Table 2).
        first: position of the first slot with one direction; None: as in fairseq.
    """

    def __init__(
        self,
        width: int,
        padding_idx: int,
        *,
        directions: int,
        size: int,
        vanilla: bool,
        first: Optional[int] = None,
    ) -> None:
        super().__init__(width, padding_idx, init_size=padding_idx + 1)
        self.counted = 1 if vanilla else directions
        self.first = padding_idx + 1 if first is None else first
        self.directions: Optional[nn.Parameter] = None
        if self.counted > 2:
            self.directions = nn.Parameter(torch.empty(directions, width).normal_(std=width**-0.5))
        self.weights = self._sinusoids(size)

    def slot_table(self, count: int) -> Tensor:
        """The position vectors of the first ``count`` slots, ``[count, D]``."""
        if self.weights.size(0) < count:
            self.weights = self._sinusoids(max(count, 2 * self.weights.size(0)))
        self.weights = self.weights.to(self._float_tensor)
        vectors = self.weights[:count]  # [count, D]
        if self.directions is None:
            return vectors
        which = torch.arange(count, device=vectors.device) % self.directions.size(0)  # [count]
        return vectors + self.directions[which]  # [count, D]

    def forward(
        self,
        input: Tensor,
        incremental_state: Optional[Any] = None,
        timestep: Optional[Tensor] = None,
        positions: Optional[Any] = None,
    ) -> Tensor:
        """The position vectors ``[B, W, D]`` of the first W slots; of ``input``, ``[B, W]``, only
        the shape is read. The other arguments must be None."""
        if incremental_state is not None or timestep is not None or positions is not None:
            raise ValueError(
                "slot positions are computed for whole sequences: give neither incremental_state"
                " nor timestep nor positions (to decode step by step, use the decoder engine)"
            )
        return self.slot_table(input.size(1)).unsqueeze(0).expand(input.size(0), -1, -1)

    def _sinusoids(self, count: int) -> Tensor:
        """The sinusoids ``[count, D]`` of the first ``count`` target positions in the order of
        writing, without the learned vectors of directions."""
        positions = slot_positions(count, self.counted)
        if self.counted == 1:
            return self.get_embedding(self.first + count, self.embedding_dim)[self.first :]
        if self.counted > 2:
            return self.get_embedding(count, self.embedding_dim)[positions[:, 0]]
        table = self.get_embedding(count + 1, self.embedding_dim)[positions.abs()]  # [count, D]
        table[:, : self.embedding_dim // 2] *= positions.sign().unsqueeze(1)  # [count, D]
        return table
