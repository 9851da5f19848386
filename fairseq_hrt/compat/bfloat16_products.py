"""Matrix products in bfloat16 on a CPU, and what else makes such a training step fast.

Automatic mixed precision: parameters, optimizer, softmax and loss stay in float32. Attention and
dropout take the places of PyTorch's, which would use up what the products save.
"""

import contextlib
from typing import Iterator, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

_PYTORCHS_ATTENTION = F.scaled_dot_product_attention


@contextlib.contextmanager
def bfloat16_products() -> Iterator[None]:
    """Within it, matrix products are in bfloat16.

    One step of training or validation, not the whole training: leaving it drops the bfloat16 copies
    of the weights, which the optimizer changes.
    """
    pytorchs = F.scaled_dot_product_attention, F.dropout
    # Modules look these functions up by their names in torch.nn.functional.
    F.scaled_dot_product_attention, F.dropout = attention, dropout
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield
    finally:
        F.scaled_dot_product_attention, F.dropout = pytorchs


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``scaled_dot_product_attention`` by two bfloat16 products and a softmax in float32.

    PyTorch's flash kernel has no fast bfloat16 backward pass on CPUs (it alone took a fifth of the
    time), and its other one computes in float32 and looks for rows that are hidden as a whole: 2.5
    times the time of this.

    Args:
        query: ``[B, H, T, d]``; ``key`` and ``value``: ``[B, H, S, d]``.
        attn_mask: added to the scores unless it is a BoolTensor, of pairs that may be seen where it
            is; broadcast to ``[B, H, T, S]``.
        dropout_p: on the weights.
        is_causal: hides later keys.
        scale: of the scores; None: ``d ** -0.5``.
        enable_gqa: fewer heads of keys than of queries, which is left to PyTorch's function.
    """
    if enable_gqa:
        return _PYTORCHS_ATTENTION(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True
        )
    scores = torch.matmul(
        query * (query.size(-1) ** -0.5 if scale is None else scale), key.transpose(-2, -1)
    )
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        hides = attn_mask.dtype == torch.bool
        scores = (
            scores.masked_fill(~attn_mask, float("-inf"))
            if hides
            else scores + attn_mask.to(scores.dtype)
        )
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype)
    return torch.matmul(F.dropout(weights, dropout_p) if dropout_p else weights, value)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout`` with one random byte for each value instead of one call of
    the generator.

    PyTorch draws a double for every value, which costs a fifth of a training step on a CPU; this
    takes a tenth of that. ``p`` is rounded to 256ths, and what is kept is scaled by the share that
    is really kept, in the precision of ``input`` (bfloat16: to 0.2 %).

    Args:
        input: any shape, floating point.
        p: probability that a value becomes zero, 0 to 1.
        training: otherwise nothing is dropped.
        inplace: accepted as PyTorch's; the result is a new tensor all the same.

    Raises:
        ValueError: for a probability outside 0 to 1.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability {p}: give a number from 0 to 1")
    dropped = round(p * 256)
    if not training or dropped == 0:
        return input
    if dropped == 256:
        return input * 0
    words = torch.empty((input.numel() + 7) // 8, dtype=torch.int64, device=input.device).random_(
        -(2**63), None
    )
    kept = words.view(torch.uint8)[: input.numel()].view(input.shape) >= dropped
    return input * kept.to(input.dtype).mul_(256 / (256 - dropped))
