"""Criterion ``bidirectional_loss``: cross-entropy of the words in their slots (see
:mod:`.slots`)."""

from typing import Any, Dict, Tuple

from fairseq.criterions import register_criterion
from torch import Tensor, nn

from ..training import SmoothedLoss, SmoothedLossConfig, smoothed_cross_entropy


@register_criterion("bidirectional_loss", dataclass=SmoothedLossConfig)
class BidirectionalLoss(SmoothedLoss):
    """Label-smoothed cross-entropy summed over words and ``</s>``. What the last decoder step
    writes behind ``</s>`` counts only with ``--bidirectional-train-dead-slots``.

    The logged ``ppl`` is 2 ** ``nll_loss``, where ``nll_loss`` is the mean of -log2 P(word | words
    of earlier steps, source). Words of one step are predicted independently of each other, so
    ``ppl`` is comparable only between models that write equally many words per step.
    """

    family = "bidirectional"

    def forward(
        self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict]:
        """The loss of a batch, whose entry ``slots`` holds the :class:`.sample.SlotSample` that the
        task adds. ``reduce`` is ignored.

        Returns:
            (loss summed over the n target words, ``</s>`` included; n, or the number of sentences
            with ``--sentence-avg``; logging output).
        """
        slots = sample["slots"]
        source = sample["net_input"]
        # Waits for the device: called first, while no other work has been launched there.
        learnt = slots.learnt(self.padding_idx)
        logits = model(
            src_tokens=source["src_tokens"],
            src_lengths=source["src_lengths"],
            slots=slots,
            learnt=learnt,
        )
        target = slots.target.flatten()[learnt]  # [n]
        losses, nll = smoothed_cross_entropy(logits, target, self.label_smoothing)  # [n] each
        loss, sentences = losses.sum(), slots.target.size(0)
        size = sentences if self.sentence_avg else target.numel()
        log = {
            "loss": loss.data,
            "nll_loss": nll.sum(),
            "ntokens": target.numel(),
            "nsentences": sentences,
            "sample_size": size,
        }
        return loss, size, log
