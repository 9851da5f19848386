"""The translation task with our generators and, for training, a second set of targets."""

import logging
import weakref
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationTask
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from . import option_effects
from .decoding import Rescorer
from .engine import (
    EngineGenerator,
    GenerationCounters,
    ModelScorer,
    PackedGenerator,
    UnsupportedModelError,
    follow_precision,
    options_of_command,
)
from .families import FAMILIES, LEFT_TO_RIGHT, Family
from .loading.checkpoints import architecture_name
from .loading.models import load_other_model
from .options import DecodingOptions, UnsupportedOption
from .runtime import LibraryUnavailable
from .training import flatten_options, with_distilled_targets

logger = logging.getLogger(__name__)
_BY_NAME: Dict[str, Family] = {family.name: family for family in FAMILIES}


class EngineTranslationTask(TranslationTask):
    """Base of the families' tasks; a family defines :meth:`make_generator`.

    Attributes:
        family: its name, see :mod:`.families`.
    """

    family: str
    # Generators made while the model is built decode between its updates.
    _building_model = False
    # Generators that hold a copy of the weights.
    _packed: Sequence["weakref.ref[PackedGenerator]"] = ()
    # Options of the model that is trained; None where a trained one is loaded.
    _trained_options: Optional[Dict[str, Any]] = None
    # Whether this task's own options are those that a checkpoint holds.
    _from_checkpoint = False
    # What the models of the last generator can read.
    _source_positions: Sequence[int] = ()
    # And what chooses among their translations.
    _choosing_positions: Sequence[int] = ()

    @property
    def record(self) -> Family:
        """What is known of the family."""
        return _BY_NAME[self.family]

    def decoding_options(self, args: Any, **overrides: Any) -> DecodingOptions:
        """The options of a command and of this task; see :func:`~.engine.options_of_command`."""
        return options_of_command(args, self.cfg, **overrides)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> FairseqEncoderDecoderModel:
        """The model, and with ``--eval-bleu`` the generator of the validation.

        Raises:
            ValueError: a model of another family, options that it does not have or that have no effect, or targets padded on the left.
        """
        if isinstance(cfg, str):
            raise ValueError(f"model: {cfg} is a name alone; write model: {{_name: {cfg}}}")
        self.require_family_name(cfg)
        if not from_checkpoint:
            flatten_options_of_transformer(cfg)
        self._note_origin(cfg, from_checkpoint)
        if self.record.model and self.cfg.left_pad_target:
            raise ValueError(f"--left-pad-target: {self.record.model} needs targets padded on the right")
        self._building_model = True
        try:
            model = super().build_model(cfg, from_checkpoint)
        finally:
            self._building_model = False
        self.require_family([model])
        if from_checkpoint:
            follow_precision(model)
        return model

    def build_criterion(self, cfg: Any) -> FairseqCriterion:
        """The criterion.

        Raises:
            ValueError: the family is trained with another one, or an option has no effect.
        """
        if self._trained_options is not None:
            option_effects.check({**self._trained_options, **option_effects.read(cfg)}, option_effects.EVERYTHING)
        losses = self.record.losses
        if losses and cfg._name not in losses:
            raise ValueError(f"{self.record.model} is trained with --criterion {' or '.join(losses)}, not {cfg._name}")
        return super().build_criterion(cfg)

    def _note_origin(self, cfg: Any, from_checkpoint: bool) -> None:
        """Whose options these are: those of a training that begins are checked, those of one that is over are nobody's mistake now.

        Raises:
            ValueError: an option of a training has no effect.
        """
        # Commands that decode name a checkpoint beside the task's options; where these come from the checkpoint itself
        # (``fairseq-validate``, ``from_pretrained`` of fairseq), they stand beside those of its training, which names none.
        around = self.cfg._get_parent() if isinstance(self.cfg, DictConfig) else None
        stored = isinstance(around, DictConfig) and OmegaConf.select(around, "common_eval.path") is None
        self._from_checkpoint = from_checkpoint and stored
        self._trained_options = None
        if not from_checkpoint:
            defaults = option_effects.defaults_of_model(self.family)
            self._trained_options = {**defaults, **option_effects.read(self.cfg, cfg)}
            option_effects.check(self._trained_options, option_effects.EVERYTHING)

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        """A batch with what the family's criterion reads besides; nothing where nothing else is defined.

        Args:
            update: the number that the trainer hands over, as a number stored in a loaded checkpoint is its parent's; None in
                validation, where nothing is drawn.
        """
        return sample

    def train_step(
        self,
        sample: Dict[str, Any],
        model: torch.nn.Module,
        criterion: FairseqCriterion,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        sample = self.prepared(sample, update_num)
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def valid_step(
        self, sample: Dict[str, Any], model: torch.nn.Module, criterion: FairseqCriterion
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        return super().valid_step(self.prepared(sample, None), model, criterion)

    def require_family(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Raises ValueError for models of other families."""
        for model in models:
            if self.record.model and not isinstance(model, MODEL_REGISTRY[self.record.model]):
                raise ValueError(self._other_family(type(model).__name__))

    def require_family_name(self, cfg: Any) -> None:
        """Raises ValueError for the configuration of a model of another family, before anything of it is built."""
        name = architecture_name(cfg)
        model = ARCH_MODEL_REGISTRY.get(name) if isinstance(name, str) else None
        own = self.record.model
        if own and model is not None and not issubclass(model, MODEL_REGISTRY[own]):
            raise ValueError(self._other_family(model.__name__))

    def _other_family(self, model: str) -> str:
        own = self.record.model
        return (
            f"the model is a {model}, not a {own}: train with --arch {own} (fine-tune with --finetune-from-model), or "
            "decode this one with --task translation_autoregressive"
        )

    def require_left_to_right(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Raises ValueError for models that do not write word by word from left to right."""
        for model in models:
            task = getattr(model.decoder, "only_task", None)
            if task is not None:
                raise ValueError(
                    f"a {type(model).__name__} does not write word by word from left to right: decode it with --task {task}"
                )

    def make_generator(self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions) -> EngineGenerator:
        """The family's generator."""
        raise NotImplementedError

    def make_scorer(self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions) -> Any:
        """What scores given translations (``--score-reference``); fairseq's own scorer where nothing else is defined."""
        return super().build_generator(models, args)

    def build_generator(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Called by generate, interactive, validation BLEU and the hub, each with other arguments.

        Raises:
            ValueError: an option is not supported, or has no effect; the message names it.
        """
        options = self.decoding_options(args, static_weights=not self._building_model)
        if getattr(args, "score_reference", False):
            self.require_family(models)
            return self.make_scorer(models, args, options)
        if seq_gen_cls is not None or prefix_allowed_tokens_fn is not None:
            raise ValueError(
                f"{type(self).__name__} brings its own search: another generator class or allowed-token function "
                "cannot be used; use --task translation for it"
            )
        if (extra_gen_cls_kwargs or {}).get("lm_model") is not None:
            raise ValueError("--lm-path: not supported by this decoder; use --task translation for it")
        return self.generator_for(models, self._in_effect(options, args))

    def generator_for(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> Union[EngineGenerator, PackedGenerator]:
        """What decodes with these options, on the engine that they name.

        Raises:
            ValueError: an option is not supported; the message names it.
        """
        self.require_family(models)
        self._source_positions, self._choosing_positions = [model.max_positions()[0] for model in models], []
        if options.engine != "torch":
            try:
                return self._native_generator(models, options)
            except (UnsupportedOption, UnsupportedModelError, LibraryUnavailable) as reason:
                if options.engine == "native":
                    raise ValueError(str(reason)) from None
                if options.static_weights:
                    logger.info("decoding with PyTorch: %s", reason)
        return self._torch_generator(models, options)

    def _native_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> PackedGenerator:
        """The native engine behind fairseq's contract.

        Raises:
            UnsupportedOption, UnsupportedModelError, LibraryUnavailable: PyTorch has to do it; why.
        """
        generator = PackedGenerator(
            models,
            self.source_dictionary,
            self.target_dictionary,
            options,
            torch_generator=lambda: self._torch_generator(models, replace(options, engine="torch")),
        )
        if options.rescore_path is not None:
            generator.rank_by(self.make_rescorer(generator.counters, options, like=models[0]))
        self._packed = [*self._packed, weakref.ref(generator)]
        if options.static_weights:
            logger.info("decoding with the native engine: %s", generator.describe())
        return generator

    def _torch_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> EngineGenerator:
        generator = self.make_generator(models, options)
        if options.rescore_path is not None:
            # Before anything is loaded.
            generator.require_candidates()
            generator.rank_by(self.make_rescorer(generator.counters, options, like=models[0]))
        return generator

    def begin_valid_epoch(self, epoch: int, model: torch.nn.Module) -> None:
        """The model has changed since the last validation."""
        super().begin_valid_epoch(epoch, model)
        for generator in filter(None, (packed() for packed in self._packed)):
            generator.forget_weights()

    def _in_effect(self, options: DecodingOptions, args: Any) -> DecodingOptions:
        """The options, with what those without effect amount to, which ``args`` gets, too, for what commands print.

        Raises:
            ValueError: one has no effect.
        """
        values = options.of_family(self.family)
        # What a checkpoint holds beside what is asked for now cannot be told from it.
        if not self._from_checkpoint:
            option_effects.check(values)
        effective, messages = option_effects.in_effect(values)
        for message in messages:
            logger.warning(message)
        for name, value in effective.items():
            setattr(args, name, value)
        return replace(options, **effective)

    def make_rescorer(
        self, counters: GenerationCounters, options: DecodingOptions, *, like: FairseqEncoderDecoderModel
    ) -> Rescorer:
        """What ranks translations by ``--rescore-path``.

        Args:
            counters: where its passes are counted.
            like: a model on whose device and with whose precision is computed.

        Raises:
            OSError: a file is missing or unreadable.
            ValueError: a model that does not write from left to right, or one with other dictionaries.
        """
        try:
            judge = ModelScorer(self.choosing_models(), self.target_dictionary, counters, like=like)
        except UnsupportedModelError as error:
            raise ValueError(f"--rescore-path {options.rescore_path}: {error}") from None
        self._choosing_positions = [judge.longest_source]
        self._source_positions = [*self._source_positions, judge.longest_source]
        return Rescorer(judge, lenpen=options.rescore_lenpen)

    def choosing_models(self) -> List[FairseqEncoderDecoderModel]:
        """The models that ``--rescore-path`` names, on the CPU.

        Raises:
            OSError, ValueError: as :meth:`make_rescorer`.
        """
        models: List[FairseqEncoderDecoderModel] = []
        for path in utils.split_paths(self.cfg.rescore_path):
            models += self._choosing_model(path)
        return models

    def _choosing_model(self, path: str) -> List[FairseqEncoderDecoderModel]:
        """A model that writes from left to right."""

        def choose(config: Any) -> Dict[str, Any]:
            if config._name not in LEFT_TO_RIGHT:
                raise ValueError(
                    f"--rescore-path {path}: the checkpoint belongs to the task {config._name}; give an autoregressive model, "
                    f"which belongs to {' or '.join(LEFT_TO_RIGHT)}"
                )
            return {}

        _, models = load_other_model(
            "--rescore-path",
            path,
            beside=self.cfg,
            source=self.source_dictionary,
            target=self.target_dictionary,
            choose=choose,
        )
        self.require_left_to_right(models)
        return models

    def max_positions(self) -> Tuple[int, int]:
        """What the task and a model that chooses can read."""
        source, target = super().max_positions()
        return min([source, *self._choosing_positions]), target

    def get_interactive_tokens_and_lengths(
        self, lines: Sequence[str], encode_fn: Callable[[str], str]
    ) -> Tuple[List[Tensor], List[int]]:
        """Lines of ``fairseq-interactive`` as source ids; with ``--truncate-source`` cut as the training data are.

        fairseq truncates data sets only, and stops at the first long line that it reads.

        Returns:
            LongTensors with ``</s>``, and their lengths.
        """
        tokens, lengths = super().get_interactive_tokens_and_lengths(lines, encode_fn)
        if not self.cfg.truncate_source:
            return tokens, lengths
        limits = [self.cfg.max_source_positions, *self._source_positions]
        tokens = [_cut(line, min(limits)) for line in tokens]
        return tokens, [line.numel() for line in tokens]

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split; the training split with distilled targets beside the raw ones if they are configured."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        folder = getattr(self.cfg, "distilled_data", None)
        if folder is None or split != self.cfg.train_subset:
            return
        shards, raw_shards = utils.split_paths(folder), utils.split_paths(self.cfg.data)
        if len(shards) != len(raw_shards):
            raise ValueError(
                f"--distilled-data names {len(shards)} folders but the data {len(raw_shards)}: each needs its partner"
            )
        place = (epoch - 1) % len(shards)
        self.datasets[split] = with_distilled_targets(
            self.datasets[split], self.cfg, split, shards[place], raw_shards[place], combine=combine
        )

    def reduce_metrics(self, logging_outputs: Sequence[Dict[str, Any]], criterion: FairseqCriterion) -> None:
        """fairseq's, whose BLEU leaves out batches with empty translations only: an early validation then ends with KeyError 'bleu'."""
        super(TranslationTask, self).reduce_metrics(logging_outputs, criterion)
        log_bleu(logging_outputs, "_bleu", "bleu")

    def bleu_statistics(
        self, generator: Any, sample: Dict[str, Any], model: torch.nn.Module, prefix: str
    ) -> Dict[str, float]:
        """Counts for the BLEU of one batch, summable over batches and workers."""
        bleu = self._inference_with_bleu(generator, sample, model)
        logging_output = {f"{prefix}_sys_len": bleu.sys_len, f"{prefix}_ref_len": bleu.ref_len}
        for order in range(EVAL_BLEU_ORDER):
            logging_output[f"{prefix}_counts_{order}"] = bleu.counts[order]
            logging_output[f"{prefix}_totals_{order}"] = bleu.totals[order]
        return logging_output


def flatten_options_of_transformer(cfg: Any) -> None:
    """What :func:`~.training.flatten_options` does for this package's own models, for fairseq's ``transformer`` from YAML.

    Otherwise groups (``encoder: {layers: 2}``) would silently replace all that a preset says, and unknown names be ignored.
    """
    if ARCH_MODEL_REGISTRY.get(architecture_name(cfg)) is TransformerModel:
        flatten_options(cfg)


def _cut(line: Tensor, longest: int) -> Tensor:
    """The first ``longest - 1`` ids of a line and its ``</s>``."""
    return line if line.numel() <= longest else torch.cat([line[: longest - 1], line[-1:]])


def log_bleu(logging_outputs: Sequence[Dict[str, float]], prefix: str, name: str) -> None:
    """Logs the BLEU whose counts :meth:`EngineTranslationTask.bleu_statistics` gathered under ``prefix``, if it gathered any.

    It is 0 where all translations are empty.
    """
    if not any(f"{prefix}_ref_len" in log for log in logging_outputs):
        return

    def total(key: str) -> float:
        return sum(float(log.get(f"{prefix}_{key}", 0)) for log in logging_outputs)

    # Arrays, so that the meters sum them element by element; averaging BLEU itself over batches would be wrong.
    totals = [total(f"totals_{order}") for order in range(EVAL_BLEU_ORDER)]
    counts = [total(f"counts_{order}") for order in range(EVAL_BLEU_ORDER)]
    metrics.log_scalar(f"{prefix}_counts", np.array(counts))
    metrics.log_scalar(f"{prefix}_totals", np.array(totals))
    metrics.log_scalar(f"{prefix}_sys_len", total("sys_len"))
    metrics.log_scalar(f"{prefix}_ref_len", total("ref_len"))

    def compute(meters: Dict[str, Any]) -> float:
        from sacrebleu.metrics.bleu import BLEU

        score = BLEU.compute_bleu(
            correct=meters[f"{prefix}_counts"].sum,
            total=meters[f"{prefix}_totals"].sum,
            sys_len=int(meters[f"{prefix}_sys_len"].sum),
            ref_len=int(meters[f"{prefix}_ref_len"].sum),
            smooth_method="exp",
        )
        return round(score.score, 2)

    metrics.log_derived(name, compute)
