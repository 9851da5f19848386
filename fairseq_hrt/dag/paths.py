"""Paths through graphs, for all sentences of a batch at once."""

from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..native.decoding import NumericalError
from ..training import Purpose, hash_uniform


def follow(successors: Tensor, last: Tensor) -> Tensor:
    """The vertices on the path that starts at vertex 0 and follows ``successors``.

    Each round doubles the number of steps followed, so that log2(L) rounds suffice.

    Args:
        successors: LongTensor ``[B, L]``; successors[u] > u for all vertices u before the last.
        last: LongTensor ``[B]``, the last vertex.

    Returns:
        BoolTensor ``[B, L]``.

    Raises:
        NumericalError: a successor is not after its vertex, as happens if links are NaN.
    """
    size = successors.size(1)
    vertex = torch.arange(size, device=successors.device)  # [L]
    inside = vertex < last.unsqueeze(1)  # [B, L]
    if bool((inside & (successors <= vertex)).any()):
        raise NumericalError.because(
            "a link of the graph leads backwards, so the model computed NaN"
        )
    jump = torch.where(inside, successors, vertex)  # [B, L]
    passed = (vertex == 0).expand(len(jump), size).to(torch.uint8)  # [B, L]
    covered = 1
    while covered < size:
        passed = passed.scatter_reduce(1, jump, passed, "amax")
        jump = jump.gather(1, jump)
        covered *= 2
    return passed.bool()


def best_successors(
    links: Tensor, token_scores: Optional[Tensor] = None, beta: float = 1.0
) -> Tensor:
    """The best successor of each vertex u, argmax_v [log P(v | u) + beta * m(v)]: LongTensor
    ``[B, L]``.

    Args:
        links: ``[B, L, L]``, log P(v | u).
        token_scores: m, ``[B, L]``, log-probabilities of each vertex's best token; None: compare
            links alone.
    """
    if token_scores is None:
        return links.argmax(2)
    return torch.add(links, token_scores.unsqueeze(1), alpha=beta).argmax(2)


@dataclass(frozen=True)
class WalkRules:
    """The rules by which a walk chooses the next vertex and token together.

    Attributes:
        beta: weight of the token's log-probability beside that of the link.
        candidates: how many tokens of each vertex, and how many (vertex, token) pairs in each step,
            are considered.
        consecutive: no n-gram of up to this size may repeat the n-gram right before it; 0: no rule.
        anywhere: no n-gram of this size may occur twice; 0: no rule.
        temperature: the number by which log-probabilities are divided for sampling; None: no
            sampling, the best candidate is taken.
        top_p: sample from the fewest best candidates that together have at least this probability.
        seed: seed of sampling.
        keep_repeats: True: a token that repeats the token before is part of the text; False: it is
            dropped, and the rules on repetitions ignore it.
    """

    beta: float
    candidates: int
    consecutive: int = 0
    anywhere: int = 0
    temperature: Optional[float] = None
    top_p: float = 1.0
    seed: int = 1
    keep_repeats: bool = False


