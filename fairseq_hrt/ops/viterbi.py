"""The best path of each length and the best length (Shao et al., 2022, as FA-DAT decodes)."""

import math
from typing import List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from .checks import check, only_inside


class ViterbiPath(NamedTuple):
    """Paths from the first to the last vertex.

    Attributes:
        paths: LongTensor ``[B, K + 2]``, vertices in order, both ends included, -1 behind the end;
            all -1 without a path.
        scores: ``[B]``, sum of links and vertex scores (that of the last vertex left out), not
            divided by any length.
        ranks: ``[B]``, scores / k ** beta, by which k was chosen.
    """

    paths: Tensor
    scores: Tensor
    ranks: Tensor


#: Sums of all layers from which on it pays to know first which states a better path may pass; that
#: takes steps, one a vertex.
_MANY = 1 << 24
#: Passes over all links that look for bounds.
_ROUNDS = 16


class _Bound(NamedTuple):
    """What a path can have at best behind each vertex where every further one earns ``earns``. If a
    path of k inner vertices passes one as its n-th, its score is at most (score up to there) + rest
    + (n - k) * earns.

    Attributes:
        rest: ``[L]``, -inf where nothing leads to the last vertex.
        length: inner vertices of the best path.
    """

    earns: float
    rest: Tensor
    length: int


def _bound(edges: Tensor, scores: Tensor, earns: float) -> _Bound:
    """Of one sentence: ``edges`` ``[L, L]`` and ``scores`` ``[L]`` in float64, without padding."""
    last = len(scores) - 1
    rest, value, follower = (
        torch.zeros_like(scores),
        scores + earns,
        torch.full_like(scores, last, dtype=torch.long),
    )
    value[last] = 0.0
    for vertex in reversed(range(last)):
        rest[vertex], place = (edges[vertex, vertex + 1 :] + value[vertex + 1 :]).max(0)
        follower[vertex] = place + vertex + 1
        value[vertex] += rest[vertex]
    path = follower.tolist()
    at, length = path[0], 0
    while at < last:
        at, length = path[at], length + 1
    return _Bound(earns, rest, length)


class _Promise:
    """Which states of one sentence a path of a better rank than a known one may pass.

    With the exponent 1 this is Dinkelbach's algorithm (1967): the best ratio of score and number is
    what each vertex must earn for the best path to come to nothing, and then only its own states
    are left. Where that path has more vertices than it may, the bounds close in on those that are
    just short enough.

    Args:
        edges: ``[L, L]``, scores: ``[L]``, without padding; limit, beta: see :func:`joint_viterbi`.
    """

    def __init__(self, edges: Tensor, scores: Tensor, limit: int, beta: float) -> None:
        self.rank, self.limit, self.beta = -math.inf, limit, beta
        # Sums are rounded.
        self.near = len(scores) * torch.finfo(edges.dtype).eps
        self.short: Optional[_Bound] = None
        self.long: Optional[_Bound] = None
        inner = edges.to(torch.float64, copy=True)
        # There is an inner vertex at least.
        inner[0, -1] = -math.inf
        self._find(inner, scores.double())
        numbers = torch.arange(1, limit + 1, dtype=torch.float64)
        ranked = self.rank * numbers**beta
        found: Tuple[Optional[_Bound], ...] = (self.short, self.long)
        self.bounds = [bound for bound in found if bound is not None]
        # The bound that (score up to the n-th) + rest + n * earns must reach, by n - 1.
        needed = [
            (bound.earns * numbers + ranked).nan_to_num(nan=-math.inf) for bound in self.bounds
        ]
        self.least = [each.flip(0).cummin(0).values.flip(0).tolist() for each in needed]

    def _find(self, edges: Tensor, scores: Tensor) -> None:
        earns, step, converged = 0.0, 1.0, False
        for _ in range(_ROUNDS):
            bound = _bound(edges, scores, earns)
            total = float(bound.rest[0] + scores[0]) - earns * bound.length
            if not math.isfinite(total):
                return
            try:
                rank = total / bound.length**self.beta
                tangent = -rank * self.beta * bound.length ** (self.beta - 1)
            except OverflowError:
                return
            if bound.length > self.limit:
                self.long = bound
            else:
                self.short, self.rank = bound, max(self.rank, rank)
            if not converged and abs(tangent - earns) > 1e-9 * (1 + abs(earns)):
                earns = tangent
                continue
            if self.long is None or (not converged and bound is self.short):
                return
            converged = True
            if self.short is None:
                earns, step = self.long.earns - step, 4 * step
                continue
            if self.short.length == self.limit or self.long.earns - self.short.earns < 1e-3 * abs(
                self.long.earns
            ):
                return
            earns = (self.short.earns + self.long.earns) / 2

    def keep(self, best: Tensor, number: int) -> None:
        """Leaves out, in place, the states of which no better path may have its ``number``-th
        vertex. best: ``[L]``, padded or not, scores up to there."""
        if number > self.limit:
            best.fill_(float("-inf"))
        for bound, least in zip(self.bounds, self.least):
            own, rest, earnt = best[: len(bound.rest)], bound.rest, bound.earns * number
            near = self.near * (1 + own.abs() + abs(earnt) + rest.abs())
            hopeless = (rest == float("-inf")) | (
                own.double() + earnt + rest + near < least[min(number, self.limit) - 1]
            )
            own.masked_fill_(hopeless, float("-inf"))


