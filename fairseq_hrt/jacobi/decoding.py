"""The decoding loop: guess several tokens, check all guesses in one pass (a call of the decoder),
keep the verified tokens, those known to be the tokens of greedy search.

A pass predicts the next token after the last verified token and after each guess. The first
prediction is verified; each further one is verified if the guess before it equals the prediction
before it. For example, after «the» the guesses are «big dog»; the pass answers «big cat sat»: «big»
and «cat» are verified, «sat» is not, for it follows the wrong guess «dog».
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Protocol, Sequence, Tuple

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
    reorder,
    to_host,
)
from ..native.decoding import Hypothesis
from .drafts import Drafter
from .windows import WindowPlan


@dataclass(frozen=True)
class JacobiIteration:
    """One pass over one sentence, reported to hooks for pictures and statistics.

    Attributes:
        sentence: index into the batch.
        number: number of the pass, from 1.
        first: number of tokens that earlier passes had verified to be those of greedy search.
        guesses: ids of the q - 1 guesses that the pass read after the last verified token.
        answers: ids of the q tokens that the model predicted, after that token and each guess.
        log_probs: log-probabilities of the answers.
        verified: how many answers the pass has verified, at least 1.
    """

    sentence: int
    number: int
    first: int
    guesses: List[int]
    answers: List[int]
    log_probs: List[float]
    verified: int


IterationHook = Callable[[JacobiIteration], None]


@dataclass(frozen=True)
class JacobiPlan:
    """The settings of decoding.

    Attributes:
        start: id of the start symbol, fed at position 0.
        constraints: constraints on each next token.
        window: how many tokens each pass reads.
        drafter: proposes guesses.
        filler: id of the token guessed where the drafter has no proposal. It may be ``<pad>``: this
            is read as a word, since positions are given explicitly.
        temperature: divides the logits.
        rank: function from (log-probability, number of tokens) to the score of a translation.
        known_length: whether to count steps as the paper does. The paper's algorithm needs one more
            iteration per block to see that nothing changes; this one stops as soon as the last word
            is verified.
    """

    start: int
    constraints: Constraints
    window: WindowPlan
    drafter: Drafter
    filler: int
    temperature: float
    rank: Callable[[float, int], float]
    known_length: bool = False


@dataclass
class Row:
    """A sentence being decoded.

    Attributes:
        sentence: index into the batch.
        limit: most words of the translation, without ``</s>``.
        done: whether ``</s>`` is verified.
        tokens: ids of the verified tokens, those of greedy search.
        log_probs, steps: the log-probability of each verified token, and the number of the pass
            that verified it.
        answers: predictions of the last pass that are kept, as guesses for the next pass.
        size: q, the number of tokens that the next pass reads: the last verified one and
            ``guesses``.
        guesses: ids of the q - 1 tokens guessed after the last verified one.
    """

    sentence: int
    limit: int
    done: bool = False
    tokens: List[int] = field(default_factory=list)
    log_probs: List[float] = field(default_factory=list)
    steps: List[int] = field(default_factory=list)
    answers: List[int] = field(default_factory=list)
    size: int = 1
    guesses: List[int] = field(default_factory=list)
    # Tokens of the present block, passes over it so far, and, over all blocks, the iterations that
    # the paper's algorithm would add to see that nothing changes.
    block: int = 0
    passes: int = 0
    unchanged: int = 0


class Reader(Protocol):
    """Runs the model over the next tokens of all rows (sentences): the last verified token and the
    guesses; keeps the model's cache of earlier tokens."""

    device: torch.device

    def read(
        self, rows: List[Row], inputs: List[List[int]]
    ) -> Tuple[List[List[float]], List[List[int]]]:
        """The most probable next word after each token of ``inputs``, as (log-probabilities, ids),
        both with the shape of ``inputs``.

        Args:
            rows: the sentences.
            inputs: the tokens to read, as many for each row.
        """

    def advance(self, rows: List[Row]) -> List[Row]:
        """Removes wrong guesses from the cache. Returns the rows for the next :meth:`read`, perhaps
        without finished ones."""


