"""Log-probabilities of a few tokens at every vertex without the log-softmax of all of them."""

from typing import Any, List, Mapping, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Logits that are computed at one time, in numbers: 64 MiB in single precision; and how many are kept for the gradient.
CHUNK, KEPT = 2**24, 2**26


def gather_log_probs(
    features: Tensor, weight: Tensor, targets: Tensor, *, bias: Optional[Tensor] = None, chunk: int = CHUNK
) -> Tensor:
    """match[b, i, v] = log softmax(features[b, v] W^T + bias)[targets[b, i]].

    The numerators are products with the rows of W that belong to the targets; only the partition function needs the whole
    vocabulary, which is passed in chunks of vertices. The logits of small batches (KEPT numbers) are kept for the gradient, those
    of others computed again: the memory is that of ``match`` and of one chunk instead of several tensors ``[B, L, V]``.

    Args:
        features: ``[B, L, D]``.
        weight: ``[V, D]``.
        targets: LongTensor ``[B, T]``.
        bias: ``[V]``.
        chunk: logits computed at one time; with fewer than their whole number none are kept.

    Returns:
        ``[B, T, L]``, differentiable in features, weight and bias; float32 for half-precision arguments.
    """
    partition = _LogPartition.apply(features, weight, bias, chunk)
    return _numerators(features, weight, targets, bias).to(partition.dtype) - partition.unsqueeze(1)


@torch.no_grad()
def gather_with_best(
    features: Tensor, weight: Tensor, targets: Tensor, *, bias: Optional[Tensor] = None, chunk: int = CHUNK
) -> Tuple[Tensor, Tensor]:
    """:func:`gather_log_probs` and, from the same logits, the most probable token of each vertex (LongTensor ``[B, L]``)."""
    partition, _, tokens = _best(features, weight, bias, {}, chunk)
    return _numerators(features, weight, targets, bias).to(partition.dtype) - partition.unsqueeze(1), tokens


@torch.no_grad()
def best_tokens(
    features: Tensor,
    weight: Tensor,
    *,
    bias: Optional[Tensor] = None,
    penalties: Optional[Mapping[int, float]] = None,
    chunk: int = CHUNK,
) -> Tuple[Tensor, Tensor]:
    """The most probable token of each vertex: (log-probabilities, LongTensor of tokens), both of the shape of the vertices.

    Args:
        features: ``[..., D]``.
        weight: ``[V, D]``.
        bias: ``[V]``.
        penalties: by token, subtracted from its log-probability; infinity forbids it.
        chunk: logits held at one time.
    """
    partition, best, tokens = _best(features, weight, bias, penalties or {}, chunk)
    return best - partition, tokens


def _numerators(features: Tensor, weight: Tensor, targets: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Logits of the targets: ``[B, T, L]``."""
    logits = torch.bmm(F.embedding(targets, weight), features.transpose(1, 2))
    return logits if bias is None else logits + bias[targets].unsqueeze(2).to(logits.dtype)


def _best(
    features: Tensor, weight: Tensor, bias: Optional[Tensor], penalties: Mapping[int, float], chunk: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """(log-partition, best logit less its penalty, its token), of the shape of the vertices."""
    found: List[Tuple[Tensor, ...]] = []
    for part in _chunks(features, weight.size(0), chunk):
        logits = _logits(part, weight, bias)
        partition = torch.logsumexp(logits, -1)
        for token, penalty in penalties.items():
            logits[:, token] -= penalty
        found.append((partition, *logits.max(-1)))
    shape = features.shape[:-1]
    partition, best, tokens = (torch.cat(parts).view(shape) for parts in zip(*found))
    return partition, best, tokens


def _chunks(features: Tensor, vocabulary: int, chunk: int) -> Tuple[Tensor, ...]:
    """``[B * L, D]`` cut into pieces whose logits are at most ``chunk`` numbers."""
    return features.reshape(-1, features.size(-1)).split(max(1, chunk // vocabulary))


def _logits(part: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    logits = F.linear(part, weight, bias)
    return logits.float() if logits.dtype.itemsize < 4 else logits


class _LogPartition(torch.autograd.Function):
    """log sum_w exp(features W^T + bias): ``[B, L]``."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Optional[Tensor], chunk: int) -> Tensor:
        device = features.device.type
        # Under autocast the backward pass multiplies in the same type as the forward pass.
        ctx.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        vocabulary = weight.size(0)
        keeps = chunk == CHUNK and features[..., 0].numel() * vocabulary <= KEPT
        parts, kept = [], []
        for part in _chunks(features, vocabulary, chunk):
            logits = _logits(part, weight, bias)
            parts.append(torch.logsumexp(logits, -1))
            kept += [logits] if keeps else []
        partition = torch.cat(parts)
        ctx.save_for_backward(features, weight, bias, partition, *kept)
        ctx.chunk = chunk
        return partition.view(features.shape[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor], None]:
        features, weight, bias, partition, *kept = ctx.saved_tensors
        cast = weight.to(ctx.dtype)
        of_features, of_bias = [], None if bias is None else torch.zeros_like(bias, dtype=gradient.dtype)
        of_weight = torch.zeros_like(weight, dtype=gradient.dtype)
        pieces = _chunks(features, weight.size(0), ctx.chunk)
        sizes = [len(piece) for piece in pieces]
        rows = zip(pieces, gradient.reshape(-1).split(sizes), partition.split(sizes))
        for number, (part, own, total) in enumerate(rows):
            logits = kept[number] if kept else _logits(part.to(ctx.dtype), cast, None if bias is None else bias.to(ctx.dtype))
            # Not in place: the kept logits would be spoilt for a second backward pass.
            spread = (logits - total.unsqueeze(1)).exp_().mul_(own.unsqueeze(1))
            if of_bias is not None:
                of_bias += spread.sum(0)
            spread = spread.to(ctx.dtype)
            of_features.append((spread @ cast).to(features.dtype))
            if ctx.dtype == of_weight.dtype:
                of_weight.addmm_(spread.t(), part)
            else:
                of_weight += spread.t() @ part.to(ctx.dtype)
        whole = torch.cat(of_features).view(features.shape)
        return whole, of_weight.to(weight.dtype), None if of_bias is None else of_bias.to(bias.dtype), None
