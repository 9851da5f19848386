"""Greedy and beam search that run on the device alone; results as :mod:`.beam_search`.

A step decides on the device which tokens are chosen and which sentences are done, and writes what
it did into a log there. The host only asks, one step behind, whether any sentence is open, and
reads the log at the end. A step after the last one is therefore computed in vain, and never read.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..native.decoding import Hypothesis, best_first
from .beam_search import SearchPlan, check_number, hypothesis_of, traced
from .buckets import LENGTHS, ROWS, bucket
from .constraints import Constraints
from .ensemble import EngineEnsemble
from .fused import best_continuations, best_words, choose, close_step
from .fused.output import MOST_ROWS
from .graphs import GraphStore
from .precision import at_least_float32, log_softmax
from .static_decoder import EncodedSource, StaticDecoder
from .transfer import to_host
from .transformer import TransformerEngine

# Steps that fit at first; most sentences end within them.
FIRST_CAPACITY = 32
# Rows of a step beyond which fewer rows are so much faster that it pays to record their steps.
ENOUGH = 256


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


class SearchRows:
    """One size of a search: its buffers, and the step that works on them. Families define
    :meth:`step`.

    Args:
        store: records the steps.
        source: the encoded source, of B rows.
        start: the z start symbols of each row.
        eos: id of ``</s>``, which closes a row.
        beam: N.
        capacity: C, the slots of the cache.
        numbers, ids: the width of a line of the log.
        layout: further arguments of :class:`.static_decoder.StaticDecoder`.

    Attributes:
        steps: the steps that fit.
        limits: LongTensor ``[B]``, the most words of each sentence; -1 in rows without one.
        done: LongTensor ``[1]``, the number of steps so far.
        tokens: LongTensor ``[R, z]``, the inputs of the next step.
        totals: ``[B, N]``, sums of log-probabilities of the open hypotheses.
        ended: LongTensor ``[B]``, how many hypotheses have ended.
    """

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        *,
        start: Sequence[int],
        eos: int,
        beam: int,
        capacity: int,
        numbers: int,
        ids: int,
        **layout: Any,
    ) -> None:
        self.source, self.engine, self.beam, self._eos = source, engine, beam, eos
        device, batch, block = store.device, source.rows, len(start)
        self.steps = capacity // block
        self.decoder = StaticDecoder(
            engine, source, beams=beam, capacity=capacity, block=block, **layout
        )
        self.flags = _Flags(store, batch)
        self.done = torch.zeros(1, dtype=torch.long, device=device)
        self._block = block
        self.limits = torch.zeros(batch, dtype=torch.long, device=device)
        self._start = torch.tensor(start, device=device)  # [z]
        self.tokens = self._start.repeat(batch * beam, 1)  # [R, z]
        dtype = at_least_float32(engine.dtype)
        self.totals = torch.zeros(batch, beam, dtype=dtype, device=device)
        self.ended = torch.zeros(batch, dtype=torch.long, device=device)
        self._first = torch.arange(0, batch * beam, beam, device=device).unsqueeze(1)  # [B, 1]
        self._numbers = torch.zeros(self.steps, batch, numbers, dtype=dtype, device=device)
        self._ids = torch.zeros(self.steps, batch, ids, dtype=torch.long, device=device)
        self._clear = store.record(self._reset)
        # With a beam a step writes the other one of two caches, and the next step the first again.
        self._steps: List[Callable[[], None]] = []
        self._home = self.decoder.cache
        for _ in range(1 if beam == 1 else 2):
            self._steps.append(store.record(self._advance))
            self._turn()

    def begin(self) -> None:
        """The state before the first step; ``limits`` are set."""
        if self.decoder.cache is not self._home:
            self._turn()
        self._clear()

    def advance(self) -> None:
        """Takes the next step of all rows."""
        self._steps[int(self.decoder.cache is not self._home)]()
        self._turn()

    def _turn(self) -> None:
        if self.beam > 1:
            self.decoder.swap()

    def step(self) -> Tuple[Tensor, Tensor]:
        """Chooses the next tokens, without reading anything from the device.

        Returns:
            Numbers and ids for the log, ``[B, …]`` each. Without a beam these are the
            log-probabilities and words chosen; with one, the step updates :attr:`tokens`,
            :attr:`totals`, :attr:`ended`, the flags and the order of the rows.
        """
        raise NotImplementedError

    def _reset(self) -> None:
        self.done.zero_()
        self.tokens.copy_(self._start.expand_as(self.tokens))
        # The N beams are equal at first: only beam 0 may have successors, or all would be copies.
        self.totals.fill_(float("-inf"))
        self.totals[:, 0] = 0
        self.ended.zero_()
        self.flags.open.copy_(self.limits.ge(0))
        self.decoder.clear()

    def _advance(self) -> None:
        numbers, ids = self.step()
        if self.beam == 1:
            close_step(
                numbers,
                ids,
                tokens=self.tokens,
                numbers=self._numbers,
                ids=self._ids,
                is_open=self.flags.open,
                done=self.done,
                eos=self._eos,
            )
        else:
            for log, line in ((self._numbers, numbers), (self._ids, ids)):
                log.index_copy_(0, self.done, line[None])
            self.done.add_(1)
        self.flags.send()

    def take(self, other: "SearchRows", kept: Tensor) -> None:
        """Continues with the sentences ``kept`` ``[B']`` of another size of the same search."""
        count, beam = kept.numel(), self.beam
        self.limits.fill_(-1)
        self.begin()
        if other.source is not self.source:
            self.source.take(other.source.memory, kept)
        rows = (kept.unsqueeze(1) * beam + torch.arange(beam, device=kept.device)).flatten()
        self.decoder.take(other.decoder, rows)
        self.tokens[: rows.numel()].copy_(other.tokens[rows])
        for name in ("totals", "ended", "limits"):
            getattr(self, name)[:count].copy_(getattr(other, name)[kept])
        self.flags.open[:count].copy_(other.flags.open[kept])
        self.done.copy_(other.done)

    @property
    def first(self) -> Tensor:
        """The slot of the first of the next tokens, LongTensor ``[1]``."""
        return self.done if self._block == 1 else self.done * self._block

    def keep(self, parents: Tensor) -> Tensor:
        """Continues with the beams ``parents`` ``[B, N]`` of each sentence; returns their rows,
        ``[B, N]``."""
        rows = parents + self._first
        self.decoder.reorder(rows.view(-1))
        return rows

    def log(self, first: int, end: int) -> Tuple[Tensor, Tensor]:
        """Steps ``first`` to ``end - 1`` of the log, on the host; waits for the device."""
        return to_host(self._numbers[first:end], self._ids[first:end])


class Rules(NamedTuple):
    """The constraints of :class:`.constraints.Constraints` that do not depend on the sentence, and
    what else is the same for all batches of a search."""

    pad: int
    eos: int
    unk: int
    min_length: int
    unkpen: float
    temperature: float

    @classmethod
    def of(cls, rules: Constraints, temperature: float) -> "Rules":
        """The part of ``rules`` that all batches share."""
        return cls(
            rules.pad, rules.eos, rules.unk, rules.min_length, float(rules.unkpen), temperature
        )

    def choose(
        self, decoder: StaticDecoder, tokens: Tensor, first: Tensor, places: Tensor, full: Tensor
    ) -> Tuple[Tensor, Tensor]:
        """Reads tokens and chooses the most probable word behind each.

        Args:
            tokens, first: see :meth:`.static_decoder.StaticDecoder.features`; ``[R, z]``.
            places: LongTensor, broadcastable to ``[R, z]``, the number of words before each choice.
            full: BoolTensor ``[R, z]``, where only ``</s>`` is allowed.

        Returns:
            Log-probabilities and words, ``[R, z]`` each.
        """
        forbid_eos = (places < self.min_length).expand_as(full).reshape(-1).contiguous()  # [R * z]
        if full.numel() > MOST_ROWS:
            best, words = best_words(
                decoder.logits(tokens, first),
                temperature=self.temperature,
                penalties={self.pad: math.inf, self.unk: self.unkpen},
                eos=self.eos,
                forbid_eos=forbid_eos,
                only_eos=full.reshape(-1),
            )
            return best.view_as(full), words.view_as(full)
        x, norm = decoder.features(tokens, first)
        output = decoder.engine.output
        words, best = choose(
            x,
            output.weight,
            output.bias,
            norm=norm,
            temperature=self.temperature,
            pad=self.pad,
            eos=self.eos,
            unk=self.unk,
            unkpen=self.unkpen,
            forbid_eos=forbid_eos,
            only_eos=full.reshape(-1),
        )
        return best.view_as(full), words.view_as(full)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """``[..., V]`` → ``[..., V]``, without padding and with the penalty of ``<unk>``."""
        if self.temperature != 1.0:
            logits = logits / self.temperature
        log_probs = log_softmax(logits)
        log_probs.select(-1, self.pad).fill_(float("-inf"))
        if self.unkpen:
            log_probs.select(-1, self.unk).sub_(self.unkpen)
        return log_probs

    def restrict_ends(self, log_probs: Tensor, places: Tensor, full: Tensor) -> Tensor:
        """Forbids ``</s>`` before the least number of words.

        Args:
            log_probs: ``[B, n, V]``, changed in place.
            places: LongTensor ``[1]`` or ``[n]``, the number of words before each.
            full: BoolTensor ``[B, 1]`` or ``[B, n]``, where only ``</s>`` is allowed.

        Returns:
            The log-probabilities of ``</s>``, ``[B, n]``; a view.
        """
        ends = log_probs.select(2, self.eos)
        if self.min_length:
            ends.masked_fill_((places < self.min_length) & ~full, float("-inf"))
        return ends


class _WordRows(SearchRows):
    """Greedy and beam search, word by word."""

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        plan: SearchPlan,
        capacity: int,
        longest: int,
    ) -> None:
        self.rules, beam = Rules.of(plan.constraints, plan.temperature), plan.beam
        engine.embed.reserve(min(plan.stride * (capacity - 1) + 1, longest))
        super().__init__(
            store,
            engine,
            source,
            start=[plan.start],
            eos=self.rules.eos,
            beam=beam,
            capacity=capacity,
            stride=plan.stride,
            # See _greedy_found and _beam_found.
            numbers=1 if beam == 1 else 2 * beam,
            ids=1 if beam == 1 else 3 * beam,
        )

    def step(self) -> Tuple[Tensor, Tensor]:
        full = self.done >= self.limits  # [B]
        if self.beam == 1:
            full = full.unsqueeze(1)  # [B, 1]
            return self.rules.choose(self.decoder, self.tokens, self.first, self.done, full)
        logits = self.decoder.logits(self.tokens, self.first)  # [R, V]
        return self._beam(logits, full)

    def _beam(self, logits: Tensor, full: Tensor) -> Tuple[Tensor, Tensor]:
        beam, rules, eos = self.beam, self.rules, self.rules.eos
        early = (self.done < rules.min_length).expand_as(full) if rules.min_length else None  # [B]
        # Up to N of the 2N candidates may be </s>, so 2N guarantee that N stay open.
        scores, tokens, parents = best_continuations(  # [B, 2N] each
            logits,
            self.totals,
            count=min(2 * beam, beam * logits.size(1) - 1),
            temperature=rules.temperature,
            pad=rules.pad,
            eos=eos,
            unk=rules.unk,
            unkpen=rules.unkpen,
            forbid_eos=early,
            only_eos=full,
        )
        is_end = tokens.eq(eos) & scores.gt(float("-inf"))  # [B, 2N]
        columns = is_end.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beam]  # [B, N]
        # NaN comes first and does not end a sentence: the best open score is NaN then.
        going_on = scores.masked_fill(is_end, float("-inf")).gather(1, columns)  # [B, N]
        chosen = tokens.gather(1, columns)  # [B, N]
        ended = scores[:, :beam].masked_fill(~is_end[:, :beam], float("-inf"))  # [B, N]
        self.ended.add_(is_end[:, :beam].sum(1))
        self.flags.open.logical_and_((self.ended < beam) & ~full & going_on[:, 0].gt(float("-inf")))
        self.tokens.copy_(chosen.view(-1, 1))
        self.totals.copy_(going_on)
        rows = self.keep(parents.gather(1, columns))  # [B, N]
        return torch.cat([ended, going_on], 1), torch.cat([parents[:, :beam], rows, chosen], 1)