class StepReader:
    """A :class:`Reader` that feeds the guessed tokens of a pass to the decoders of an ensemble,
    which keep earlier tokens in their caches.

    Args:
        ensemble: the models.
        memories: encoder outputs of the batch, of each model.
        plan: the settings, of which the constraints on tokens and the temperature are used here.
    """

    def __init__(self, ensemble: EngineEnsemble, memories: List[Memory], plan: JacobiPlan) -> None:
        self.ensemble, self.plan = ensemble, plan
        self.device = memories[0].lengths.device
        self.states = ensemble.start(memories)

    def read(
        self, rows: List[Row], inputs: List[List[int]]
    ) -> Tuple[List[List[float]], List[List[int]]]:
        width = len(inputs[0])
        log_probs = self.ensemble.log_probabilities(  # [R, q, V]
            self.states,
            torch.tensor(inputs, device=self.device),  # [R, q]
            _positions(rows, width, self.plan.constraints.longest_limit, self.device),
            every=True,
            temperature=self.plan.temperature,
        )
        _restrict(log_probs, rows, self.plan, self.states[0].sentences)
        scores, answers = to_host(*log_probs.max(-1))  # [R, q] each
        return scores.tolist(), answers.tolist()

    def advance(self, rows: List[Row]) -> List[Row]:
        return _advance(self.states, rows, self.device)


def jacobi_decode(
    reader: Reader,
    plan: JacobiPlan,
    *,
    step_hooks: Sequence[StepHook] = (),
    iteration_hooks: Sequence[IterationHook] = (),
) -> List[Hypothesis]:
    """The greedy translation of each sentence of the batch that ``reader`` was made for.

    Args:
        reader: runs the model.
        plan: the settings of decoding.
        step_hooks: called after each pass with the tokens that it has verified.
        iteration_hooks: called with each pass over each sentence.

    Raises:
        NumericalError: a probability is NaN.
    """
    rules, device = plan.constraints, reader.device
    rows = [Row(sentence, limit) for sentence, limit in enumerate(rules.limits)]
    finished: Dict[int, Hypothesis] = {}
    number = 0
    while not all(row.done for row in rows):
        number += 1
        scores, answers = reader.read(rows, _inputs(rows, plan))
        read = [place for place, row in enumerate(rows) if not row.done]
        for place in read:
            _accept(rows[place], answers[place], scores[place], plan, number, iteration_hooks)
        reading = [rows[place] for place in read]
        if step_hooks:
            step = _proved_step(reading, number, plan, device)
            for hook in step_hooks:
                hook(step)
        for row in reading:
            if row.tokens[-1] == rules.eos:
                row.done = True
                finished[row.sentence] = _hypothesis(row, plan)
                plan.drafter.learn(row.tokens)
        rows = reader.advance(rows)
    return [finished[sentence] for sentence in range(len(finished))]


def _inputs(rows: List[Row], plan: JacobiPlan) -> List[List[int]]:
    """The tokens that the next pass reads, a list for each row: the last verified token and new
    guesses, which are also stored in the row. Each list is filled up with ``plan.filler`` to the
    length of the longest; that of a finished row consists of ``plan.filler`` alone."""
    inputs = []
    for row in rows:
        if row.done:
            inputs.append([plan.filler])
            continue
        row.size = plan.window.size(len(row.tokens), row.limit)
        row.guesses = []
        if row.size > 1:
            guesses = plan.drafter.propose(row.sentence, row.tokens, row.answers, row.size - 1)
            row.guesses = guesses + [plan.filler] * (row.size - 1 - len(guesses))
        inputs.append([row.tokens[-1] if row.tokens else plan.start, *row.guesses])
    width = max(map(len, inputs))
    return [line + [plan.filler] * (width - len(line)) for line in inputs]


def _positions(rows: List[Row], width: int, longest: int, device: torch.device) -> Tensor:
    """Positions of the q = ``width`` tokens that the next pass reads, clamped to ``longest``:
    LongTensor ``[q]`` if all rows have equally many verified tokens, else ``[R, q]``."""
    firsts = [len(row.tokens) for row in rows]
    ahead = torch.arange(width, device=device)  # [q]
    if len(set(firsts)) == 1:
        return (ahead + firsts[0]).clamp_(max=longest)
    return (torch.tensor(firsts, device=device).unsqueeze(1) + ahead).clamp_(max=longest)  # [R, q]


def _restrict(log_probs: Tensor, rows: List[Row], plan: JacobiPlan, sentences: Tensor) -> None:
    """Applies the plan's constraints to the log-probabilities of a pass, in place.

    Args:
        log_probs: ``[R, q, V]``, of the words after each of the q tokens that the pass has read.
        rows: the R sentences.
        plan: has the constraints.
        sentences: LongTensor ``[R]``, index into the batch of each row.
    """
    rules, width = plan.constraints, log_probs.size(1)
    firsts = [len(row.tokens) for row in rows if not row.done]
    if rules.apply_to_all(log_probs, min(firsts), max(firsts) + width):
        return
    for place, row in enumerate(rows):
        first, line = len(row.tokens), [plan.start, *row.tokens, *row.guesses]
        for column in range(0 if row.done else row.size):
            history = None
            if rules.blocker is not None:
                history = torch.tensor([line[: first + column + 1]], device=log_probs.device)
            rules.apply(
                log_probs[place, column : column + 1],
                first + column,
                sentences[place : place + 1],
                1,
                history,
            )


