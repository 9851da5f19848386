"""Search with several words per step (IBDecoder, Algorithm 1): greedy, and beam search with three
kinds of scoring.

The first ``</s>`` of a block ends its hypothesis. ``canonical`` scoring ignores the words behind
it, so that a score is the true probability of a translation, and a translation takes one place in
the beam. Within a block, open and finished beginnings are kept apart: in a common pool, finished
ones, whose score falls no further, would push out open ones. A sentence is done when N hypotheses
have ended, as in ordinary beam search.

The other two score whole blocks, with the words behind ``</s>``. ``algorithm1`` is the algorithm as
printed: each hypothesis has N best blocks, every one of them with ``</s>`` finishes a hypothesis
whatever its rank, and a sentence is done with N of these, which favours short translations.
``paper`` searches as the authors' released code: among the 2 N best blocks of *all* hypotheses,
those with ``</s>`` are finished; the N best finished ones by length-normalised score are kept; and
a sentence is done when the worst of them is better than the best open hypothesis can still become.

The search runs on the device; each step transfers one packed tensor to the host, which collects the
hypotheses.
"""

from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..engine import (
    Constraints,
    DecoderState,
    DecodingStep,
    EngineEnsemble,
    Memory,
    StepHook,
    check_number,
    leave_out_finished,
    reorder,
    to_host,
)
from ..native.decoding import Hypothesis, best_first
from .candidates import Candidates, canonical_candidates, whole_candidates


