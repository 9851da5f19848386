"""Criterions ``ctc_nll_loss`` and ``ctc_ngram_loss``."""

from typing import Any, Dict, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..ops import ctc_ngrams
from ..training import BITS, FamilyLoss, GlanceSchedule, Sums
from .config import CtcNgramLossConfig, CtcNllLossConfig
from .model import CtcOutput, Glancing
from .sample import CtcSample


class CtcLoss(FamilyLoss):
    """The base of both losses, which does the glancing (:class:`.model.Glancing`) and the logging.

    The loss is a mean over sentences: fairseq divides the gradient by the number of sentences of
    the whole update. Sentences with too few positions for their target are left out and counted as
    ``skipped``.
    """

    family = "ctc"

    def __init__(self, task: FairseqTask, ctc_glance_schedule: str) -> None:
        super().__init__(task)
        self.schedule = GlanceSchedule(ctc_glance_schedule, "--ctc-glance-schedule")
        self.seed: int = task.cfg.seed
        self.blank = task.target_dictionary.bos()

    def forward(
        self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict]:
        """The loss of the batch ``sample``, which must have an entry ``ctc``, the
        :class:`CtcSample` that the task adds; ``reduce`` has no effect.

        Returns:
            (loss summed over sentences, number of sentences with enough positions, logging output).
        """
        ctc = sample["ctc"]
        source = sample["net_input"]
        share = self.schedule.at(ctc.update)
        glances = model.training and share > 0
        output = model(
            src_tokens=source["src_tokens"],
            src_lengths=source["src_lengths"],
            ctc=ctc,
            glancing=Glancing(share, self.seed) if glances else None,
        )
        possible = fits(ctc)  # [B]
        losses, log = self.losses(output, ctc, possible)
        loss = torch.where(possible, losses, 0.0).sum()
        counts = {
            "sample_size": possible.sum(),
            "ntokens": (ctc.target_lengths * possible).sum(),
            "positions": ctc.lengths.sum(),
        }
        if output.wrong is not None and output.shown is not None:
            counts["wrong"], counts["shown"] = output.wrong.sum(), output.shown.sum()
        # All counts in one transfer from the device.
        log.update(zip(counts, torch.stack(list(counts.values())).tolist()))
        log.update(
            loss=loss.data, nsentences=len(possible), skipped=len(possible) - log["sample_size"]
        )
        return loss, log["sample_size"], log

    def losses(
        self, output: CtcOutput, ctc: CtcSample, possible: Tensor
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """(The loss of each sentence, ``[B]``; further values to log, by name). Where ``possible``
        ``[B]`` is False, since a sentence has too few positions, the loss may have any value."""
        raise NotImplementedError

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Logs the share of skipped sentences and, with glancing, the shares of the positions that
        were predicted wrongly and that read the target."""
        log = Sums(logging_outputs)
        log.mean("skipped", "nsentences", name="skipped_share")
        if any("shown" in output for output in logging_outputs):
            log.mean("wrong", "positions", name="wrong_share")
            log.mean("shown", "positions", name="glance_rate")


def fits(ctc: CtcSample) -> Tensor:
    """Whether each sentence has enough positions for the words of its target and a blank between
    any two equal words in a row: BoolTensor ``[B]``."""
    place = torch.arange(1, ctc.targets.size(1), device=ctc.targets.device)  # [n - 1]
    equal = ctc.targets[:, 1:] == ctc.targets[:, :-1]  # [B, n - 1]
    repeats = (equal & (place < ctc.target_lengths.unsqueeze(1))).sum(1)  # [B]
    return ctc.target_lengths + repeats <= ctc.lengths


def log_likelihood(log_probs: Tensor, ctc: CtcSample, blank: int) -> Tensor:
    """log P(target), summed over all outputs that print the target, by torch's CTC loss: ``[B]``,
    -inf where ``ctc`` has too few positions for a target. ``log_probs``: ``[B, T, V]``."""
    return -F.ctc_loss(
        log_probs.transpose(0, 1), ctc.targets, ctc.lengths, ctc.target_lengths, blank,
        reduction="none",
    )  # fmt: skip


@register_criterion("ctc_nll_loss", dataclass=CtcNllLossConfig)
class CtcNllLoss(CtcLoss):
    """-log P(y) / (n + 1), where P(y) sums over all outputs that print the target y of n words.

    ``nll_loss`` (bits) and ``ppl`` are per word; in training both are lowered by the positions that
    read the target (glancing).
    """

    def losses(
        self, output: CtcOutput, ctc: CtcSample, possible: Tensor
    ) -> Tuple[Tensor, Dict[str, Any]]:
        # Sentences with too few positions get an empty target, so that no gradient is infinite.
        fitting = ctc._replace(target_lengths=ctc.target_lengths * possible)
        likelihood = log_likelihood(output.log_probs, fitting, self.blank)  # [B]
        nll = torch.where(possible, -likelihood.detach(), 0.0).sum()
        return -likelihood / (ctc.target_lengths + 1), {"nll_loss": nll}

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        log = Sums(logging_outputs)
        log.mean("loss", "sample_size", factor=BITS)
        log.mean("nll_loss", "ntokens", factor=BITS)
        metrics.log_derived("ppl", lambda meters: 2 ** min(meters["nll_loss"].avg, 1000))
        super().reduce_metrics(logging_outputs)


@register_criterion("ctc_ngram_loss", dataclass=CtcNgramLossConfig)
class CtcNgramLoss(CtcLoss):
    """-(brevity penalty * n-gram precision), computed from expected counts (Shao and Feng, 2022).

    For fine-tuning a model trained with ``ctc_nll_loss``; this loss has no log-likelihood term.
    """

    def __init__(self, task: FairseqTask, ctc_glance_schedule: str, ctc_ngram_order: int) -> None:
        super().__init__(task, ctc_glance_schedule)
        if not 1 <= ctc_ngram_order <= 3:
            raise ValueError(f"--ctc-ngram-order {ctc_ngram_order} must be 1, 2 or 3")
        self.order = ctc_ngram_order

    def losses(
        self, output: CtcOutput, ctc: CtcSample, possible: Tensor
    ) -> Tuple[Tensor, Dict[str, Any]]:
        found = ctc_ngrams(
            output.log_probs, ctc.targets, ctc.lengths, ctc.target_lengths,
            order=self.order, blank=self.blank,
        )  # fmt: skip
        log = {
            name: torch.where(possible, getattr(found, name), 0.0).sum().data
            for name in ("precision", "brevity_penalty")
        }
        return -found.score, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Dict[str, Any]]) -> None:
        log = Sums(logging_outputs)
        for name in ("loss", "precision", "brevity_penalty"):
            log.mean(name, "sample_size")
        super().reduce_metrics(logging_outputs)
