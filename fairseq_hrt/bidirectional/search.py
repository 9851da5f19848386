"""Search with several words a step (IBDecoder, Algorithm 1): greedy, and beam search in two scorings.

The words of one step are independent of each other given the earlier steps, so the N best blocks of a hypothesis are
found slot by slot: extend the N best beginnings by the N best words, keep the N best. That is exact, since whatever
follows costs the same after every beginning of the *same* hypothesis; hypotheses are merged when their blocks are whole.

A block in which ``</s>`` occurs ends its hypothesis at the first one. ``canonical`` scoring stops counting there, so
that a block is an outcome with its true probability and a sentence occupies one place in the beam. Open and finished
beginnings are kept apart meanwhile: in one pool of N those that have ended early, and cost nothing any more, would push
out those that the open part of the beam still needs. ``paper`` scoring counts whole blocks, as published:
it keeps the N best blocks of each hypothesis and takes every one that contains ``</s>`` as finished.
"""

from dataclasses import dataclass
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..common.constraints import Constraints
from ..common.ensemble import EngineEnsemble, reorder
from ..common.hypothesis import Hypothesis
from ..common.search import check_number
from ..common.state import Memory
from ..common.trace import DecodingStep, StepHook


@dataclass(frozen=True)
class BlockPlan:
    """What to search for.

    Attributes:
        start: id of the start symbol.
        block: z, words of one step.
        constraints: rules for single slots.
        causal: a word of a step does not see the step's inputs to its right.
        visible: which slots the block beginning at a slot may see, ``[z, first + z]``; None: all.
        beam: N; 1 takes the best word of each slot.
        paper_scoring: see this module's text.
        lenpen, normalize: hypotheses are ranked by score / length ** lenpen.
        temperature: of the softmax.
        slots: LongTensor, 0, 1, 2, … for all slots of the longest translation.
        positions: LongTensor, signed positions of the slots for hooks.
    """

    start: int
    block: int
    constraints: Constraints
    causal: bool
    visible: Callable[[int], Optional[Tensor]]
    slots: Tensor
    positions: Tensor
    beam: int = 1
    paper_scoring: bool = False
    lenpen: float = 1.0
    normalize: bool = True
    temperature: float = 1.0

    @property
    def steps(self) -> int:
        """Most steps of a batch: the longest translation and its ``</s>``."""
        return -(-(self.constraints.longest_limit + 1) // self.block)

    def hypothesis(self, words: List[int], log_probs: List[float], total: float) -> Hypothesis:
        """A finished hypothesis from all it has written, in the order of writing.

        Args:
            words, log_probs: of all slots, ``</s>`` among them.
            total: what the search has counted.
        """
        end = words.index(self.constraints.eos) + 1
        length = len(words) if self.paper_scoring else end
        return Hypothesis(
            tokens=words[:end],
            score=total / length**self.lenpen if self.normalize else total,
            positional_scores=log_probs[:end],
            token_steps=[slot // self.block + 1 for slot in range(end)],
            steps=-(-len(words) // self.block),
        )


def block_search(
    ensemble: EngineEnsemble, memories: List[Memory], plan: BlockPlan, *, hooks: Sequence[StepHook] = ()
) -> List[List[Hypothesis]]:
    """Finished hypotheses of each sentence, best first, their words in the order of writing.

    Raises:
        NumericalError: the model computed NaN.
    """
    ensemble.reserve_positions(plan.steps * plan.block)
    with torch.inference_mode():
        return (_greedy if plan.beam == 1 else _beam)(ensemble, memories, plan, hooks)


def _predict(ensemble: EngineEnsemble, states, words: Tensor, step: int, beams: int, plan: BlockPlan) -> Tensor:
    """Log-probabilities ``[R, z, V]`` of the next block after the rules; ``words`` ``[R, z]`` is the block before."""
    first = step * plan.block
    scores = ensemble.log_probabilities(
        states,
        words,
        plan.slots[first : first + plan.block],
        every=True,
        causal=plan.causal,
        visible=plan.visible(first),
        temperature=plan.temperature,
    )
    rules, sentences = plan.constraints, states[0].sentences
    if not rules.apply_to_all(scores, first, first + plan.block):
        for place in range(plan.block):
            rules.apply(scores[:, place], first + place, sentences, beams, None)
    return scores


def _greedy(
    ensemble: EngineEnsemble, memories: List[Memory], plan: BlockPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    states = ensemble.start(memories)
    sentences, eos = states[0].sentences, plan.constraints.eos
    words: List[List[int]] = [[] for _ in range(sentences.numel())]
    log_probs: List[List[float]] = [[] for _ in words]
    # Row r decodes sentence rows[r]; finished ones stay, unread, until dropping them is worth the copy.
    rows = list(range(len(words)))
    open_rows = set(rows)
    current = sentences.new_full((len(rows), plan.block), plan.start)
    step = 0
    while open_rows:
        best, current = _predict(ensemble, states, current, step, 1, plan).max(-1)
        step += 1
        for sentence, block, scores in zip(rows, current.tolist(), best.tolist()):
            if sentence not in open_rows:
                continue
            check_number(sum(scores))
            words[sentence] += block
            log_probs[sentence] += scores
            if eos in block:
                open_rows.remove(sentence)
        _announce(hooks, plan, step, states[0].sentences, current, best)
        if open_rows and 4 * len(open_rows) <= 3 * len(rows):
            unfinished = [row for row, sentence in enumerate(rows) if sentence in open_rows]
            rows = [rows[row] for row in unfinished]
            kept = torch.tensor(unfinished, device=sentences.device)
            reorder(states, kept, sentences=kept)
            current = current[kept]
    found = []
    for block, scores in zip(words, log_probs):
        end = len(block) if plan.paper_scoring else block.index(eos) + 1
        found.append([plan.hypothesis(block, scores, sum(scores[:end]))])
    return found


class Blocks(NamedTuple):
    """Blocks, or beginnings of blocks, that continue G hypotheses, P for each.

    Attributes:
        scores: ``[G, P]``, log-probabilities; -inf marks an empty place.
        words: LongTensor ``[G, P, i]``.
    """

    scores: Tensor
    words: Tensor

    def join(self, other: "Blocks") -> "Blocks":
        """Both together."""
        return Blocks(torch.cat([self.scores, other.scores], 1), torch.cat([self.words, other.words], 1))

    def best(self, count: int) -> "Blocks":
        """The ``count`` best, in order."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))
        return Blocks(scores, self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2))))

    def extend(self, scores: Tensor, words: Tensor) -> "Blocks":
        """Every beginning with every next word, given by ``scores`` ``[G, K]`` and ``words`` ``[G, K]``."""
        groups, count = self.scores.shape
        choices = scores.size(1)
        totals = (self.scores.unsqueeze(2) + scores.unsqueeze(1)).flatten(1)
        before = self.words.unsqueeze(2).expand(-1, -1, choices, -1).reshape(groups, count * choices, -1)
        last = words.unsqueeze(1).expand(-1, count, -1).reshape(groups, -1, 1)
        return Blocks(totals, torch.cat([before, last], 2))

    def pad(self, pad: int) -> "Blocks":
        """Each with a pad behind it, which costs nothing."""
        return Blocks(self.scores, torch.cat([self.words, self.words.new_full((*self.scores.shape, 1), pad)], 2))


def _nothing(log_probs: Tensor) -> Blocks:
    """One empty beginning for each hypothesis."""
    zeros = log_probs.new_zeros(log_probs.size(0), 1)
    return Blocks(zeros, zeros.long().unsqueeze(2)[..., :0])


def fold_canonical(log_probs: Tensor, count: int, *, eos: int, pad: int) -> Tuple[Blocks, Blocks]:
    """The best open and the best finished blocks of every hypothesis.

    Args:
        log_probs: ``[G, z, V]``.
        count: how many of each.

    Returns:
        (open, finished); finished ones are filled up with pad behind ``</s>``.
    """
    ends = log_probs[..., eos]
    others = log_probs.clone()
    others[..., eos] = float("-inf")
    likely, words = others.topk(min(count, others.size(-1)))
    opened = _nothing(log_probs)
    finished = Blocks(opened.scores[:, :0], opened.words[:, :0])
    ending = words.new_full((len(ends), 1), eos)
    for slot in range(log_probs.size(1)):
        finished = finished.pad(pad).join(opened.extend(ends[:, slot : slot + 1], ending)).best(count)
        opened = opened.extend(likely[:, slot], words[:, slot]).best(count)
    return opened, finished


def fold_paper(log_probs: Tensor, count: int) -> Blocks:
    """The ``count`` best blocks of every hypothesis, ``log_probs`` ``[G, z, V]`` (Algorithm 1, lines 10 to 14)."""
    likely, words = log_probs.topk(min(count, log_probs.size(-1)))
    blocks = _nothing(log_probs)
    for slot in range(log_probs.size(1)):
        blocks = blocks.extend(likely[:, slot], words[:, slot]).best(count)
    return blocks


class _Candidates(NamedTuple):
    """Blocks of all hypotheses of a sentence: ``[B, P]``, ``[B, P]`` and ``[B, P, z]``."""

    scores: Tensor
    parents: Tensor
    words: Tensor

    @classmethod
    def of(cls, blocks: Blocks, scores: Tensor) -> "_Candidates":
        """Blocks of B * N hypotheses, whose scores so far are ``[B, N]``, best first."""
        batch, beams = scores.shape
        count = blocks.scores.size(1)
        totals = (blocks.scores.view(batch, beams, count) + scores.unsqueeze(2)).flatten(1)
        parents = torch.arange(beams, device=scores.device).repeat_interleave(count).expand(batch, -1)
        return cls(totals, parents, blocks.words.view(batch, beams * count, -1)).best(beams * count)

    def best(self, count: int) -> "_Candidates":
        """The ``count`` best, in order."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))
        words = self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2)))
        return _Candidates(scores, self.parents.gather(1, places), words)


def canonical_candidates(
    log_probs: Tensor, scores: Tensor, *, eos: int, pad: int
) -> Tuple[_Candidates, _Candidates]:
    """The N best open continuations of each sentence, and those that have ended among its N best of both kinds.

    Args:
        log_probs: ``[B, N, z, V]``.
        scores: ``[B, N]``, of the hypotheses so far.
    """
    beams = scores.size(1)
    opened, ended = (
        _Candidates.of(blocks, scores).best(beams)
        for blocks in fold_canonical(log_probs.flatten(0, 1), beams, eos=eos, pad=pad)
    )
    # As in one-word search: what has ended is finished if it is among the N best of all.
    both = torch.cat([ended.scores, opened.scores], 1)
    ranks = both.argsort(dim=1, descending=True, stable=True).argsort(1)[:, : ended.scores.size(1)]
    return opened, ended._replace(scores=ended.scores.masked_fill(ranks >= beams, float("-inf")))


def paper_candidates(log_probs: Tensor, scores: Tensor, *, eos: int) -> Tuple[_Candidates, _Candidates]:
    """The N best open continuations of each sentence, and every block with ``</s>`` among the N best of a hypothesis."""
    beams = scores.size(1)
    everything = _Candidates.of(fold_paper(log_probs.flatten(0, 1), beams), scores)
    over = everything.words.eq(eos).any(-1)
    opened = everything._replace(scores=everything.scores.masked_fill(over, float("-inf"))).best(beams)
    return opened, everything._replace(scores=everything.scores.masked_fill(~over, float("-inf")))


class _Table:
    """Words and log-probabilities of the N open hypotheses of each sentence still searched."""

    def __init__(self, sentences: Tensor, plan: BlockPlan) -> None:
        count, slots = sentences.numel() * plan.beam, plan.steps * plan.block
        self.words = sentences.new_full((count, slots), plan.constraints.pad)
        self.log_probs = torch.zeros(count, slots, device=sentences.device)
        # All hypotheses of a sentence are equal at first; only one of them may have successors.
        self.scores = torch.full((sentences.numel(), plan.beam), float("-inf"), device=sentences.device)
        self.scores[:, 0] = 0

    def advance(self, rows: Tensor, first: int, words: Tensor, log_probs: Tensor, scores: Tensor) -> None:
        """Continues ``rows`` ``[R']`` with blocks ``[R', z]``; ``scores`` is ``[B', N]``."""
        self.words, self.log_probs, self.scores = self.words[rows], self.log_probs[rows], scores
        self.words[:, first : first + words.size(1)] = words
        self.log_probs[:, first : first + words.size(1)] = log_probs


def _beam(
    ensemble: EngineEnsemble, memories: List[Memory], plan: BlockPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    states = ensemble.start(memories, beams=plan.beam)
    sentences, beams, block = states[0].sentences, plan.beam, plan.block
    eos, pad = plan.constraints.eos, plan.constraints.pad
    table = _Table(sentences, plan)
    done: List[List[Hypothesis]] = [[] for _ in range(sentences.numel())]
    current = sentences.new_full((sentences.numel() * beams, block), plan.start)
    for step in range(plan.steps):
        log_probs = _predict(ensemble, states, current, step, beams, plan)
        log_probs = log_probs.view(-1, beams, block, log_probs.size(-1))
        _check(log_probs)
        if plan.paper_scoring:
            opened, ended = paper_candidates(log_probs, table.scores, eos=eos)
        else:
            opened, ended = canonical_candidates(log_probs, table.scores, eos=eos, pad=pad)
        numbers = states[0].sentences.tolist()
        for place, column in ended.scores.gt(float("-inf")).nonzero().tolist():
            hypotheses = done[numbers[place]]
            if plan.paper_scoring or len(hypotheses) < beams:
                parent, words = int(ended.parents[place, column]), ended.words[place, column]
                row, count = place * beams + parent, int(words.ne(pad).sum())
                chosen = log_probs[place, parent, torch.arange(count), words[:count]].tolist()
                written = table.words[row, : step * block].tolist() + words[:count].tolist()
                scores = table.log_probs[row, : step * block].tolist() + chosen
                hypotheses.append(plan.hypothesis(written, scores, float(ended.scores[place, column])))
        alive = opened.scores[:, 0].gt(float("-inf")).tolist()
        kept = [place for place, number in enumerate(numbers) if len(done[number]) < beams and alive[place]]
        _announce(hooks, plan, step + 1, states[0].sentences, opened.words.flatten(0, 1), opened.scores.flatten())
        if not kept:
            break
        places = torch.tensor(kept, device=sentences.device)
        opened = _Candidates(*(part[places] for part in opened))
        rows = (places.unsqueeze(1) * beams + opened.parents).flatten()
        picked = log_probs[places.unsqueeze(1), opened.parents].gather(3, opened.words.unsqueeze(-1)).squeeze(-1)
        current = opened.words.flatten(0, 1)
        table.advance(rows, step * block, current, picked.flatten(0, 1), opened.scores)
        reorder(states, rows, sentences=places if len(kept) < len(numbers) else None)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beams] for hypotheses in done]


def _check(log_probs: Tensor) -> None:
    if bool(log_probs.isnan().any()):
        check_number(float("nan"))


def _announce(
    hooks: Sequence[StepHook], plan: BlockPlan, number: int, sentences: Tensor, words: Tensor, scores: Tensor
) -> None:
    first = (number - 1) * plan.block
    for hook in hooks:
        positions = plan.positions[first : first + plan.block]
        hook(DecodingStep("bidirectional", number, sentences, positions, words, scores))