def walk(
    links: Tensor,
    candidates: Tuple[Tensor, Tensor],
    last: Tensor,
    rules: WalkRules,
    *,
    eos: int,
    keys: Tensor,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Walks from the first to the last vertex, in all sentences at once; each choice depends on the
    words before it.

    Args:
        links: ``[B, L, L]``, log P(v | u).
        candidates: (log-probabilities, tokens), each ``[B, L, C]``, the best tokens of each inner
            vertex, best first. The last vertex always emits ``</s>``.
        last: LongTensor ``[B]``, the last vertex.
        rules: how to choose.
        eos: id of ``</s>``.
        keys: LongTensor ``[B]``, from which the random numbers of each sentence are drawn; see
            :func:`sentence_keys`.

    Returns:
        (vertices, tokens, tokens' log-probabilities), each ``[B, steps]``, without the first
        vertex. ``</s>`` has log-probability 0; behind it vertices and tokens are -1.
    """
    batch, size = links.shape[:2]
    rows = torch.arange(batch, device=links.device)
    log_probs, tokens = (part.clone() for part in candidates)
    width = tokens.size(2)
    # The last vertex has one candidate.
    log_probs[rows, last] = float("-inf")
    log_probs[rows, last, 0] = 0.0
    tokens[rows, last] = eos
    # 0 * -inf would be NaN: impossible tokens stay impossible under beta = 0.
    scores = (rules.beta * log_probs).masked_fill(log_probs == float("-inf"), float("-inf"))
    current = torch.zeros_like(last)  # [B]
    # [B, L], the words so far, right-aligned, with -1 to their left.
    words = tokens.new_full((batch, size), -1)
    steps: List[Tuple[Tensor, Tensor, Tensor]] = []
    for step in range(size - 1):
        joint = (links[rows, current].unsqueeze(2) + scores).flatten(1)  # [B, L * C]
        best, flat = joint.topk(min(rules.candidates, joint.size(1)))  # [B, candidates] each
        candidate = tokens.flatten(1).gather(1, flat)  # [B, candidates]
        known = words[:, size - step :]
        choice = _choose(best, _banned(known, candidate, rules), rules, keys, step)  # [B]
        moving = current != last  # [B]
        place = flat[rows, choice]
        vertex, token = (
            torch.where(moving, place // width, -1),  # [B]
            torch.where(moving, candidate[rows, choice], -1),  # [B]
        )
        steps.append((vertex, token, torch.where(moving, log_probs.flatten(1)[rows, place], 0.0)))
        printed = moving if rules.keep_repeats else moving & (token != words[:, -1])
        words = torch.where(
            printed.unsqueeze(1), torch.cat([words[:, 1:], token.unsqueeze(1)], 1), words
        )
        current = torch.where(moving, vertex, current)  # [B]
        if bool((current == last).all()):
            break
    vertices, chosen, parts = (torch.stack(part, 1) for part in zip(*steps))  # [B, steps] each
    return vertices, chosen, parts


def _choose(scores: Tensor, banned: Tensor, rules: WalkRules, keys: Tensor, step: int) -> Tensor:
    """Chooses a candidate for each sentence: the best one that is not banned, or the best of all if
    all are banned; with ``rules.temperature`` it is sampled from those not banned. Returns the
    column of the chosen candidate, LongTensor ``[B]``.

    Args:
        scores: ``[B, C]``, log-probabilities of the candidates, best first.
        banned: BoolTensor ``[B, C]``, True for candidates that break a rule.
        rules: temperature, ``top_p`` and seed.
        keys: LongTensor ``[B]``, a hash of each sentence, from which random numbers are drawn.
        step: number of the step, which the random numbers depend on as well.
    """
    open_scores = scores.masked_fill(banned, float("-inf"))  # [B, C]
    open_scores[:, 0] = torch.where(
        (open_scores > float("-inf")).any(1), open_scores[:, 0], scores[:, 0]
    )
    if rules.temperature is None:
        return open_scores.argmax(1)
    weights = torch.softmax(open_scores.double() / rules.temperature, 1)  # [B, C]
    if rules.top_p < 1:
        # The candidate that crosses top_p is still included.
        weights = weights.masked_fill(weights.cumsum(1) - weights >= rules.top_p, 0.0)
    number = torch.arange(weights.size(1), device=weights.device)  # [C]
    drawn = hash_uniform(rules.seed, keys.unsqueeze(1), step, Purpose.WALK, number)  # [B, C]
    # The least of exponential variables with rates w_i is the i-th with probability w_i / sum w.
    times = -(1 - drawn).log() / weights
    return times.masked_fill(weights <= 0, float("inf")).argmin(1)


def _banned(words: Tensor, candidates: Tensor, rules: WalkRules) -> Tensor:
    """Which ``candidates``, tokens ``[B, C]``, would break a rule on repetitions as the next word
    after ``words`` ``[B, t]``, which are padded with -1 on the left: BoolTensor ``[B, C]``."""
    banned = torch.zeros_like(candidates, dtype=torch.bool)
    length = words.size(1)
    for size in range(1, rules.consecutive + 1):
        if length >= 2 * size - 1:
            # ... a b | a ?: a repetition if ? is b.
            before = words[:, length - 2 * size + 1 : length - size]
            repeats = (before == words[:, length - size + 1 :]).all(1)  # [B]
            banned |= repeats.unsqueeze(1) & (candidates == words[:, length - size, None])
    size = rules.anywhere
    if size and length >= size:
        windows = words.unfold(1, size, 1)  # [B, t - n + 1, n]
        known = (windows[:, :, :-1] == words[:, None, length - size + 1 :]).all(2)  # [B, t - n + 1]
        again = (known.unsqueeze(1) & (candidates.unsqueeze(2) == windows[:, None, :, -1])).any(2)
        # A repeated token that is dropped from the text does not form an n-gram.
        banned |= again if rules.keep_repeats else again & (candidates != words[:, -1:])
    return banned


def sentence_keys(tokens: Tensor, pad: int, number: int) -> Tensor:
    """A hash of each source sentence, which does not depend on the rest of its batch: LongTensor
    ``[B]``.

    Args:
        tokens: LongTensor ``[B, S]``, padded on either side.
        pad: id of padding.
        number: index of the sample, so that several samples of a sentence get different hashes.
    """
    real = tokens.ne(pad)  # [B, S]
    place = real.cumsum(1)
    parts = (hash_uniform(number, tokens, place) * 2**40).long()
    return parts.masked_fill(~real, 0).sum(1)  # [B]


def path_lists(passed: Tensor) -> List[List[int]]:
    """The vertices of each sentence that are True in ``passed`` ``[B, L]``, in ascending order; all
    are read from the device in one transfer."""
    paths: List[List[int]] = [[] for _ in range(len(passed))]
    for row, vertex in passed.nonzero().tolist():
        paths[row].append(vertex)
    return paths
