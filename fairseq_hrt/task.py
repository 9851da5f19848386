"""The common base of the families' tasks: builds the model, trains and validates."""

import json
import logging
from contextlib import nullcontext
from dataclasses import fields
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, FairseqCriterion
from fairseq.logging import metrics
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
)
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationConfig, TranslationTask
from omegaconf import DictConfig, open_dict
from torch import Tensor

from .decoding_task import DecodingTask
from .engine import follow_precision
from .loading.checkpoints import architecture_name
from .loading.language_tokens import language_tokens
from .native.options.conditions import flag
from .training import (
    ConfiguredTransformer,
    Sums,
    flatten_options,
    truncate_targets,
    with_distilled_targets,
    with_drawn_targets,
)
from .training.task_options import checked_options, is_stored
from .training.transformer_options import as_config, flat_values, refuse_extras, refuse_unread

logger = logging.getLogger(__name__)


class EngineTranslationTask(DecodingTask):
    """What the tasks of all families share in training; decoding is inherited from
    :class:`.decoding_task.DecodingTask`."""

    # Options of task and model in a training; None where a checkpoint is loaded.
    _trained_options: Optional[Dict[str, Any]] = None
    # Whether the family's losses are always divided by the number of sentences.
    by_sentence = False

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> FairseqEncoderDecoderModel:
        """Builds the model and, with ``--eval-bleu``, the generator for validation.

        Raises:
            ValueError: the model belongs to another family, an option is unknown or has no effect,
                or targets are padded on the left, which the families do not support.
        """
        if isinstance(cfg, str):
            raise ValueError(f"model: {cfg} is a name alone; write model: {{_name: {cfg}}} instead")
        self.require_family_name(cfg)
        plain = ARCH_MODEL_REGISTRY.get(architecture_name(cfg)) is TransformerModel
        if plain and not from_checkpoint:
            # Otherwise a YAML group (``encoder: {layers: 2}``) silently replaces all of a fairseq
            # preset, and fairseq ignores unknown names.
            flatten_options(cfg)
        self._note_origin(cfg, from_checkpoint)
        if from_checkpoint:
            languages = [self.cfg.source_lang, self.cfg.target_lang]
            self.language = language_tokens(cfg, languages, self.src_dict, self.tgt_dict)
        if self.record.model and self.cfg.left_pad_target:
            raise ValueError(
                f"--left-pad-target: {self.record.model} needs targets padded on the right; leave"
                " the option out"
            )
        if self.record.model and self.cfg.load_alignments and not from_checkpoint:
            raise ValueError(
                f"--load-alignments: no loss of a {self.record.model} reads alignments; leave the"
                " option out"
            )
        self._building_model = True
        try:
            model = super().build_model(cfg, from_checkpoint)
        finally:
            self._building_model = False
        self.require_family([model])
        # Tells the families how training samples are drawn, and how long they are.
        self.decoder = model.decoder
        if from_checkpoint:
            follow_precision(model)
        return model

    def build_criterion(self, cfg: Any) -> FairseqCriterion:
        """Builds the criterion.

        Raises:
            ValueError: the model's family is not trained with this criterion, or an option has no
                effect.
        """
        declared = CRITERION_DATACLASS_REGISTRY.get(cfg._name)
        if self._trained_options is not None and declared is not None:
            checked_options([declared], [self._trained_options, cfg])
        losses = self.record.losses
        if losses and cfg._name not in losses:
            raise ValueError(
                f"{self.record.model} is trained with --criterion {' or '.join(losses)}, not"
                f" {cfg._name}"
            )
        # fairseq-validate, which trains nothing, takes the option from the checkpoint.
        asked = self._trained_options is not None and getattr(cfg, "sentence_avg", False) is True
        if asked and self.by_sentence:
            raise ValueError(
                f"--sentence-avg: {cfg._name} is always divided by the number of sentences; leave"
                " it out"
            )
        return super().build_criterion(cfg)

    def _note_origin(self, cfg: Any, from_checkpoint: bool) -> None:
        """Notes whether the options come from a training's command or a loaded checkpoint. Those of
        a command are checked; a checkpoint's are not, since the user who decodes it did not choose
        its options.

        Args:
            cfg: configuration of the model.
            from_checkpoint: whether a checkpoint is loaded.

        Raises:
            ValueError: an option of the training has no effect.
        """
        # None of a checkpoint's options is refused. ``beam`` counts as given, but is never refused:
        # if it has no effect, that is only logged.
        self.given = ("beam",) if from_checkpoint and is_stored(self.cfg) else None
        self._trained_options = None
        if not from_checkpoint:
            kind, chosen = ARCH_MODEL_REGISTRY.get(architecture_name(cfg)), {}
            declared = [TASK_DATACLASS_REGISTRY[self.record.task]]
            own = bool(kind) and issubclass(kind, ConfiguredTransformer)
            # Models that other plugins derive may read other options.
            if kind is TransformerModel or (own and kind.__module__.startswith(f"{__package__}.")):
                declared.append(getattr(kind, "config", TransformerConfig))
                # The preset's values, which fairseq adds later to what YAML gives.
                with open_dict(cfg) if isinstance(cfg, DictConfig) else nullcontext():
                    ARCH_CONFIG_REGISTRY[architecture_name(cfg)](cfg)
                chosen = flat_values(as_config(cfg, declared[-1]))
                refuse_unread(chosen)
                if own:
                    refuse_extras(chosen, training=True)
            self._trained_options = checked_options(declared, [self.cfg, cfg, chosen])
            if self.cfg.eval_bleu_tokenizer:
                require_tokenizer(self.cfg.eval_bleu_tokenizer)
            if self.cfg.eval_bleu:
                for name in ("eval_bleu_args", "eval_bleu_detok_args"):
                    require_options(name, getattr(self.cfg, name))
            else:
                refuse_options_of_bleu(self.cfg)

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        """Returns the batch with what the family's criterion needs besides fairseq's entries (for
        dag, e.g., the sizes of the graphs); this base class adds nothing.

        Args:
            sample: the batch from fairseq's data set; in training ``target`` ``[B, T]`` has the
                targets of this update, raw or distilled.
            update: the number of updates that the trainer has made (not the model's own counter,
                which a checkpoint may bring from an earlier training); None in validation, where
                nothing is drawn at random.
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
        sample = with_drawn_targets(sample, self.cfg, update_num, self.target_dictionary.pad())
        sample = self.prepared(sample, update_num)
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def valid_step(
        self, sample: Dict[str, Any], model: torch.nn.Module, criterion: FairseqCriterion
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        return super().valid_step(self.prepared(sample, None), model, criterion)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Loads a split of the data; with ``--distilled-data`` the training split holds the raw and
        the distilled targets. Cuts long targets if an option of the family asks for it."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if self.language is not None:
            self.language.mark_sources(self.datasets[split])
        if hasattr(self.cfg, "distilled_data"):
            self.datasets[split] = with_distilled_targets(
                self.datasets[split], self.cfg, split, epoch, combine=combine
            )
        if getattr(self.cfg, f"{self.family}_truncate_target", False):
            if self.cfg.num_batch_buckets > 0:
                raise ValueError(
                    f"--{self.family}-truncate-target cannot be combined with --num-batch-buckets,"
                    " which pads the targets before they are cut; leave one out"
                )
            eos = self.target_dictionary.eos()
            truncate_targets(self.datasets[split], self.longest_target(), eos)

    def longest_target(self) -> int:
        """The most tokens of a target, to which ``--hrt-truncate-target`` and
        ``--bidirectional-truncate-target`` cut longer ones."""
        longest = int(self.cfg.max_target_positions)
        # The model may take fewer.
        return min(longest, self.decoder.max_positions()) if hasattr(self, "decoder") else longest

    def is_training_set(self, dataset: Any) -> bool:
        """Whether ``dataset`` is the split that is trained on."""
        return dataset is self.datasets.get(self.cfg.train_subset)

    @staticmethod
    def report_lost(lost: np.ndarray, option: str, lack: str, advice: str) -> None:
        """Warns that every update skips the training pairs for which ``lost`` (bool, ``[n]``) is
        True; raises ValueError if these are all pairs. The message names ``option`` and the problem
        ``lack`` that these pairs have with it; that of the error ends in ``advice``."""
        count = int(lost.sum())
        told = f"{option}: {count} of {len(lost)} training pairs have {lack}"
        if 0 < count == len(lost):
            raise ValueError(told + advice)
        if count:
            logger.warning("%s, and are skipped at every update", told)

    def get_batch_iterator(
        self, dataset: Any, *args: Any, num_workers: int = 0, **kwargs: Any
    ) -> Any:
        """fairseq's iterator over batches; outside training it loads data in this process instead
        of the one worker process that is fairseq's default.

        Passing a sentence between processes takes longer than translating it. If ``num_workers`` is
        larger than 1, the user has chosen it, and it is kept.
        """
        workers = 0 if num_workers == 1 and self._trained_options is None else num_workers
        return super().get_batch_iterator(dataset, *args, num_workers=workers, **kwargs)

    def reduce_metrics(
        self, logging_outputs: Sequence[Dict[str, Any]], criterion: FairseqCriterion
    ) -> None:
        """Logs fairseq's metrics, but BLEU by :func:`log_bleu`: fairseq's own code for it raises
        KeyError 'bleu' if all translations are empty, as they may be in an early validation."""
        super(TranslationTask, self).reduce_metrics(logging_outputs, criterion)
        log_bleu(logging_outputs, "_bleu", "bleu")

    def _inference_with_bleu(self, generator: Any, sample: Dict[str, Any], model: Any) -> Any:
        """sacreBLEU's result for a batch (score and n-gram counts), with the tokeniser of
        ``--eval-bleu-tokenizer``; fairseq itself offers only the tokeniser 13a or none."""
        if not self.cfg.eval_bleu_tokenizer:
            return super()._inference_with_bleu(generator, sample, model)
        import sacrebleu

        found = self.inference_step(generator, [model], sample, prefix_tokens=None)
        # An unknown word differs on the two sides, so that it never matches.
        lines = [
            (
                self._raw_line(best["tokens"], "UNKNOWNTOKENINHYP"),
                self._raw_line(utils.strip_pad(target, self.tgt_dict.pad()), "UNKNOWNTOKENINREF"),
            )
            for (best, *_), target in zip(found, sample["target"])
        ]
        if self.cfg.eval_bleu_print_samples:
            logger.info("example hypothesis: %s", lines[0][0])
            logger.info("example reference: %s", lines[0][1])
        return sacrebleu.corpus_bleu(
            [line for line, _ in lines],
            [[line for _, line in lines]],
            tokenize=self.cfg.eval_bleu_tokenizer,
        )

    def _raw_line(self, tokens: Tensor, unknown: str) -> str:
        text = self.tgt_dict.string(
            tokens.int().cpu(), self.cfg.eval_bleu_remove_bpe, unk_string=unknown
        )
        return self.tokenizer.decode(text) if self.tokenizer else text

    def bleu_statistics(
        self, generator: Any, sample: Dict[str, Any], model: torch.nn.Module, prefix: str
    ) -> Dict[str, float]:
        """Decodes a batch and returns the counts that BLEU is computed from: the lengths of
        translations and references, and matched and total n-grams of each order. These counts can
        be summed over batches and workers. Keys begin with ``prefix``."""
        bleu = self._inference_with_bleu(generator, sample, model)
        logging_output = {f"{prefix}_sys_len": bleu.sys_len, f"{prefix}_ref_len": bleu.ref_len}
        for order in range(EVAL_BLEU_ORDER):
            logging_output[f"{prefix}_counts_{order}"] = bleu.counts[order]
            logging_output[f"{prefix}_totals_{order}"] = bleu.totals[order]
        return logging_output


def refuse_options_of_bleu(cfg: Any) -> None:
    """Raises ValueError if an option of ``--eval-bleu`` is given without it."""
    for item in fields(TranslationConfig):
        value = getattr(cfg, item.name)
        if item.name.startswith(("eval_bleu_", "eval_tokenized")) and value != item.default:
            raise ValueError(
                f"{flag(item.name)} has an effect only with --eval-bleu: give it, or leave this"
                " option out"
            )


# Options of fairseq-generate that validation, which reads the best translation alone, does not use.
_NOT_VALIDATED = ("prefix_size", "nbest", "print_alignment", "retain_iter_history")


def require_options(name: str, text: str) -> None:
    """Raises ValueError if ``text``, the value of the option ``name``, is not a JSON object, or
    names an option that has no effect there."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{flag(name)} {text} is not a JSON object, e.g. '{{\"beam\": 4}}'")
    for option in _NOT_VALIDATED if name == "eval_bleu_args" else ():
        if option in found:
            raise ValueError(
                f"{flag(name)} {text}: {option} changes no BLEU, since validation reads the best"
                " translation of each source alone; leave it out"
            )


