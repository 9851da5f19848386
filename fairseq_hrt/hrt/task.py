"""Task ``translation_hrt``: training samples, curriculum, and the two-stage generator."""

from dataclasses import replace
from functools import cached_property
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..native.families.hrt import chunk_table
from ..native.options.effects import settled
from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask, log_bleu
from .config import HRTTaskConfig
from .curriculum import Curriculum
from .generator import HRTGenerator
from .model import HRTTransformerModel
from .scorer import ChunkScorer
from .training_batch import draw_views


@register_task("translation_hrt", dataclass=HRTTaskConfig)
class HRTTranslationTask(EngineTranslationTask):
    """Hybrid-regressive translation: every K-th token is written from left to right, then all
    others at once."""

    cfg: HRTTaskConfig
    family = "hrt"

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> HRTTransformerModel:
        model = super().build_model(cfg, from_checkpoint)
        if self.cfg.eval_bleu and self.cfg.hrt_eval_autoregressive:
            options = replace(self.sequence_generator.options, hrt_decode_chunk="1")
            # There is no second stage then: its options are set aside.
            options = settled(options, self.family, given=("hrt_decode_chunk",))
            self.autoregressive_generator = self.generator_for([model], options)
        # Chunk sizes that a checkpoint lacks can be learnt in training only.
        model.decoder.may_gain_sizes = not from_checkpoint
        return model

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> HRTGenerator:
        return HRTGenerator(models, self.target_dictionary, options)

    def make_scorer(
        self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions
    ) -> Any:
        """The scorer of given translations: :class:`.scorer.ChunkScorer`, with the chunk sizes that
        decoding would use; fairseq's own scorer if these are all 1.

        Raises:
            ValueError: the model was not trained for a chunk size.
        """
        table = chunk_table(options, models[0].decoder.chunk_sizes)
        if {size for _, size in table} == {1}:
            return super().make_scorer(models, args, options)
        return ChunkScorer(self.target_dictionary, table)

    # ------------------------------------------------------------------ training

    def build_criterion(self, cfg: Any) -> FairseqCriterion:
        """Builds the criterion.

        Raises:
            ValueError: this family is not trained with the criterion, an option has no effect, or
                the curriculum's length in updates is given neither by ``--max-update`` nor by
                ``--hrt-curriculum-steps``.
        """
        criterion = super().build_criterion(cfg)
        self.curriculum.share(0)
        return criterion

    @cached_property
    def curriculum(self) -> Curriculum:
        cfg = self.cfg
        return Curriculum(cfg.hrt_curriculum_steps, cfg.hrt_curriculum_power, cfg.max_update)

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """fairseq's iterator over batches. That of the training data also stores the curriculum's
        length and exponent in checkpoints, and restores them when a training is resumed."""
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        training = self._trained_options is not None and self.is_training_set(dataset)
        # fairseq may return the iterator of an earlier epoch again.
        if training and "state_dict" not in vars(iterator):
            stored, load = iterator.state_dict, iterator.load_state_dict

            def load_with_curriculum(state: Dict[str, Any]) -> None:
                load(state)
                self.curriculum.resume(state.get("hrt_curriculum"))

            iterator.state_dict = lambda: {
                **stored(),
                "hrt_curriculum": list(self.curriculum.settings()),
            }
            iterator.load_state_dict = load_with_curriculum
        return iterator

    def add_views(self, sample: Dict[str, Any], update: int, share: float) -> Dict[str, Any]:
        """Returns the batch with a further entry ``views``, its :class:`.sample.TrainingViews`.
        Random choices depend on seed, ``update`` and sentence id alone; ``share`` is the
        probability that a sentence is trained in chunks."""
        views = draw_views(sample, update, share, self.decoder, seed=self.cfg.seed)
        return {**sample, "views": views}

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        if update is not None:
            self.curriculum.begin(update)
        # Validation always uses chunks: with the curriculum's share epochs could not be compared.
        return self.add_views(
            sample, update or 0, 1.0 if update is None else self.curriculum.share(update)
        )

    def valid_step(
        self, sample: Dict[str, Any], model: torch.nn.Module, criterion: FairseqCriterion
    ) -> Tuple[torch.Tensor, int, Dict[str, Any]]:
        loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        # Chunk size 1 is logged under at and cmlm, and left out of the loss that selects
        # checkpoints.
        with torch.no_grad():
            _, _, unchunked = criterion(model, self.add_views(sample, 0, 0.0))
        for name in ("at", "cmlm"):
            logging_output.update(
                {key: unchunked[key] for key in (f"{name}_nll_loss", f"{name}_ntokens")}
            )
        if self.cfg.eval_bleu and self.cfg.hrt_eval_autoregressive:
            logging_output.update(
                self.bleu_statistics(
                    self.autoregressive_generator, sample, model, "_bleu_autoregressive"
                )
            )
        return loss, sample_size, logging_output

    def reduce_metrics(
        self, logging_outputs: Sequence[Dict[str, Any]], criterion: FairseqCriterion
    ) -> None:
        super().reduce_metrics(logging_outputs, criterion)
        if self.cfg.eval_bleu and self.cfg.hrt_eval_autoregressive:
            log_bleu(logging_outputs, "_bleu_autoregressive", "bleu_autoregressive")
