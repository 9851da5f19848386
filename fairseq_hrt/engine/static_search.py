"""Greedy and beam search that run on the device alone; results as :mod:`.beam_search`.

A step decides on the device which tokens are chosen and which sentences are done, and writes what
it did into a log there. The host only asks, one step behind, whether any sentence is open, and
reads the log at the end. A step after the last one is therefore computed in vain, and never read.
"""

import math
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..native.decoding import Hypothesis, best_first
from .beam_search import SearchPlan, check_number, hypothesis_of, traced
from .buckets import LENGTHS, ROWS, bucket
from .ensemble import EngineEnsemble
from .graphs import GraphStore
from .precision import log_softmax
from .static_decoder import EncodedSource, StaticDecoder, causal, places_of
from .transfer import to_host
from .transformer import TransformerEngine

# Steps that fit at first; most sentences end within them.
FIRST_CAPACITY = 32
# Rows of a step beyond which fewer rows are faster.
ENOUGH = 32
# Words of a row among which the best are looked for at once.
CHUNK = 128


class Rules(NamedTuple):
    """What is the same for all batches of a recorded search."""

    start: int
    stride: int
    beam: int
    min_length: int
    unkpen: float
    temperature: float
    pad: int
    eos: int
    unk: int

    @classmethod
    def of(cls, plan: SearchPlan) -> "Rules":
        own = plan.constraints
        return cls(plan.start, plan.stride, plan.beam, own.min_length, own.unkpen,
                   plan.temperature, own.pad, own.eos, own.unk)  # fmt: skip


class _Flags:
    """Which sentences are open, on their way to the host."""

    def __init__(self, store: GraphStore, count: int) -> None:
        self.open = torch.zeros(count, dtype=torch.bool, device=store.device)  # [B]
        self._host = self.open
        self._ready: List[torch.cuda.Event] = []
        if store.enabled:
            self._host = torch.zeros(count, dtype=torch.bool, pin_memory=True)
            self._ready = [torch.cuda.Event(), torch.cuda.Event()]

    def send(self) -> None:
        """Part of a step: copies the flags to the host when it has run."""
        if self._host is not self.open:
            self._host.copy_(self.open, non_blocking=True)

    def sent(self, step: int) -> None:
        """To be called after each step was launched."""
        if self._ready:
            self._ready[step % 2].record()

    def read(self, step: int) -> List[bool]:
        """The flags after step ``step``, or after a later one that has run already."""
        if self._ready:
            self._ready[step % 2].synchronize()
        return self._host.tolist()


