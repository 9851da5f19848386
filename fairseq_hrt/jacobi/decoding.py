"""The decoding loop: guess, check all guesses in one pass, keep what is proved."""

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence

import torch
from torch import Tensor

from ..common.constraints import Constraints
from ..common.ensemble import EngineEnsemble, reorder
from ..common.hypothesis import Hypothesis
from ..common.search import check_number
from ..common.state import DecoderState, Memory
from ..common.trace import DecodingStep, StepHook
from .drafts import Drafter
from .windows import WindowPlan


@dataclass(frozen=True)
class JacobiIteration:
    """One pass over one sentence, for pictures and statistics.

    Attributes:
        sentence: index into the batch.
        number: 1 for the first pass.
        first: proved tokens before the pass.
        guesses: the guessed tokens that were read, q - 1.
        answers: what the model said, q.
        log_probs: of the answers.
        proved: how many answers were proved right, at least 1.
    """

    sentence: int
    number: int
    first: int
    guesses: List[int]
    answers: List[int]
    log_probs: List[float]
    proved: int


IterationHook = Callable[[JacobiIteration], None]


@dataclass(frozen=True)
class JacobiPlan:
    """What is decoded.

    Attributes:
        start: id fed at position 0.
        constraints: rules for each next token.
        window: the mode.
        drafter: where guesses come from.
        filler: is guessed where nothing better is known; never padding, which would shift positions in fairseq's modules.
        temperature: divides the logits.
        rank: from (log-probability, tokens) to a score.
    """

    start: int
    constraints: Constraints
    window: WindowPlan
    drafter: Drafter
    filler: int
    temperature: float
    rank: Callable[[float, int], float]


@dataclass
class _Row:
    """A sentence that is decoded."""

    sentence: int
    limit: int
    tokens: List[int] = field(default_factory=list)
    log_probs: List[float] = field(default_factory=list)
    steps: List[int] = field(default_factory=list)
    answers: List[int] = field(default_factory=list)
    size: int = 1
    guesses: List[int] = field(default_factory=list)


def jacobi_decode(
    ensemble: EngineEnsemble,
    memories: List[Memory],
    plan: JacobiPlan,
    *,
    step_hooks: Sequence[StepHook] = (),
    iteration_hooks: Sequence[IterationHook] = (),
) -> List[Hypothesis]:
    """The greedy translation of each sentence.

    Raises:
        NumericalError: a probability is NaN.
    """
    rules, device = plan.constraints, memories[0].lengths.device
    limits = rules.max_lengths.tolist()
    rows = [_Row(sentence, limit) for sentence, limit in enumerate(limits)]
    finished: List[Optional[Hypothesis]] = [None] * len(rows)
    states = ensemble.start(memories, stride=1)
    number = 0
    while rows:
        number += 1
        inputs = _inputs(rows, plan)
        width = len(inputs[0])
        tokens = torch.tensor(inputs, device=device)
        log_probs = ensemble.log_probabilities(
            states, tokens, _positions(rows, width, rules.longest_limit, device), every=True, temperature=plan.temperature
        )
        _restrict(log_probs, rows, plan, states[0].sentences)
        best, chosen = log_probs.max(-1)
        scores, answers = best.tolist(), chosen.tolist()
        for row, row_answers, row_scores in zip(rows, answers, scores):
            _accept(row, row_answers, row_scores, plan, number, iteration_hooks)
        for hook in step_hooks:
            places = torch.tensor([[len(row.tokens)] for row in rows], device=device)
            last = torch.tensor([row.tokens[-1:] for row in rows], device=device)
            hook(DecodingStep(plan.window.mode, number, states[0].sentences, places, last, best[:, 0]))
        kept = []
        for place, row in enumerate(rows):
            if row.tokens[-1] == rules.eos:
                finished[row.sentence] = _hypothesis(row, plan)
                plan.drafter.learn(row.tokens)
            else:
                kept.append(place)
        rows = [rows[place] for place in kept]
        if rows:
            _advance(states, rows, kept, width, device)
    return finished


