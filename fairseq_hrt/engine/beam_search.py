"""Greedy and beam search over an :class:`EngineEnsemble`, equal to fairseq's ``SequenceGenerator``
in its result.

The token chosen at step i stands at position ``stride * (i + 1)``: 1 for ordinary autoregressive
decoding, K for the first stage of hybrid-regressive decoding.
"""

import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from ..native.decoding import Hypothesis, NumericalError, best_first
from .cache import DecoderState, Memory
from .constraints import Constraints
from .ensemble import EngineEnsemble, reorder
from .steps import DecodingStep, StepHook
from .transfer import lists_to_host


@dataclass(frozen=True)
class SearchPlan:
    """What is searched.

    Attributes:
        start: id fed at position 0.
        stride: distance between the positions of neighbouring tokens.
        constraints: rules for each next token.
        beam: N; 1 is greedy search.
        lenpen: hypotheses are ranked by log-probability / length ** lenpen.
        normalize: False ranks by the plain log-probability.
        temperature: divides the logits.
        stage: the name under which steps are announced.
    """

    start: int
    constraints: Constraints
    stride: int = 1
    beam: int = 1
    lenpen: float = 1.0
    normalize: bool = True
    temperature: float = 1.0
    stage: str = "autoregressive"

    def rank(self, log_prob: float, length: int) -> float:
        """The score that hypotheses are compared by."""
        return log_prob / length**self.lenpen if self.normalize else log_prob


def search(
    ensemble: EngineEnsemble,
    memories: List[Memory],
    plan: SearchPlan,
    *,
    hooks: Sequence[StepHook] = (),
) -> List[List[Hypothesis]]:
    """The best hypotheses of each sentence, best first, at most ``plan.beam`` of them.

    Raises:
        NumericalError: a probability is NaN.
    """
    # No hypothesis tensor leaves this block: tensors made in inference mode cannot be changed in
    # place later.
    with torch.inference_mode():
        chosen = _greedy if plan.beam == 1 else _beam
        return require_found(chosen(ensemble, memories, plan, hooks))


def _positions(plan: SearchPlan, device: torch.device) -> Tensor:
    """Positions of all inputs, the start symbol first."""
    return torch.arange(plan.constraints.longest_limit + 2, device=device) * plan.stride


