"""Joint-Viterbi decoding: the best path of every length, and the best length (Shao et al., 2022;
used by FA-DAT)."""

import math
from typing import List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from .checks import check, only_inside


class ViterbiPath(NamedTuple):
    """The best path of each sentence from its first to its last vertex.

    Attributes:
        paths: LongTensor ``[B, K + 2]`` for at most K interior vertices: the path's vertices, both
            ends included, then -1; only -1 if there is no path.
        scores: ``[B]``, the path's score: the sum of its links and of all its vertex scores but
            the last vertex's.
        ranks: ``[B]``, the largest score / k ** beta, which the path with k interior vertices has.
    """

    paths: Tensor
    scores: Tensor
    ranks: Tensor


#: Above this many states (K * L) pruning pays on a CPU. It takes a step for each vertex of each
#: sentence, too many launches for a GPU.
_MANY = 1 << 15
#: The most bounds that are computed for a sentence; each takes a pass over all links.
_ROUNDS = 16


class _Bound(NamedTuple):
    """An upper bound on path scores, by Lagrangian relaxation of the number of vertices.

    If vertex v is the n-th of the k inner vertices of a path, the score of the path is at most
    (score up to v) + rest[v] + (n - k) * earns.

    Attributes:
        earns: the number added to the score for each inner vertex.
        rest: ``[L]``, the best score from each vertex to the last one, bonuses included; -inf where
            no path leads there.
        length: the number of inner vertices of the best path under this bonus.
    """

    earns: float
    rest: Tensor
    length: int


