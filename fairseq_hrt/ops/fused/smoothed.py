"""Label-smoothed cross-entropy in one pass over the logits, and its gradient in another."""

from typing import Any, Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# Words read at a time by one program.
BLOCK = 4096
_WARPS = 8


@triton.jit
def _loss_kernel(logits, target, loss, nll, partition, epsilon, share, words, BLOCK: tl.constexpr):
    """Writes the losses of one row of logits.

    Args:
        logits: [N, V].
        target: [N], token ids.
        loss: [N], the result: label-smoothed cross-entropy.
        nll: [N], the result: negative log-likelihood of the target, NaN for ids outside V.
        partition: [N], the result: logsumexp of the logits.
        epsilon, share: the smoothing, and epsilon / (V - 1), the part of it for each other word.
        words: V.
        BLOCK: logits read at a time.
    """
    row = tl.program_id(0).to(tl.int64)
    base = row * words
    # Finite, so that a block of -inf alone gives no NaN.
    top = tl.full((), -1.0e30, tl.float32)
    mass = tl.full((), 0.0, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, words, BLOCK):
        word = start + tl.arange(0, BLOCK)
        inside = word < words
        scores = tl.load(logits + base + word, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(scores, 0))
        mass = mass * tl.exp(top - higher) + tl.sum(tl.exp(scores - higher), 0)
        total += tl.sum(tl.where(inside, scores, 0.0), 0)
        top = higher
    logarithm = top + tl.log(mass)
    word = tl.load(target + row)
    known = (word >= 0) & (word < words)
    chosen = tl.load(logits + base + word, mask=known, other=float("nan")).to(tl.float32)
    own = logarithm - chosen
    tl.store(partition + row, logarithm)
    tl.store(nll + row, own)
    tl.store(loss + row, (1.0 - epsilon - share) * own - share * (total - words * logarithm))


@triton.jit
def _gradient_kernel(
    logits, target, partition, gradient, result, epsilon, share, words, BLOCK: tl.constexpr
):
    """Writes one row of ``result`` [N, V], the gradient of the logits, given ``gradient`` [N], that
    of the losses. For the other arguments see :func:`_loss_kernel`, which has written
    ``partition``."""
    row = tl.program_id(0).to(tl.int64)
    base = row * words
    logarithm = tl.load(partition + row)
    factor = tl.load(gradient + row).to(tl.float32)
    wanted = tl.load(target + row)
    for start in range(0, words, BLOCK):
        word = start + tl.arange(0, BLOCK)
        inside = word < words
        scores = tl.load(logits + base + word, mask=inside, other=float("-inf")).to(tl.float32)
        less = tl.where(word == wanted, 1.0 - epsilon, share)
        value = (tl.exp(scores - logarithm) - less) * factor
        tl.store(result + base + word, value.to(result.dtype.element_ty), mask=inside)


class SmoothedCrossEntropy(torch.autograd.Function):
    """The function behind ``smoothed_cross_entropy``: logits ``[N, V]`` of at most 32 bits, target
    ``[N]`` and epsilon → (loss ``[N]``, negative log-likelihood ``[N]``), float32."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, epsilon: float) -> Tuple[Tensor, Tensor]:
        logits, target = logits.contiguous(), target.contiguous()
        rows, words = logits.shape
        epsilon = float(epsilon)
        share = epsilon / (words - 1)
        loss, nll, partition = (
            torch.empty(rows, dtype=torch.float32, device=logits.device) for _ in range(3)
        )
        # Triton launches on the current device.
        with torch.cuda.device_of(logits):
            _loss_kernel[(rows,)](
                logits, target, loss, nll, partition, epsilon, share, words,
                BLOCK=BLOCK, num_warps=_WARPS,
            )  # fmt: skip
        ctx.save_for_backward(logits, target, partition)
        ctx.epsilon, ctx.share = epsilon, share
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tuple[Tensor, None, None]:
        logits, target, partition = ctx.saved_tensors
        result = torch.empty_like(logits)
        with torch.cuda.device_of(logits):
            _gradient_kernel[(len(logits),)](
                logits, target, partition, gradient.contiguous(), result,
                ctx.epsilon, ctx.share, logits.size(1), BLOCK=BLOCK, num_warps=_WARPS,
            )  # fmt: skip
        return result, None, None
