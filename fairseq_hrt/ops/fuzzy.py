"""Expected n-gram matches between a target and the texts that a graph generates (FA-DAT, section
3)."""

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import check, probabilities, suspect


class FuzzyAlignment(NamedTuple):
    """The result of :func:`fuzzy_alignment`; every field is ``[B]`` and differentiable.

    Attributes:
        score: brevity penalty times precision, the training objective.
        precision: p'_n, expected matches divided by the expected number of n-grams in a text of the
            graph.
        brevity_penalty: min(1, exp(1 - T / expected length)) for a target of T tokens.
        expected_length: expected number of vertices on a path, the first and the last included.
        recall: expected matches divided by the number of n-grams in the target.
    """

    score: Tensor
    precision: Tensor
    brevity_penalty: Tensor
    expected_length: Tensor
    recall: Tensor


def passing_probabilities(edges: Tensor) -> Tensor:
    """Probability that a path passes each vertex: p_0 = 1, p_v = sum_(u < v) p_u P(v | u) (FA-DAT,
    Eq. 12): ``[B, L]``, differentiable.

    Solved as one triangular system p (I - E) = e_0, without a loop.

    Args:
        edges: ``[B, L, L]``, E: P(v | u), 0 for v <= u.

    Raises:
        ValueError: a link does not lead forward; the triangular system would ignore it.
    """
    suspect(edges.detach().tril().amax() > 0, functools.partial(_refuse_backward, edges.detach()))
    return _Passing.apply(edges)


def _refuse_backward(edges: Tensor) -> None:
    if float(edges.tril().amax()) > 0:
        raise ValueError(
            "links leads backwards or to the vertex itself: log P(v | u) must be -inf for v <= u"
        )


class _Passing(torch.autograd.Function):
    """Solves p (I - E) = e_0 for p ``[B, L]``, given E ``[B, L, L]``. The gradient of E is the
    outer product of p and a, where (I - E) a = gradient of p."""

    @staticmethod
    def forward(ctx: Any, edges: Tensor) -> Tensor:
        # The diagonal of a unit triangular system is not read: -E stands for I - E.
        system = -edges
        start = edges.new_zeros(*edges.shape[:2], 1)  # [B, L, 1]
        start[:, 0] = 1
        passing = _solve(system.transpose(1, 2), start, upper=False)  # [B, L]
        ctx.save_for_backward(system, passing)
        return passing

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        system, passing = ctx.saved_tensors
        adjoint = _solve(system, gradient.unsqueeze(2), upper=True)  # [B, L]
        return passing.unsqueeze(2) * adjoint.unsqueeze(1)  # [B, L, L]


def _solve(system: Tensor, right: Tensor, *, upper: bool) -> Tensor:
    """The solutions x ``[B, L]`` of the unit triangular systems ``system`` x = ``right``.

    Args:
        system: ``[B, L, L]``; its diagonal counts as 1 and is not read.
        right: ``[B, L, 1]``.
        upper: whether the upper triangle is read; otherwise the lower one.
    """
    return torch.linalg.solve_triangular(system, right, upper=upper, unitriangular=True).squeeze(2)


def fuzzy_alignment(
    match: Tensor,
    links: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    vertex_lengths: Tensor,
    *,
    order: int = 2,
) -> FuzzyAlignment:
    """Expected clipped n-gram precision with a brevity penalty (FA-DAT, Eq. 8 to 17).

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        targets: LongTensor ``[B, T]``, with ``<s>`` and ``</s>``.
        target_lengths, vertex_lengths: LongTensors ``[B]``, tokens of each target and vertices of
            each graph.
        order: the number of tokens of an n-gram.

    Raises:
        ValueError: wrong shapes or lengths, NaN, or an order below 1.
    """
    if order < 1:
        raise ValueError(f"n-grams of order {order}: the order must be at least 1")
    check(links, vertex_lengths, match, target_lengths)
    edges = probabilities(links, vertex_lengths)  # [B, L, L]
    passing = passing_probabilities(edges)  # [B, L]
    vertices = torch.arange(links.size(1), device=links.device) < vertex_lengths.unsqueeze(1)
    emissions = match.to(edges.dtype).masked_fill(~vertices.unsqueeze(1), float("-inf")).exp()

    windows = max(targets.size(1) - order + 1, 0)
    matched, produced = passing.unsqueeze(1) * emissions[:, :windows], passing  # [B, W, L], [B, L]
    for place in range(1, order):
        matched = torch.bmm(matched, edges) * emissions[:, place : place + windows]  # [B, W, L]
        produced = torch.bmm(produced.unsqueeze(1), edges).squeeze(1)  # [B, L]
    # [B, W] each
    expected, counts = matched.sum(2), _counts(targets, target_lengths, order, windows)
    hits = torch.where(counts > 0, torch.minimum(expected, counts.to(expected.dtype)), 0.0).sum(1)

    produced = produced.sum(1)  # [B]
    length = passing.sum(1)  # [B]
    precision = torch.where(produced > 0, hits / produced.clamp(min=1e-30), 0.0)  # [B]
    brevity = torch.exp((1 - target_lengths.to(length.dtype) / length).clamp(max=0))  # [B]
    in_target = (target_lengths - order + 1).clamp(min=1).to(hits.dtype)
    return FuzzyAlignment(brevity * precision, precision, brevity, length, hits / in_target)


@torch.no_grad()
def _counts(targets: Tensor, lengths: Tensor, order: int, windows: int) -> Tensor:
    """How often each n-gram of the targets occurs: ``[B, W]`` with the count at its first
    occurrence and 0 at later ones and at padding; W = ``windows`` = T - ``order`` + 1."""
    if not windows:
        return targets.new_zeros(len(targets), 0)
    grams = targets.unfold(1, order, 1)  # [B, W, n]
    valid = torch.arange(windows, device=targets.device) + order <= lengths.unsqueeze(1)  # [B, W]
    same = (  # [B, W, W]
        (grams.unsqueeze(1) == grams.unsqueeze(2)).all(3) & valid.unsqueeze(1) & valid.unsqueeze(2)
    )
    repeated = same.tril(-1).any(2)  # [B, W]
    return same.sum(2) * ~repeated  # [B, W]
