"""Greedy and beam search over an :class:`EngineEnsemble`, equal to fairseq's ``SequenceGenerator`` in its result.

The token chosen at step i stands at position ``stride * (i + 1)``: 1 for ordinary autoregressive decoding, K for the
first stage of hybrid-regressive decoding.
"""

from dataclasses import dataclass
from typing import List, Sequence

import torch
from torch import Tensor

from .constraints import Constraints
from .ensemble import EngineEnsemble, reorder
from .hypothesis import Hypothesis
from .state import DecoderState, Memory
from .trace import DecodingStep, StepHook


class NumericalError(ArithmeticError):
    """The model computed NaN where a probability was needed."""


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
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, *, hooks: Sequence[StepHook] = ()
) -> List[List[Hypothesis]]:
    """The best hypotheses of each sentence, best first, at most ``plan.beam`` of them.

    Raises:
        NumericalError: a probability is NaN.
    """
    # No hypothesis tensor leaves this block: tensors made in inference mode cannot be changed in place later.
    with torch.inference_mode():
        chosen = _greedy if plan.beam == 1 else _beam
        return chosen(ensemble, memories, plan, hooks)


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
    # Row r decodes sentence rows[r]; a finished one stays, unread, until enough of them make moving the rest worth it.
    rows: List[int] = list(range(len(tokens)))
    open_rows = set(rows)
    current = sentences.new_full((len(rows), 1), plan.start)
    step = 0
    while open_rows:
        scores = ensemble.log_probabilities(
            states, current, positions[step : step + 1], temperature=plan.temperature
        )
        history = _token_history(plan, tokens, rows, step, sentences.device) if rules.blocker is not None else None
        best, current = rules.apply(scores, step, states[0].sentences, 1, history).max(1, keepdim=True)
        for sentence, token, log_prob in zip(rows, current[:, 0].tolist(), best[:, 0].tolist()):
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
        if open_rows and 4 * len(open_rows) <= 3 * len(rows):
            unfinished = [row for row, sentence in enumerate(rows) if sentence in open_rows]
            rows = [rows[row] for row in unfinished]
            kept = torch.tensor(unfinished, device=sentences.device)
            reorder(states, kept, sentences=kept)
            current = current[kept]
    return [[_hypothesis(plan, *pair)] for pair in zip(tokens, log_probs)]


def _token_history(plan: SearchPlan, tokens: List[List[int]], rows: List[int], step: int, device) -> Tensor:
    """``[R, step + 1]``: the start symbol and the tokens of each row; finished rows are filled up with ``</s>``."""
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
    """Tokens and cumulated log-probabilities of the N open hypotheses of each sentence."""

    def __init__(self, state: DecoderState, plan: SearchPlan) -> None:
        self.sentences, self.beams = state.sentences, plan.beam
        count = self.sentences.numel() * plan.beam
        self.tokens = self.sentences.new_full((count, plan.constraints.longest_limit + 2), plan.start)
        self.totals = torch.zeros(count, plan.constraints.longest_limit + 1, device=self.sentences.device)
        # All beams of a sentence are equal at first; only one of them may have successors.
        self.scores = torch.full((count // plan.beam, plan.beam), float("-inf"), device=self.sentences.device)
        self.scores[:, 0] = 0

    def finished(self, step: int, row: int, score: Tensor, plan: SearchPlan) -> Hypothesis:
        """The hypothesis of a row that now says ``</s>``, with cumulated log-probability ``score``."""
        tokens = self.tokens[row, 1 : step + 1].tolist() + [plan.constraints.eos]
        totals = torch.cat([self.totals[row, :step], score.view(1)])
        log_probs = torch.diff(totals, prepend=totals.new_zeros(1)).tolist()
        hypothesis = _hypothesis(plan, tokens, log_probs)
        hypothesis.score = plan.rank(float(score), len(tokens))
        return hypothesis

    def advance(self, step: int, rows: Tensor, tokens: Tensor, scores: Tensor, sentences: Tensor) -> None:
        """Continues rows ``[R']`` with ``tokens`` ``[R']``; ``scores`` is ``[B', N]``."""
        self.tokens, self.totals = self.tokens[rows], self.totals[rows]
        self.tokens[:, step + 1] = tokens
        self.totals[:, step] = scores.reshape(-1)
        self.scores, self.sentences = scores, self.sentences[sentences]


def _beam(
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    positions = _positions(plan, memories[0].lengths.device)
    states = ensemble.start(memories, beams=plan.beam, stride=plan.stride)
    rules, beams = plan.constraints, plan.beam
    table = _BeamTable(states[0], plan)
    finished: List[List[Hypothesis]] = [[] for _ in range(table.sentences.numel())]
    for step in range(rules.longest_limit + 1):
        current = table.tokens[:, step : step + 1]
        log_probs = ensemble.log_probabilities(
            states, current, positions[step : step + 1], temperature=plan.temperature
        )
        log_probs = rules.apply(log_probs, step, table.sentences, beams, table.tokens[:, : step + 1])
        vocabulary = log_probs.size(1)
        totals = log_probs.view(-1, beams, vocabulary) + table.scores.unsqueeze(-1)
        # Half of twice N candidates may be finished, and N have to remain open.
        scores, flat = totals.flatten(1).topk(min(2 * beams, beams * vocabulary - 1))
        check_number(float(scores.sum(1).max()) if bool(scores.isnan().any()) else 0.0)
        tokens, parents = flat % vocabulary, flat // vocabulary
        ends = tokens.eq(rules.eos) & scores.gt(float("-inf"))
        origin = torch.arange(len(table.sentences), device=flat.device).unsqueeze(1) * beams + parents
        numbers = table.sentences.tolist()
        for place, column in ends[:, :beams].nonzero().tolist():
            done = finished[numbers[place]]
            if len(done) < beams:
                done.append(table.finished(step, int(origin[place, column]), scores[place, column], plan))
        open_columns = _first_open(ends, beams)
        scores = scores.masked_fill(ends, float("-inf")).gather(1, open_columns)
        limits = rules.max_lengths[table.sentences].tolist()
        alive = scores[:, 0].gt(float("-inf")).tolist()
        kept = [
            place
            for place, number in enumerate(numbers)
            if len(finished[number]) < beams and step < limits[place] and alive[place]
        ]
        chosen = tokens.gather(1, open_columns)
        for hook in hooks:
            hook(DecodingStep(plan.stage, step + 1, table.sentences, positions[step + 1 : step + 2],
                              chosen.view(-1, 1), scores.view(-1)))  # fmt: skip
        if not kept:
            break
        places = torch.tensor(kept, device=flat.device)
        rows = origin.gather(1, open_columns)[places].view(-1)
        table.advance(step, rows, chosen[places].view(-1), scores[places], places)
        reorder(states, rows, sentences=places if len(kept) < len(numbers) else None)
    return [sorted(done, key=lambda hypothesis: -hypothesis.score) for done in finished]


def _first_open(ends: Tensor, beams: int) -> Tensor:
    """Columns ``[B, N]`` of the best candidates that are not finished; finished ones fill up where too few are open."""
    return ends.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beams]


def check_number(value: float) -> None:
    """Raises NumericalError for NaN."""
    if value != value:
        raise NumericalError(
            "the model computed NaN probabilities: its weights are broken (a diverged or truncated training?) "
            "or overflow in half precision; try an earlier checkpoint or decode without --fp16"
        )