class _Rows:
    """One size of a search: buffers, and the step that works on them.

    Args:
        source: the encoded source, of B rows.
        capacity: C, the steps that fit.
        longest: positions of the model.
    """

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        rules: Rules,
        capacity: int,
        longest: int,
    ) -> None:
        self.source, self.rules, self.engine, self.capacity = source, rules, engine, capacity
        device, batch, beams = store.device, source.rows, rules.beam
        places = places_of(capacity, rules.stride, longest, device)
        engine.embed.reserve(min(rules.stride * (capacity - 1) + 1, longest))
        self.decoder = StaticDecoder(
            engine, source, beams=beams, places=places, visible=causal(capacity, device)
        )
        self.flags = _Flags(store, batch)
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.limits = torch.zeros(batch, dtype=torch.long, device=device)
        self.tokens = torch.full((batch * beams, 1), rules.start, device=device)  # [R, 1]
        # Sums of log-probabilities of the open hypotheses, and how many have ended.
        self.totals = torch.zeros(batch, beams, device=device)
        self.ended = torch.zeros(batch, dtype=torch.long, device=device)
        self._first = torch.arange(0, batch * beams, beams, device=device).unsqueeze(1)  # [B, 1]
        # The log, a line a step; see _Segment.
        numbers, ids = (1, 1) if beams == 1 else (2 * beams, 3 * beams)
        self.numbers = torch.zeros(capacity, batch, numbers, device=device)
        self.ids = torch.zeros(capacity, batch, ids, dtype=torch.long, device=device)
        self.begin = store.record(self._begin)
        self.advance = store.record(self._greedy_step if beams == 1 else self._beam_step)

    def _begin(self) -> None:
        """The state before the first step; ``limits`` are set, negative in rows without a
        sentence."""
        self.step.zero_()
        self.tokens.fill_(self.rules.start)
        # The N beams are equal at first: only beam 0 may have successors, or all would be copies.
        self.totals.fill_(float("-inf"))
        self.totals[:, 0] = 0
        self.ended.zero_()
        self.flags.open.copy_(self.limits.ge(0))
        # Also what is masked: a row that ran on after its end may have left NaN there, and 0 * NaN
        # is NaN.
        self.decoder.cache.zero_()

    def take(self, other: "_Rows", kept: Tensor) -> None:
        """Continues with the sentences ``kept`` ``[B']`` of another size of the same search."""
        count, beams = kept.numel(), self.rules.beam
        self.limits.fill_(-1)
        self._begin()
        if other.source is not self.source:
            self.source.take(other.source.memory, kept)
        rows = (kept.unsqueeze(1) * beams + torch.arange(beams, device=kept.device)).flatten()
        self.decoder.take(other.decoder, rows)
        self.tokens[: rows.numel()].copy_(other.tokens[rows])
        for name in ("totals", "ended", "limits"):
            getattr(self, name)[:count].copy_(getattr(other, name)[kept])
        self.flags.open[:count].copy_(other.flags.open[kept])
        self.step.copy_(other.step)

    def _log_probabilities(self) -> Tensor:
        """Of the next token of each row, ``[R, V]``, before the limits of length are applied."""
        rules = self.rules
        logits = self.engine.logits(self.decoder.features(self.tokens, self.step)[:, -1])
        if rules.temperature != 1.0:
            logits = logits / rules.temperature
        log_probs = log_softmax(logits)  # [R, V]
        log_probs.select(1, rules.pad).fill_(float("-inf"))
        if rules.unkpen:
            log_probs.select(1, rules.unk).sub_(rules.unkpen)
        return log_probs

    def _greedy_step(self) -> None:
        rules, log_probs = self.rules, self._log_probabilities()
        full = self.step >= self.limits  # [B]
        ends = log_probs.select(1, rules.eos)  # [B]
        ending = ends.clone()
        if rules.min_length:
            ends.masked_fill_((self.step < rules.min_length) & ~full, float("-inf"))
        best, tokens = log_probs.max(1)  # [B] each
        tokens = tokens.masked_fill_(full, rules.eos)
        best = torch.where(full, ending, best)
        self.tokens.copy_(tokens.unsqueeze(1))
        self._write(best[:, None], tokens[:, None])
        self.flags.open.logical_and_(tokens.ne(rules.eos))
        self.step.add_(1)
        self.flags.send()

    def _beam_step(self) -> None:
        rules, beams, open_rows = self.rules, self.rules.beam, self.flags.open
        log_probs = self._log_probabilities().unflatten(0, (-1, beams))  # [B, N, V]
        full = self.step >= self.limits  # [B]
        ends = log_probs.select(2, rules.eos)  # [B, N]
        if rules.min_length:
            ends.masked_fill_(((self.step < rules.min_length) & ~full)[:, None], float("-inf"))
        ending = ends + self.totals  # [B, N]
        # A sentence at its limit can only end.
        totals = log_probs.add_(
            self.totals.masked_fill(full.unsqueeze(1), float("-inf")).unsqueeze(2)
        )
        totals.select(2, rules.eos).copy_(ending)
        vocabulary = totals.size(2)
        # Up to N of the 2N candidates may be </s>, so 2N guarantee that N stay open.
        scores, flat = largest(totals.flatten(1), min(2 * beams, beams * vocabulary - 1))  # [B, 2N]
        tokens, parents = flat % vocabulary, flat // vocabulary  # [B, 2N] each
        is_end = tokens.eq(rules.eos) & scores.gt(float("-inf"))  # [B, 2N]
        columns = is_end.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beams]  # [B, N]
        going_on = scores.masked_fill(is_end, float("-inf")).gather(1, columns)  # [B, N]
        chosen, rows = tokens.gather(1, columns), parents.gather(1, columns) + self._first
        ended = scores[:, :beams].masked_fill(~is_end[:, :beams], float("-inf"))  # [B, N]
        # NaN comes first and is no end: the best open score is NaN then.
        self._write(
            torch.cat([ended, going_on], 1), torch.cat([parents[:, :beams], rows, chosen], 1)
        )
        self.ended.add_(is_end[:, :beams].sum(1))
        open_rows.logical_and_((self.ended < beams) & ~full & going_on[:, 0].gt(float("-inf")))
        self.tokens.copy_(chosen.view(-1, 1))
        self.totals.copy_(going_on)
        self.decoder.reorder(rows.view(-1))
        self.step.add_(1)
        self.flags.send()

    def _write(self, numbers: Tensor, ids: Tensor) -> None:
        """Adds a line to the log: ``[B, width]`` each."""
        self.numbers.index_copy_(0, self.step, numbers[None])
        self.ids.index_copy_(0, self.step, ids[None])

    def log(self, first: int, end: int) -> Tuple[Tensor, Tensor]:
        """Steps ``first`` to ``end - 1`` of the log, on the host; waits for the device."""
        return to_host(self.numbers[first:end], self.ids[first:end])


