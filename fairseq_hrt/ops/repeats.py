"""A graph whose neighbouring vertices on a path never write the same word: what a text without
immediate repeats is searched in."""

import torch
from torch import Tensor

from .checks import check, only_inside, probabilities

#: Rows whose probability is less may have lost a part of it to float32.
_LEAST_MASS = 1e-20
#: Vertices of graphs that are solved word by word; one system for all words is quicker for smaller
#: ones.
_LARGE = 512


@torch.no_grad()
def without_repeats(
    links: Tensor, tokens: Tensor, token_scores: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """Links from the first vertex of a word to the first vertex of the next, over all repeats of
    the word between them.

    With S(u, v) = 1 where both vertices write the same token, M = E P_v S (a link to a repeat, with
    that repeat's token) and D = E (1 - S), the chains of repeats sum up to a geometric series:

        D + M D + M M D + … = (I - M)^(-1) D

    one unit triangular system of non-negative numbers, so without cancellation. No chain leaves its
    word: large graphs are solved word by word, as the cost is the cube of the vertices of one.
    Where a vertex has nothing but long chains of repeats before it
    (``--dag-max-transition-length``, and a model that writes one frequent word everywhere), these
    products underflow; the rows of such a sentence are computed relative to their sums, in float64.
    A path over the new links visits the vertices where its words begin; log-links of the path plus
    log-probabilities of its words' first tokens are log-probability of printing these words from
    there, however often the graph repeats them.

    Args:
        links: ``[B, L, L]``, log P(v | u), impossible for v <= u.
        tokens: LongTensor ``[B, L]``, what each vertex writes.
        token_scores: ``[B, L]``, what a repeat costs besides its link: log P(token | v), or
            weighted; zeros: nothing.
        vertex_lengths: LongTensor ``[B]``.

    Returns:
        ``[B, L, L]``; equal to ``links`` where no two joined vertices write the same token. Rows
        sum to at most 1.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths)
    edges = probabilities(links, vertex_lengths)
    same = tokens.unsqueeze(2) == tokens.unsqueeze(1)
    repeats = (edges * token_scores.to(edges.dtype).exp().unsqueeze(1)).masked_fill(~same, 0.0)
    others = edges.masked_fill(same, 0.0)
    through = _through_repeats(repeats, others, same)
    found = through.log()
    leads_on = torch.arange(links.size(1), device=links.device) < (vertex_lengths - 1).unsqueeze(1)
    small = (leads_on & (through.sum(2) < _LEAST_MASS)).any(1)
    if bool(small.any()):
        exact = _relative_to_rows(
            links[small], same[small], token_scores[small], vertex_lengths[small]
        )
        found[small] = exact.to(found.dtype)
    return found.to(links.dtype)


def _through_repeats(repeats: Tensor, others: Tensor, same: Tensor) -> Tensor:
    """(I - M)^(-1) D of ``repeats`` and ``others``, ``[B, L, L]`` each; ``same``: where two
    vertices write the same word."""
    # The diagonal of a unit triangular system is not read: -M stands for I - M.
    if repeats.size(1) < _LARGE:
        return torch.linalg.solve_triangular(repeats.neg(), others, upper=True, unitriangular=True)
    found = others.clone()
    for row, alike in enumerate(same):
        # The first vertex of each word that has several.
        firsts = alike.to(torch.uint8).argmax(1).unique()
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
    """:func:`without_repeats` by another way, which is slower, and loses only what is 10^-300 of
    its row: ``[B, L, L]`` in float64.

    With s(u) the sum of row u of the result, known in logarithms before the row itself, (I -
    M)^(-1) D has the rows of diag(s) (I - diag(1/s) M diag(s))^(-1) diag(1/s) D, where those of the
    last two factors sum to 1.
    """
    edges = only_inside(links.double(), vertex_lengths)
    repeats = (edges + token_scores.double().unsqueeze(1)).masked_fill(~same, float("-inf"))
    others = edges.masked_fill(same, float("-inf"))
    sums = others.logsumexp(2)
    for vertex in reversed(range(links.size(1) - 1)):
        behind = (repeats[:, vertex, vertex + 1 :] + sums[:, vertex + 1 :]).logsumexp(1)
        sums[:, vertex] = torch.logaddexp(sums[:, vertex], behind)
    # Rows that lead nowhere, such as the last one, stay empty.
    sums.masked_fill_(sums == float("-inf"), 0.0)
    onwards, away = (
        (repeats + sums.unsqueeze(1) - sums.unsqueeze(2)).exp(),
        (others - sums.unsqueeze(2)).exp(),
    )
    through = _through_repeats(onwards, away, same)
    return through.log() + sums.unsqueeze(2)


@torch.no_grad()
def best_printing_path(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """The most probable path that prints the target, where a word may be repeated by vertices that
    follow each other:

        f_k(v) = match_k(v) + max_u [max(f_k(u), f_(k-1)(u)) + links(u, v)]

    Args:
        match, links, target_lengths, vertex_lengths: see :func:`.dag_log_likelihood`.

    Returns:
        LongTensor ``[B, L]``: index of the target token that each vertex writes, -1 for vertices
        that the path passes by, and everywhere where no path fits.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    batch, _, size = match.shape
    # [B, T, L] -> [B, L, T]
    scores, edges = match.double().transpose(1, 2), only_inside(links, vertex_lengths).double()
    best = torch.full_like(scores, float("-inf"))
    best[:, 0, 0] = scores[:, 0, 0]
    # The predecessor of (v, k), and whether it has written the token before.
    parents = torch.zeros_like(best, dtype=torch.long)
    advances = torch.zeros_like(best, dtype=torch.bool)
    before = torch.full_like(scores[:, :, :1], float("-inf"))
    before = torch.cat([before, best[:, :, :-1]], 2)
    for vertex in range(1, size):
        into = edges[:, :vertex, vertex, None]
        value, parent = torch.maximum(best[:, :vertex], before[:, :vertex]).add(into).max(1)
        parents[:, vertex] = parent
        advances[:, vertex] = (before > best).gather(1, parent.unsqueeze(1)).squeeze(1)
        best[:, vertex] = value + scores[:, vertex]
        before[:, vertex, 1:] = best[:, vertex, :-1]
    rows = torch.arange(batch, device=match.device)
    last, step = vertex_lengths - 1, target_lengths - 1
    running = best[rows, last, step] > float("-inf")
    alignment = torch.full((batch, size), -1, device=match.device)
    for _ in range(size):
        place = last.unsqueeze(1)
        alignment.scatter_(
            1,
            place,
            torch.where(running.unsqueeze(1), step.unsqueeze(1), alignment.gather(1, place)),
        )
        running = running & (last > 0)
        parent, advanced = parents[rows, last, step], advances[rows, last, step]
        step = torch.where(running & advanced, step - 1, step)
        last = torch.where(running, parent, last)
    return alignment
