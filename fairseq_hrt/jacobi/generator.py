"""Greedy translations of autoregressive models, several tokens a pass."""

import logging
import time
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..common.constraints import Constraints, length_limits
from ..common.generator import EngineGenerator
from ..common.hypothesis import Hypothesis
from ..common.options import DecodingOptions
from ..common.state import Memory
from .accounting import DecoderSize, JacobiStatistics
from .config import JacobiTaskConfig
from .costs import CostTable
from .decoding import IterationHook, JacobiIteration, JacobiPlan, jacobi_decode
from .drafts import Drafter
from .windows import CANDIDATE_WIDTHS, WidthChooser, WindowPlan

logger = logging.getLogger(__name__)


class JacobiGenerator(EngineGenerator):
    """Decodes like ``--beam 1``, with the same result.

    Args:
        models: the ensemble.
        dictionary: the target dictionary.
        options: what the user asked for.
        config: the task's options.
        drafter: where guesses come from.

    Attributes:
        statistics: what was executed; logged when the generator is done with.
        iteration_hooks: called with every :class:`JacobiIteration`.

    Raises:
        ValueError: options that have no greedy result.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
        *,
        config: JacobiTaskConfig,
        drafter: Drafter,
    ) -> None:
        super().__init__(models, dictionary, options)
        if options.beam > 1:
            raise ValueError(
                f"--beam {options.beam}: parallel decoding is exact for greedy search only; give --beam 1, or decode with "
                "--task translation_autoregressive"
            )
        mode = str(config.jacobi_mode)
        self.drafter, self.adaptive = drafter, mode == "frontier" and config.jacobi_window is None
        if type(drafter) is not Drafter and mode != "frontier":
            raise ValueError(f"--jacobi-draft {config.jacobi_draft} needs --jacobi-mode frontier, not {mode}")
        self.plan = WindowPlan(
            mode,
            block=config.jacobi_block_size,
            width=1 if config.jacobi_window is None else config.jacobi_window,
            prefix=config.jacobi_prefix_length,
        )
        self.cost_file = None if config.jacobi_cost_file is None else Path(config.jacobi_cost_file)
        self.chooser: Optional[WidthChooser] = None
        self.statistics = JacobiStatistics(mode=mode)
        self.iteration_hooks: List[IterationHook] = []
        weakref.finalize(self, _report, self.statistics)

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        options, statistics = self.options, self.statistics
        began = time.perf_counter()
        self.drafter.begin(net_input)
        statistics.draft_seconds += time.perf_counter() - began if type(self.drafter) is not Drafter else 0.0
        # No hypothesis tensor leaves this block: tensors made in inference mode cannot be changed in place later.
        with torch.inference_mode():
            memories = self.ensemble.encode(net_input)
            memory = memories[0]
            # As the autoregressive generator and fairseq count.
            limits = length_limits(
                torch.full_like(memory.lengths, memory.width),
                max_len_a=options.max_len_a,
                max_len_b=options.max_len_b,
                capacity=min(model.max_decoder_positions() for model in self.models),
            )
            longest = int(limits.max()) + 2
            self.ensemble.reserve_positions(longest - 1)
            window = self._window(memories)
            plan = JacobiPlan(
                start=self.eos if start is None else start,
                constraints=Constraints(
                    self.dictionary,
                    min_length=options.min_len,
                    max_lengths=limits,
                    unkpen=options.unkpen,
                    no_repeat_ngram_size=options.no_repeat_ngram_size,
                    prefix=prefix,
                ),
                window=window,
                drafter=self.drafter,
                filler=self.dictionary.unk(),
                temperature=options.temperature,
                rank=lambda total, length: total / length**options.lenpen if options.normalize else total,
            )
            watch = _Watch(memory.lengths.tolist(), DecoderSize.of(self.models[0]))
            calls = self.counters.decoder_calls
            found = jacobi_decode(
                self.ensemble,
                memories,
                plan,
                step_hooks=self.step_hooks,
                iteration_hooks=[watch, *self.iteration_hooks],
            )
        if self.chooser is not None:
            self.chooser.learn(window.width, watch.tokens, watch.row_passes)
        statistics.passes += (self.counters.decoder_calls - calls) // len(self.models)
        watch.add_to(statistics, found)
        statistics.seconds += time.perf_counter() - began
        if options.retain_history:
            for hypothesis in found:
                ends = [place + 1 for place, step in enumerate(hypothesis.token_steps)
                        if place + 1 == len(hypothesis.tokens) or hypothesis.token_steps[place + 1] > step]  # fmt: skip
                hypothesis.history = [hypothesis.tokens[:end] for end in ends]
        return [[hypothesis] for hypothesis in found]

    def _window(self, memories: List[Memory]) -> WindowPlan:
        """The frontier's width chosen anew for each batch, where the user has not fixed it."""
        if not self.adaptive:
            return self.plan
        if self.chooser is None:
            table = CostTable(self.ensemble, CANDIDATE_WIDTHS, self.cost_file)
            self.chooser = WidthChooser(lambda rows: self._costs)
            self._table: Callable[[List[Memory]], Dict[int, float]] = table
        self._costs = self._table(memories)
        return WindowPlan("frontier", width=self.chooser.choose(len(memories[0].lengths)))


class _Watch:
    """Counts the passes of one batch."""

    def __init__(self, source_lengths: List[int], size: DecoderSize) -> None:
        self.sources, self.size = source_lengths, size
        self.tokens = self.row_passes = self.pushed = self.flops = 0
        self.proved: List[int] = []

    def __call__(self, iteration: JacobiIteration) -> None:
        width = len(iteration.answers)
        self.tokens += iteration.proved
        self.row_passes += 1
        self.pushed += width
        self.proved.append(iteration.proved)
        self.flops += self.size.flops(width, iteration.first + width, self.sources[iteration.sentence])

    def add_to(self, statistics: JacobiStatistics, found: Sequence[Hypothesis]) -> None:
        statistics.sentences += len(found)
        statistics.tokens += self.tokens
        statistics.row_passes += self.row_passes
        statistics.pushed += self.pushed
        statistics.proved.update(self.proved)
        source = sum(self.size.source_flops(length) for length in self.sources)
        statistics.flops += self.flops + source
        statistics.plain_flops += source + sum(
            self.size.flops(1, step + 1, length)
            for hypothesis, length in zip(found, self.sources)
            for step in range(len(hypothesis.tokens))
        )


def _report(statistics: JacobiStatistics) -> Any:
    if statistics.sentences:
        logger.info("%s", statistics.report())
