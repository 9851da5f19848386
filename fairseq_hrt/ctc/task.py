"""Task ``translation_ctc``."""

import logging
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..engine import to_fairseq
from ..native.decoding import Hypothesis
from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from .config import CtcTaskConfig
from .criterion import log_likelihood
from .generator import CtcGenerator
from .sample import CtcSample, ctc_sample

logger = logging.getLogger(__name__)


@register_task("translation_ctc", dataclass=CtcTaskConfig)
class CtcTranslationTask(EngineTranslationTask):
    """Translation by connectionist temporal classification (CTC): all positions are written at
    once, and blanks and repetitions are left out of the text."""

    cfg: CtcTaskConfig
    family = "ctc"
    by_sentence = True

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> CtcGenerator:
        return CtcGenerator(models, self.target_dictionary, options)

    def make_scorer(
        self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions
    ) -> "CtcScorer":
        self.decoder = models[0].decoder
        return CtcScorer(self.target_dictionary, self)

    def ctc_sample(self, sample: Dict[str, Any], update: Optional[int]) -> CtcSample:
        """The :class:`CtcSample` of a batch; ``update`` is None outside training."""
        return ctc_sample(
            sample, self.decoder.rule, update=update or 0, eos=self.target_dictionary.eos()
        )

    def filter_indices_by_size(
        self,
        indices: Any,
        dataset: Any,
        max_positions: Any = None,
        ignore_invalid_inputs: bool = False,
    ) -> Any:
        """Filters by size as fairseq does, and warns of training pairs with fewer positions than
        words: every update skips these.

        Raises:
            ValueError: no pair has enough positions.
        """
        indices = np.asarray(
            super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        )
        if dataset is self.datasets.get(self.cfg.train_subset) and dataset.tgt_sizes is not None:
            rule = self.decoder.rule
            sizes = rule.lengths(torch.from_numpy(dataset.src_sizes[indices])).numpy()
            # </s> is not written.
            lost = int((sizes < dataset.tgt_sizes[indices] - 1).sum())
            told = (
                f"--ctc-upsample-scale {rule.scale:g}: {lost} of {len(indices)} training pairs have"
                " fewer positions than words"
            )
            if 0 < lost == len(indices):
                raise ValueError(f"{told}: raise --ctc-upsample-scale")
            if lost:
                logger.warning("%s, and are skipped at every update", told)
        return indices

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        return {**sample, "ctc": self.ctc_sample(sample, update)}


class CtcScorer:
    """Scores given translations by log P(y) over all outputs.

    Args:
        dictionary: the target dictionary.
        task: makes the :class:`CtcSample` of each batch.
    """

    def __init__(self, dictionary: Dictionary, task: CtcTranslationTask) -> None:
        self.dictionary, self.task = dictionary, task
        # Read by fairseq's command line.
        self.eos = dictionary.eos()

    @torch.no_grad()
    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict, **ignored: Any
    ) -> List[List[Dict]]:
        """One hypothesis per sentence: its reference, with the score log P(y | x) divided by the
        number of tokens, ``</s>`` included. Each token gets this score; -inf if there are too few
        positions."""
        if len(models) > 1:
            raise ValueError(
                "--score-reference scores with one ctc_transformer; give one checkpoint"
            )
        model, ctc, source = models[0], self.task.ctc_sample(sample, None), sample["net_input"]
        model.eval()
        output = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], ctc=ctc)
        totals = log_likelihood(output.log_probs, ctc, model.decoder.blank).tolist()  # [B]
        found = []
        for words, length, total in zip(ctc.targets.tolist(), ctc.target_lengths.tolist(), totals):
            part = total / (length + 1)
            hypothesis = Hypothesis(
                tokens=[*words[:length], self.eos],
                score=part,
                positional_scores=[part] * (length + 1),
                token_steps=[1] * (length + 1),
                steps=1,
            )
            found.append([{**to_fairseq(hypothesis), "log_likelihood": total}])
        return found