def _accept(
    row: Row,
    answers: List[int],
    scores: List[float],
    plan: JacobiPlan,
    number: int,
    hooks: Sequence[IterationHook],
) -> None:
    """Appends to the row the answers of a pass that are verified: the first one, and each further
    one as long as the guess before it equals the answer before it.

    Args:
        answers, scores: the predicted tokens and their log-probabilities.
        number: number of the pass, from 1.
        hooks: called with the :class:`JacobiIteration` of the pass.
    """
    eos, first = plan.constraints.eos, len(row.tokens)
    # The previous pass's answer for the last place of this window.
    before = row.answers[row.size - 1] if len(row.answers) >= row.size else plan.filler
    if not row.answers:
        row.block, row.passes = row.size, 0
    row.passes += 1
    verified = 0
    while True:
        check_number(scores[verified])
        verified += 1
        token = answers[verified - 1]
        if token == eos or verified == row.size or row.guesses[verified - 1] != token:
            break
    # If the last word changed in this pass, the paper's algorithm needs another one to see it
    # settled, unless it has already made as many as the block has words.
    row.unchanged += (
        verified == row.size and answers[verified - 1] != before and row.passes < row.block
    )
    row.tokens += answers[:verified]
    row.log_probs += scores[:verified]
    row.steps += [number] * verified
    row.answers = answers[verified : row.size] if plan.window.keeps_answers(len(row.tokens)) else []
    if plan.window.mode == "frontier" and row.answers and row.guesses[verified - 1] != plan.filler:
        # Answers that follow a wrong word are worse guesses than fillers.
        row.answers = []
    if hooks:
        size = row.size
        iteration = JacobiIteration(
            row.sentence, number, first, row.guesses, answers[:size], scores[:size], verified
        )
        for hook in hooks:
            hook(iteration)


def _proved_step(
    rows: List[Row], number: int, plan: JacobiPlan, device: torch.device
) -> DecodingStep:
    """The tokens that the pass ``number`` has verified in each of ``rows``, for step hooks."""
    counts = [row.steps.count(number) for row in rows]
    width = max(counts)

    def padded(values: Sequence[Any], value: Any) -> Tensor:
        lines = [line[-count:] + [value] * (width - count) for line, count in zip(values, counts)]
        return torch.tensor(lines, device=device)

    firsts = [len(row.tokens) - count + 1 for row, count in zip(rows, counts)]
    return DecodingStep(
        plan.window.mode,
        number,
        torch.tensor([row.sentence for row in rows], device=device),  # [R]
        torch.tensor(firsts, device=device).unsqueeze(1) + torch.arange(width, device=device),
        padded([row.tokens for row in rows], plan.constraints.pad),  # [R, q]
        padded([row.log_probs for row in rows], 0.0),  # [R, q]
    )


def _advance(states: List[DecoderState], rows: List[Row], device: torch.device) -> List[Row]:
    """Removes wrong guesses from ``states``, the decoders' caches, and also finished rows once they
    are at least a quarter of all. Returns the rows that remain."""
    unfinished = [place for place, row in enumerate(rows) if not row.done]
    if unfinished and 4 * len(unfinished) <= 3 * len(rows):
        rows = [rows[place] for place in unfinished]
        index = torch.tensor(unfinished, device=device)  # [R']
        reorder(states, index, sentences=index)
    # The cache keeps the start symbol and all verified tokens but the last, which the next pass
    # reads.
    lengths = [len(row.tokens) for row in rows]
    if len(set(lengths)) == 1 and states[0].lengths is None:
        for state in states:
            state.rollback(lengths[0])
        return rows
    together = torch.tensor(lengths, device=device)  # [R]
    for state in states:
        state.rollback(max(lengths), lengths=together)
    return rows


def _hypothesis(row: Row, plan: JacobiPlan) -> Hypothesis:
    return Hypothesis(
        tokens=row.tokens,
        score=plan.rank(sum(row.log_probs), len(row.tokens)),
        positional_scores=row.log_probs,
        token_steps=row.steps,
        steps=row.steps[-1] + (row.unchanged if plan.known_length else 0),
    )
