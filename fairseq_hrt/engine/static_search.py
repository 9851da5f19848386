"""Greedy and beam search that run on the device alone; they find what :mod:`.beam_search` finds.

A step decides on the device which tokens are chosen and which sentences are done, and writes its
choices into a log there. The host only asks, one step behind, whether any sentence is open, and
reads the log at the end. It therefore often launches one step too many, whose log is ignored.
"""

import math
from dataclasses import dataclass
from typing import Callable, Hashable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..native.decoding import Hypothesis, best_first
from .beam_search import SearchPlan, check_number, hypothesis_of, traced
from .buckets import LENGTHS, ROWS, bucket
from .constraints import Constraints
from .ensemble import EngineEnsemble
from .fused import best_continuations
from .graphs import GraphStore
from .static_decoder import EncodedSource
from .static_rows import Rules, SearchRows
from .transformer import TransformerEngine

# Tokens of a row that fit into the first buffers; most sentences end within them.
FIRST_CAPACITY = 32
# With more rows than this, steps of fewer rows are so much faster that it pays to record them.
ENOUGH = 256


class _WordRows(SearchRows):
    """The buffers and the step of a greedy or beam search that writes one word per step.

    Args:
        store, engine, source: what records the steps, the model's engine and the encoded source.
        plan: the settings of the search.
        capacity: the number of slots of the cache.
        longest: the number of decoder positions of the model.
        forced: ids of the words that every translation begins with, whose log-probability counts
            as 0.
    """

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        plan: SearchPlan,
        capacity: int,
        longest: int,
        forced: Sequence[int] = (),
    ) -> None:
        self.forced = torch.tensor(forced, dtype=torch.long, device=store.device)  # [P]
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
            best, words = self.rules.choose(
                self.decoder, self.tokens, self.first, self.done, full
            )  # [B, 1] each
            if self.forced.numel():
                bound, word = self._bound(full)
                best, words = best.masked_fill(bound, 0.0), torch.where(bound, word, words)
            return best, words
        logits = self.decoder.logits(self.tokens, self.first)  # [R, V]
        return self._beam(logits, full)

    def _bound(self, full: Tensor) -> Tuple[Tensor, Tensor]:
        """(Where the next word is a forced one, BoolTensor ``[B, 1]``; this word, ``[1]``).
        ``full``, BoolTensor ``[B, 1]``: where only ``</s>`` is allowed."""
        count = self.forced.numel()
        word = self.forced.index_select(0, self.done.clamp(max=count - 1))
        return (self.done < count) & ~full, word

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
        if self.forced.numel():
            bound, word = self._bound(full.unsqueeze(1))
            # All begin alike: beam 0, whose candidates are first, alone continues.
            alone = scores.new_full(scores.shape, float("-inf"))  # [B, 2N]
            alone[:, 0] = self.totals[:, 0]
            scores, tokens = torch.where(bound, alone, scores), torch.where(bound, word, tokens)
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
    """The log, on the host, of steps that were taken in buffers of one size.

    Attributes:
        sentences: the sentence in each row; None for rows without one.
        numbers, ids: what the steps logged (:meth:`SearchRows.step`), ``[steps, B, …]`` each.
        kept: the rows whose sentences continue in the next segment, in the order of its rows.
    """

    sentences: List[Optional[int]]
    numbers: Tensor
    ids: Tensor
    kept: Sequence[int] = ()


class StaticSearch:
    """Runs the searches of an ensemble of one model on the device alone.

    Args:
        ensemble: its :class:`GraphStore` keeps the buffers and recordings of all sizes that were
            used.
        longest: the number of the model's decoder positions.
    """

    def __init__(self, ensemble: EngineEnsemble, *, longest: int) -> None:
        self.ensemble, self.engine, self.longest = ensemble, ensemble.engines[0], longest
        self.store = ensemble.graphs

    def encode(self, tokens: Tensor, eos: int) -> EncodedSource:
        """Encodes the sources ``tokens`` ``[B, S]`` in buffers whose B and S are the next larger
        sizes in :mod:`.buckets`; ``eos`` is the id that ends a source."""
        self.ensemble.counters.encoder_calls += 1
        longest = max(tokens.size(1), self.engine.model.encoder.max_positions())
        rows, width = bucket(tokens.size(0), ROWS), min(bucket(tokens.size(1), LENGTHS), longest)
        source = self._source(rows, width, eos)
        source.encode(tokens)
        return source

    def search(
        self, source: EncodedSource, count: int, plan: SearchPlan, *, forced: Sequence[int] = ()
    ) -> List[List[Hypothesis]]:
        """The hypotheses of each of the first ``count`` sentences of ``source``, at most
        ``plan.beam``, best first. All begin with the words ``forced``, whose log-probability counts
        as 0."""
        own = plan.constraints
        segments = self.run(
            source,
            count,
            own,
            key=(
                "words",
                plan.start,
                plan.stride,
                plan.beam,
                Rules.of(own, plan.temperature),
                tuple(forced),
            ),
            make=lambda source, capacity: _WordRows(
                self.store, self.engine, source, plan, capacity, self.longest, forced
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
        """Takes steps until all sentences are done: in smaller buffers when few are open, in larger
        ones when more steps are needed.

        Args:
            source: the encoded batch, whose first ``count`` rows hold sentences.
            rules: constraints with the length limits of these sentences.
            key: identifies this kind of search, by everything that its steps depend on.
            make: function (source, number of slots of the cache) → buffers.
            block: z, the number of words that a step writes.

        Returns:
            The log of the steps, in order: a new segment wherever the buffers were changed.
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
            fewer, smaller = bucket(len(kept), ROWS), rows.source
            if crowded and fewer < smaller.rows:
                smaller = self._source(fewer, smaller.width, rules.eos)
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
        # The rows keep their source alive, so that no other object gets its id.
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
    """Reads the hypotheses of ``count`` sentences from the log ``segments`` of a beam search.

    For each step and sentence, the log's ``numbers`` are the scores of the candidates that ended
    ``[N]`` (-inf: none) and of the open ones ``[N]``; its ``ids`` are the parent beams of those
    that ended, and the parent rows and the tokens of the open ones."""
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
