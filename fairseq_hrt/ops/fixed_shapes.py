"""Searches of paths in fixed shapes, for CUDA graphs: the host reads nothing, no shape depends on a
value, and few kernels are launched."""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import fused


def follow_pointers(pointers: Tensor, start: Tensor, count: int) -> Tensor:
    """The first ``count`` nodes of the walk that begins at ``start`` and follows ``pointers``:
    LongTensor ``[B, count]``, ``start`` included.

    Round i looks up the node 2^i steps after each known node, which doubles their number.

    Args:
        pointers: LongTensor ``[B, N]``, the node after each node; an end points to itself.
        start: LongTensor ``[B, 1]``.
    """
    found = pointers.new_empty(len(pointers), count)
    found[:, :1].copy_(start)
    known = 1
    while known < count:
        more = min(known, count - known)
        torch.gather(pointers, 1, found[:, :more], out=found[:, known : known + more])
        known += more
        if known < count:
            pointers = pointers.gather(1, pointers)  # [B, N]
    return found


def between_words(probabilities: Tensor, tokens: Tensor, chances: Tensor) -> Tensor:
    """Links between different words, summed over all repetitions of the first word: the result of
    :func:`.without_repeats`, but as probabilities P(v | u) ``[B, L, L]`` instead of logarithms, and
    computed by matrix products.

    With M and D of that function, (I - M)^(-1) D = … (I + M^4) (I + M^2) (I + M) D. M is strictly
    triangular, so log2(L) factors suffice; nothing is negative, so nothing cancels.

    Args:
        probabilities: ``[B, L, L]``, P(v | u); 0 where there is no link.
        tokens: LongTensor ``[B, L]``, the token that each vertex writes.
        chances: ``[B, L]``, exp(``token_scores``) of :func:`.without_repeats`.
    """
    same = tokens.unsqueeze(2) == tokens.unsqueeze(1)  # [B, L, L]
    alike = probabilities * same
    # [B, L, L] each
    away, repeats = probabilities - alike, alike * chances.unsqueeze(1)
    covered = 1
    while covered < tokens.size(1):
        away = torch.baddbmm(away, repeats, away)
        covered *= 2
        if covered < tokens.size(1):
            repeats = torch.bmm(repeats, repeats)
    return away


class FixedPaths(NamedTuple):
    """The best path of each sentence.

    Attributes:
        paths: LongTensor ``[B, K + 2]`` for at most K inner vertices: the path's vertices, with the
            first one repeated on the left to fill the row.
        totals: ``[B, 1]``, the path's score, not divided by the length; -inf if no path has an
            allowed number of inner vertices: then the path is the link from the first vertex to the
            last.
        direct: ``[B, 1]``, log-probability of the link from the first vertex to the last.
    """

    paths: Tensor
    totals: Tensor
    direct: Tensor


def fixed_viterbi(
    links: Tensor,
    scores: Optional[Tensor],
    *,
    last: Tensor,
    interior: Tensor,
    allowed: Tensor,
    powers: Tensor,
) -> FixedPaths:
    """The path with the largest score / k ** beta over all numbers k of inner vertices, as
    :func:`.joint_viterbi` finds it, but in fixed shapes, by one or two kernels for each k.

    Args:
        links: ``[B, L, L]``, log P(v | u).
        scores: ``[B, L]``, of the vertices, or None for zeros.
        last: LongTensor ``[B]``, the last vertex.
        interior: ``[B, L]``, 0 for the vertices between the first and the last one, -inf for
            others.
        allowed: ``[B, K]``, for the numbers 1 … K of inner vertices: 0 if a path may have as many,
            else -inf.
        powers: ``[K]``, k ** beta, finite.
    """
    batch, size = interior.shape
    onto = interior if scores is None else scores + interior  # [B, L]
    best, parents = _best_of_each_length(links, scores, onto, len(powers))
    end = last.view(-1, 1, 1).expand(-1, size, 1)  # [B, L, 1]
    to_end = links.gather(2, end).squeeze(2)  # [B, L]
    reached, ends = (best + to_end).max(2)  # [K, B] each
    totals = reached.t() + allowed  # [B, K]
    chosen = (totals / powers).argmax(1, keepdim=True)  # [B, 1]
    total = totals.gather(1, chosen)
    # Node (k - 1) * L + v is the k-th inner vertex v; the root, K * L, is the first vertex.
    root = len(powers) * size
    # Where nothing is possible the first of all maxima, node 0, leads to the root, too.
    nodes = torch.add(ends.t().gather(1, chosen), chosen, alpha=size)  # [B, 1]
    pointers = parents.new_empty(batch, root + 1)
    # [B, K * L] -> [B, K, L]
    inner = pointers[:, :root].view(batch, len(powers), size)
    begins = torch.arange(-size, root - size, size, device=links.device).unsqueeze(1)  # [K, 1]
    torch.add(parents.transpose(0, 1), begins, out=inner)
    inner[:, 0].fill_(root)
    pointers[:, root].fill_(root)
    # [B, K + 1]
    walked = follow_pointers(pointers, nodes, len(powers) + 1).remainder(size)
    return FixedPaths(torch.cat([walked.flip(1), last.unsqueeze(1)], 1), total, to_end[:, :1])


def _best_of_each_length(
    links: Tensor, scores: Optional[Tensor], onto: Tensor, count: int
) -> Tuple[Tensor, Tensor]:
    """Returns two tensors ``[K, B, L]``, K = ``count``: the best score with which a path reaches
    vertex v as its k-th inner vertex; and the vertex before v on that path (not set for k = 1).

    Args:
        links: ``[B, L, L]``, log P(v | u).
        scores: ``[B, L]``, of the vertices; None: zeros.
        onto: ``[B, L]``, ``scores`` again, but -inf for vertices that are not inner ones.
    """
    batch, size = onto.shape
    # [B, v, u]: the maximum is over neighbours in memory.
    edges = torch.empty_like(links, memory_format=torch.contiguous_format)
    torch.add(links.transpose(1, 2), onto.unsqueeze(2), out=edges)
    best = links.new_empty(count, batch, size)
    parents = torch.empty(count, batch, size, dtype=torch.long, device=links.device)
    if scores is None:
        best[0].copy_(edges[:, :, 0])
    else:
        torch.add(edges[:, :, 0], scores[:, :1], out=best[0])
    if fused.available(links.device):
        from .fused import paths

        paths.fill(edges, best, parents)
        return best, parents
    for step in range(1, count):
        into = best[step - 1].unsqueeze(1) + edges  # [B, v, u]
        torch.max(into, 2, out=(best[step], parents[step]))
    return best, parents
