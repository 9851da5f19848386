"""Checks guesses by computations of fixed shapes, which a CUDA graph replays. A window is the
tokens that one pass reads of a sentence.

The host chooses the guesses and compares them with the answers, so each pass waits for the one
before it. The number of verified tokens decides where the next window begins and which sentences
are done, and drafts (n-grams, sources, other models) are read from lists on the host.
"""

from typing import List, Tuple

import torch
from torch import Tensor

from ..engine import EncodedSource, TransformerEngine, to_host
from ..engine.buckets import LENGTHS, bucket
from ..engine.graphs import GraphStore
from ..engine.static_decoder import StaticDecoder
from ..engine.static_rows import Rules
from ..engine.static_search import StaticSearch
from .decoding import JacobiPlan, Row

# The most tokens of a window: the attention kernels read as many at once.
WIDEST = 16


class StaticReader:
    """A :class:`.decoding.Reader` that runs one model by computations of fixed shapes, which a CUDA
    graph replays.

    Args:
        search: has the model, and stores buffers and recorded CUDA graphs.
        source: the encoded batch.
        plan: has the constraints, the temperature and the filler (the token guessed where there is
            no guess).
        width: q, the most tokens that a pass reads for a sentence; at most :data:`WIDEST`.
    """

    def __init__(
        self, search: StaticSearch, source: EncodedSource, plan: JacobiPlan, width: int
    ) -> None:
        self.device, self._counters = search.store.device, search.ensemble.counters
        rules = Rules.of(plan.constraints, plan.temperature)
        # The window may reach behind the last word.
        capacity = bucket(plan.constraints.longest_limit + width, LENGTHS)
        key = ("window", source.rows, source.width, id(source), capacity, width, rules)
        self._windows = search.store.keep(
            key, lambda: _Windows(search.store, search.engine, source, rules, capacity, width)
        )
        limits = torch.zeros(source.rows, dtype=torch.long)
        limits[: len(plan.constraints.limits)] = torch.tensor(plan.constraints.limits)
        self._windows.limits.copy_(limits)
        self._windows.decoder.clear()
        self._filler = plan.filler

    def read(
        self, rows: List[Row], inputs: List[List[int]]
    ) -> Tuple[List[List[float]], List[List[int]]]:
        self._counters.decoder_calls += 1
        windows = self._windows
        rest = [self._filler] * (windows.width - len(inputs[0]))
        lines = [[len(row.tokens), *line, *rest] for row, line in zip(rows, inputs)]
        lines += [lines[0]] * (windows.rows - len(lines))
        self._counters.decoder_tokens += windows.rows * windows.width
        windows.inputs.copy_(torch.tensor(lines))
        best, words = windows.read()
        scores, answers = to_host(best[: len(rows)], words[: len(rows)])  # [R, q] each
        return scores.tolist(), answers.tolist()

    def advance(self, rows: List[Row]) -> List[Row]:
        # The next window is written to the cache from the last verified word on, so that wrong
        # guesses need not be removed.
        return rows


class _Windows:
    """Buffers on the device for windows, the q tokens that a pass reads of each sentence, and the
    recorded function ``read``, which predicts the next word after each of these tokens and returns
    (log-probabilities ``[B, q]``, words ``[B, q]``).

    Attributes:
        inputs: LongTensor ``[B, 1 + q]``: for each sentence the place in the cache where its window
            begins, then the window's tokens. The caller fills it before ``read``.
        limits: LongTensor ``[B]``, the most words of each translation.
        decoder: the decoder; the caller clears its cache before a new batch.
    """

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        rules: Rules,
        capacity: int,
        width: int,
    ) -> None:
        self.rows, self.width, self._rules = source.rows, width, rules
        engine.embed.reserve(min(capacity, engine.model.max_decoder_positions()))
        self.decoder = StaticDecoder(engine, source, beams=1, capacity=capacity, block=width)
        device = store.device
        self.inputs = torch.zeros(self.rows, 1 + width, dtype=torch.long, device=device)
        self.limits = torch.zeros(self.rows, dtype=torch.long, device=device)
        self._ahead = torch.arange(width, device=device)  # [q]
        self.read = store.record(self._read)

    def _read(self) -> Tuple[Tensor, Tensor]:
        firsts, tokens = self.inputs[:, 0].contiguous(), self.inputs[:, 1:].contiguous()
        places = firsts.unsqueeze(1) + self._ahead  # [B, q]
        full = places >= self.limits.unsqueeze(1)  # [B, q]
        return self._rules.choose(self.decoder, tokens, firsts, places, full)
