"""The native engine behind the generator interface of fairseq's commands.

The model is converted in memory. PyTorch's generator decodes what the native engine does not:
batches with another start symbol, decoding that hooks watch, models on a GPU or in half precision.
"""

from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis, Rescorer, require_candidates
from ..native.families import Family, check_dictionaries, tasks_for
from ..native.options.values import (
    DecodingOptions,
    UnsupportedOption,
    forced_ids,
)
from ..native.runtime.engine import Engine
from ..native.runtime.library import load_library
from ..native.runtime.options import longest_written, plan_search
from .counters import GenerationCounters
from .fairseq_hypothesis import to_fairseq
from .generator import EngineGenerator, source_rows
from .torch_to_native import check_convertible, convert, header_of


class NativeGenerator:
    """Decodes a PyTorch model by the native engine, for which it is converted at the first batch,
    and again after :meth:`forget_weights`.

    Args:
        models: a list of one model.
        source, target: the model's dictionaries.
        options: the decoding options. With ``static_weights`` False the model may also be moved or
            cast after this call; PyTorch decodes it where the native engine cannot.
        decoded_as: the family whose task decodes the model: the model's own, or one that decodes
            its models as well, as jacobi does autoregressive ones.
        torch_generator: makes PyTorch's generator with the same options, which decodes what the
            native engine does not.

    Attributes:
        header: describes the model to the native engine.
        counters: how many calls were made and tokens decoded.
        forced: ids of the words that every translation begins with.
        eos, symbols_to_strip_from_output: id of ``</s>``, and a set of it alone, which fairseq's
            command line strips from its output.
        rescorer: reranks the translations, as with ``--rescore-path``; None keeps their order.

    Raises:
        UnsupportedOption, UnsupportedModelError: the native engine cannot decode this; the message
            gives the reason.
        LibraryUnavailable: the native engine's compiled library is not on this machine.
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
            raise UnsupportedOption(
                f"the native engine does not decode an ensemble of {len(models)} models; use"
                " --engine torch"
            )
        self.model, self.source, self.target = models[0], source, target
        load_library()
        self._make_torch = torch_generator
        self._torch: Optional[EngineGenerator] = None
        self._engine: Optional[Engine] = None
        self.rescorer: Optional[Rescorer] = None
        family = check_convertible(self.model, source, target)
        if family not in (decoded_as.name, decoded_as.decodes):
            raise UnsupportedOption(
                f"the native engine decodes a model of the family {family} only with --task"
                f" {tasks_for(family)[0]}"
            )
        self.header = header_of(self.model, source, target, family, options.weights)
        self.search_plan = plan_search(self.header, options)
        self.pad, self.eos = target.pad(), target.eos()
        self.forced = forced_ids(options, target.symbols, (target[self.pad], target[self.eos]))
        self.symbols_to_strip_from_output = {self.eos}
        self.counters = GenerationCounters()
        check_dictionaries(options, source.symbols, target.symbols)
        reason = self._not_on_cpu()
        if options.static_weights and reason is not None:
            raise UnsupportedOption(reason)

    def __getattr__(self, name: str) -> Any:
        # Other attributes, such as hooks, are those of PyTorch's generator.
        if name.startswith("_") or "_make_torch" not in vars(self):
            raise AttributeError(name)
        return getattr(self.torch, name)

    @property
    def options(self) -> DecodingOptions:
        """The options of the search; those without effect are reset to their defaults."""
        return self.search_plan.options

    @property
    def torch(self) -> EngineGenerator:
        """PyTorch's generator, made when it is first needed."""
        if self._torch is None:
            self._torch = self._make_torch()
            self._torch.counters = self.counters
        return self._torch

    @property
    def engine(self) -> Engine:
        """The engine with the model's current weights."""
        if self._engine is None:
            header, tensors = convert(
                self.model, self.source, self.target, weights=self.options.weights
            )
            self._engine = Engine(header, tensors, threads=torch.get_num_threads())
        return self._engine

    def without_scores(self) -> None:
        """Leaves out the scores of hypotheses from now on, so that greedy decoding is quicker."""
        self.search_plan = plan_search(self.header, replace(self.options, scores=False))

    def require_candidates(self) -> None:
        """Raises ValueError if the search finds only one translation per sentence."""
        require_candidates(self.search_plan.candidates, self.header.family)

    def rank_by(self, rescorer: Rescorer) -> None:
        """From now on ``rescorer`` ranks the translations of each sentence.

        Raises:
            ValueError: the search finds only one translation per sentence.
            UnsupportedOption: this model may write longer translations than the rescorer reads.
        """
        self.require_candidates()
        self.rescorer = rescorer
        if rescorer.judge.longest_target < longest_written(self.header, self.options):
            raise UnsupportedOption(
                "--rescore-path: the rescoring model reads only shorter translations than this"
                " model may write; use --engine torch, which writes none that are too long for it"
            )

    def forget_weights(self) -> None:
        """Drops the converted model; to be called when the model's weights have changed."""
        self._engine = None

    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict[str, Any], **given: Any
    ) -> List[List[Dict[str, Any]]]:
        """Translates a batch; arguments and result as of
        :meth:`.generator.EngineGenerator.generate`."""
        return [
            [to_fairseq(hypothesis) for hypothesis in best] for best in self.find(sample, **given)
        ]

    def find(self, sample: Dict[str, Any], **given: Any) -> List[List[Hypothesis]]:
        """The hypotheses of each sentence of a batch, best first; ``given`` are the further
        arguments of :meth:`.generator.EngineGenerator.find`."""
        prefix_tokens = given.get("prefix_tokens")
        # Arguments that are not given may be passed as None.
        others = any(value is not None for name, value in given.items() if name != "prefix_tokens")
        # PyTorch's generator reports why first words cannot be given.
        header = self.header
        elsewhere = others or (
            prefix_tokens is not None
            and (bool(self.forced) or not header.record.takes_first_words(header, self.options))
        )
        if elsewhere or self._watched or (self._engine is None and self._not_on_cpu() is not None):
            return self.torch.find(sample, **given)
        rows = source_rows(sample["net_input"]["src_tokens"], self.pad)
        first_words = [self.forced] * len(rows) if self.forced else None
        if prefix_tokens is not None:
            first_words = prefix_tokens.tolist()
        plan = self.search_plan if self.rescorer is None else self.search_plan.with_all()
        found = self.engine.decode(rows, plan, first_words=first_words)
        if self.rescorer is not None:
            found = [best[: self.options.nbest] for best in self.rescorer.rank(rows, found)]
        self.counters.add(found, rescored=self.rescorer is not None)
        return found

    @property
    def _watched(self) -> bool:
        generator = self._torch
        return generator is not None and bool(
            generator.step_hooks or generator.aligned or getattr(generator, "graph_hooks", None)
        )

    def _not_on_cpu(self) -> Optional[str]:
        weight = next(self.model.parameters())
        if weight.device.type != "cpu":
            return f"the model is on {weight.device}, and the native engine needs a CPU (--cpu)"
        if weight.dtype != torch.float32:
            own = str(weight.dtype).replace("torch.", "")
            return (
                f"the model computes in {own}, and the native engine only in float32 (without"
                " --fp16 and --bf16)"
            )
        return None