def _greedy(
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    positions = _positions(plan, memories[0].lengths.device)
    states = ensemble.start(memories, stride=plan.stride)
    rules = plan.constraints
    sentences = states[0].sentences
    tokens: List[List[int]] = [[] for _ in range(sentences.numel())]
    log_probs: List[List[float]] = [[] for _ in tokens]
    # Row r decodes sentence rows[r]; a finished one stays, unread, until enough of them make moving
    # the rest worth it.
    rows: List[int] = list(range(len(tokens)))
    open_rows = set(rows)
    current = sentences.new_full((len(rows), 1), plan.start)
    step = 0
    while open_rows:
        scores = ensemble.log_probabilities(
            states, current, positions[step : step + 1], temperature=plan.temperature
        )
        history = (
            _token_history(plan, tokens, rows, step, sentences.device)
            if rules.blocker is not None
            else None
        )
        best, current = rules.apply(scores, step, states[0].sentences, 1, history).max(
            1, keepdim=True
        )
        for sentence, (token,), (log_prob,) in zip(rows, *lists_to_host(current, best)):
            if sentence not in open_rows:
                continue
            check_number(log_prob)
            tokens[sentence].append(token)
            log_probs[sentence].append(log_prob)
            if token == rules.eos:
                open_rows.remove(sentence)
        step += 1
        for hook in hooks:
            place = positions[step : step + 1]
            hook(DecodingStep(plan.stage, step, states[0].sentences, place, current, best[:, 0]))
        rows, current = leave_out_finished(states, rows, open_rows, current)
    return [[_hypothesis(plan, *pair)] for pair in zip(tokens, log_probs)]


def leave_out_finished(
    states: List[DecoderState], rows: List[int], open_rows: Set[int], current: Tensor
) -> Tuple[List[int], Tensor]:
    """Row and current tokens of each sentence, of the open ones alone once a quarter is finished:
    moving them costs, too.

    Args:
        states: of the models, one row a sentence; moved with them.
        rows: which sentence each row decodes.
        open_rows: the sentences that continue.
        current: LongTensor ``[R, z]``.
    """
    if not open_rows or 4 * len(open_rows) > 3 * len(rows):
        return rows, current
    unfinished = [row for row, sentence in enumerate(rows) if sentence in open_rows]
    kept = torch.tensor(unfinished, device=current.device)
    reorder(states, kept, sentences=kept)
    return [rows[row] for row in unfinished], current[kept]


def _token_history(
    plan: SearchPlan, tokens: List[List[int]], rows: List[int], step: int, device: torch.device
) -> Tensor:
    """``[R, step + 1]``: the start symbol and the tokens of each row; finished rows are filled up
    with ``</s>``."""
    eos = plan.constraints.eos
    lines = [[plan.start] + tokens[row] + [eos] * (step - len(tokens[row])) for row in rows]
    return torch.tensor(lines, device=device)


def _hypothesis(plan: SearchPlan, tokens: List[int], log_probs: List[float]) -> Hypothesis:
    length = len(tokens)
    return Hypothesis(
        tokens=tokens,
        score=plan.rank(sum(log_probs), length),
        positional_scores=log_probs,
        token_steps=list(range(1, length + 1)),
        steps=length,
    )


class _BeamTable:
    """The N open hypotheses of each sentence: on the device, what the next step needs; what it
    leaves behind as a chain of parents, of which the host reads the whole once, at the end."""

    def __init__(self, state: DecoderState, plan: SearchPlan) -> None:
        self.plan, self.sentences = plan, state.sentences
        self.numbers: List[int] = list(range(self.sentences.numel()))
        count = self.sentences.numel() * plan.beam
        # All beams of a sentence are equal at first; only one of them may have successors.
        self.scores = torch.full(
            (count // plan.beam, plan.beam), float("-inf"), device=self.sentences.device
        )
        self.scores[:, 0] = 0
        self.current = self.sentences.new_full((count, 1), plan.start)
        # Only where a rule asks for it.
        self.history = None if plan.constraints.blocker is None else self.current
        # Of each step the parents and tokens ``[2, R]`` and the cumulated log-probabilities ``[R]``
        # of the rows that continued.
        self._links: List[Tensor] = []
        self._totals: List[Tensor] = []
        # (step, row, cumulated log-probability) of each finished hypothesis of each sentence.
        self.finished: List[List[Tuple[int, int, float]]] = [[] for _ in self.numbers]

    def advance(
        self, rows: Tensor, tokens: Tensor, scores: Tensor, kept: Sequence[int]
    ) -> Optional[Tensor]:
        """Continues rows ``[R']`` with ``tokens`` ``[R']``; ``scores`` is ``[B', N]``.

        Args:
            kept: the places of the B' sentences among the present ones.

        Returns:
            These places as a LongTensor; None when all sentences stay.
        """
        self._links.append(torch.stack([rows, tokens]))
        self._totals.append(scores.reshape(-1))
        self.current, self.scores = tokens.unsqueeze(1), scores
        if self.history is not None:
            self.history = torch.cat([self.history[rows], self.current], 1)
        if len(kept) == len(self.numbers):
            return None
        places = torch.tensor(kept, device=rows.device)
        self.sentences, self.numbers = (
            self.sentences[places],
            [self.numbers[place] for place in kept],
        )
        return places

    def hypotheses(self) -> List[List[Hypothesis]]:
        """The finished hypotheses of each sentence, best first."""
        sizes = [totals.numel() for totals in self._totals]
        links: List[List[List[int]]] = []
        totals: List[List[float]] = []
        if sizes:
            parents, tokens = torch.cat(self._links, 1).tolist()
            sums, end = torch.cat(self._totals).tolist(), 0
            for size in sizes:
                start, end = end, end + size
                links.append([parents[start:end], tokens[start:end]])
                totals.append(sums[start:end])
        found = [[self._traced(links, totals, *end) for end in ends] for ends in self.finished]
        return [best_first(done) for done in found]

    def _traced(
        self,
        links: List[List[List[int]]],
        totals: List[List[float]],
        step: int,
        row: int,
        total: float,
    ) -> Hypothesis:
        """The hypothesis of ``row`` that writes ``</s>`` in ``step`` with the cumulated
        log-probability ``total``."""
        tokens, sums = [self.plan.constraints.eos], [total]
        for (parents, words), before in zip(reversed(links[:step]), reversed(totals[:step])):
            tokens.append(words[row])
            sums.append(before[row])
            row = parents[row]
        tokens.reverse()
        sums.reverse()
        log_probs = [after - before for before, after in zip([0.0, *sums], sums)]
        hypothesis = _hypothesis(self.plan, tokens, log_probs)
        hypothesis.score = self.plan.rank(total, len(tokens))
        return hypothesis


def _beam(
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    positions = _positions(plan, memories[0].lengths.device)
    states = ensemble.start(memories, beams=plan.beam, stride=plan.stride)
    rules, beams = plan.constraints, plan.beam
    table = _BeamTable(states[0], plan)
    for step in range(rules.longest_limit + 1):
        log_probs = ensemble.log_probabilities(
            states, table.current, positions[step : step + 1], temperature=plan.temperature
        )
        log_probs = rules.apply(log_probs, step, table.sentences, beams, table.history)
        vocabulary = log_probs.size(1)
        totals = log_probs.view(-1, beams, vocabulary) + table.scores.unsqueeze(-1)
        # Up to N of the 2N candidates may be </s>, so 2N guarantee that N stay open.
        scores, flat = totals.flatten(1).topk(min(2 * beams, beams * vocabulary - 1))
        tokens, parents = flat % vocabulary, flat // vocabulary
        ends = tokens.eq(rules.eos) & scores.gt(float("-inf"))
        open_columns = _first_open(ends, beams)
        open_scores = scores.masked_fill(ends, float("-inf")).gather(1, open_columns)
        kept = []
        # One transfer from the device: what has ended, its row, and the best of what has not. NaN
        # would be the best.
        ended = scores[:, :beams].masked_fill(~ends[:, :beams], float("-inf"))
        digest = torch.cat([ended, parents[:, :beams].to(scores.dtype), open_scores[:, :1]], 1)
        for place, (number, line) in enumerate(zip(table.numbers, digest.tolist())):
            check_number(line[-1])
            done = table.finished[number]
            for column in range(beams):
                if line[column] > -math.inf and len(done) < beams:
                    done.append((step, place * beams + int(line[beams + column]), line[column]))
            if len(done) < beams and step < rules.limits[number] and line[-1] > -math.inf:
                kept.append(place)
        chosen = tokens.gather(1, open_columns)
        for hook in hooks:
            hook(DecodingStep(plan.stage, step + 1, table.sentences, positions[step + 1 : step + 2],
                              chosen.view(-1, 1), open_scores.view(-1)))  # fmt: skip
        if not kept:
            break
        rows = parents.gather(1, open_columns) + torch.arange(
            0, len(table.numbers) * beams, beams, device=flat.device
        ).unsqueeze(1)
        if len(kept) < len(table.numbers):
            places = torch.tensor(kept, device=flat.device)
            rows, chosen, open_scores = rows[places], chosen[places], open_scores[places]
        rows = rows.view(-1)
        reorder(states, rows, sentences=table.advance(rows, chosen.view(-1), open_scores, kept))
    return table.hypotheses()


def _first_open(ends: Tensor, beams: int) -> Tensor:
    """Columns ``[B, N]`` of the best candidates that are not finished; finished ones fill up where
    too few are open."""
    return ends.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beams]


def require_found(hypotheses: List[List[Hypothesis]]) -> List[List[Hypothesis]]:
    """Raises NumericalError for a sentence without any hypothesis."""
    if not all(hypotheses):
        raise NumericalError.because("no translation of the model has a probability above 0")
    return hypotheses


def check_number(value: float) -> None:
    """Raises NumericalError for NaN."""
    if value != value:
        raise NumericalError.because("the model computed NaN probabilities")
