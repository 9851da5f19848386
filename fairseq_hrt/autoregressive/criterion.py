"""Criterion ``autoregressive_loss``: fairseq's ``label_smoothed_cross_entropy`` at the cost of one
pass over the logits."""

from typing import Any, Dict, Sequence, Tuple

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..engine import FairseqModule
from ..training import check_label_smoothing, smoothed_cross_entropy


@register_criterion("autoregressive_loss", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class AutoregressiveLoss(LabelSmoothedCrossEntropyCriterion):
    """``label_smoothed_cross_entropy`` of fairseq's Transformers, computed faster, with the same
    options, loss and log. Its checkpoints can be decoded without this package.
    """

    def __init__(
        self,
        task: FairseqTask,
        sentence_avg: bool,
        label_smoothing: float,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
    ) -> None:
        # fairseq passes the options whose names it finds in this signature.
        super().__init__(
            task,
            sentence_avg,
            check_label_smoothing(label_smoothing),
            ignore_prefix_size,
            report_accuracy,
        )

    def compute_loss(
        self,
        model: FairseqModule,
        net_output: Sequence[Any],
        sample: Dict[str, Any],
        reduce: bool = True,
    ) -> Tuple[Tensor, Tensor]:
        """(label-smoothed loss, negative log-likelihood) of a batch: sums over target tokens or, if
        ``reduce`` is False, a value for each token, ``[B * T, 1]``, with 0 for padding.

        Args:
            net_output: the model's output for ``sample``; its first element are logits ``[B, T,
                V]``.
        """
        if getattr(model.decoder, "adaptive_softmax", None) is not None:
            return super().compute_loss(model, net_output, sample, reduce=reduce)
        logits = net_output[0][:, self.ignore_prefix_size :].flatten(0, 1)  # [B * T, V]
        target = model.get_targets(sample, net_output)[:, self.ignore_prefix_size :].flatten()
        counts = target.ne(self.padding_idx)  # [B * T]
        loss, nll = (
            values.masked_fill(~counts, 0.0)
            for values in smoothed_cross_entropy(logits, target, self.eps)
        )
        if reduce:
            return loss.sum(), nll.sum()
        return loss.unsqueeze(1), nll.unsqueeze(1)  # [B * T, 1] each
