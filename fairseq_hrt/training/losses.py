"""The base class of the families' criterions, and their label-smoothed cross-entropy."""

import math
from typing import Any, Dict, Sequence, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..native.families import BY_NAME
from ..ops import at_least_float32, fused, row_blocks

# Bits per nat: fairseq logs losses in bits.
BITS = 1 / math.log(2)


def check_label_smoothing(epsilon: float) -> float:
    """Returns ``epsilon``; raises ValueError unless 0 <= epsilon < 1."""
    if not 0 <= epsilon < 1:
        raise ValueError(f"--label-smoothing {epsilon} must lie in [0, 1)")
    return epsilon


class Sums:
    """Sums of logged values over batches and workers, by name; a missing value counts as 0."""

    def __init__(self, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        self.outputs = logging_outputs

    def __call__(self, key: str) -> float:
        return sum(float(output.get(key, 0)) for output in self.outputs)

    def mean(self, key: str, count: str, *, name: str = "", factor: float = 1.0) -> None:
        """Logs ``factor`` times the sum of ``key`` divided by that of ``count``; nothing if no
        batch has the value. fairseq averages such means by their counts, so batches all of whose
        sentences were skipped do not count.

        Args:
            name: the name under which the quotient is logged; empty: ``key``.
        """
        if any(key in output for output in self.outputs):
            total, weight = self(key), self(count)
            metrics.log_scalar(name or key, factor * total / max(weight, 1), weight, round=3)


class FamilyLoss(FairseqCriterion):
    """The base class of the families' criterions.

    Attributes:
        family: name of the family whose task adds to each batch the entries that the criterion
            reads.

    Raises:
        ValueError: ``task``, the task of the training, is not that family's.
    """

    family: str

    def __init__(self, task: FairseqTask) -> None:
        super().__init__(task)
        if getattr(task, "family", None) != self.family:
            record = BY_NAME[self.family]
            raise ValueError(
                f"--criterion {' or '.join(record.losses)} needs the batches of --task"
                f" {record.task}: give that task"
            )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


class SmoothedLoss(FamilyLoss):
    """The base class of criterions with a label-smoothed cross-entropy, summed over tokens.

    Args:
        label_smoothing: epsilon, in [0, 1).
        sentence_avg: True if fairseq divides the sum by the number of sentences instead of tokens.
    """

    def __init__(
        self, task: FairseqTask, label_smoothing: float, sentence_avg: bool = False
    ) -> None:
        super().__init__(task)
        self.label_smoothing = check_label_smoothing(label_smoothing)
        self.sentence_avg = sentence_avg

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Logs ``loss`` in bits per token or, with ``sentence_avg``, per sentence, ``nll_loss`` in
        bits per token and ``ppl`` = 2 ** nll_loss, from sums over batches and workers."""
        log = Sums(logging_outputs)
        log.mean("loss", "sample_size", factor=BITS)
        log.mean("nll_loss", "ntokens", factor=BITS)
        metrics.log_derived("ppl", lambda meters: 2 ** min(meters["nll_loss"].avg, 1000))


def smoothed_cross_entropy(logits: Tensor, target: Tensor, epsilon: float) -> Tuple[Tensor, Tensor]:
    """The label-smoothed cross-entropy and the negative log-likelihood of each token.

    Equals fairseq's ``label_smoothed_nll_loss``, which spreads ``epsilon`` over the other words of
    the vocabulary (Szegedy et al., 2016), but does not make four tensors ``[N, V]``: a float32 copy
    of the logits, their log-softmax and two gradients. On a CPU these take more time than the
    layers of a small model. On a CUDA device a kernel of Triton reads the logits once.

    Args:
        logits: ``[N, V]``, V at least 2, floating-point; computed in float32 at least.
        target: LongTensor ``[N]``, ids below V.
        epsilon: in [0, 1).

    Returns:
        (loss ``[N]``, negative log-likelihood ``[N]`` without a gradient), both in nats.
    """
    if logits.numel() and logits.dtype.itemsize <= 4 and fused.available(logits.device):
        from ..ops.fused.smoothed import SmoothedCrossEntropy

        return SmoothedCrossEntropy.apply(logits, target, epsilon)
    return _SmoothedCrossEntropy.apply(logits, target, epsilon)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes :func:`smoothed_cross_entropy` for a few rows at a time, so that intermediate
    results stay in the cache.

    With e = epsilon / (V - 1), the loss is (1 - epsilon) nll + e (sum of all other words' -log p);
    its gradient is p - (1 - epsilon) for the target's logit, and p - e for all others, where p are
    the probabilities.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, epsilon: float) -> Tuple[Tensor, Tensor]:
        size = logits.size(1)
        share = epsilon / (size - 1)
        wide = at_least_float32(logits.dtype)
        chosen, total = (
            torch.empty(logits.size(0), dtype=wide, device=logits.device) for _ in range(2)
        )
        for rows in row_blocks(logits):
            scores = torch.log_softmax(logits[rows].to(wide), 1)  # [n, V]
            chosen[rows] = scores.gather(1, target[rows].unsqueeze(1)).squeeze(1)  # [n]
            total[rows] = scores.sum(1)
        nll = -chosen  # [N]
        loss = (1 - epsilon - share) * nll - share * total  # [N]
        ctx.save_for_backward(logits, target)
        ctx.epsilon = epsilon
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tuple[Tensor, None, None]:
        logits, target = ctx.saved_tensors
        share = ctx.epsilon / (logits.size(1) - 1)
        wide = at_least_float32(logits.dtype)
        result = torch.empty_like(logits)
        for rows in row_blocks(logits):
            block = torch.softmax(logits[rows].to(wide), 1).sub_(share)  # [n, V]
            block.scatter_add_(
                1,
                target[rows].unsqueeze(1),
                block.new_full((), share + ctx.epsilon - 1).expand(len(block), 1),
            )
            result[rows] = block.mul_(gradient[rows].unsqueeze(1))  # [n, V]
        return result, None, None