def largest(values: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """The ``count`` largest of each row and their columns, largest first; NaN comes first.

    They lie in the chunks with the largest maxima, so that only those have to be sorted.

    Args:
        values: ``[B, M]``, contiguous.
    """
    batch, size = values.shape
    chunks = size // CHUNK
    if chunks <= 2 * count:
        return values.topk(count)
    whole = values[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))  # [B, chunks, CHUNK]
    best = whole.amax(2).topk(count).indices  # [B, count]
    columns = (best.unsqueeze(2) * CHUNK + torch.arange(CHUNK, device=values.device)).flatten(1)
    if chunks * CHUNK < size:
        rest = torch.arange(chunks * CHUNK, size, device=values.device)
        columns = torch.cat([columns, rest.expand(batch, -1)], 1)  # [B, candidates]
    found, places = values.gather(1, columns).topk(count)
    return found, columns.gather(1, places)


@dataclass
class _Segment:
    """Steps of a search in one size, on the host.

    Attributes:
        sentences: of each row the sentence, or None.
        numbers, ids: the log, ``[steps, B, …]``. Greedy: log-probability and token. Beam: scores of
            the candidates that ended ``[N]`` (-inf: none) and of the open ones ``[N]``; parent
            beams of the former, parent rows and tokens of the latter.
        kept: rows that continue in the next segment.
    """

    sentences: List[Optional[int]]
    numbers: Tensor
    ids: Tensor
    kept: Sequence[int] = ()


