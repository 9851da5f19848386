"""Task ``translation_bidirectional``: slot samples for training and block-wise decoding."""

from typing import Any, Dict, Optional, Sequence

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from torch import Tensor

from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from .config import BidirectionalTaskConfig
from .generator import BidirectionalGenerator, require_one_order
from .sample import SlotSample, training_view
from .scorer import SlotScorer


@register_task("translation_bidirectional", dataclass=BidirectionalTaskConfig)
class BidirectionalTranslationTask(EngineTranslationTask):
    """Translation that writes several words per decoder step: from both ends of the sentence, from
    left to right, or from both ends of several segments."""

    cfg: BidirectionalTaskConfig
    family = "bidirectional"

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> BidirectionalGenerator:
        return BidirectionalGenerator(models, self.target_dictionary, options)

    def make_scorer(
        self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions
    ) -> SlotScorer:
        require_one_order(models)
        self.decoder = models[0].decoder
        return SlotScorer(self.target_dictionary, self.slots)

    # ------------------------------------------------------------------ training

    def slots(self, targets: Tensor) -> SlotSample:
        """Puts targets ``[B, T]`` into the slots (the order of writing) of this task's model."""
        return training_view(targets, self.decoder)

    def add_slots(
        self, sample: Dict[str, Any], *, train_dead_slots: bool = False
    ) -> Dict[str, Any]:
        """Returns the batch with a further entry ``slots``, its targets as a :class:`SlotSample`;
        ``train_dead_slots``: whether slots after ``</s>`` have a loss (see
        :func:`.sample.slot_sample`). ``target`` keeps its natural order, for BLEU."""
        slots = training_view(sample["target"], self.decoder, train_dead_slots=train_dead_slots)
        return {**sample, "slots": slots}

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        dead = self.cfg.bidirectional_train_dead_slots and update is not None
        return self.add_slots(sample, train_dead_slots=dead)