def _inputs(rows: List[_Row], plan: JacobiPlan) -> List[List[int]]:
    """The last proved token and the guesses of each row, filled up to the widest one."""
    inputs = []
    for row in rows:
        row.size = plan.window.size(len(row.tokens), row.limit)
        row.guesses = []
        if row.size > 1:
            guesses = plan.drafter.propose(row.sentence, row.tokens, row.answers, row.size - 1)
            row.guesses = guesses + [plan.filler] * (row.size - 1 - len(guesses))
        inputs.append([row.tokens[-1] if row.tokens else plan.start, *row.guesses])
    width = max(map(len, inputs))
    return [line + [plan.filler] * (width - len(line)) for line in inputs]


def _positions(rows: List[_Row], width: int, longest: int, device: torch.device) -> Tensor:
    """LongTensor ``[q]`` where all rows stand at the same place, else ``[R, q]``."""
    firsts = [len(row.tokens) for row in rows]
    ahead = torch.arange(width, device=device)
    if len(set(firsts)) == 1:
        return (ahead + firsts[0]).clamp_(max=longest)
    return (torch.tensor(firsts, device=device).unsqueeze(1) + ahead).clamp_(max=longest)


def _restrict(log_probs: Tensor, rows: List[_Row], plan: JacobiPlan, sentences: Tensor) -> None:
    """Applies every rule to every position of the windows, ``[R, q, V]``, in place."""
    rules, width = plan.constraints, log_probs.size(1)
    firsts = [len(row.tokens) for row in rows]
    if rules.apply_to_all(log_probs, min(firsts), max(firsts) + width):
        return
    lines = [[plan.start, *row.tokens, *row.guesses] for row in rows]
    for place, (first, row) in enumerate(zip(firsts, rows)):
        for column in range(row.size):
            history = None
            if rules.blocker is not None:
                history = torch.tensor([lines[place][: first + column + 1]], device=log_probs.device)
            rules.apply(
                log_probs[place, column : column + 1], first + column, sentences[place : place + 1], 1, history
            )


def _accept(
    row: _Row, answers: List[int], scores: List[float], plan: JacobiPlan, number: int, hooks: Sequence[IterationHook]
) -> None:
    """Appends the proved answers: the first, and each whose guess in front agrees with the answer before it."""
    eos, first = plan.constraints.eos, len(row.tokens)
    proved = 0
    while True:
        check_number(scores[proved])
        proved += 1
        token = answers[proved - 1]
        if token == eos or proved == row.size or row.guesses[proved - 1] != token:
            break
    row.tokens += answers[:proved]
    row.log_probs += scores[:proved]
    row.steps += [number] * proved
    row.answers = answers[proved : row.size] if plan.window.keeps_answers(len(row.tokens)) else []
    if plan.window.mode == "frontier" and row.answers and row.guesses[proved - 1] != plan.filler:
        # Answers behind a wrong word are worse than those behind a filler, which the next pass gives.
        row.answers = []
    if hooks:
        size = row.size
        iteration = JacobiIteration(row.sentence, number, first, row.guesses, answers[:size], scores[:size], proved)
        for hook in hooks:
            hook(iteration)


def _advance(states: List[DecoderState], rows: List[_Row], kept: List[int], width: int, device: torch.device) -> None:
    """Forgets wrong guesses and, once enough rows have finished, those rows."""
    if len(kept) < states[0].rows:
        index = torch.tensor(kept, device=device)
        reorder(states, index, sentences=index)
    lengths = [len(row.tokens) for row in rows]
    # The last proved token has not been read yet: the cache holds the start symbol and the others.
    if len(set(lengths)) == 1 and states[0].lengths is None:
        for state in states:
            state.rollback(lengths[0])
        return
    together = torch.tensor(lengths, device=device)
    for state in states:
        state.rollback(together)


def _hypothesis(row: _Row, plan: JacobiPlan) -> Hypothesis:
    return Hypothesis(
        tokens=row.tokens,
        score=plan.rank(sum(row.log_probs), len(row.tokens)),
        positional_scores=row.log_probs,
        token_steps=row.steps,
        steps=row.steps[-1],
    )
