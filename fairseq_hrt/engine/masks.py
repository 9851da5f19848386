"""Which cached and new tokens each new token of a decoding step may see."""

from typing import Optional

import torch
from torch import Tensor

from .cache import DecoderState


class Visibility:
    """Makes the additive self-attention masks of an engine's decoding steps.

    Args:
        dtype: the dtype of the masks, that of the attention scores to which they are added.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._triangle: Optional[Tensor] = None

    def bias(
        self,
        state: DecoderState,
        count: int,
        visible: Optional[Tensor],
        causal: bool,
        device: torch.device,
    ) -> Optional[Tensor]:
        """The additive mask of q new tokens, ``[1 or R, 1, q, T + q]``; None if each may see every
        cached and new token.

        Args:
            state: the cache, with T tokens.
            count: q.
            visible, causal: which tokens may be seen, see :meth:`TransformerEngine.step`.
        """
        if visible is None and causal and count > 1 and state.lengths is None:
            return self._triangular(state.length, count, device)  # [1, 1, q, T + q]
        shown = _causal_visibility(state, count, causal, device)
        if visible is not None:
            # [q, T + q] or [T + q] -> [1, q or 1, T + q]
            while visible.dim() < 3:
                visible = visible.unsqueeze(0)
            shown = visible if shown is None else shown & visible  # [1 or R, q, T + q]
        if shown is None:
            return None
        bias = torch.zeros(shown.shape, dtype=self.dtype, device=device)  # [1 or R, q, T + q]
        return bias.masked_fill_(~shown, float("-inf")).unsqueeze(1)  # [1 or R, 1, q, T + q]

    def _triangular(self, start: int, count: int, device: torch.device) -> Tensor:
        """The causal mask of ``count`` new tokens after ``start`` cached ones, equal for all rows:
        a slice ``[1, 1, q, T + q]`` of one triangle, which is kept and grows."""
        end = start + count
        if (
            self._triangle is None
            or self._triangle.size(0) < end
            or self._triangle.device != device
        ):
            size = max(end, 64 if self._triangle is None else 2 * self._triangle.size(0))
            self._triangle = torch.full(
                (size, size), float("-inf"), dtype=self.dtype, device=device
            ).triu_(1)
        return self._triangle[None, None, start:end, :end]


def _causal_visibility(
    state: DecoderState, count: int, causal: bool, device: torch.device
) -> Optional[Tensor]:
    """Which of the T cached and q = ``count`` new tokens each new token may see: BoolTensor ``[1 or
    R, q, T + q]``; None if each may see all. ``causal``: no later new tokens."""
    if state.lengths is None and (count == 1 or not causal):
        return None
    keys = torch.arange(state.length + count, device=device)  # [T + q]
    ends = (
        torch.arange(1, count + 1, device=device)  # [q]
        if causal
        else torch.full((count,), count, device=device)
    )
    starts = torch.tensor([state.length], device=device) if state.lengths is None else state.lengths
    return keys < (starts.view(-1, 1) + ends).unsqueeze(-1)  # [1 or R, q, T + q]
