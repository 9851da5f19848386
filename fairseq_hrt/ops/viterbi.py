"""The best path of each length and the best length (Shao et al., 2022, as FA-DAT decodes)."""

from typing import NamedTuple, Union

import torch
from torch import Tensor

from .checks import check, only_inside


class ViterbiPath(NamedTuple):
    """Paths from the first to the last vertex.

    Attributes:
        paths: LongTensor ``[B, K + 2]``, vertices in order, both ends included, -1 behind the end; all -1 without a path.
        scores: ``[B]``, sum of links and vertex scores (that of the last vertex left out), not divided by any length.
        ranks: ``[B]``, scores / k ** beta, by which k was chosen.
    """

    paths: Tensor
    scores: Tensor
    ranks: Tensor


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

    A_1(v) = links(0, v) + m(0) + m(v); A_k(v) = max_u [A_(k-1)(u) + links(u, v)] + m(v); S_k = max_v [A_k(v) + links(v, last)];
    the result is the path of the k that maximises S_k / k ** beta. Scores are negative: a larger beta favours longer paths.

    Args:
        vertex_scores: ``[B, L]``, m(v), log-probability of the best token of each vertex; zeros for plain Viterbi.
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
    best = edges[:, 0] + vertex_scores[:, :1] + tokens
    totals, ends, parents = [], [], []
    for length in range(1, count + 1):
        if length > 1:
            best, parent = (best.unsqueeze(2) + edges).max(1)
            best = best + tokens
            parents.append(parent)
        total, end = (best + to_end).max(1)
        totals.append(total.masked_fill(length > limits, float("-inf")))
        ends.append(end)
    lengths = torch.arange(1, count + 1, device=links.device)
    scores = torch.stack(totals, 1)
    ranks, chosen = (scores / lengths.to(scores.dtype) ** length_beta).max(1)
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
