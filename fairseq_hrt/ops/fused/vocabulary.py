"""Losses over the vocabulary in one pass over half-precision logits.

Sums are float32. Logits of a chunk of rows come from one matrix product; one kernel reads them once
for the partition function, the wanted words and the largest, another overwrites them by their
gradient. The weight's gradient is summed over chunks in float32.
"""

from typing import Any, Iterator, Optional, Tuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..products import add_product

# Logits computed at a time (256 MiB in half precision), and the most that are kept for the
# gradient.
CHUNK, KEPT = 2**27, 2**29
# Words read at a time by one program, and targets handled at a time.
BLOCK, PART = 4096, 32
_WARPS = 8


@triton.jit
def _row_sums(logits, base, words, BLOCK: tl.constexpr):
    """(largest logit, sum of exp(logit - largest)) of the row of ``words`` logits that begins at
    ``logits[base]``; BLOCK are read at a time."""
    # Finite, so that a block of -inf alone gives no NaN.
    top = tl.full((), -1.0e30, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, words, BLOCK):
        word = start + tl.arange(0, BLOCK)
        scores = tl.load(logits + base + word, mask=word < words, other=float("-inf"))
        scores = scores.to(tl.float32)
        higher = tl.maximum(top, tl.max(scores, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(scores - higher), 0)
        top = higher
    return top, total


@triton.jit(do_not_specialize=["first", "size", "steps"])
def _gather_kernel(
    logits,
    targets,
    match,
    largest,
    partition,
    first,
    size,
    steps,
    words,
    BLOCK: tl.constexpr,
    PART: tl.constexpr,
):
    """Writes the log-probabilities of the target tokens, and of the best token, at one vertex.

    Args:
        logits: [n, V], of n vertices.
        targets: [B, T], token ids.
        match: [B, T, L], the result: log-probability of each target token; NaN for ids outside V.
        largest: [B * L], the result: log-probability of the best token.
        partition: [B * L], the result: logsumexp of the logits.
        first: index of the first of the n vertices among all B * L.
        size, steps, words: L, T and V.
        BLOCK, PART: logits read, and targets scored, at a time.
    """
    row = tl.program_id(0).to(tl.int64)
    base = row * words
    top, total = _row_sums(logits, base, words, BLOCK)
    logarithm = top + tl.log(total)
    place = row + first
    tl.store(partition + place, logarithm)
    tl.store(largest + place, top - logarithm)
    sentence = place // size
    vertex = place % size
    for start in range(0, steps, PART):
        step = start + tl.arange(0, PART)
        inside = step < steps
        word = tl.load(targets + sentence * steps + step, mask=inside, other=0)
        known = inside & (word >= 0) & (word < words)
        score = tl.load(logits + base + word, mask=known, other=float("nan")).to(tl.float32)
        tl.store(match + (sentence * steps + step) * size + vertex, score - logarithm, mask=inside)


@triton.jit(do_not_specialize=["first", "size", "steps"])
def _gradient_kernel(
    logits,
    targets,
    match,
    partition,
    gradient,
    first,
    size,
    steps,
    words,
    BLOCK: tl.constexpr,
    PART: tl.constexpr,
):
    """Overwrites the row of ``logits`` of one vertex with the gradient of these logits, given
    ``gradient`` [B, T, L], that of ``match``. For the other arguments see :func:`_gather_kernel`,
    which has written ``match`` and ``partition``."""
    row = tl.program_id(0).to(tl.int64)
    base = row * words
    place = row + first
    sentence = place // size
    vertex = place % size
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, steps, PART):
        step = start + tl.arange(0, PART)
        at = (sentence * steps + step) * size + vertex
        total += tl.sum(tl.load(gradient + at, mask=step < steps, other=0.0), 0)
    logarithm = tl.load(partition + place)
    for start in range(0, words, BLOCK):
        word = start + tl.arange(0, BLOCK)
        scores = tl.load(logits + base + word, mask=word < words, other=float("-inf"))
        spread = -total * tl.exp(scores.to(tl.float32) - logarithm)
        tl.store(logits + base + word, spread.to(logits.dtype.element_ty), mask=word < words)
    # The values below are written over those of other threads.
    tl.debug_barrier()
    for start in range(0, steps, PART):
        step = start + tl.arange(0, PART)
        inside = step < steps
        word = tl.load(targets + sentence * steps + step, mask=inside, other=-1)
        at = (sentence * steps + step) * size + vertex
        chosen = tl.load(match + at, mask=inside, other=float("-inf"))
        # A word that occurs several times has the sum of their gradients: each of its places
        # writes the same value.
        own = tl.zeros((PART,), tl.float32)
        for again in range(0, steps, PART):
            other = again + tl.arange(0, PART)
            others = tl.load(targets + sentence * steps + other, mask=other < steps, other=-2)
            part = tl.load(
                gradient + (sentence * steps + other) * size + vertex, mask=other < steps, other=0.0
            )
            own += tl.sum(tl.where(word[:, None] == others[None, :], part[None, :], 0.0), 1)
        known = inside & (word >= 0) & (word < words)
        value = own - total * tl.exp(chosen)
        tl.store(logits + base + word, value.to(logits.dtype.element_ty), mask=known)


