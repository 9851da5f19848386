"""Runs training steps on a CPU with matrix products in bfloat16.

This is automatic mixed precision: parameters, optimizer, softmax and loss stay in float32.
PyTorch's attention and dropout are replaced, since they would take the time that the products save.
"""

import contextlib
from typing import Iterator, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

_PYTORCHS_ATTENTION = F.scaled_dot_product_attention


@contextlib.contextmanager
def bfloat16_products() -> Iterator[None]:
    """A context in which PyTorch computes matrix products on a CPU in bfloat16.

    To be used for a single step of training or validation: leaving the context drops the bfloat16
    copies of the weights, which the optimizer's update makes outdated.
    """
    pytorchs = F.scaled_dot_product_attention, F.dropout
    # Modules look these functions up in torch.nn.functional at each call.
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

    PyTorch's flash kernel has a slow bfloat16 backward pass on CPUs (a fifth of the training time).
    Its other kernel computes in float32 and searches for fully masked rows, which takes 2.5 times
    as long as this function. Returns ``[B, H, T, d]``.

    Args:
        query: ``[B, H, T, d]``.
        key, value: ``[B, H, S, d]``.
        attn_mask: broadcast to ``[B, H, T, S]``; a BoolTensor is True for visible pairs, another
            tensor is added to the scores.
        dropout_p: dropout probability of the weights.
        is_causal: True hides the keys behind each query's position.
        scale: factor of the scores; None: ``d ** -0.5``.
        enable_gqa: True allows fewer heads of keys than of queries; then PyTorch's own function is
            called.
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
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype)  # [B, H, T, S]
    return torch.matmul(F.dropout(weights, dropout_p) if dropout_p else weights, value)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout`` with one random byte per value.

    PyTorch draws a double for every value, which takes a fifth of a training step on a CPU; this
    takes a tenth of that. ``p`` is rounded to a multiple of 1 / 256; kept values are scaled by 1 /
    (1 - p) of the rounded p, in the precision of ``input`` (bfloat16: to 0.2 %).

    Args:
        input: any shape, floating point.
        p: probability that a value becomes zero, from 0 to 1.
        training: False drops nothing.
        inplace: ignored; the result is a new tensor.

    Raises:
        ValueError: p is not from 0 to 1.
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
