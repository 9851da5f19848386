"""The native engine behind the generator contract of fairseq's command line.

The model is handed over in memory. PyTorch's generator stands by for what the native engine leaves
to it: a batch with another start symbol, steps that somebody watches, models on a GPU or in half
precision.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis, Rescorer, require_candidates
from ..native.families import Family, tasks_for
from ..native.options.values import (
    DecodingOptions,
    UnsupportedOption,
    check_dictionaries,
    forced_ids,
)
from ..native.runtime.engine import Engine
from ..native.runtime.format import Header
from ..native.runtime.library import load_library
from ..native.runtime.options import SearchPlan, longest_written, plan_search, takes_first_words
from .counters import GenerationCounters
from .fairseq_hypothesis import to_fairseq
from .generator import EngineGenerator, source_rows
from .native_model import check_convertible, convert, header_of


def _any(given: Dict[str, Any]) -> bool:
    """Whether fairseq hands over more than a batch: it names what it leaves open, too."""
    return any(value is not None for value in given.values())


class NativeGenerator:
    """Decodes with an engine that is there already.

    Args:
        engine: with the model.
        target: its dictionary.
        search_plan: made for that model.
        rescorer: chooses among the translations, as with ``--rescore-path``.

    Attributes:
        counters: what was executed.
        forced: ids of the words that every translation begins with.
        eos, symbols_to_strip_from_output: read by fairseq's command line.

    Raises:
        ValueError: words of ``--forced-start`` that the dictionary does not have, or only one
            translation to choose from.
    """

    def __init__(
        self,
        engine: Engine,
        target: Dictionary,
        search_plan: SearchPlan,
        *,
        rescorer: Optional[Rescorer] = None,
    ) -> None:
        self._set_up(target, search_plan)
        self._engine: Optional[Engine] = engine
        self.rescorer: Optional[Rescorer] = rescorer
        if rescorer is not None:
            self.require_candidates()

    def _set_up(self, target: Dictionary, search_plan: SearchPlan) -> None:
        self.search_plan, self.pad, self.eos = search_plan, target.pad(), target.eos()
        self.forced = forced_ids(self.options, target.symbols, (target[self.pad], target[self.eos]))
        self.symbols_to_strip_from_output = {self.eos}
        self.counters = GenerationCounters()

    @property
    def options(self) -> DecodingOptions:
        """Those of the search."""
        return self.search_plan.options

    @property
    def header(self) -> Header:
        """Of the model."""
        return self.engine.header

    def require_candidates(self) -> None:
        """Raises ValueError where there is only one translation to choose from."""
        require_candidates(self.search_plan.candidates, self.header.family)

    @property
    def engine(self) -> Engine:
        """The engine with the model as it is now."""
        assert self._engine is not None
        return self._engine

    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict[str, Any], **given: Any
    ) -> List[List[Dict[str, Any]]]:
        """Translates a batch; see :meth:`.generator.EngineGenerator.generate`."""
        return [
            [to_fairseq(hypothesis) for hypothesis in best] for best in self.find(sample, **given)
        ]

    def find(self, sample: Dict[str, Any], **given: Any) -> List[List[Hypothesis]]:
        """The hypotheses of a batch, best first.

        Args:
            prefix_tokens: LongTensor ``[B, P]``, the words that each translation begins with;
                padding: any word.

        Raises:
            ValueError: constraints or another start symbol are given.
        """
        prefix_tokens = given.pop("prefix_tokens", None)
        if _any(given):
            raise ValueError(
                "constraints or another start symbol: the native engine leaves them to PyTorch"
            )
        rows = source_rows(sample["net_input"]["src_tokens"], self.pad)
        return self.decode(rows, None if prefix_tokens is None else prefix_tokens.tolist())

    def decode(
        self, rows: Sequence[Sequence[int]], first_words: Optional[Sequence[Sequence[int]]] = None
    ) -> List[List[Hypothesis]]:
        """The hypotheses of sources that end in ``</s>``, best first; first_words: see
        :meth:`~..native.runtime.engine.Engine.decode`."""
        if self.forced:
            if first_words is not None:
                raise ValueError(
                    "--forced-start with given first words: both set how translations begin; leave"
                    " one out"
                )
            first_words = [self.forced] * len(rows)
        plan = self.search_plan if self.rescorer is None else self.search_plan.with_all()
        found = self.engine.decode(rows, plan, first_words=first_words)
        self.counters.encoder_calls += 1
        if self.rescorer is not None:
            found = [best[: self.options.nbest] for best in self.rescorer.rank(rows, found)]
            self.counters.encoder_calls += 1
        self.counters.sentences += len(found)
        # The passes of a batch are those of its longest translation.
        self.counters.decoder_calls += max((best[0].steps for best in found), default=0)
        return found


class PackedGenerator(NativeGenerator):
    """Decodes a model of PyTorch's, packed anew whenever its weights have changed.

    Args:
        models: one.
        source, target: its dictionaries.
        options: what the user asked for; ``static_weights`` False packs the model at the first
            batch after :meth:`forget_weights`.
        decoded_as: the family of the task: some decode models of others, in their own way.
        torch_generator: makes PyTorch's generator with the same options.

    Raises:
        UnsupportedOption, UnsupportedModelError: the native engine cannot do it; why.
        LibraryUnavailable: there is no kernel on this machine.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        source: Dictionary,
        target: Dictionary,
        options: DecodingOptions,
        *,
        decoded_as: Family,
        torch_generator: Callable[[], EngineGenerator],
    ) -> None:
        if len(models) != 1:
            raise UnsupportedOption(f"an ensemble of {len(models)} models")
        self.model, self.source, self.target = models[0], source, target
        load_library()
        self._make_torch = torch_generator
        self._torch: Optional[EngineGenerator] = None
        self._engine, self.rescorer = None, None
        family = check_convertible(self.model, source, target)
        if family not in (decoded_as.name, decoded_as.decodes):
            raise UnsupportedOption(
                f"the native engine decodes a model of the family {family} with --task"
                f" {tasks_for(family)[0]} alone"
            )
        self._header = header_of(self.model, source, target, family, options.weights)
        self._set_up(target, plan_search(self._header, options))
        check_dictionaries(options, source.symbols, target.symbols)
        reason = self._not_on_cpu()
        if options.static_weights and reason is not None:
            raise UnsupportedOption(reason)

    def __getattr__(self, name: str) -> Any:
        # Whatever else a generator has: hooks, for example.
        if name.startswith("_") or "_make_torch" not in vars(self):
            raise AttributeError(name)
        return getattr(self.torch, name)

    @property
    def torch(self) -> EngineGenerator:
        """PyTorch's generator, made when it is first needed."""
        if self._torch is None:
            self._torch = self._make_torch()
            self._torch.counters = self.counters
        return self._torch

    @property
    def header(self) -> Header:
        return self._header

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            header, tensors = convert(
                self.model, self.source, self.target, weights=self.options.weights
            )
            self._engine = Engine(header, tensors, threads=torch.get_num_threads())
        return self._engine

    def describe(self) -> str:
        """The engine and its settings, in a few words."""
        engine = self.engine
        return (
            f"{self.options.weights} weights, {engine.isa}, {engine.threads}"
            f" thread{'s' * (engine.threads > 1)}"
        )

    def rank_by(self, rescorer: Rescorer) -> None:
        """From now on another model chooses among the translations.

        Raises:
            ValueError: there is only one translation to choose from.
            UnsupportedOption: that model reads shorter translations than are written.
        """
        self.require_candidates()
        self.rescorer = rescorer
        if rescorer.judge.longest_target < longest_written(self.header, self.options):
            raise UnsupportedOption(
                "--rescore-path: that model reads shorter translations than this one may write"
            )

    def forget_weights(self) -> None:
        """The model has changed."""
        self._engine = None

    def find(self, sample: Dict[str, Any], **given: Any) -> List[List[Hypothesis]]:
        """The hypotheses of a batch, best first."""
        prefix_tokens = given.get("prefix_tokens")
        others = {name: value for name, value in given.items() if name != "prefix_tokens"}
        # PyTorch reports why first words cannot be given.
        elsewhere = _any(others) or (
            prefix_tokens is not None and not takes_first_words(self.header, self.options)
        )
        if elsewhere or self._watched or (self._engine is None and self._not_on_cpu() is not None):
            return self.torch.find(sample, **given)
        return super().find(sample, **given)

    @property
    def _watched(self) -> bool:
        generator = self._torch
        return generator is not None and bool(
            generator.step_hooks or generator.aligned or getattr(generator, "graph_hooks", None)
        )

    def _not_on_cpu(self) -> Optional[str]:
        weight = next(self.model.parameters())
        if weight.device.type != "cpu":
            return f"the model is on {weight.device}"
        if weight.dtype != torch.float32:
            return f"the model computes in {str(weight.dtype).replace('torch.', '')}"
        return None
