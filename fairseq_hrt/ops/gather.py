"""Log-probabilities of a few tokens at every vertex, without keeping the log-softmax over the whole
vocabulary in memory."""

from typing import Any, Iterator, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import fused
from .products import add_product, at_least_float32

# Logits computed at a time (64 MiB in float32), and the most that are kept for the gradient.
CHUNK, KEPT = 2**24, 2**26
# Logits normalised at a time: in float32 they fit into the second-level cache of a core.
BLOCK = 2**18


def gather_log_probs(
    features: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Optional[Tensor] = None,
) -> Tensor:
    """The log-probability of each target token at each vertex:
    match[b, i, v] = log softmax(features[b, v] W^T + bias)[targets[b, i]].

    Logits are computed for a chunk of vertices at a time and normalised a few rows at a time,
    within the processor's cache. Those of small batches (up to KEPT numbers) are kept for the
    gradient, others computed again in the backward pass: memory holds ``match`` and one chunk
    instead of several tensors ``[B, L, V]``. Kept logits are overwritten by their gradient, so
    PyTorch refuses a second backward pass.

    In half precision on a CUDA device, :mod:`.fused` does this with larger chunks.

    Args:
        features: ``[B, L, D]``, of the vertices.
        weight, bias: ``[V, D]`` and ``[V]``, the output projection; None: no bias.
        targets: LongTensor ``[B, T]``, ids of the target tokens.

    Returns:
        ``[B, T, L]``, differentiable in features, weight and bias; float32 for half-precision
        arguments.
    """
    dtype = _product_type(features, weight)
    if _fuses(features, dtype):
        from .fused import vocabulary

        return vocabulary.TargetLogProbs.apply(
            features, weight, bias, targets, dtype, torch.is_grad_enabled()
        )
    return _TargetLogProbs.apply(features, weight, bias, targets)


def _product_type(features: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype in which PyTorch multiplies features and weight: that of autocast if it is on, else
    the weight's."""
    device = features.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


def _fuses(features: Tensor, dtype: torch.dtype) -> bool:
    """Whether the Triton kernels of :mod:`.fused` run for logits of this ``dtype`` on the device of
    ``features``."""
    return dtype in (torch.float16, torch.bfloat16) and fused.available(features.device)


@torch.no_grad()
def gather_with_largest(
    features: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """(The log-probability of each target token at each vertex, ``[B, T, L]``, as
    :func:`gather_log_probs` computes it; the log-probability of each vertex's best token,
    ``[B, L]``). The two are equal exactly where the target token is the best one.

    Args:
        features: ``[B, L, D]``, of the vertices.
        weight, bias: ``[V, D]`` and ``[V]``, the output projection.
        targets: LongTensor ``[B, T]``, ids of the target tokens.
    """
    dtype = _product_type(features, weight)
    if _fuses(features, dtype):
        from .fused import vocabulary

        return vocabulary.gather_with_largest(features, weight, bias, targets, dtype=dtype)
    batch, size = features.shape[:2]
    wanted = targets.repeat_interleave(size, 0)  # [B * L, T]
    found, largest = [], []
    for part in _chunks(features, weight.size(0)):
        for scores in _normalised(F.linear(part, weight, bias)):  # [n', V]
            largest.append(scores.amax(1))
            found.append(scores.gather(1, wanted[: len(scores)]))
            wanted = wanted[len(scores) :]
    return torch.cat(found).view(batch, size, -1).transpose(1, 2).contiguous(), torch.cat(
        largest
    ).view(batch, size)  # [B, T, L], [B, L]


def _chunks(features: Tensor, vocabulary: int, most: Optional[int] = None) -> Tuple[Tensor, ...]:
    """Splits ``features`` ``[..., D]`` into pieces ``[n, D]``, whose logits ``[n, V]`` are at most
    ``most`` numbers (one row may exceed this).

    Args:
        vocabulary: V.
        most: None: CHUNK, or on a CPU as many as its cache holds.
    """
    most = most or (2 * BLOCK if features.device.type == "cpu" else CHUNK)
    return features.reshape(-1, features.size(-1)).split(max(1, most // vocabulary))


def row_blocks(logits: Tensor) -> Iterator[slice]:
    """Yields slices of the rows of ``logits`` ``[N, V]``: on a CPU as many rows as fit into its
    cache; on a GPU, where launching a kernel is the cost, all rows at once."""
    count = len(logits)
    rows = max(1, BLOCK // logits.size(1)) if logits.device.type == "cpu" else max(1, count)
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def _normalised(logits: Tensor) -> Iterator[Tensor]:
    """Yields log_softmax of ``logits`` ``[N, V]`` in the pieces of :func:`row_blocks`, in float32
    at least."""
    for rows in row_blocks(logits):
        yield torch.log_softmax(_wide(logits[rows]), -1)


def _wide(logits: Tensor) -> Tensor:
    return logits.to(at_least_float32(logits.dtype))


class _TargetLogProbs(torch.autograd.Function):
    """The function behind :func:`gather_log_probs`. If g_i is the gradient of match[i, v], that of
    logit w of vertex v is sum_i g_i (1[w = y_i] - softmax_w)."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Optional[Tensor], targets: Tensor
    ) -> Tensor:
        # Under autocast the backward pass multiplies in the same type as the forward pass.
        ctx.dtype = _product_type(features, weight)
        batch, size = features.shape[:2]
        keeps = batch * size * weight.size(0) <= KEPT
        wanted = targets.repeat_interleave(size, 0)  # [B * L, T]
        found, kept = [], []
        for part in _chunks(features, weight.size(0), CHUNK):
            logits = F.linear(part, weight, bias)  # [n, V]
            kept += [logits] if keeps else []
            for scores in _normalised(logits):
                found.append(scores.gather(1, wanted[: len(scores)]))
                wanted = wanted[len(scores) :]
        ctx.save_for_backward(features, weight, bias, targets, *kept)
        return torch.cat(found).view(batch, size, -1).transpose(1, 2).contiguous()  # [B, T, L]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor], None]:
        features, weight, bias, targets, *kept = ctx.saved_tensors
        cast = weight.to(ctx.dtype)
        own = gradient.transpose(1, 2).flatten(0, 1)  # [B * L, T]
        total, wanted = own.sum(1, keepdim=True), targets.repeat_interleave(features.size(1), 0)
        of_features, of_bias = (
            [],
            None if bias is None else torch.zeros_like(bias, dtype=gradient.dtype),
        )
        of_weight = torch.zeros_like(weight, dtype=gradient.dtype)  # [V, D]
        begin = 0
        for number, part in enumerate(_chunks(features, weight.size(0), CHUNK)):
            part = part.to(ctx.dtype)
            logits = (
                kept[number]
                if kept
                else F.linear(part, cast, None if bias is None else bias.to(ctx.dtype))
            )
            # Each block of logits is overwritten by its gradient; it is not needed again.
            for rows in row_blocks(logits):
                here = slice(begin + rows.start, begin + rows.stop)
                spread = torch.softmax(_wide(logits[rows]), -1).mul_(-total[here])  # [n', V]
                spread.scatter_add_(1, wanted[here], own[here])
                if of_bias is not None:
                    of_bias += spread.sum(0)
                logits[rows] = spread
            begin += len(part)
            of_features.append((logits @ cast).to(features.dtype))  # [n, D]
            # [V, n] @ [n, D] -> [V, D]
            add_product(of_weight, logits.t(), part)
        whole = torch.cat(of_features).view(features.shape)  # [B, L, D]
        return (
            whole,
            of_weight.to(weight.dtype),
            None if of_bias is None else of_bias.to(bias.dtype),
            None,
        )
