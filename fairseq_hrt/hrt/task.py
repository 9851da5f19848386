"""Task ``translation_hrt``: training samples, curriculum, and the two-stage generator."""

import logging
from dataclasses import replace
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..native.families.hrt import chunk_table
from ..native.options.effects import settled
from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask, log_bleu
from ..training import truncate_targets
from .config import HRTTaskConfig
from .generator import HRTGenerator
from .model import HRTTransformerModel
from .scorer import ChunkScorer
from .training_batch import draw_views

logger = logging.getLogger(__name__)


@register_task("translation_hrt", dataclass=HRTTaskConfig)
class HRTTranslationTask(EngineTranslationTask):
    """Hybrid-regressive translation: every K-th token is written from left to right, then all
    others at once."""

    cfg: HRTTaskConfig
    family = "hrt"
    # Length and exponent of the curriculum that the training was begun with.
    _begun_with: Optional[Tuple[int, float]] = None

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
            ValueError: this family is not trained with the criterion, or the curriculum's length is
                unknown.
        """
        criterion = super().build_criterion(cfg)
        self.curriculum_share(0)
        return criterion

    def load_dataset(self, split: str, *args: Any, **kwargs: Any) -> None:
        super().load_dataset(split, *args, **kwargs)
        if self.cfg.hrt_truncate_target:
            truncate_targets(
                self.datasets[split], self.cfg.max_target_positions, self.target_dictionary.eos()
            )

    def curriculum_share(self, update: int) -> float:
        """The share of sentences trained with chunks in update t: p_k = (t / T) ** lambda (HRT,
        Eq. 5), at most 1, with T the curriculum's length and lambda its exponent; 1 for lambda = 0.

        Raises:
            ValueError: the length of the curriculum is unknown.
        """
        total, power = self._curriculum()
        return float(min(1.0, update / total) ** power) if power else 1.0

    def _curriculum(self) -> Tuple[int, float]:
        """(Length in updates, exponent) of the curriculum, see :meth:`curriculum_share`; (0, 0) for
        an exponent of 0, which switches the curriculum off. Raises ValueError if the length is
        unknown."""
        power = float(self.cfg.hrt_curriculum_power)
        if power == 0:
            return 0, power
        begun_with = self._begun_with[0] if self._begun_with else None
        total = self.cfg.hrt_curriculum_steps or begun_with or self.cfg.max_update
        if not total or total < 0:
            raise ValueError(
                "the curriculum needs its length in updates, which --max-epoch does not give: give"
                " --max-update, or --hrt-curriculum-steps (or --hrt-curriculum-power 0 to train"
                " without a curriculum)"
            )
        return total, power

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """fairseq's iterator over batches. That of the training data also stores the curriculum's
        length and exponent in checkpoints, and restores them when a training is resumed."""
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        training = self._trained_options is not None and self.datasets.get(self.cfg.train_subset)
        # fairseq may return the iterator of an earlier epoch again.
        if dataset is training and "state_dict" not in vars(iterator):
            stored, load = iterator.state_dict, iterator.load_state_dict

            def load_with_curriculum(state: Dict[str, Any]) -> None:
                load(state)
                self._resume_curriculum(state.get("hrt_curriculum"))

            iterator.state_dict = lambda: {**stored(), "hrt_curriculum": list(self._curriculum())}
            iterator.load_state_dict = load_with_curriculum
        return iterator

    def _resume_curriculum(self, stored: Optional[Sequence[float]]) -> None:
        """Continues the curriculum of a resumed training: its length stays, even with a longer
        ``--max-update``, unless ``--hrt-curriculum-steps`` gives another. Changes are logged.

        Args:
            stored: (length in updates, exponent) from the checkpoint; None: the checkpoint has no
                curriculum, and nothing is done.
        """
        if stored is None:
            return
        self._begun_with = int(stored[0]), float(stored[1])
        chosen, planned = self.cfg.hrt_curriculum_steps, self.cfg.max_update
        length, power = self._curriculum()
        if (length, power) != self._begun_with:
            logger.warning(
                "the curriculum was begun with --hrt-curriculum-steps %d --hrt-curriculum-power %g;"
                " now they are %d and %g: give the former to keep it",
                *self._begun_with,
                length,
                power,
            )
        elif power and not chosen and planned not in (0, length):
            logger.info(
                "the curriculum keeps the %d updates that it was begun with:"
                " --hrt-curriculum-steps %d adapts it to --max-update",
                length,
                planned,
            )

    def add_views(self, sample: Dict[str, Any], update: int, share: float) -> Dict[str, Any]:
        """Returns the batch with a further entry ``views``, its :class:`.sample.TrainingViews`; an
        empty batch is returned unchanged. Random choices depend on seed, ``update`` and sentence id
        alone; ``share`` is the probability that a sentence is trained in chunks."""
        if not sample:
            return sample
        views = draw_views(
            sample,
            update,
            share,
            self.decoder,
            seed=self.cfg.seed,
            raw_probability=self.cfg.raw_probability,
        )
        return {**sample, "views": views}

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        if update is not None and self._begun_with is None:
            self._begun_with = self._curriculum()
            if update and self._begun_with[1]:
                # --reset-dataloader, or a checkpoint of an earlier version.
                logger.warning(
                    "the length of the curriculum so far is not known; from update %d on it is %d"
                    " updates long: --hrt-curriculum-steps gives another length",
                    update,
                    self._begun_with[0],
                )
        # Validation always uses chunks: with the curriculum's share epochs could not be compared.
        return self.add_views(
            sample, update or 0, 1.0 if update is None else self.curriculum_share(update)
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
