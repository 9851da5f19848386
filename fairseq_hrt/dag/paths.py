"""Walks through graphs, all sentences of a batch at once."""

from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..common.hashing import hash_uniform
from ..common.search import NumericalError

# Purpose of random numbers.
_WALK = 14


def follow(successors: Tensor, last: Tensor) -> Tensor:
    """The vertices that are passed when each vertex leads to one successor.

    Every round doubles the steps that are known, so that log2(L) rounds find paths of any length.

    Args:
        successors: LongTensor ``[B, L]``, beyond the vertex itself for all vertices before the last one.
        last: LongTensor ``[B]``.

    Returns:
        BoolTensor ``[B, L]``.

    Raises:
        NumericalError: a successor lies behind, as where links are NaN.
    """
    size = successors.size(1)
    vertex = torch.arange(size, device=successors.device)
    inside = vertex < last.unsqueeze(1)
    if bool((inside & (successors <= vertex)).any()):
        raise NumericalError(
            "a link of the graph leads backwards: the model computed NaN; its weights are broken (a diverged or truncated "
            "training?) or overflow in half precision; try an earlier checkpoint or decode without --fp16"
        )
    jump = torch.where(inside, successors, vertex)
    passed = (vertex == 0).expand(len(jump), size).to(torch.uint8)
    covered = 1
    while covered < size:
        passed = passed.scatter_reduce(1, jump, passed, "amax")
        jump = jump.gather(1, jump)
        covered *= 2
    return passed.bool()


def best_successors(links: Tensor, token_scores: Optional[Tensor] = None, beta: float = 1.0) -> Tensor:
    """argmax_v [log P(v | u) + beta * m(v)]: LongTensor ``[B, L]``.

    Args:
        links: ``[B, L, L]``.
        token_scores: m, ``[B, L]``; None: greedy.
    """
    return (links if token_scores is None else links + beta * token_scores.unsqueeze(1)).argmax(2)


@dataclass(frozen=True)
class WalkRules:
    """How the next vertex and token are chosen together.

    Attributes:
        beta: weight of the token's log-probability.
        candidates: tokens of each vertex, and pairs of vertex and token of a step, that are considered.
        consecutive: no n-gram of up to this size may repeat the n-gram right before it.
        anywhere: no n-gram of this size may occur twice; 0: no rule.
        temperature: None takes the best candidate; else one is drawn.
        top_p: the best candidates that are drawn from have this share of the candidates' probability.
        seed: of the draws.
    """

    beta: float
    candidates: int
    consecutive: int = 0
    anywhere: int = 0
    temperature: Optional[float] = None
    top_p: float = 1.0
    seed: int = 1


def walk(
    links: Tensor, log_probs: Tensor, last: Tensor, rules: WalkRules, *, eos: int, keys: Tensor
) -> Tuple[Tensor, Tensor]:
    """Goes from vertex to vertex, one step of all sentences at a time; each step sees the words before it.

    Args:
        links: ``[B, L, L]``.
        log_probs: ``[B, L, V]`` of the inner vertices' tokens; the last vertex emits ``</s>``, the first is left.
        last: LongTensor ``[B]``.
        eos: id of ``</s>``, which stands in no sentence, so that no rule forbids it.
        keys: LongTensor ``[B]`` that tell the sentences' random numbers apart.

    Returns:
        (vertices, tokens): LongTensors ``[B, steps]`` without the first vertex, -1 behind the last.
    """
    batch, size, vocabulary = log_probs.shape
    rows = torch.arange(batch, device=links.device)
    scores, tokens = log_probs.topk(min(rules.candidates, vocabulary), 2)
    # The last vertex has one candidate.
    scores[rows, last] = float("-inf")
    scores[rows, last, 0] = 0.0
    tokens[rows, last] = eos
    scores, width = rules.beta * scores, scores.size(2)
    current = torch.zeros_like(last)
    words = tokens.new_full((batch, size), -1)
    vertices = words.clone()
    for step in range(size - 1):
        joint = (links[rows, current].unsqueeze(2) + scores).flatten(1)
        best, flat = joint.topk(min(rules.candidates, joint.size(1)))
        candidate = tokens.flatten(1).gather(1, flat)
        banned = _banned(words[:, :step], candidate, rules)
        choice = _choose(best, banned, rules, keys, step)
        moving = current != last
        vertex = torch.where(moving, flat[rows, choice] // width, -1)
        vertices[:, step] = vertex
        words[:, step] = torch.where(moving, candidate[rows, choice], -1)
        current = torch.where(moving, vertex, current)
        if bool((current == last).all()):
            break
    return vertices[:, : step + 1], words[:, : step + 1]


def _choose(scores: Tensor, banned: Tensor, rules: WalkRules, keys: Tensor, step: int) -> Tensor:
    """Column of the chosen candidate, LongTensor ``[B]``; the best one where all are banned. ``scores`` are sorted."""
    open_scores = scores.masked_fill(banned, float("-inf"))
    open_scores[:, 0] = torch.where((open_scores > float("-inf")).any(1), open_scores[:, 0], scores[:, 0])
    if rules.temperature is None:
        return open_scores.argmax(1)
    weights = torch.softmax(open_scores.double() / rules.temperature, 1)
    if rules.top_p < 1:
        # The candidate that crosses the share still belongs to it.
        weights = weights.masked_fill(weights.cumsum(1) - weights >= rules.top_p, 0.0)
    number = torch.arange(weights.size(1), device=weights.device)
    drawn = hash_uniform(rules.seed, keys.unsqueeze(1), step, _WALK, number)
    # Exponential races: the first of them to ring is drawn with its weight.
    times = -(1 - drawn).log() / weights
    return times.masked_fill(weights <= 0, float("inf")).argmin(1)


def _banned(words: Tensor, candidates: Tensor, rules: WalkRules) -> Tensor:
    """Which candidates ``[B, C]`` would break a rule behind ``words`` ``[B, t]``."""
    banned = torch.zeros_like(candidates, dtype=torch.bool)
    length = words.size(1)
    for size in range(1, rules.consecutive + 1):
        if length >= 2 * size - 1:
            # ... a b | a ?: a repetition if ? is b.
            before = words[:, length - 2 * size + 1 : length - size]
            repeats = (before == words[:, length - size + 1 :]).all(1)
            banned |= repeats.unsqueeze(1) & (candidates == words[:, length - size, None])
    size = rules.anywhere
    if size and length >= size:
        windows = words.unfold(1, size, 1)
        known = (windows[:, :, :-1] == words[:, None, length - size + 1 :]).all(2)
        banned |= (known.unsqueeze(1) & (candidates.unsqueeze(2) == windows[:, None, :, -1])).any(2)
    return banned


def sentence_keys(tokens: Tensor, pad: int, number: int) -> Tensor:
    """A number for each source sentence, whatever it is batched with: LongTensor ``[B]``.

    Args:
        tokens: LongTensor ``[B, S]``, padded on either side.
        number: tells several draws for the same sentence apart.
    """
    real = tokens.ne(pad)
    place = real.cumsum(1)
    parts = (hash_uniform(number, tokens, place) * 2**40).long()
    return parts.masked_fill(~real, 0).sum(1)


def path_lists(passed: Tensor) -> List[List[int]]:
    """The passed vertices of each sentence in order."""
    rows, vertices = passed.nonzero(as_tuple=True)
    return [part.tolist() for part in vertices.split(torch.bincount(rows, minlength=len(passed)).tolist())]
