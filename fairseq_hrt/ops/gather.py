"""Log-probabilities of a few tokens at every vertex without the log-softmax of all of them."""

from typing import Any, Mapping, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Logits held at one time, in numbers: 64 MiB in single precision.
CHUNK = 2**24


def gather_log_probs(
    features: Tensor, weight: Tensor, targets: Tensor, *, bias: Optional[Tensor] = None, chunk: int = CHUNK
) -> Tensor:
    """match[b, i, v] = log softmax(features[b, v] W^T + bias)[targets[b, i]].

    The numerators are products with the rows of W that belong to the targets; only the partition function needs the whole
    vocabulary, which is passed in chunks of vertices and computed again for the gradient. The memory is that of ``match`` and of
    one chunk instead of several tensors ``[B, L, V]``.

    Args:
        features: ``[B, L, D]``.
        weight: ``[V, D]``.
        targets: LongTensor ``[B, T]``.
        bias: ``[V]``.
        chunk: logits held at one time.

    Returns:
        ``[B, T, L]``, differentiable in features, weight and bias; float32 for half-precision arguments.
    """
    partition = _LogPartition.apply(features, weight, bias, chunk)
    chosen = F.embedding(targets, weight)
    numerators = torch.bmm(chosen, features.transpose(1, 2)).to(partition.dtype)
    if bias is not None:
        numerators = numerators + bias[targets].unsqueeze(2).to(partition.dtype)
    return numerators - partition.unsqueeze(1)


def _chunks(features: Tensor, vocabulary: int, chunk: int) -> Tuple[Tensor, ...]:
    """``[B * L, D]`` cut into pieces whose logits are at most ``chunk`` numbers."""
    return features.reshape(-1, features.size(-1)).split(max(1, chunk // vocabulary))


class _LogPartition(torch.autograd.Function):
    """log sum_w exp(features W^T + bias): ``[B, L]``."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Optional[Tensor], chunk: int) -> Tensor:
        ctx.save_for_backward(features, weight, bias)
        ctx.chunk = chunk
        dtype = torch.float32 if features.dtype.itemsize < 4 else features.dtype
        parts = [
            torch.logsumexp(F.linear(part, weight, bias).to(dtype), -1)
            for part in _chunks(features, weight.size(0), chunk)
        ]
        return torch.cat(parts).view(features.shape[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor], None]:
        features, weight, bias = ctx.saved_tensors
        of_features, of_bias = [], None if bias is None else torch.zeros_like(bias, dtype=gradient.dtype)
        of_weight = torch.zeros_like(weight, dtype=gradient.dtype)
        pieces = _chunks(features, weight.size(0), ctx.chunk)
        for part, own in zip(pieces, gradient.reshape(-1).split([len(piece) for piece in pieces])):
            spread = torch.softmax(F.linear(part, weight, bias).to(gradient.dtype), -1).mul_(own.unsqueeze(1))
            of_features.append(spread.to(weight.dtype) @ weight)
            of_weight.addmm_(spread.t(), part.to(gradient.dtype))
            if bias is not None:
                of_bias += spread.sum(0)
        whole = torch.cat(of_features).view(features.shape)
        return whole, of_weight.to(weight.dtype), None if bias is None else of_bias.to(bias.dtype), None


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
    dtype = torch.float32 if features.dtype.itemsize < 4 else features.dtype
    scores, tokens = [], []
    for part in _chunks(features, weight.size(0), chunk):
        logits = F.linear(part, weight, bias).to(dtype)
        partition = torch.logsumexp(logits, -1)
        for token, penalty in (penalties or {}).items():
            logits[:, token] -= penalty
        best, token = logits.max(-1)
        scores.append(best - partition)
        tokens.append(token)
    return torch.cat(scores).view(features.shape[:-1]), torch.cat(tokens).view(features.shape[:-1])
