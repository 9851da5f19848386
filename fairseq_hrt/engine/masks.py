"""Which cached and new tokens each new token of a decoding step may see."""

from typing import Optional

import torch
from torch import Tensor

from .cache import DecoderState


def visibility_bias(
    state: DecoderState, count: int, visible: Optional[Tensor], causal: bool
) -> Optional[Tensor]:
    """The additive self-attention mask of q new tokens, ``[1 or R, 1, q, T + q]``; None if each may
    see every cached and new token.

    Args:
        state: the cache, with T tokens.
        count: q.
        visible, causal: which tokens may be seen, see :meth:`TransformerEngine.step`.
    """
    shown = _causal_visibility(state, count, causal)
    if visible is not None:
        # [q, T + q] or [T + q] -> [1, q or 1, T + q]
        while visible.dim() < 3:
            visible = visible.unsqueeze(0)
        shown = visible if shown is None else shown & visible  # [1 or R, q, T + q]
    if shown is None:
        return None
    bias = state.cache.new_zeros(shown.shape)  # [1 or R, q, T + q]
    return bias.masked_fill_(~shown, float("-inf")).unsqueeze(1)  # [1 or R, 1, q, T + q]


def _causal_visibility(state: DecoderState, count: int, causal: bool) -> Optional[Tensor]:
    """Which of the T cached and q = ``count`` new tokens each new token may see: BoolTensor ``[1 or
    R, q, T + q]``; None if each may see all. ``causal``: no later new tokens."""
    if state.lengths is None and (count == 1 or not causal):
        return None
    device = state.cache.device
    keys = torch.arange(state.length + count, device=device)  # [T + q]
    ends = (
        torch.arange(1, count + 1, device=device)  # [q]
        if causal
        else torch.full((count,), count, device=device)
    )
    if state.lengths is None:
        return keys < (state.length + ends).view(1, -1, 1)  # [1, q, T + q]
    return keys < (state.lengths.unsqueeze(1) + ends).unsqueeze(-1)  # [R, q, T + q]
