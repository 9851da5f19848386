"""Task ``translation_ctc``: inputs and targets for training, and the decoders."""

from typing import Any, Dict, Optional, Sequence

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from ..training import shortest_target_sizes, source_sizes
from .config import CtcTaskConfig
from .generator import CtcGenerator
from .sample import CtcSample, ctc_sample
from .scorer import CtcScorer


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
    ) -> CtcScorer:
        self.decoder = models[0].decoder
        return CtcScorer(self.target_dictionary, lambda sample: self.ctc_sample(sample, None))

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
        """Filters the sentences ``indices`` by size as fairseq does; returns those that are kept.
        Warns of training pairs with fewer positions than words: every update skips these.

        Raises:
            ValueError: no pair has enough positions.
        """
        indices = np.asarray(
            super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        )
        if self.is_training_set(dataset) and dataset.tgt_sizes is not None:
            rule = self.decoder.rule
            sizes = rule.lengths(torch.from_numpy(source_sizes(dataset)[indices])).numpy()
            words = shortest_target_sizes(dataset, self.cfg.raw_probability) - 1  # without </s>
            self.report_lost(
                sizes < words[indices],
                f"--ctc-upsample-scale {rule.scale:g}",
                "fewer positions than words",
                ": raise --ctc-upsample-scale",
            )
        return indices

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        return {**sample, "ctc": self.ctc_sample(sample, update)}