def _score(
    logits: Tensor,
    targets: Tensor,
    match: Tensor,
    largest: Tensor,
    partition: Tensor,
    first: int,
) -> None:
    # Triton launches on the current device.
    with torch.cuda.device_of(logits):
        _gather_kernel[(len(logits),)](
            logits, targets, match, largest, partition,
            first, match.size(2), match.size(1), logits.size(1),
            BLOCK=BLOCK, PART=PART, num_warps=_WARPS,
        )  # fmt: skip


def _empty(features: Tensor, targets: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Uninitialised float32 tensors for the results of :func:`_gather_kernel`: (match
    ``[B, T, L]``, largest ``[B * L]``, partition ``[B * L]``)."""
    batch, size = features.shape[:2]
    sizes = ((batch, targets.size(1), size), (batch * size,), (batch * size,))
    match, largest, partition = (
        torch.empty(shape, dtype=torch.float32, device=features.device) for shape in sizes
    )
    return match, largest, partition


def _pieces(rows: int, words: int) -> Iterator[Tuple[int, int]]:
    """Yields (first row, last row + 1) of each chunk of rows; each row has ``words`` logits."""
    step = max(1, CHUNK // words)
    for first in range(0, rows, step):
        yield first, min(first + step, rows)


@torch.no_grad()
def gather_with_largest(
    features: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    targets: Tensor,
    *,
    dtype: torch.dtype,
) -> Tuple[Tensor, Tensor]:
    """The log-probabilities of each target token, ``[B, T, L]``, and of the best token, ``[B, L]``,
    at each vertex; see :func:`..gather.gather_with_largest`.

    Args:
        features: ``[B, L, D]``, of the vertices.
        weight, bias: ``[V, D]`` and ``[V]``, the output projection; None: no bias.
        targets: LongTensor ``[B, T]``, ids of the target tokens.
        dtype: dtype of the logits, float16 or bfloat16.
    """
    match, largest, partition = _empty(features, targets)
    flat, wanted = features.flatten(0, 1).to(dtype), targets.contiguous()  # [B * L, D], [B, T]
    weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
    for first, end in _pieces(len(flat), weight.size(0)):
        _score(F.linear(flat[first:end], weight, bias), wanted, match, largest, partition, first)
    return match, largest.view(features.shape[:2])  # [B, T, L], [B, L]


class TargetLogProbs(torch.autograd.Function):
    """The function behind :func:`..gather.gather_log_probs` for half-precision logits.

    Arguments: features ``[B, L, D]``, weight ``[V, D]``, bias ``[V]`` or None, targets ``[B, T]``,
    dtype of the logits, and whether the first KEPT of them are kept for the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        targets: Tensor,
        dtype: torch.dtype,
        keeps: bool,
    ) -> Tensor:
        match, largest, partition = _empty(features, targets)
        flat, wanted = features.flatten(0, 1).to(dtype), targets.contiguous()
        cast, added = weight.to(dtype), None if bias is None else bias.to(dtype)
        kept, room = [], KEPT if keeps else 0
        for first, end in _pieces(len(flat), len(cast)):
            logits = F.linear(flat[first:end], cast, added)  # [n, V]
            _score(logits, wanted, match, largest, partition, first)
            room -= logits.numel()
            if room >= 0:
                kept.append(logits)
        ctx.save_for_backward(features, weight, bias, wanted, match, partition, *kept)
        ctx.dtype = dtype
        return match

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor
    ) -> Tuple[Tensor, Tensor, Optional[Tensor], None, None, None]:
        features, weight, bias, targets, match, partition, *kept = ctx.saved_tensors
        flat, cast = features.flatten(0, 1).to(ctx.dtype), weight.to(ctx.dtype)
        added = None if bias is None else bias.to(ctx.dtype)
        gradient = gradient.float().contiguous()  # [B, T, L]
        of_features = torch.empty_like(flat)  # [B * L, D]
        of_weight = torch.zeros_like(weight, dtype=torch.float32)  # [V, D]
        of_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        for number, (first, end) in enumerate(_pieces(len(flat), len(cast))):
            part = flat[first:end]
            logits = kept[number] if number < len(kept) else F.linear(part, cast, added)  # [n, V]
            with torch.cuda.device_of(logits):
                _gradient_kernel[(len(logits),)](
                    logits, targets, match, partition, gradient,
                    first, match.size(2), match.size(1), logits.size(1),
                    BLOCK=BLOCK, PART=PART, num_warps=_WARPS,
                )  # fmt: skip
            # Kept logits serve one backward pass: PyTorch refuses a second one.
            torch.autograd.graph.increment_version(logits)
            of_features[first:end] = logits @ cast
            add_product(of_weight, logits.t(), part)
            if of_bias is not None:
                of_bias += logits.sum(0, dtype=torch.float32)
        return (
            of_features.view(features.shape).to(features.dtype),
            of_weight.to(weight.dtype),
            None if of_bias is None or bias is None else of_bias.to(bias.dtype),
            None,
            None,
            None,
        )