@dataclass
class Segment:
    """Steps of a search in one size, on the host.

    Attributes:
        sentences: of each row the sentence, or None.
        numbers, ids: the log, ``[steps, B, …]``.
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
        longest = max(tokens.size(1), self.engine.model.encoder.max_positions())
        rows, width = bucket(tokens.size(0), ROWS), min(bucket(tokens.size(1), LENGTHS), longest)
        source = self._source(rows, width, eos)
        source.encode(tokens)
        return source

    def search(self, source: EncodedSource, count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
        """The best hypotheses of the ``count`` sentences of ``source``, best first."""
        own = plan.constraints
        segments = self.run(
            source,
            count,
            own,
            key=("words", plan.start, plan.stride, plan.beam, Rules.of(own, plan.temperature)),
            make=lambda source, capacity: _WordRows(
                self.store, self.engine, source, plan, capacity, self.longest
            ),
        )
        return (_greedy_found if plan.beam == 1 else _beam_found)(segments, count, plan)

    def run(
        self,
        source: EncodedSource,
        count: int,
        rules: Constraints,
        *,
        key: Hashable,
        make: Callable[[EncodedSource, int], SearchRows],
        block: int = 1,
    ) -> List[Segment]:
        """Takes steps until all sentences are done, in sizes that follow what is left to do.

        Args:
            source: holds ``count`` sentences.
            rules: their limits.
            key: of this kind of search: everything that its steps depend on.
            make: function (source, slots of the cache) → buffers.
            block: z, words of a step.
        """
        last = -(-(rules.longest_limit + 1) // block)  # the most steps
        # At least one step fits, however many words it has.
        capacity = bucket(max(min(last * block, FIRST_CAPACITY), block), LENGTHS)
        rows = self._rows(source, key, make, capacity)
        limits = torch.full((source.rows,), -1)
        limits[:count] = rules.max_lengths
        rows.limits.copy_(limits)
        rows.begin()
        sentences: List[Optional[int]] = [*range(count), *[None] * (source.rows - count)]
        segments: List[Segment] = []
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
            flags = rows.flags.read(step - 2) if step - first > 1 else [True] * rows.source.rows
            if not any(flags):
                break
            crowded = rows.source.rows * rows.beam > ENOUGH
            halved = crowded and 2 * bucket(sum(flags), ROWS) <= rows.source.rows
            if step < rows.steps and not halved:
                continue
            flags = rows.flags.read(step - 1)
            kept = [place for place, is_open in enumerate(flags) if is_open]
            if not kept:
                break
            count, smaller = bucket(len(kept), ROWS), rows.source
            if crowded and count < smaller.rows:
                smaller = self._source(count, smaller.width, rules.eos)
            else:
                # Only more steps are needed.
                kept = list(range(smaller.rows))
            capacity = rows.decoder.capacity
            if step >= rows.steps:
                capacity = bucket(2 * capacity, LENGTHS)
            segments.append(Segment(sentences, *rows.log(first, step), kept))
            moved = self._rows(smaller, key, make, capacity)
            moved.take(rows, torch.tensor(kept, device=self.store.device))
            sentences = [sentences[place] for place in kept]
            sentences += [None] * (smaller.rows - len(sentences))
            rows, first = moved, step
        segments.append(Segment(sentences, *rows.log(first, step)))
        return segments

    def _source(self, rows: int, width: int, eos: int) -> EncodedSource:
        return self.store.keep(
            ("source", rows, width, eos),
            lambda: EncodedSource(self.store, self.engine, rows, width, eos=eos),
        )

    def _rows(
        self,
        source: EncodedSource,
        key: Hashable,
        make: Callable[[EncodedSource, int], SearchRows],
        capacity: int,
    ) -> SearchRows:
        # The rows keep their source, whose number is no other's meanwhile.
        return self.store.keep(
            ("search", id(source), capacity, key), lambda: make(source, capacity)
        )


def _greedy_found(segments: List[Segment], count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
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


def _beam_found(segments: List[Segment], count: int, plan: SearchPlan) -> List[List[Hypothesis]]:
    """The log has scores of the candidates that ended ``[N]`` (-inf: none) and of the open ones
    ``[N]``; parent beams of the former, parent rows and tokens of the latter."""
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
