"""Greedy decoding of autoregressive models with several tokens per pass."""

import logging
import time
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EncodedSource, EngineGenerator, Memory, SearchPlan, search
from ..native.decoding import Hypothesis
from ..native.families.jacobi import require_greedy
from ..native.options.values import DecodingOptions
from .accounting import DecoderSize, JacobiStatistics
from .decoding import IterationHook, JacobiIteration, JacobiPlan, StepReader, jacobi_decode
from .drafts import Drafter, ModelDrafter
from .static_reader import WIDEST, StaticReader
from .windows import WIDTH, WindowPlan

logger = logging.getLogger(__name__)


class JacobiGenerator(EngineGenerator):
    """Finds the translations of greedy search (``--beam 1``) in fewer passes, calls of the decoder:
    each checks several guessed tokens at once.

    Args:
        models: the ensemble.
        dictionary: the target dictionary.
        options: the decoding options.
        drafter: proposes guesses.

    Attributes:
        statistics: counts passes and tokens; logged when the generator is deleted.
        iteration_hooks: called with every :class:`JacobiIteration`.

    Raises:
        ValueError: options that greedy search does not support.
    """

    family = "jacobi"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
        *,
        drafter: Drafter,
    ) -> None:
        super().__init__(models, dictionary, options)
        require_greedy(options)
        mode = options.jacobi_mode or "frontier"
        self.drafter = drafter
        self.plan = WindowPlan(
            mode,
            block=options.jacobi_block_size,
            width=WIDTH if options.jacobi_window is None else options.jacobi_window,
            prefix=options.jacobi_prefix_length,
        )
        self.statistics = JacobiStatistics(mode=mode)
        self.iteration_hooks: List[IterationHook] = []
        weakref.finalize(self, _report, self.statistics)

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        static = self.by_graphs(net_input["src_tokens"], prefix)
        with self.ensemble.graphs.lock if static else nullcontext():
            return self._decode_batch(net_input, prefix, start, static=static)

    def _decode_batch(
        self,
        net_input: Dict[str, Tensor],
        prefix: Optional[Tensor],
        start: Optional[int],
        *,
        static: bool,
    ) -> List[List[Hypothesis]]:
        options, statistics = self.options, self.statistics
        began = self._now()
        tokens, source, memories = net_input["src_tokens"], None, []
        if static:
            lengths = self.host_lengths(tokens)  # [B]
            source = self.static_search.encode(tokens, self.eos)
        else:
            memories = self.ensemble.encode(net_input)
            lengths = memories[0].lengths  # [B]
        window, drafted = self.plan, 0.0
        if window.mode != "frontier" or window.width > 1:
            # With a window of 1 nothing is guessed.
            before = self._now()
            # Not in inference mode: a draft model may be moved here, and its parameters must not
            # become inference tensors.
            with torch.inference_mode(False), torch.no_grad():
                self.drafter.begin(net_input)
            drafted = self._now() - before if type(self.drafter) is not Drafter else 0.0
        limits = self.length_limits(lengths)
        self.ensemble.reserve_positions(int(limits.max()) + 1)
        greedy = self.search_plan(start, self.rules(limits, prefix=prefix))
        if options.jacobi_known_length:
            # The paper assumes that the length is known: the search that finds it here is not
            # counted.
            counted, before = replace(self.counters), self._now()
            known = self._greedy(memories, source, greedy)
            limits = limits.new_tensor([len(best[0].tokens) - 1 for best in known])
            self.counters.decoder_calls = counted.decoder_calls
            self.counters.decoder_tokens = counted.decoder_tokens
            began += self._now() - before
        plan = JacobiPlan(
            start=greedy.start,
            constraints=self.rules(limits, prefix=prefix),
            window=window,
            drafter=self.drafter,
            filler=self.dictionary.pad() if options.jacobi_known_length else self.dictionary.unk(),
            temperature=options.temperature,
            rank=greedy.rank,
            known_length=options.jacobi_known_length,
        )
        passes: List[JacobiIteration] = []
        calls = self.counters.decoder_calls
        found = self._run(memories, source, plan, passes)
        statistics.passes += (self.counters.decoder_calls - calls) // len(self.models)
        size = DecoderSize.of(self.models[0])
        statistics.add(passes, found, lengths.tolist(), size)
        statistics.draft_seconds += drafted
        statistics.seconds += self._now() - began
        if options.retain_iter_history:
            for hypothesis in found:
                steps = hypothesis.token_steps
                ends = [
                    place + 1
                    for place, step in enumerate(steps)
                    if place + 1 == len(hypothesis.tokens) or steps[place + 1] > step
                ]
                hypothesis.history = [hypothesis.tokens[:end] for end in ends]
        return [[hypothesis] for hypothesis in found]

    def graph_refusal(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> Optional[str]:
        if isinstance(self.drafter, ModelDrafter):
            return "a draft model"
        if self._widest > WIDEST:
            return f"windows of {self._widest} tokens (more than {WIDEST})"
        if any(engine.recurrent for engine in self.ensemble.engines):
            # A static step keeps the last state alone: it cannot go back to the last verified word.
            return "recurrent cells, whose states wrong guesses change"
        return super().graph_refusal(tokens, prefix)

    @property
    def _widest(self) -> int:
        """The largest number of tokens that one pass, a call of the decoder, may read for a
        sentence."""
        return self.plan.size(0, self.decoder_positions)

    def _greedy(
        self, memories: List[Memory], source: Optional[EncodedSource], plan: SearchPlan
    ) -> List[List[Hypothesis]]:
        """Ordinary greedy search; one hypothesis for each sentence.

        Args:
            memories: encoder outputs of the batch, of each model; ignored if ``source`` is given.
            source: the batch as encoded for computations of fixed shapes; None: use ``memories``.
        """
        if source is None:
            return search(self.ensemble, memories, plan, hooks=self.step_hooks)
        return self.static_search.search(source, len(plan.constraints.limits), plan)

    def _run(
        self,
        memories: List[Memory],
        source: Optional[EncodedSource],
        plan: JacobiPlan,
        passes: List[JacobiIteration],
    ) -> List[Hypothesis]:
        """The translation of each sentence of a batch. Without guesses (a window of 1) it is found
        by the ordinary greedy search, which is faster.

        Args:
            memories, source: the encoded batch, see :meth:`_greedy`.
            plan: the settings of decoding.
            passes: a list to which all passes over each sentence are appended.
        """
        if plan.window.mode == "frontier" and plan.window.width == 1 and not self.iteration_hooks:
            greedy = self.search_plan(plan.start, plan.constraints)
            found = [best[0] for best in self._greedy(memories, source, greedy)]
            for sentence, hypothesis in enumerate(found):
                for step, token in enumerate(hypothesis.tokens):
                    passes.append(JacobiIteration(sentence, step + 1, step, [], [token], [], 1))
                self.drafter.learn(hypothesis.tokens)
            return found
        hooks: List[IterationHook] = [passes.append, *self.iteration_hooks]
        reader = (
            StepReader(self.ensemble, memories, plan)
            if source is None
            else StaticReader(self.static_search, source, plan, self._widest)
        )
        return jacobi_decode(reader, plan, step_hooks=self.step_hooks, iteration_hooks=hooks)

    def _now(self) -> float:
        """The time of ``time.perf_counter``, in seconds, after waiting for the GPU to finish."""
        device = next(self.models[0].parameters()).device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    def forget(self) -> None:
        """Makes the drafter forget earlier sentences, so that a repeated measurement starts
        anew."""
        self.drafter.forget()


def _report(statistics: JacobiStatistics) -> Any:
    if statistics.sentences:
        logger.info("%s", statistics.report())
