"""Greedy and beam search over an :class:`EngineEnsemble`, with the results of fairseq's
``SequenceGenerator``.

The token chosen in step i (0 = first) stands at position ``stride * (i + 1)``. The stride is 1 in
ordinary autoregressive decoding and K in the first stage of hybrid-regressive decoding.
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
    """Settings of one search: where it starts, what it may write, how hypotheses are ranked.

    Attributes:
        start: id of the start symbol, fed at position 0.
        stride: distance between the positions of neighbouring tokens.
        constraints: rules for each next token.
        beam: N, the hypotheses kept for each sentence; 1 is greedy search.
        lenpen: hypotheses are ranked by log-probability / length ** lenpen.
        normalize: False ranks by the plain log-probability.
        temperature: divides the logits.
        stage: the attribute ``stage`` of each :class:`DecodingStep` that hooks receive.
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
        """The score of a hypothesis of ``length`` tokens whose log-probabilities sum to
        ``log_prob``."""
        return log_prob / length**self.lenpen if self.normalize else log_prob


def search(
    ensemble: EngineEnsemble,
    memories: List[Memory],
    plan: SearchPlan,
    *,
    hooks: Sequence[StepHook] = (),
) -> List[List[Hypothesis]]:
    """Decodes a batch: at most ``plan.beam`` hypotheses of each sentence, best first.

    Args:
        ensemble: the models.
        memories: the encoded batch, one memory per model.
        plan: the settings of the search.
        hooks: called with a :class:`DecodingStep` after each step.

    Raises:
        NumericalError: a probability is NaN, or all translations of a sentence have probability 0.
    """
    # Hypotheses hold lists: a tensor made in inference mode could not be changed in place later.
    with torch.inference_mode():
        chosen = _greedy if plan.beam == 1 else _beam
        return require_found(chosen(ensemble, memories, plan, hooks))


def _positions(plan: SearchPlan, device: torch.device) -> Tensor:
    """Positions of all inputs that a search may feed to the decoder: LongTensor of 0, the start
    symbol's, and ``plan.stride``, twice ``plan.stride``, …, those of the tokens."""
    return torch.arange(plan.constraints.longest_limit + 2, device=device) * plan.stride