def require_tokenizer(name: str) -> None:
    """Raises ValueError if sacreBLEU has no tokeniser of this name or its package is not installed;
    called before the training begins."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ValueError(
            f"--eval-bleu-tokenizer {name} is not a tokeniser of sacreBLEU: give one of"
            f" {', '.join(BLEU.TOKENIZERS)}"
        )
    try:
        BLEU(tokenize=name)
    except (ImportError, OSError, RuntimeError) as error:
        # The last line of sacreBLEU's message names the package.
        needed = " ".join(str(error).split())
        raise ValueError(
            f"--eval-bleu-tokenizer {name} cannot be used here; sacreBLEU reports: {needed}"
        ) from error


def log_bleu(logging_outputs: Sequence[Dict[str, float]], prefix: str, name: str) -> None:
    """Logs BLEU as the metric ``name``, from the counts that
    :meth:`EngineTranslationTask.bleu_statistics` stored under ``prefix``; logs nothing if there are
    none.

    BLEU is 0 where all translations are empty.
    """
    if not any(f"{prefix}_ref_len" in log for log in logging_outputs):
        return
    total = Sums(logging_outputs)
    # Arrays, so that the meters sum them element by element; averaging BLEU itself over batches
    # would be wrong.
    totals = [total(f"{prefix}_totals_{order}") for order in range(EVAL_BLEU_ORDER)]
    counts = [total(f"{prefix}_counts_{order}") for order in range(EVAL_BLEU_ORDER)]
    metrics.log_scalar(f"{prefix}_counts", np.array(counts))
    metrics.log_scalar(f"{prefix}_totals", np.array(totals))
    for length in (f"{prefix}_sys_len", f"{prefix}_ref_len"):
        metrics.log_scalar(length, total(length))

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
