"""The part of the families' tasks that is about decoding: options, choice of the engine (native or
PyTorch), and rescoring by another model."""

import logging
import weakref
from dataclasses import replace
from typing import Any, Callable, Container, Dict, List, Optional, Sequence, Tuple, Union

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, FairseqEncoderDecoderModel
from fairseq.models.nat import FairseqNATModel
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig
from torch import Tensor

from .engine import (
    EngineGenerator,
    GenerationCounters,
    ModelScorer,
    NativeGenerator,
    TaskDictionary,
    UnsupportedModelError,
    options_of_command,
)
from .engine.models import load_rescoring_models
from .loading.checkpoints import architecture_name
from .loading.language_tokens import MultilingualTask
from .native.decoding import Rescorer
from .native.families import BY_NAME, Family
from .native.options.effects import require_rating, settled
from .native.options.schema import FAIRSEQ
from .native.options.values import (
    SCHEMA,
    DecodingOptions,
    UnsupportedOption,
    flag,
    options_of,
    read_value,
    require_native_search,
)
from .native.runtime.library import LibraryUnavailable
from .training.task_options import refuse_options_of_training

logger = logging.getLogger(__name__)


class DecodingTask(MultilingualTask):
    """fairseq's translation task with this package's generators; each family's task defines
    :meth:`make_generator`.

    Attributes:
        family: the family's name in :mod:`.native.families`.
        given: names of the options that the caller gave. :meth:`build_generator` refuses such an
            option if it has no effect; options from a bundle or a checkpoint do not count as given
            and are ignored instead. None: all options count as given.
    """

    family: str
    # Generators made while the model is built decode during training: their weights change.
    _building_model = False
    # Generators that hold a copy of the weights.
    _packed: Sequence["weakref.ref[NativeGenerator]"] = ()
    given: Optional[Container[str]] = None
    # Source positions that the last generator's models can read.
    _source_positions: Sequence[int] = ()
    # Source positions that the rescoring model can read.
    _rescorer_positions: Sequence[int] = ()
    # The options of fairseq-generate with which a generator was built last.
    _generation: Any = None

    @classmethod
    def load_dictionary(cls, filename: str) -> TaskDictionary:
        """Loads a dictionary file as a :class:`TaskDictionary`, which turns the ids of translations
        into words faster than fairseq's own class."""
        return TaskDictionary.load(filename)

    @property
    def record(self) -> Family:
        """The family's entry in :mod:`.native.families`."""
        return BY_NAME[self.family]

    def decoding_options(self, args: Any, **overrides: Any) -> DecodingOptions:
        """The decoding options, merged from a command's arguments and this task's configuration;
        see :func:`~.engine.options_of_command`.

        Args:
            args: the command's arguments (``cfg.generation``); an option of fairseq's that is None
                there gets the family's default.
            overrides: values by option name, which replace those of the command and the task.
        """
        missing = {
            name: read_value(name, value)
            for name, value in self.record.default.items()
            if SCHEMA[name].origin == FAIRSEQ and getattr(args, name, None) is None
        }
        return options_of_command(args, self.cfg, **{**missing, **overrides})

    def require_family(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Raises ValueError if one of the models does not belong to this task's family."""
        for model in models:
            if self.record.model and not isinstance(model, MODEL_REGISTRY[self.record.model]):
                raise ValueError(self._other_family(type(model)))

    def require_family_name(self, cfg: Any) -> None:
        """Raises ValueError if a model's configuration names an architecture of another family;
        called before any part of the model is built."""
        name = architecture_name(cfg)
        model = ARCH_MODEL_REGISTRY.get(name) if isinstance(name, str) else None
        own = self.record.model
        if own and model is not None and not issubclass(model, MODEL_REGISTRY[own]):
            raise ValueError(self._other_family(model))

    def _other_family(self, model: type) -> str:
        own = self.record.model
        return (
            f"the model is a {model.__name__}, not a {own}: train with --arch {own} (fine-tune with"
            f" --finetune-from-model), or decode this one with --task {task_of_model(model)}"
        )

    def require_left_to_right(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Raises ValueError if one of the models does not write word by word from left to right."""
        for model in models:
            task = getattr(model.decoder, "only_task", None)
            if task is not None:
                raise ValueError(
                    f"a {type(model).__name__} does not write word by word from left to right:"
                    f" decode it with --task {task}"
                )

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> EngineGenerator:
        """The family's generator, which decodes with PyTorch."""
        raise NotImplementedError

    def make_scorer(
        self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions
    ) -> Any:
        """The generator that scores given translations (``--score-reference``) instead of writing
        its own; by default fairseq's."""
        return super().build_generator(models, args)

    def build_generator(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Makes the generator of the ensemble ``models``, with ``--score-reference`` the scorer.
        ``args`` are the command's arguments (``cfg.generation``).

        Raises:
            ValueError: an option is not supported, or has no effect; or a generator class, an
                allowed-token function or a language model is given, which this package's search
                cannot use. The message names what is refused.
        """
        self._generation = args
        options = self.decoding_options(args, static_weights=not self._building_model)
        if getattr(args, "score_reference", False):
            self.require_family(models)
            self.require_own_references()
            require_rating(options, self.record, self.given)
            logger.info("scoring the references with PyTorch (--score-reference)")
            return self.make_scorer(models, args, options)
        if options.static_weights:
            declared = TASK_DATACLASS_REGISTRY[self.record.task]
            refuse_options_of_training(declared, self.cfg, only=self.given)
        if seq_gen_cls is not None or prefix_allowed_tokens_fn is not None:
            raise ValueError(
                f"{type(self).__name__} brings its own search: another generator class or"
                " allowed-token function cannot be used; leave them out, or decode a plain"
                " Transformer with --task translation"
            )
        if (extra_gen_cls_kwargs or {}).get("lm_model") is not None:
            raise ValueError(
                "--lm-path: not supported by this decoder; leave it out, or decode a plain"
                " Transformer with --task translation"
            )
        return self.generator_for(models, self._in_effect(options, args))

    def generator_for(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> Union[EngineGenerator, NativeGenerator]:
        """The generator for these options, on the engine that ``options.engine`` names. With
        ``auto`` this is the native engine if it supports the models and options, else PyTorch.

        Raises:
            ValueError: an option is not supported; the message names it.
        """
        self.require_family(models)
        self.require_own_start(options)
        self._source_positions, self._rescorer_positions = (
            [model.max_positions()[0] for model in models],
            [],
        )
        why = ""
        if options.engine != "torch":
            try:
                return self.stripped(self._native_generator(models, options))
            except (UnsupportedOption, UnsupportedModelError, LibraryUnavailable) as reason:
                if options.engine == "native":
                    raise ValueError(str(reason)) from None
                why = str(reason)
                options = self._without_native_ones(options, why)
        generator = self.stripped(self._torch_generator(models, options))
        self.record.check_positions(options, generator.decoder_positions, self.given)
        if options.static_weights:
            told = f"{why}; {numbers(models)}" if why else numbers(models)
            logger.info("decoding with PyTorch: %s", told)
        return generator

    def _without_native_ones(self, options: DecodingOptions, why: str) -> DecodingOptions:
        """The options for PyTorch's engine, with ``weights`` at its default, since other values are
        for the native engine only.

        Args:
            options: the decoding options.
            why: the reason why the native engine cannot decode with these options, for the message.

        Raises:
            ValueError: an option was given that only the native engine has.
        """
        for name, value in options.changed().items():
            if not SCHEMA[name].torch and (self.given is None or name in self.given):
                raise ValueError(
                    f"{flag(name)} {value}: only the native engine has this option, and PyTorch"
                    f" decodes here ({why}); leave it out"
                )
        return replace(options, weights=SCHEMA["weights"].default)

    def _native_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> NativeGenerator:
        """The native engine behind the interface of fairseq's generators.

        Raises:
            UnsupportedOption, UnsupportedModelError, LibraryUnavailable: only PyTorch can decode
                these models with these options; the message gives the reason.
        """
        require_native_search(self.record)
        self.require_usual_start()
        if not options.static_weights:
            self._require_cpu_training()
        # The native engine searches as the family does and would ignore a subclass's search.
        if not type(self).make_generator.__module__.startswith(f"{__package__}."):
            raise UnsupportedOption(
                f"{type(self).__name__} makes a decoder of its own, which the native engine does"
                " not call: give --engine torch"
            )
        generator = NativeGenerator(
            models,
            self.source_dictionary,
            self.target_dictionary,
            options,
            decoded_as=self.record,
            torch_generator=lambda: self._torch_generator(
                models, replace(options, engine="torch", weights=SCHEMA["weights"].default)
            ),
        )
        self._add_rescorer(generator, models, options)
        self._packed = [*self._packed, weakref.ref(generator)]
        if options.static_weights:
            logger.info("decoding with the native engine: %s", generator.engine.describe())
        return generator

    def _torch_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> EngineGenerator:
        generator = self.make_generator(models, options)
        self._add_rescorer(generator, models, options)
        return generator

    def _add_rescorer(
        self,
        generator: Union[EngineGenerator, NativeGenerator],
        models: Sequence[FairseqEncoderDecoderModel],
        options: DecodingOptions,
    ) -> None:
        """Lets the model of ``--rescore-path``, if one is given, rank the generator's
        translations."""
        if options.rescore_path is not None:
            # Fails before a model is loaded.
            generator.require_candidates()
            generator.rank_by(self.make_rescorer(generator.counters, options, like=models[0]))

    def begin_valid_epoch(self, epoch: int, model: torch.nn.Module) -> None:
        """Drops the generators' copies of the weights, which have changed since the last
        validation."""
        super().begin_valid_epoch(epoch, model)
        for generator in filter(None, (packed() for packed in self._packed)):
            generator.forget_weights()

    def post_validate(self, model: torch.nn.Module, stats: Any, agg: Any) -> None:
        """Frees the CUDA graphs that ``--eval-bleu`` has recorded: the training needs the memory,
        and changes the weights. fairseq calls this after each validation set."""
        generator = getattr(self, "sequence_generator", None)
        if isinstance(generator, EngineGenerator):
            generator.ensemble.graphs.clear()

    def _require_cpu_training(self) -> None:
        """Raises UnsupportedOption if the model will be trained on a GPU, to which fairseq moves it
        only after the generator has been built."""
        around = self.cfg._get_parent() if isinstance(self.cfg, DictConfig) else None
        common = around.get("common") if isinstance(around, DictConfig) else None
        if common is None:
            return
        # On a CPU weights stay float32, also with --bf16.
        if torch.cuda.is_available() and not common.cpu:
            raise UnsupportedOption(
                "the model is trained on a GPU, and the native engine runs on CPUs only"
            )

    def _in_effect(self, options: DecodingOptions, args: Any) -> DecodingOptions:
        """Resets options that have no effect, e.g. ``beam`` to 1 where the decoder keeps one
        hypothesis, and returns the result. fairseq's own options are also reset in ``args``, which
        commands print.

        Raises:
            ValueError: an option that was given has no effect.
        """
        found = settled(options, self.family, self.given)
        for name in (own.name for own in options_of(FAIRSEQ)):
            value = getattr(found, name)
            if value != getattr(options, name):
                setattr(args, name, value)
        return found

    def make_rescorer(
        self,
        counters: GenerationCounters,
        options: DecodingOptions,
        *,
        like: FairseqEncoderDecoderModel,
    ) -> Rescorer:
        """The scorer that ranks translations by the models of ``--rescore-path``.

        Args:
            counters: where the decoder passes of these models are counted.
            options: the decoding options.
            like: the rescoring models get the device and the precision of this model.

        Raises:
            OSError: a file is missing or unreadable.
            ValueError: a rescoring model does not write from left to right, or has other
                dictionaries.
        """
        try:
            judge = ModelScorer(
                self.rescoring_models(), self.target_dictionary, counters, like=like
            )
        except UnsupportedModelError as error:
            raise ValueError(f"--rescore-path {options.rescore_path}: {error}") from None
        self._rescorer_positions = [judge.longest_source]
        self._source_positions = [*self._source_positions, judge.longest_source]
        return Rescorer(judge, lenpen=options.rescore_lenpen)

    def rescoring_models(self) -> List[FairseqEncoderDecoderModel]:
        """The models of ``--rescore-path``; see :func:`.engine.models.load_rescoring_models`."""
        return load_rescoring_models(
            self.cfg,
            self.source_dictionary,
            self.target_dictionary,
            check=self.require_left_to_right,
        )

    def max_positions(self) -> Tuple[int, int]:
        """The most tokens of a (source, target); the source must also fit the rescoring models."""
        source, target = super().max_positions()
        return min([source, *self._rescorer_positions]), target

    def get_interactive_tokens_and_lengths(
        self, lines: Sequence[str], encode_fn: Callable[[str], str]
    ) -> Tuple[List[Tensor], List[int]]:
        """Encodes lines of ``fairseq-interactive`` as source ids; ``--truncate-source`` cuts long
        lines as it cuts the training data.

        Returns:
            (tokens, lengths): one LongTensor per line, which ends in ``</s>``, and the number of
            ids in each.

        Raises:
            ValueError: an option was given that ``fairseq-interactive`` does not read.
        """
        asked = self._generation
        for name in ("prefix_size", "retain_iter_history", "print_step"):
            if getattr(asked, name, False):
                raise ValueError(
                    f"{flag(name)}: fairseq-interactive does not read it; leave it out, or use"
                    " fairseq-generate"
                )
        tokens, lengths = super().get_interactive_tokens_and_lengths(lines, encode_fn)
        if not self.cfg.truncate_source:
            return tokens, lengths
        longest = min([self.cfg.max_source_positions, *self._source_positions])
        # A truncated line keeps its </s>.
        tokens = [
            line if line.numel() <= longest else torch.cat([line[: longest - 1], line[-1:]])
            for line in tokens
        ]
        return tokens, [line.numel() for line in tokens]


def task_of_model(model: type) -> str:
    """The name of the task that decodes models of a class."""
    known = {family.model: family.task for family in BY_NAME.values() if family.model}
    known["mask_predict_transformer"] = "translation_mask_predict"
    for name, task in known.items():
        if issubclass(model, MODEL_REGISTRY[name]):
            return task
    return "translation_lev" if issubclass(model, FairseqNATModel) else "translation_autoregressive"


def numbers(models: Sequence[torch.nn.Module]) -> str:
    """The precision and the device of the models' weights, for the log:
    ``float16 weights, cuda:0``."""
    weight = next(models[0].parameters())
    return f"{str(weight.dtype).replace('torch.', '')} weights, {weight.device}"
