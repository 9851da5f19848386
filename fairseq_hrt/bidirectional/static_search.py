"""The searches of :mod:`.search` that run on the device alone; see
:mod:`fairseq_hrt.engine.static_search`."""

from typing import List, Tuple

import torch
from torch import Tensor

from ..engine import EncodedSource, TransformerEngine, check_number
from ..engine.graphs import GraphStore
from ..engine.static_search import Rules, SearchRows, Segment, StaticSearch
from ..native.decoding import Hypothesis
from .candidates import canonical_candidates, whole_candidates
from .search import BlockPlan, Written, packed, unpacked


def static_block_search(
    search: StaticSearch, source: EncodedSource, count: int, plan: BlockPlan, visible: Tensor
) -> List[List[Hypothesis]]:
    """As :func:`.search.block_search`, for all scorings but ``paper``.

    Args:
        source: holds ``count`` sentences.
        visible: BoolTensor ``[W, W]``, the slots (columns) that each slot (row) may see; W is at
            least the slots of the longest translation.
    """
    rules = Rules.of(plan.constraints, plan.temperature)
    segments = search.run(
        source,
        count,
        plan.constraints,
        key=("blocks", tuple(plan.start.tolist()), plan.causal, plan.beam, plan.scoring, rules),
        make=lambda source, capacity: _BlockRows(
            search.store, search.engine, source, plan, rules, visible, capacity
        ),
        block=plan.block,
    )
    return (_greedy_found if plan.beam == 1 else _beam_found)(segments, count, plan)


class _BlockRows(SearchRows):
    """Several words per step, greedily or with a beam."""

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        plan: BlockPlan,
        rules: Rules,
        visible: Tensor,
        capacity: int,
    ) -> None:
        self.rules, self.scoring, block, beam = rules, plan.scoring, plan.block, plan.beam
        # Before the steps are recorded.
        self._ahead = torch.arange(block, device=store.device)  # [z]
        longest = visible.size(0)
        engine.embed.reserve(min(capacity, longest))
        # Slots behind the longest translation are never read.
        places = torch.arange(capacity, device=store.device).clamp_(max=longest - 1)  # [C]
        seen = torch.zeros(capacity, capacity, dtype=torch.bool, device=store.device)
        seen.fill_diagonal_(True)
        size = min(capacity, longest)
        seen[:size, :size] = visible[:size, :size].to(store.device)
        # Of all candidates: the score and the log-probability of each word; the parent beam and the
        # words.
        candidates = beam + (beam if plan.scoring == "canonical" else beam * beam)
        width = block if beam == 1 else candidates * (1 + block)
        super().__init__(
            store,
            engine,
            source,
            start=plan.start.tolist(),
            beam=beam,
            places=places,
            visible=seen,
            numbers=width,
            ids=width,
        )

    def step(self) -> Tuple[Tensor, Tensor]:
        logits = self.engine.logits(self.decoder.features(self.tokens, self.done))  # [R, z, V]
        log_probs = self.rules.log_probabilities(logits)
        slots = self.done * self._ahead.numel() + self._ahead  # [z]
        full = slots >= self.limits.unsqueeze(1)  # [B, z]
        if self.beam == 1:
            ends = self.rules.restrict_ends(log_probs, slots, full)  # [B, z]
            return self._greedy(log_probs, full, ends)
        full = full.repeat_interleave(self.beam, 0)  # [R, z]
        ending = self.rules.restrict_ends(log_probs, slots, full).clone()  # [R, z]
        log_probs.masked_fill_(full.unsqueeze(2), float("-inf"))
        log_probs.select(2, self.rules.eos).copy_(ending)
        return self._beam(log_probs.unflatten(0, (-1, self.beam)))

    def _greedy(self, log_probs: Tensor, full: Tensor, ends: Tensor) -> Tuple[Tensor, Tensor]:
        best, words = log_probs.max(2)  # [B, z] each
        words.masked_fill_(full, self.rules.eos)
        best = torch.where(full, ends, best)
        self.tokens.copy_(words)
        self.flags.open.logical_and_(words.ne(self.rules.eos).all(1))
        return best, words

    def _beam(self, log_probs: Tensor) -> Tuple[Tensor, Tensor]:
        """``log_probs`` are ``[B, N, z, V]``."""
        rules = self.rules
        if self.scoring == "canonical":
            opened, ended = canonical_candidates(
                log_probs, self.totals, eos=rules.eos, pad=rules.pad
            )
        else:
            opened, ended = whole_candidates(log_probs, self.totals, eos=rules.eos, released=False)
        numbers, ids = packed(opened, ended, log_probs)  # [B, P, 1 + z] each
        self.ended.add_(ended.scores.gt(float("-inf")).sum(1))
        self.flags.open.logical_and_(
            (self.ended < self.beam) & opened.scores[:, 0].gt(float("-inf"))
        )
        self.totals.copy_(opened.scores)
        self.tokens.copy_(opened.words.flatten(0, 1))
        self.keep(opened.parents)
        return numbers.flatten(1), ids.flatten(1)


def _greedy_found(segments: List[Segment], count: int, plan: BlockPlan) -> List[List[Hypothesis]]:
    words: List[List[int]] = [[] for _ in range(count)]
    log_probs: List[List[float]] = [[] for _ in words]
    eos = plan.constraints.eos
    for segment in segments:
        for blocks, numbers in zip(segment.ids.tolist(), segment.numbers.tolist()):
            for sentence, block, scores in zip(segment.sentences, blocks, numbers):
                # A block with </s> is the last one.
                if sentence is None or eos in words[sentence][-plan.block :]:
                    continue
                check_number(sum(scores))
                words[sentence] += block
                log_probs[sentence] += scores
    found = []
    for line, scores in zip(words, log_probs):
        end = len(line) if plan.whole_blocks else line.index(eos) + 1
        found.append([plan.hypothesis(line, scores, sum(scores[:end]))])
    return found


def _beam_found(segments: List[Segment], count: int, plan: BlockPlan) -> List[List[Hypothesis]]:
    written, step = Written(count, plan), 0
    for segment in segments:
        places = {sentence: place for place, sentence in enumerate(segment.sentences)}
        for numbers, ids in zip(segment.numbers, segment.ids):
            rows = [places[sentence] for sentence in written.numbers]
            (opened, opened_parts), (ended, ended_parts) = unpacked(
                numbers[rows].unflatten(1, (-1, 1 + plan.block)),  # [B', P, 1 + z]
                ids[rows].unflatten(1, (-1, 1 + plan.block)),
                plan.beam,
            )
            written.finish(ended, ended_parts)
            step += 1
            kept = written.searched(opened.scores[:, 0].tolist(), step)
            if not kept:
                return written.best()
            written.advance(kept, opened, opened_parts)
    return written.best()