def _greedy(
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    positions = _positions(plan, memories[0].lengths.device)
    states = ensemble.start(memories)
    rules = plan.constraints
    sentences = states[0].sentences
    tokens: List[List[int]] = [[] for _ in range(sentences.numel())]
    log_probs: List[List[float]] = [[] for _ in tokens]
    # Row r decodes sentence rows[r]. Finished rows are decoded further, unread, until there are
    # enough of them to be worth moving the others.
    rows: List[int] = list(range(len(tokens)))
    open_rows = set(rows)
    current = sentences.new_full((len(rows), 1), plan.start)  # [R, 1]
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
    return [[hypothesis_of(plan, *pair)] for pair in zip(tokens, log_probs)]


def leave_out_finished(
    states: List[DecoderState], rows: List[int], open_rows: Set[int], current: Tensor
) -> Tuple[List[int], Tensor]:
    """Drops the rows of finished sentences once these are a quarter of all rows; with fewer, moving
    the other rows costs more than it saves.

    Args:
        states: one decoder state per model, with one row per sentence; changed in place.
        rows: for each row the index of the sentence that it decodes.
        open_rows: indices of the unfinished sentences; if there are none, nothing is dropped.
        current: LongTensor ``[R, z]``, the z tokens that each row chose last.

    Returns:
        ``rows`` and ``current`` of the rows that remain.
    """
    if not open_rows or 4 * len(open_rows) > 3 * len(rows):
        return rows, current
    unfinished = [row for row, sentence in enumerate(rows) if sentence in open_rows]
    kept = torch.tensor(unfinished, device=current.device)  # [R']
    reorder(states, kept, sentences=kept)
    return [rows[row] for row in unfinished], current[kept]


def _token_history(
    plan: SearchPlan, tokens: List[List[int]], rows: List[int], step: int, device: torch.device
) -> Tensor:
    """The start symbol and the first ``step`` tokens of each row, LongTensor ``[R, step + 1]``;
    finished rows are padded with ``</s>``. ``tokens`` are those of each sentence, ``rows`` the
    index of each row's sentence."""
    eos = plan.constraints.eos
    lines = [[plan.start] + tokens[row] + [eos] * (step - len(tokens[row])) for row in rows]
    return torch.tensor(lines, device=device)  # [R, step + 1]


def hypothesis_of(plan: SearchPlan, tokens: List[int], log_probs: List[float]) -> Hypothesis:
    """The hypothesis of ``tokens``, ``</s>`` included, which have the log-probabilities
    ``log_probs``; its score is :meth:`SearchPlan.rank`'s."""
    length = len(tokens)
    return Hypothesis(
        tokens=tokens,
        score=plan.rank(sum(log_probs), length),
        positional_scores=log_probs,
        token_steps=list(range(1, length + 1)),
        steps=length,
    )


class _BeamTable:
    """The N open hypotheses of each sentence.

    Each step stores tokens and parent rows on the device. The host reads them once, at the end, and
    follows the parents back from every ``</s>``.
    """

    def __init__(self, state: DecoderState, plan: SearchPlan) -> None:
        self.plan, self.sentences = plan, state.sentences
        self.numbers: List[int] = list(range(self.sentences.numel()))
        count = self.sentences.numel() * plan.beam
        # The N beams are equal at first: only beam 0 may have successors, or all would be copies.
        self.scores = torch.full(
            (count // plan.beam, plan.beam), float("-inf"), device=self.sentences.device
        )
        self.scores[:, 0] = 0
        self.current = self.sentences.new_full((count, 1), plan.start)  # [R, 1]
        # Start symbol and tokens so far, [R, t]: needed for n-gram blocking alone.
        self.history = None if plan.constraints.blocker is None else self.current
        # Per step, for the rows that continued: (parent row, token) [2, R] and the sum of
        # log-probabilities [R].
        self._links: List[Tensor] = []
        self._totals: List[Tensor] = []
        # Per sentence: (step of </s>, row that wrote it, sum of log-probabilities).
        self.finished: List[List[Tuple[int, int, float]]] = [[] for _ in self.numbers]

    def advance(
        self, rows: Tensor, tokens: Tensor, scores: Tensor, kept: Sequence[int]
    ) -> Optional[Tensor]:
        """Replaces the open hypotheses by their successors.

        Args:
            rows: LongTensor ``[R']``, the row that each successor extends.
            tokens: LongTensor ``[R']``, the token that each successor adds.
            scores: ``[B', N]``, each successor's sum of log-probabilities.
            kept: indices, among the present sentences, of the B' that continue.

        Returns:
            ``kept`` as a LongTensor; None when all sentences continue.
        """
        self._links.append(torch.stack([rows, tokens]))
        self._totals.append(scores.reshape(-1))
        self.current, self.scores = tokens.unsqueeze(1), scores  # [R', 1], [B', N]
        if self.history is not None:
            self.history = torch.cat([self.history[rows], self.current], 1)  # [R', t + 1]
        if len(kept) == len(self.numbers):
            return None
        places = torch.tensor(kept, device=rows.device)  # [B']
        self.sentences, self.numbers = (
            self.sentences[places],
            [self.numbers[place] for place in kept],
        )
        return places

    def hypotheses(self) -> List[List[Hypothesis]]:
        """The finished hypotheses of each sentence, best first."""
        sizes = [totals.numel() for totals in self._totals]
        links: List[Tuple[List[int], List[int]]] = []
        totals: List[List[float]] = []
        if sizes:
            parents, tokens = torch.cat(self._links, 1).tolist()
            sums, end = torch.cat(self._totals).tolist(), 0
            for size in sizes:
                start, end = end, end + size
                links.append((parents[start:end], tokens[start:end]))
                totals.append(sums[start:end])
        found = [[traced(self.plan, links, totals, *end) for end in ends] for ends in self.finished]
        return [best_first(done) for done in found]


def traced(
    plan: SearchPlan,
    links: Sequence[Tuple[List[int], List[int]]],
    totals: Sequence[List[float]],
    step: int,
    row: int,
    total: float,
) -> Hypothesis:
    """The hypothesis that ends with ``</s>`` in step ``step`` (0 = first); its tokens are looked up
    from the last to the first.

    Args:
        plan: the settings of the search.
        links: for each step the rows that continue: (row of the step before that each of them
            extends, token that each of them adds).
        totals: for each step the sum of log-probabilities of each of these rows.
        row: the row that ``</s>`` extends: its index in ``links[step - 1]``.
        total: the hypothesis's sum of log-probabilities, that of ``</s>`` included.
    """
    tokens, sums = [plan.constraints.eos], [total]
    for (parents, words), before in zip(reversed(links[:step]), reversed(totals[:step])):
        tokens.append(words[row])
        sums.append(before[row])
        row = parents[row]
    tokens.reverse()
    sums.reverse()
    log_probs = [after - before for before, after in zip([0.0, *sums], sums)]
    hypothesis = hypothesis_of(plan, tokens, log_probs)
    hypothesis.score = plan.rank(total, len(tokens))
    return hypothesis


def _beam(
    ensemble: EngineEnsemble, memories: List[Memory], plan: SearchPlan, hooks: Sequence[StepHook]
) -> List[List[Hypothesis]]:
    positions = _positions(plan, memories[0].lengths.device)
    states = ensemble.start(memories, beams=plan.beam)
    rules, beams = plan.constraints, plan.beam
    table = _BeamTable(states[0], plan)
    for step in range(rules.longest_limit + 1):
        log_probs = ensemble.log_probabilities(
            states, table.current, positions[step : step + 1], temperature=plan.temperature
        )
        log_probs = rules.apply(log_probs, step, table.sentences, beams, table.history)  # [R, V]
        vocabulary = log_probs.size(1)
        totals = log_probs.view(-1, beams, vocabulary) + table.scores.unsqueeze(-1)  # [B, N, V]
        # Up to N of the 2N candidates may be </s>, so 2N guarantee that N stay open.
        scores, flat = totals.flatten(1).topk(min(2 * beams, beams * vocabulary - 1))  # [B, 2N]
        tokens, parents = flat % vocabulary, flat // vocabulary  # [B, 2N] each
        ends = tokens.eq(rules.eos) & scores.gt(float("-inf"))  # [B, 2N]
        open_columns = _first_open(ends, beams)  # [B, N]
        open_scores = scores.masked_fill(ends, float("-inf")).gather(1, open_columns)  # [B, N]
        kept = []
        # One transfer from the device: scores of finished candidates [B, N] (-inf where open),
        # their parent beams [B, N], the best open score [B, 1]. topk puts NaN first, so it is seen
        # there.
        ended = scores[:, :beams].masked_fill(~ends[:, :beams], float("-inf"))  # [B, N]
        digest = torch.cat([ended, parents[:, :beams].to(scores.dtype), open_scores[:, :1]], 1)
        for place, (number, line) in enumerate(zip(table.numbers, digest.tolist())):
            check_number(line[-1])
            done = table.finished[number]
            for column in range(beams):
                if line[column] > -math.inf and len(done) < beams:
                    done.append((step, place * beams + int(line[beams + column]), line[column]))
            if len(done) < beams and step < rules.limits[number] and line[-1] > -math.inf:
                kept.append(place)
        chosen = tokens.gather(1, open_columns)  # [B, N]
        for hook in hooks:
            hook(DecodingStep(plan.stage, step + 1, table.sentences, positions[step + 1 : step + 2],
                              chosen.view(-1, 1), open_scores.view(-1)))  # fmt: skip
        if not kept:
            break
        rows = parents.gather(1, open_columns) + torch.arange(
            0, len(table.numbers) * beams, beams, device=flat.device
        ).unsqueeze(1)  # [B, N]
        if len(kept) < len(table.numbers):
            places = torch.tensor(kept, device=flat.device)  # [B']
            rows, chosen, open_scores = rows[places], chosen[places], open_scores[places]
        rows = rows.view(-1)  # [B' * N]
        reorder(states, rows, sentences=table.advance(rows, chosen.view(-1), open_scores, kept))
    return table.hypotheses()


def _first_open(ends: Tensor, beams: int) -> Tensor:
    """Columns ``[B, N]`` of the N best candidates that are open, i.e. do not end in ``</s>``; where
    fewer are open, finished ones fill the rest. ``ends``: BoolTensor ``[B, 2N]``, True for the
    finished ones of a sentence's candidates, which are sorted best first."""
    return ends.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beams]


def require_found(hypotheses: List[List[Hypothesis]]) -> List[List[Hypothesis]]:
    """Returns ``hypotheses`` as they are; raises NumericalError if a sentence has none."""
    if not all(hypotheses):
        raise NumericalError.because("no translation of the model has a probability above 0")
    return hypotheses


def check_number(value: float) -> None:
    """Raises NumericalError if ``value`` is NaN."""
    if value != value:
        raise NumericalError.because("the model computed NaN probabilities")
