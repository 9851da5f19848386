"""Graphs in which neighbouring vertices of a path never write the same word: a search in them
scores texts from which immediate repetitions have been removed."""

import torch
from torch import Tensor

from .checks import check, only_inside, probabilities

#: Rows that sum to less may have lost probability to underflow in float32; they are recomputed.
LEAST_MASS = 1e-20
#: Graphs with at least this many vertices are solved word by word; for smaller ones, a single
#: system for all words is faster.
_LARGE = 512


@torch.no_grad()
def without_repeats(
    links: Tensor, tokens: Tensor, token_scores: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """Links between different words, summed over all repetitions of the first word.

    The graph may write a word by several vertices in a row. The new link from u to v sums over all
    paths that leave u, repeat its word any number of times and then reach v, which writes another
    word. A path over the new links visits the first vertex of each word; its links plus the
    log-probabilities of these first tokens give the log-probability of the words, however often the
    graph repeats them.

    With E = exp(``links``), S(u, v) = 1 if both vertices write the same token (else 0), P_v the
    probability of v's token, M = E P_v S (a link to a repetition, with the repetition's token) and
    D = E (1 - S), all by element, the chains of repetitions are a geometric series:

        D + M D + M M D + … = (I - M)^(-1) D

    This is one unit triangular system of non-negative numbers, without cancellation. No chain
    leaves its word, so large graphs are solved word by word: the cost is cubic in the vertices of a
    word. These products underflow where a vertex is left only by long chains of repetitions
    (``--dag-max-transition-length`` and a model that writes one frequent word everywhere); such
    sentences are computed relative to the sums of their rows, in float64.

    Args:
        links: ``[B, L, L]``, log P(v | u), -inf for v <= u.
        tokens: LongTensor ``[B, L]``, the token that each vertex writes.
        token_scores: ``[B, L]``, what a repetition at v adds besides its link: log P(token | v),
            maybe times a weight, or 0.
        vertex_lengths: LongTensor ``[B]``, vertices of each graph.

    Returns:
        Log-probabilities ``[B, L, L]``; equal to ``links`` if no two linked vertices write the same
        token. The probabilities of a row sum to at most 1.

    Raises:
        ValueError: wrong shapes or lengths, or NaN.
    """
    check(links, vertex_lengths)
    edges = probabilities(links, vertex_lengths)
    same = tokens.unsqueeze(2) == tokens.unsqueeze(1)  # [B, L, L]
    repeats = (edges * token_scores.to(edges.dtype).exp().unsqueeze(1)).masked_fill(~same, 0.0)
    others = edges.masked_fill(same, 0.0)  # [B, L, L]
    through = _through_repeats(repeats, others, same)  # [B, L, L]
    found = through.log()
    leads_on = torch.arange(links.size(1), device=links.device) < (vertex_lengths - 1).unsqueeze(1)
    small = (leads_on & (through.sum(2) < LEAST_MASS)).any(1)  # [B]
    if bool(small.any()):
        exact = _relative_to_rows(
            links[small], same[small], token_scores[small], vertex_lengths[small]
        )
        found[small] = exact.to(found.dtype)
    return found.to(links.dtype)


def _through_repeats(repeats: Tensor, others: Tensor, same: Tensor) -> Tensor:
    """(I - M)^(-1) D ``[B, L, L]``, see :func:`without_repeats`.

    Args:
        repeats: M, ``[B, L, L]``.
        others: D, ``[B, L, L]``.
        same: BoolTensor ``[B, L, L]``, True where two vertices write the same word; M is 0
            elsewhere, so that large graphs are solved word by word.
    """
    # The diagonal of a unit triangular system is not read: -M stands for I - M.
    if repeats.size(1) < _LARGE:
        return torch.linalg.solve_triangular(repeats.neg(), others, upper=True, unitriangular=True)
    found = others.clone()
    for row, alike in enumerate(same):
        # Words with several vertices, each named by its first vertex.
        firsts = alike.to(torch.uint8).argmax(1).unique()  # [words]
        for first in firsts[alike[firsts].sum(1) > 1].tolist():
            members, columns = alike[first].nonzero(), (~alike[first]).nonzero().squeeze(1)
            own, away = repeats[row, members, members.squeeze(1)], others[row, members, columns]
            found[row, members, columns] = torch.linalg.solve_triangular(
                own.neg(), away, upper=True, unitriangular=True
            )
    return found


def _relative_to_rows(
    links: Tensor, same: Tensor, token_scores: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """The same result as :func:`without_repeats`, ``[B, L, L]``, but computed relative to the sums
    of the rows in float64, which is slower: only probabilities below about 1e-300 times the sum of
    their row underflow. ``same`` is True where two vertices write the same word.

    The sum s(u) of each row of the result is computed first, as a logarithm. With it, (I - M)^(-1)
    D = diag(s) (I - diag(1/s) M diag(s))^(-1) diag(1/s) D, where the rows of [diag(1/s) M diag(s),
    diag(1/s) D] sum to 1 and cannot underflow as a whole.
    """
    edges = only_inside(links.double(), vertex_lengths)
    repeats = (edges + token_scores.double().unsqueeze(1)).masked_fill(~same, float("-inf"))
    others = edges.masked_fill(same, float("-inf"))  # [B, L, L]
    sums = others.logsumexp(2)  # [B, L]
    for vertex in reversed(range(links.size(1) - 1)):
        behind = (repeats[:, vertex, vertex + 1 :] + sums[:, vertex + 1 :]).logsumexp(1)  # [B]
        sums[:, vertex] = torch.logaddexp(sums[:, vertex], behind)
    # Rows without links, such as the last one, stay empty.
    sums.masked_fill_(sums == float("-inf"), 0.0)
    onwards, away = (
        (repeats + sums.unsqueeze(1) - sums.unsqueeze(2)).exp(),  # [B, L, L]
        (others - sums.unsqueeze(2)).exp(),  # [B, L, L]
    )
    through = _through_repeats(onwards, away, same)
    return through.log() + sums.unsqueeze(2)


@torch.no_grad()
def best_printing_path(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """The most probable path that prints the target, if consecutive vertices may repeat a word:

        f_k(v) = match_k(v) + max_u [max(f_k(u), f_(k-1)(u)) + links(u, v)]

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths, vertex_lengths: LongTensors ``[B]``, tokens of each target and vertices of
            each graph; see :func:`.dag_log_likelihood`.

    Returns:
        LongTensor ``[B, L]``: index of the target token that each vertex writes; -1 for vertices
        that are not on the path, and for all vertices if no path fits.

    Raises:
        ValueError: wrong shapes or lengths, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    batch, _, size = match.shape
    # [B, T, L] -> [B, L, T], and [B, L, L]
    scores, edges = match.double().transpose(1, 2), only_inside(links, vertex_lengths).double()
    best = torch.full_like(scores, float("-inf"))  # [B, L, T]
    best[:, 0, 0] = scores[:, 0, 0]
    # For each state (v, k): the previous vertex, and whether it wrote token k - 1 rather than k.
    parents = torch.zeros_like(best, dtype=torch.long)  # [B, L, T]
    advances = torch.zeros_like(best, dtype=torch.bool)
    before = torch.full_like(scores[:, :, :1], float("-inf"))
    before = torch.cat([before, best[:, :, :-1]], 2)  # [B, L, T], f_(k-1)
    for vertex in range(1, size):
        into = edges[:, :vertex, vertex, None]  # [B, v, 1]
        value, parent = torch.maximum(best[:, :vertex], before[:, :vertex]).add(into).max(1)
        parents[:, vertex] = parent
        advances[:, vertex] = (before > best).gather(1, parent.unsqueeze(1)).squeeze(1)  # [B, T]
        best[:, vertex] = value + scores[:, vertex]
        before[:, vertex, 1:] = best[:, vertex, :-1]
    rows = torch.arange(batch, device=match.device)
    last, step = vertex_lengths - 1, target_lengths - 1
    running = best[rows, last, step] > float("-inf")  # [B]
    alignment = torch.full((batch, size), -1, device=match.device)  # [B, L]
    for _ in range(size):
        place = last.unsqueeze(1)  # [B, 1]
        alignment.scatter_(
            1,
            place,
            torch.where(running.unsqueeze(1), step.unsqueeze(1), alignment.gather(1, place)),
        )
        running = running & (last > 0)
        parent, advanced = parents[rows, last, step], advances[rows, last, step]
        step = torch.where(running & advanced, step - 1, step)  # [B]
        last = torch.where(running, parent, last)  # [B]
    return alignment
