"""Block search as in :mod:`.search`, but the device chooses words and ends sentences, and the host
reads the results afterwards; see :mod:`fairseq_hrt.engine.static_search`."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..engine import EncodedSource, TransformerEngine, check_number
from ..engine.graphs import GraphStore
from ..engine.static_rows import Rules, SearchRows
from ..engine.static_search import Segment, StaticSearch
from ..native.decoding import Hypothesis
from .candidates import canonical_candidates, whole_candidates
from .search import BlockPlan, Written, packed, unpacked


def static_block_search(
    search: StaticSearch,
    source: EncodedSource,
    count: int,
    plan: BlockPlan,
    *,
    longest: int,
    visible: Optional[Tensor],
) -> List[List[Hypothesis]]:
    """The search of :func:`.search.block_search` by computations of fixed shapes, whose results the
    host reads when all sentences are done; for all scorings but ``paper``.

    Args:
        search: runs the steps as recorded CUDA graphs.
        source: the encoded batch.
        count: the number of sentences in the batch.
        plan: the settings of the search.
        longest: W, the slots of the longest translation that the model can write.
        visible: BoolTensor ``[W, W]``, the slots (columns) that each slot (row) may see, apart from
            those that the causal mask hides; None: all.

    Returns:
        The finished hypotheses of each sentence, best first, their words in the order of the slots.
    """
    rules = Rules.of(plan.constraints, plan.temperature)
    segments = search.run(
        source,
        count,
        plan.constraints,
        key=("blocks", tuple(plan.start.tolist()), plan.causal, plan.beam, plan.scoring, rules),
        make=lambda source, capacity: _BlockRows(
            search.store, search.engine, source, plan, rules, longest, visible, capacity
        ),
        block=plan.block,
    )
    return (_greedy_found if plan.beam == 1 else _beam_found)(segments, count, plan)


class _BlockRows(SearchRows):
    """A search on the device that writes several words per step, greedily or with a beam: its
    buffers, and the function that computes one step, which a CUDA graph records."""

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        plan: BlockPlan,
        rules: Rules,
        longest: int,
        visible: Optional[Tensor],
        capacity: int,
    ) -> None:
        self.rules, self.scoring, block, beam = rules, plan.scoring, plan.block, plan.beam
        # Before the steps are recorded.
        self._ahead = torch.arange(block, device=store.device)  # [z]
        engine.embed.reserve(min(capacity, longest))
        seen: Optional[Tensor] = None
        if visible is not None:
            # Slots behind the longest translation are never read.
            seen = torch.eye(capacity, dtype=torch.bool, device=store.device)  # [C, C]
            size = min(capacity, longest)
            seen[:size, :size] = visible[:size, :size].to(store.device)
        # Numbers of each candidate: its score and the log-probability of each word. Ids: the parent
        # beam and the words.
        candidates = beam + (beam if plan.scoring == "canonical" else beam * beam)
        width = block if beam == 1 else candidates * (1 + block)
        super().__init__(
            store,
            engine,
            source,
            start=plan.start.tolist(),
            eos=rules.eos,
            beam=beam,
            capacity=capacity,
            causal=plan.causal,
            visible=seen,
            numbers=width,
            ids=width,
        )

    def step(self) -> Tuple[Tensor, Tensor]:
        slots = self.first + self._ahead  # [z]
        full = slots >= self.limits.unsqueeze(1)  # [B, z]
        if self.beam == 1:
            return self.rules.choose(self.decoder, self.tokens, self.first, slots, full)
        logits = self.decoder.logits(self.tokens, self.first).unflatten(0, self.tokens.shape)
        log_probs = self.rules.log_probabilities(logits)  # [R, z, V]
        full = full.repeat_interleave(self.beam, 0)  # [R, z]
        ending = self.rules.restrict_ends(log_probs, slots, full).clone()  # [R, z]
        log_probs.masked_fill_(full.unsqueeze(2), float("-inf"))
        log_probs.select(2, self.rules.eos).copy_(ending)
        return self._beam(log_probs.unflatten(0, (-1, self.beam)))

    def _beam(self, log_probs: Tensor) -> Tuple[Tensor, Tensor]:
        """Continues the beam of each sentence with its best blocks, given the log-probabilities
        ``[B, N, z, V]`` of a step. Returns the results of :func:`.search.packed` for all
        candidates, flattened to ``[B, P * (1 + z)]`` each."""
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