def _bound(edges: Tensor, scores: Tensor, earns: float) -> _Bound:
    """The bound of one sentence under the bonus ``earns``: ``edges`` ``[L, L]`` are its links,
    ``scores`` ``[L]`` those of the vertices, float64, without padding."""
    last = len(scores) - 1
    rest, value, follower = (
        torch.zeros_like(scores),  # [L]
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


class _Pruning:
    """Prunes the search of one sentence. State (n, v) means that v is the n-th inner vertex of a
    path; it is pruned if no path through it can have a better rank (score / k ** beta) than the
    best path known already.

    For beta = 1 this is Dinkelbach's algorithm (1967): with a bonus for each vertex of minus the
    best ratio of score to number of vertices, the best path sums to 0, and only its own states
    remain. If that path has more than ``limit`` vertices, the bonus is found by bisection, between
    one whose best path is too long and one whose best path is not.

    Args:
        edges: ``[L, L]``, the links, without padding.
        scores: ``[L]``, of the vertices.
        limit, beta: ``max_interior`` and ``length_beta`` of :func:`joint_viterbi`.
    """

    def __init__(self, edges: Tensor, scores: Tensor, limit: int, beta: float) -> None:
        self.rank, self.limit, self.beta = -math.inf, limit, beta
        # Relative tolerance for the rounding of sums.
        self.near = len(scores) * torch.finfo(edges.dtype).eps
        self.short: Optional[_Bound] = None
        self.long: Optional[_Bound] = None
        inner = edges.to(torch.float64, copy=True)
        # Only paths with at least one inner vertex.
        inner[0, -1] = -math.inf
        self._find(inner, scores.double())
        numbers = torch.arange(1, limit + 1, dtype=torch.float64)  # [limit]
        ranked = self.rank * numbers**beta
        found: Tuple[Optional[_Bound], ...] = (self.short, self.long)
        self.bounds = [bound for bound in found if bound is not None]
        # least[n - 1]: what (score up to v) + rest[v] + n * earns must reach for a path of any k >=
        # n vertices to be better: min over k of k * earns + rank * k ** beta.
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
        """Sets to -inf, in place, the scores of states through which no better path can pass.

        Args:
            best: ``[L]`` or more (padding): the best score with which each vertex is inner vertex
                ``number``.
            number: n, from 1.
        """
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
    """The best path over all numbers k of interior vertices: the one that maximises S_k / k **
    beta.

    A_1(v) = links(0, v) + m(0) + m(v); A_k(v) = max_u [A_(k-1)(u) + links(u, v)] + m(v); S_k =
    max_v [A_k(v) + links(v, last)]. Scores are negative: a larger beta favours longer paths. If no
    k is possible, the path is the link from the first vertex to the last, if there is one.

    Args:
        vertex_scores: ``[B, L]``, m(v), log-probability of the best token of each vertex; zeros for
            plain Viterbi.
        links: ``[B, L, L]``, log P(v | u).
        vertex_lengths: LongTensor ``[B]``.
        max_interior: the largest k allowed, at least 1; one number or a LongTensor ``[B]``.
        length_beta: beta.

    Raises:
        ValueError: wrong shapes or lengths, NaN, or a ``max_interior`` below 1.
    """
    check(links, vertex_lengths)
    batch, size = vertex_scores.shape
    limits = torch.as_tensor(max_interior, device=links.device).expand(batch)  # [B]
    if bool((limits < 1).any()):
        raise ValueError(
            f"max_interior {limits.tolist()}: each limit on the inner vertices must be at least 1"
        )
    vertex = torch.arange(size, device=links.device)  # [L]
    rows, last = torch.arange(batch, device=links.device), vertex_lengths - 1  # [B] each
    interior = (vertex > 0) & (vertex < last.unsqueeze(1))  # [B, L]
    edges = only_inside(links, vertex_lengths)  # [B, L, L]
    to_end = edges[rows, :, last]  # [B, L]
    tokens = vertex_scores.masked_fill(~interior, float("-inf"))  # [B, L]
    count = max(min(int(limits.max()), size - 2), 1)
    # Always computed for all lengths: the length of a vector affects how its last elements are
    # rounded.
    powers = torch.arange(1, count + 1, device=links.device).to(edges.dtype) ** length_beta
    best = edges[:, 0] + vertex_scores[:, :1] + tokens  # [B, L]
    prunings: List[_Pruning] = []
    if links.device.type == "cpu" and count * size > _MANY:
        prunings = [
            _Pruning(
                edges[row, :own, :own], vertex_scores[row, :own], min(limit, count), length_beta
            )
            for row, (own, limit) in enumerate(zip(vertex_lengths.tolist(), limits.tolist()))
        ]
    totals, ends, parents = [], [], []
    for length in range(1, count + 1):
        if length > 1:
            columns = vertex
            if prunings:
                for own, pruning in zip(best, prunings):
                    pruning.keep(own, length - 1)
                # The vertices that are open in any sentence.
                columns = (best > float("-inf")).any(0).nonzero().squeeze(1)
            if not len(columns):
                # All states are pruned: no longer path is better.
                break
            best, parent = (best[:, columns].unsqueeze(2) + edges[:, columns]).max(1)  # [B, L] each
            best, parent = best + tokens, columns[parent]
            parents.append(parent)
        total, end = (best + to_end).max(1)  # [B] each
        totals.append(total.masked_fill(length > limits, float("-inf")))  # [B]
        ends.append(end)
    count = len(totals)
    scores = torch.stack(totals, 1)  # [B, K]
    # An impossible k stays at -inf even if its power overflows (-inf / inf is NaN).
    ranks = (scores / powers[:count]).masked_fill(scores == float("-inf"), float("-inf"))  # [B, K]
    ranks, chosen = ranks.max(1)  # [B] each
    direct = scores[rows, chosen] == float("-inf")  # [B]
    paths = torch.full((batch, count + 2), -1, device=links.device)  # [B, K + 2]
    current = torch.stack(ends, 1)[rows, chosen]  # [B]
    for length in range(count, 0, -1):
        running = (length <= chosen + 1) & ~direct
        paths[:, length] = torch.where(running, current, -1)
        if length > 1:
            current = torch.where(running, parents[length - 2][rows, current], current)  # [B]
    # Where no k is possible, the path is the link from the first vertex to the last, if any.
    alone = edges[rows, 0, last] + vertex_scores[:, 0]  # [B]
    possible = ~direct | (alone > float("-inf"))
    paths[:, 0] = torch.where(possible, 0, -1)
    end_place = torch.where(direct, 1, chosen + 2)  # [B]
    paths[rows, end_place] = torch.where(possible, last, -1)
    scores = torch.where(direct, alone, scores[rows, chosen])  # [B]
    return ViterbiPath(paths, scores, torch.where(direct, alone, ranks))