@torch.no_grad()
def joint_viterbi(
    vertex_scores: Tensor,
    links: Tensor,
    vertex_lengths: Tensor,
    *,
    max_interior: Union[int, Tensor],
    length_beta: float,
) -> ViterbiPath:
    """Best path with its tokens, over all numbers k of interior vertices.

    A_1(v) = links(0, v) + m(0) + m(v); A_k(v) = max_u [A_(k-1)(u) + links(u, v)] + m(v); S_k =
    max_v [A_k(v) + links(v, last)]; the result is the path of the k that maximises S_k / k ** beta.
    Scores are negative: a larger beta favours longer paths.

    Args:
        vertex_scores: ``[B, L]``, m(v), log-probability of the best token of each vertex; zeros for
            plain Viterbi.
        links: ``[B, L, L]``, log P(v | u).
        vertex_lengths: LongTensor ``[B]``.
        max_interior: K, the most interior vertices, one number or a LongTensor ``[B]``.
        length_beta: beta.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths)
    batch, size = vertex_scores.shape
    limits = torch.as_tensor(max_interior, device=links.device).expand(batch)
    if bool((limits < 1).any()):
        raise ValueError(f"max_interior {limits.tolist()} must be at least 1")
    vertex = torch.arange(size, device=links.device)
    rows, last = torch.arange(batch, device=links.device), vertex_lengths - 1
    interior = (vertex > 0) & (vertex < last.unsqueeze(1))
    edges = only_inside(links, vertex_lengths)
    to_end = edges[rows, :, last]
    tokens = vertex_scores.masked_fill(~interior, float("-inf"))
    count = max(min(int(limits.max()), size - 2), 1)
    # Of all lengths at once: a vector's length decides how its last elements are rounded.
    powers = torch.arange(1, count + 1, device=links.device).to(edges.dtype) ** length_beta
    best = edges[:, 0] + vertex_scores[:, :1] + tokens
    promises: List[_Promise] = []
    if batch * count * size * size > _MANY:
        promises = [
            _Promise(
                edges[row, :own, :own], vertex_scores[row, :own], min(limit, count), length_beta
            )
            for row, (own, limit) in enumerate(zip(vertex_lengths.tolist(), limits.tolist()))
        ]
    totals, ends, parents = [], [], []
    for length in range(1, count + 1):
        if length > 1:
            columns = vertex
            if promises:
                for own, promise in zip(best, promises):
                    promise.keep(own, length - 1)
                columns = (best > float("-inf")).any(0).nonzero().squeeze(1)
            if not len(columns):
                # No path of more vertices is as good.
                break
            best, parent = (best[:, columns].unsqueeze(2) + edges[:, columns]).max(1)
            best, parent = best + tokens, columns[parent]
            parents.append(parent)
        total, end = (best + to_end).max(1)
        totals.append(total.masked_fill(length > limits, float("-inf")))
        ends.append(end)
    count = len(totals)
    scores = torch.stack(totals, 1)
    # What is out of reach stays so where the power is infinite too (-inf / inf is NaN).
    ranks = (scores / powers[:count]).masked_fill(scores == float("-inf"), float("-inf"))
    ranks, chosen = ranks.max(1)
    direct = scores[rows, chosen] == float("-inf")
    paths = torch.full((batch, count + 2), -1, device=links.device)
    current = torch.stack(ends, 1)[rows, chosen]
    for length in range(count, 0, -1):
        running = (length <= chosen + 1) & ~direct
        paths[:, length] = torch.where(running, current, -1)
        if length > 1:
            current = torch.where(running, parents[length - 2][rows, current], current)
    # Without interior vertices there is only the link from the first vertex to the last.
    alone = edges[rows, 0, last] + vertex_scores[:, 0]
    possible = ~direct | (alone > float("-inf"))
    paths[:, 0] = torch.where(possible, 0, -1)
    end_place = torch.where(direct, 1, chosen + 2)
    paths[rows, end_place] = torch.where(possible, last, -1)
    scores = torch.where(direct, alone, scores[rows, chosen])
    return ViterbiPath(paths, scores, torch.where(direct, alone, ranks))