class StaticSearch:
    """Searches of one ensemble of a single model.

    Args:
        ensemble: its graphs keep the sizes that were used.
        longest: positions of the model.
    """

    def __init__(self, ensemble: EngineEnsemble, *, longest: int) -> None:
        self.ensemble, self.engine, self.longest = ensemble, ensemble.engines[0], longest
        self.store = ensemble.graphs

    def encode(self, tokens: Tensor, eos: int) -> EncodedSource:
        """Encodes ``[B, S]``, in buffers of the next larger size."""
        self.ensemble.counters.encoder_calls += 1
        rows, width = bucket(tokens.size(0), ROWS), bucket(tokens.size(1), LENGTHS)
        source = self._source(rows, width, eos)
        source.encode(tokens)
        return source

    def search(self, source: EncodedSource, count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
        """The best hypotheses of the ``count`` sentences of ``source``, best first."""
        segments = self._run(source, count, plan)
        return (_greedy_found if plan.beam == 1 else _beam_found)(segments, count, plan)

    def _source(self, rows: int, width: int, eos: int) -> EncodedSource:
        return self.store.keep(
            ("source", rows, width, eos),
            lambda: EncodedSource(self.store, self.engine, rows, width, eos=eos),
        )

    def _rows(self, source: EncodedSource, rules: Rules, capacity: int) -> _Rows:
        key = ("search", source.rows, source.width, capacity, rules)
        found = self.store.keep(key, lambda: self._make(source, rules, capacity))
        if found.source is not source:
            # Its source was dropped and made again, elsewhere.
            self.store.drop(key)
            found = self.store.keep(key, lambda: self._make(source, rules, capacity))
        return found

    def _make(self, source: EncodedSource, rules: Rules, capacity: int) -> _Rows:
        return _Rows(self.store, self.engine, source, rules, capacity, self.longest)

    def _run(self, source: EncodedSource, count: int, plan: SearchPlan) -> List[_Segment]:
        own, rules = plan.constraints, Rules.of(plan)
        last = own.longest_limit + 1  # the most steps
        rows = self._rows(source, rules, bucket(min(last, FIRST_CAPACITY), LENGTHS))
        limits = torch.full((source.rows,), -1)
        limits[:count] = own.max_lengths
        rows.limits.copy_(limits)
        rows.begin()
        sentences: List[Optional[int]] = [*range(count), *[None] * (source.rows - count)]
        segments: List[_Segment] = []
        step = first = 0
        while True:
            rows.advance()
            rows.flags.sent(step)
            step += 1
            self.ensemble.counters.decoder_calls += 1
            self.ensemble.counters.decoder_tokens += rows.tokens.numel()
            if step == last:
                break
            # One step behind: the device has its next step before it has finished this one.
            flags = rows.flags.read(step - 2) if step - first > 1 else [True] * source.rows
            if not any(flags):
                break
            crowded = rows.source.rows * rules.beam > ENOUGH
            halved = crowded and 2 * bucket(sum(flags), ROWS) <= rows.source.rows
            if step < rows.capacity and not halved:
                continue
            flags = rows.flags.read(step - 1)
            kept = [place for place, is_open in enumerate(flags) if is_open]
            if not kept:
                break
            segments.append(_Segment(sentences, *rows.log(first, step)))
            places = torch.tensor(kept, device=rows.step.device)  # [B']
            small = self._source(bucket(len(kept), ROWS), rows.source.width, own.eos)
            if small.rows == rows.source.rows or not crowded:
                # Only more steps are needed.
                small, kept = rows.source, list(range(rows.source.rows))
                places = torch.arange(rows.source.rows, device=rows.step.device)
            capacity = rows.capacity if step < rows.capacity else bucket(2 * step, LENGTHS)
            moved = self._rows(small, rules, capacity)
            moved.take(rows, places)
            segments[-1].kept = kept
            sentences = [sentences[place] for place in kept]
            sentences += [None] * (small.rows - len(sentences))
            rows, first = moved, step
        segments.append(_Segment(sentences, *rows.log(first, step)))
        return segments


def _greedy_found(segments: List[_Segment], count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
    tokens: List[List[int]] = [[] for _ in range(count)]
    log_probs: List[List[float]] = [[] for _ in tokens]
    eos = plan.constraints.eos
    for segment in segments:
        words, numbers = segment.ids[:, :, 0].t().tolist(), segment.numbers[:, :, 0].t().tolist()
        for sentence, line, scores in zip(segment.sentences, words, numbers):
            if sentence is None or tokens[sentence][-1:] == [eos]:
                continue
            end = line.index(eos) + 1 if eos in line else len(line)
            check_number(sum(scores[:end]))
            tokens[sentence] += line[:end]
            log_probs[sentence] += scores[:end]
    return [[hypothesis_of(plan, *pair)] for pair in zip(tokens, log_probs)]


def _beam_found(segments: List[_Segment], count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
    beams, limits = plan.beam, plan.constraints.limits
    links: List[Tuple[List[int], List[int]]] = []
    totals: List[List[float]] = []
    # Per sentence: (step of </s>, row that wrote it, sum of log-probabilities).
    ends: List[List[Tuple[int, int, float]]] = [[] for _ in range(count)]
    closed = [False] * count
    for segment in segments:
        ended, going_on = segment.numbers.split(beams, 2)  # [steps, B, N] each
        parents, rows, tokens = segment.ids.split(beams, 2)
        any_end = ended.gt(-math.inf).any(2).tolist()  # [steps, B]
        best = going_on[:, :, 0].tolist()
        for here, (line, opens) in enumerate(zip(any_end, best)):
            step = len(links)
            for place, sentence in enumerate(segment.sentences):
                if sentence is None or closed[sentence]:
                    continue
                check_number(opens[place])
                done = ends[sentence]
                if line[place]:
                    scores, origins = ended[here, place].tolist(), parents[here, place].tolist()
                    for score, parent in zip(scores, origins):
                        if score > -math.inf and len(done) < beams:
                            done.append((step, place * beams + parent, score))
                closed[sentence] = (
                    len(done) >= beams or step >= limits[sentence] or not opens[place] > -math.inf
                )
            links.append((rows[here].flatten().tolist(), tokens[here].flatten().tolist()))
            totals.append(going_on[here].flatten().tolist())
        if segment.kept:
            # The next segment counts its rows among those that were kept.
            order = [place * beams + beam for place in segment.kept for beam in range(beams)]
            links[-1] = ([links[-1][0][row] for row in order], [links[-1][1][row] for row in order])
            totals[-1] = [totals[-1][row] for row in order]
    return [best_first([traced(plan, links, totals, *end) for end in own]) for own in ends]
