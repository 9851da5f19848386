"""Criterion ``hrt_loss``: cross-entropy of the four training tasks."""

from typing import Any, Dict, Sequence, Tuple

import torch
from fairseq.criterions import register_criterion
from torch import Tensor, nn

from ..training import BITS, SmoothedLoss, SmoothedLossConfig, Sums, smoothed_cross_entropy

# The four tasks as (name, belongs to the causal view, uses chunks).
TASKS = (
    ("at", True, False),
    ("cmlm", False, False),
    ("skip_at", True, True),
    ("skip_cmlm", False, True),
)


@register_criterion("hrt_loss", dataclass=SmoothedLossConfig)
class HRTLoss(SmoothedLoss):
    """Label-smoothed cross-entropy over the target tokens of HRT's four training tasks
    (Algorithm 1): AT (left to right), CMLM (masked words), and both in chunks of K tokens, Skip-AT
    and Skip-CMLM. Every token has the same weight, whatever its task.
    """

    family = "hrt"

    def forward(
        self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict]:
        """The loss of a batch, whose entry ``views`` holds the :class:`.sample.TrainingViews` that
        the task adds. ``reduce`` is ignored.

        Returns:
            (loss summed over target tokens; the number of these tokens, or of sentences with
            ``--sentence-avg``; logging output with the same keys for every batch).
        """
        views = sample["views"]
        source = sample["net_input"]
        pair = views.causal, views.parallel
        # Waits for the device: called first, while no other work has been launched there.
        learnt = [view.learnt(self.padding_idx) for view in pair]
        logits = model(
            src_tokens=source["src_tokens"],
            src_lengths=source["src_lengths"],
            views=views,
            learnt=learnt,
        )
        target = torch.cat(  # [n]
            [view.target.flatten()[places] for view, places in zip(pair, learnt)]
        )
        loss, nll = smoothed_cross_entropy(logits, target, self.label_smoothing)  # [n] each
        causal = torch.arange(target.numel(), device=target.device) < len(learnt[0])  # [n]
        chunked = torch.cat(  # [n], the token belongs to a sentence with K > 1
            [
                views.chunk_sizes[places // view.target.size(1)] > 1
                for view, places in zip(pair, learnt)
            ]
        )
        sentences = views.chunk_sizes.numel()
        size = sentences if self.sentence_avg else target.numel()
        log: Dict[str, Any] = {
            "loss": loss.sum().data,
            "nll_loss": nll.sum(),
            "ntokens": target.numel(),
            "nsentences": sentences,
            "sample_size": size,
            "chunked_sentences": (views.chunk_sizes > 1).sum().data,
        }
        for name, is_causal, is_chunked in TASKS:
            mine = (causal == is_causal) & (chunked == is_chunked)
            log[f"{name}_nll_loss"] = (nll * mine).sum()
            log[f"{name}_ntokens"] = mine.sum().data
        return loss.sum(), size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Logs losses in bits per token, of the four training tasks together and of each task (0
        for a task without tokens), and ``chunked``, the share of sentences trained in chunks."""
        super().reduce_metrics(logging_outputs)
        log = Sums(logging_outputs)
        for name, _, _ in TASKS:
            log.mean(f"{name}_nll_loss", f"{name}_ntokens", name=f"{name}_loss", factor=BITS)
        log.mean("chunked_sentences", "nsentences", name="chunked")