@dataclass(frozen=True)
class BlockPlan:
    """The settings of a block search, which writes a block of z words per step. Slots are the
    decoder's positions in the order of writing, counted from 0.

    Attributes:
        start: LongTensor ``[z]``, start symbols, the inputs of the first step.
        block: z, words per step.
        constraints: which words each slot may write, and the length limits.
        causal: True: a slot does not see the inputs of later slots of its own step.
        visible: function (first slot of a block, device) → BoolTensor ``[z, first + z]``, the slots
            that each slot of the block may see; None: all slots.
        slots: LongTensor, 0, 1, 2, … for all slots of the longest translation.
        positions: LongTensor, the position of each slot that is reported to hooks: that of
            :func:`.slots.slot_positions`; the slot itself with more than two directions.
        beam: N, the hypotheses kept per sentence; 1 takes the best word of each slot.
        nbest: hypotheses wanted per sentence; ``paper`` scoring searches until it has as many.
        scoring: ``canonical``, ``algorithm1`` or ``paper``, see this module.
        length_penalty: ``power`` divides the log-probability of a hypothesis of t tokens by t **
            lenpen, ``gnmt`` by ((5 + t) / 6) ** lenpen (Wu et al., 2016, Eq. 14, without coverage).
        lenpen: the exponent.
        normalize: whether to apply the length penalty; False ranks by the plain log-probability.
        temperature: the number by which logits are divided before the softmax.
    """

    start: Tensor
    block: int
    constraints: Constraints
    causal: bool
    visible: Callable[[int, torch.device], Optional[Tensor]]
    slots: Tensor
    positions: Tensor
    beam: int
    nbest: int
    scoring: str
    length_penalty: str
    lenpen: float
    normalize: bool
    temperature: float

    @property
    def whole_blocks(self) -> bool:
        """Whether the words behind ``</s>`` in its block are scored."""
        return self.scoring != "canonical"

    @property
    def steps(self) -> int:
        """The number of steps that the longest translation allowed in the batch takes, its
        ``</s>`` included."""
        return -(-(self.constraints.longest_limit + 1) // self.block)

    def score(self, total: float, length: int) -> float:
        """The score of a hypothesis of ``length`` tokens whose log-probability is ``total``."""
        if not self.normalize:
            return total
        return (
            total / (length if self.length_penalty == "power" else (5 + length) / 6) ** self.lenpen
        )

    def bound(self, total: float, step: int, limit: int) -> float:
        """The best score that an open hypothesis can still reach.

        Args:
            total: log-probability of the hypothesis, which can only fall.
            step: the number of steps that the hypothesis has taken.
            limit: the most words that its translation may have.
        """
        longest = -(-(limit + 1) // self.block) * self.block
        # The penalty is monotone in the length: the best is the shortest or the longest
        # translation.
        return max(self.score(total, (step + 1) * self.block), self.score(total, longest))

    def hypothesis(self, words: List[int], log_probs: List[float], total: float) -> Hypothesis:
        """A finished hypothesis, cut after the first ``</s>``, its words in the order of the slots.

        Args:
            words: the words of all slots, ``</s>`` among them.
            log_probs: the log-probability of each of these words.
            total: log-probability of the hypothesis in the search.
        """
        end = words.index(self.constraints.eos) + 1
        length = len(words) if self.whole_blocks else end
        return Hypothesis(
            tokens=words[:end],
            score=self.score(total, length),
            positional_scores=log_probs[:end],
            token_steps=[slot // self.block + 1 for slot in range(end)],
            steps=-(-len(words) // self.block),
        )


def block_search(
    ensemble: EngineEnsemble,
    memories: List[Memory],
    plan: BlockPlan,
    *,
    hooks: Sequence[StepHook] = (),
) -> List[List[Hypothesis]]:
    """Searches, greedily or with a beam, for the translations of a batch.

    Args:
        ensemble: the models.
        memories: encoder outputs of the batch, of each model of the ensemble.
        plan: the settings of the search.
        hooks: called with a :class:`DecodingStep` after each step.

    Returns:
        The finished hypotheses of each sentence, best first, their words in the order of the slots
        (:mod:`.slots`).

    Raises:
        NumericalError: the model computed NaN.
    """
    ensemble.reserve_positions(plan.steps * plan.block)
    with torch.inference_mode():
        return (_greedy if plan.beam == 1 else _beam)(ensemble, memories, plan, hooks)


def _predict(
    ensemble: EngineEnsemble,
    states: List[DecoderState],
    words: Tensor,
    step: int,
    beams: int,
    plan: BlockPlan,
) -> Tensor:
    """Log-probabilities ``[R, z, V]`` of the next z words of R hypotheses, after constraints.

    Args:
        ensemble: the models.
        states: the decoder's cache of earlier steps, of each model; advanced in place.
        words: LongTensor ``[R, z]``, the words of the step before, or start symbols.
        step: number of the step, from 0.
        beams: hypotheses per sentence.
        plan: the settings of the search.
    """
    first = step * plan.block
    scores = ensemble.log_probabilities(
        states,
        words,
        plan.slots[first : first + plan.block],
        every=True,
        causal=plan.causal,
        visible=plan.visible(first, words.device),
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
    # Row r decodes sentence rows[r]; finished rows stay, unread, until dropping them is worth it.
    rows = list(range(len(words)))
    open_rows = set(rows)
    current = plan.start.repeat(len(rows), 1)  # [R, z]
    step = 0
    while open_rows:
        best, current = _predict(ensemble, states, current, step, 1, plan).max(-1)  # [R, z] each
        step += 1
        chosen_scores, chosen_words = to_host(best, current)  # [R, z] each
        for sentence, block, scores in zip(rows, chosen_words.tolist(), chosen_scores.tolist()):
            if sentence not in open_rows:
                continue
            check_number(sum(scores))
            words[sentence] += block
            log_probs[sentence] += scores
            if eos in block:
                open_rows.remove(sentence)
        _announce(hooks, plan, step, states[0].sentences, current, best)
        rows, current = leave_out_finished(states, rows, open_rows, current)
    found = []
    for block, scores in zip(words, log_probs):
        end = len(block) if plan.whole_blocks else block.index(eos) + 1
        found.append([plan.hypothesis(block, scores, sum(scores[:end]))])
    return found


class Written:
    """The open and the finished hypotheses of a beam search, on the host.

    Args:
        count: B, the sentences of the batch.
        plan: the settings of the search.

    Attributes:
        numbers: the B' sentences still searched, as indices into the batch.
        words, log_probs: ``[B', N, slots so far]``, the words of the open hypotheses of these
            sentences, and their log-probabilities.
        done: a list of finished hypotheses for each of the B sentences.
    """

    def __init__(self, count: int, plan: BlockPlan) -> None:
        self.plan, self.numbers = plan, list(range(count))
        self.limits: List[int] = plan.constraints.max_lengths.tolist()
        self.words = torch.empty(count, plan.beam, 0, dtype=torch.long)  # [B, N, 0]
        self.log_probs = torch.empty(count, plan.beam, 0)
        self.done: List[List[Hypothesis]] = [[] for _ in range(count)]

    def finish(self, ended: Candidates, log_probs: Tensor) -> None:
        """Adds to ``done`` the hypotheses that ended in this step.

        Args:
            ended: blocks with ``</s>``; those with the score -inf are skipped.
            log_probs: ``[B', P, z]``, log-probabilities of the words in these blocks.
        """
        plan = self.plan
        for place, column in ended.scores.gt(float("-inf")).nonzero().tolist():
            done = self.done[self.numbers[place]]
            if not plan.whole_blocks and len(done) == plan.beam:
                continue
            parent, words = int(ended.parents[place, column]), ended.words[place, column].tolist()
            # Canonical blocks have padding behind </s>.
            count = len(words) if plan.whole_blocks else words.index(plan.constraints.eos) + 1
            done.append(
                plan.hypothesis(
                    self.words[place, parent].tolist() + words[:count],
                    self.log_probs[place, parent].tolist()
                    + log_probs[place, column, :count].tolist(),
                    float(ended.scores[place, column]),
                )
            )
            if plan.whole_blocks:
                done[:] = best_first(done)
                del done[plan.beam :]

    def searched(self, totals: List[float], step: int) -> List[int]:
        """The sentences that have to be searched further, as indices into ``numbers``.

        Args:
            totals: log-probability of the best open hypothesis of each sentence in ``numbers``.
            step: the number of steps taken.
        """
        plan, kept = self.plan, []
        for place, (number, total) in enumerate(zip(self.numbers, totals)):
            done = self.done[number]
            if plan.scoring == "paper":
                bound = (
                    plan.bound(total, step, self.limits[number]) if total > float("-inf") else total
                )
                over = len(done) >= plan.nbest and (done[-1].score or 0.0) > bound
            else:
                over = len(done) >= plan.beam
            if not over and total > float("-inf"):
                kept.append(place)
        return kept

    def best(self) -> List[List[Hypothesis]]:
        """The finished hypotheses of each sentence, best first, at most as many as the beam has."""
        return [best_first(hypotheses)[: self.plan.beam] for hypotheses in self.done]

    def advance(self, kept: List[int], opened: Candidates, log_probs: Tensor) -> None:
        """Extends the open hypotheses by the blocks that were chosen, and drops sentences whose
        search is over.

        Args:
            kept: indices into ``numbers`` of the sentences that are searched further.
            opened: the chosen blocks of all sentences in ``numbers``.
            log_probs: ``[B', N, z]``, log-probabilities of the words in these blocks.
        """
        self.numbers = [self.numbers[place] for place in kept]
        places = torch.tensor(kept).unsqueeze(1)  # [B', 1]
        parents = opened.parents[kept]  # [B', N]
        # [B', N, slots so far]
        self.words = torch.cat([self.words[places, parents], opened.words[kept]], 2)
        self.log_probs = torch.cat(
            [self.log_probs[places, parents].to(log_probs), log_probs[kept]], 2
        )


def _beam(
    ensemble: EngineEnsemble, memories: List[Memory], plan: BlockPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    states = ensemble.start(memories, beams=plan.beam)
    sentences, beams, block = states[0].sentences, plan.beam, plan.block
    eos, pad, device = plan.constraints.eos, plan.constraints.pad, sentences.device
    written = Written(sentences.numel(), plan)
    current = plan.start.repeat(sentences.numel() * beams, 1)  # [R, z]
    # The N beams are equal at first: only beam 0 may have successors, or all would be copies.
    totals = torch.full((sentences.numel(), beams), float("-inf"), device=device)  # [B, N]
    totals[:, 0] = 0
    for step in range(plan.steps):
        log_probs = _predict(ensemble, states, current, step, beams, plan)  # [R, z, V]
        log_probs = log_probs.view(-1, beams, block, log_probs.size(-1))  # [B, N, z, V]
        if plan.scoring == "canonical":
            opened, ended = canonical_candidates(log_probs, totals, eos=eos, pad=pad)
        else:
            released = plan.scoring == "paper"
            opened, ended = whole_candidates(log_probs, totals, eos=eos, released=released)
        _announce(
            hooks,
            plan,
            step + 1,
            states[0].sentences,
            opened.words.flatten(0, 1),
            opened.scores.flatten(),
        )
        (here_opened, opened_parts), (here_ended, ended_parts) = unpacked(
            *to_host(*packed(opened, ended, log_probs)), opened.scores.size(1)
        )
        written.finish(here_ended, ended_parts)
        kept = written.searched(here_opened.scores[:, 0].tolist(), step + 1)
        if not kept:
            break
        count, places = len(written.numbers), torch.arange(len(written.numbers), device=device)
        written.advance(kept, here_opened, opened_parts)
        if len(kept) < count:
            places = torch.tensor(kept, device=device)  # [B']
            opened = Candidates(*(part[places] for part in opened))
        totals, current = opened.scores, opened.words.flatten(0, 1)  # [B', N], [B' * N, z]
        rows = (places.unsqueeze(1) * beams + opened.parents).flatten()  # [B' * N]
        reorder(states, rows, sentences=places if len(kept) < count else None)
    return written.best()


def packed(opened: Candidates, ended: Candidates, log_probs: Tensor) -> Tuple[Tensor, Tensor]:
    """Packs candidates and the log-probabilities of their words into two tensors, which are sent to
    the host in one transfer; the inverse of :func:`unpacked`.

    Args:
        opened, ended: blocks without and with ``</s>``.
        log_probs: ``[B, N, z, V]``, of all words in this step.

    Returns:
        (numbers, ids): two tensors ``[B, P, 1 + z]`` with a row for each of the P blocks of
        ``opened`` and then ``ended``. In ``numbers`` it holds the block's score and the
        log-probabilities of its z words; in ``ids`` its parent and its z words.
    """
    both = Candidates(*(torch.cat(parts, 1) for parts in zip(opened, ended)))
    _, _, block, vocabulary = log_probs.shape
    slots = torch.arange(block, device=log_probs.device)  # [z]
    places = (both.parents.unsqueeze(2) * block + slots) * vocabulary + both.words  # [B, P, z]
    parts = log_probs.flatten(1).gather(1, places.flatten(1)).view_as(places)  # [B, P, z]
    numbers = torch.cat([both.scores.unsqueeze(2), parts], 2)  # [B, P, 1 + z]
    return numbers, torch.cat([both.parents.unsqueeze(2), both.words], 2)


def unpacked(numbers: Tensor, ids: Tensor, count: int) -> List[Tuple[Candidates, Tensor]]:
    """Splits the tensors ``numbers`` and ``ids`` that :func:`packed` has made, on the host.

    Args:
        count: the number of blocks without ``</s>``, which come first.

    Returns:
        Two pairs (candidates, log-probabilities ``[B, P, z]`` of their words): of blocks without
        and with ``</s>``.

    Raises:
        NumericalError: the model computed NaN. topk sorts NaN first, so the scores contain it.
    """
    if bool(numbers[..., 0].isnan().any()):
        check_number(float("nan"))
    return [
        (Candidates(numbers[:, side, 0], ids[:, side, 0], ids[:, side, 1:]), numbers[:, side, 1:])
        for side in (slice(count), slice(count, None))
    ]


def _announce(
    hooks: Sequence[StepHook],
    plan: BlockPlan,
    number: int,
    sentences: Tensor,
    words: Tensor,
    scores: Tensor,
) -> None:
    first = (number - 1) * plan.block
    for hook in hooks:
        positions = plan.positions[first : first + plan.block]  # [z]
        hook(DecodingStep("bidirectional", number, sentences, positions, words, scores))
