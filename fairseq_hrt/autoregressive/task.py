"""Task ``translation_autoregressive``: fairseq's ``translation`` with the engine's greedy and beam
search."""

from dataclasses import dataclass
from typing import Sequence

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig

from ..engine import AutoregressiveGenerator
from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from ..training.task_options import with_decoding_options


@with_decoding_options()
@dataclass
class AutoregressiveTranslationConfig(TranslationConfig):
    """Options of ``translation_autoregressive``: fairseq's translation options, and this package's
    for decoding and for reranking the beam by another model."""


@register_task("translation_autoregressive", dataclass=AutoregressiveTranslationConfig)
class AutoregressiveTranslationTask(EngineTranslationTask):
    """Translation with an autoregressive Transformer."""

    family = "autoregressive"

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> AutoregressiveGenerator:
        self.require_left_to_right(models)
        return AutoregressiveGenerator(models, self.target_dictionary, options)
