"""Likelihood of a target under all paths of a graph, with exact gradients, and its best path (Huang
et al., 2022, section 3).

    f_0(v) = match_0(v) for v = 0;  f_k(v) = match_k(v) + log sum_u exp(f_(k-1)(u) + links(u, v));
    log P(y) = f_(T-1)(last)

Recorded by autograd in log space, this program keeps T tensors of the size of the links and reads
each of them twice. Here it is a forward and a backward recursion of probabilities in double
precision, rescaled at each step: matrix-vector products, and for the gradient of the links one
matrix product, since that gradient is the expected number of times that a link is used.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .checks import check, only_inside


def dag_log_likelihood(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """log P(y), summed over all paths.

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths: LongTensor ``[B]``, with ``<s>`` and ``</s>``.
        vertex_lengths: LongTensor ``[B]``.

    Returns:
        ``[B]``, differentiable in both; -inf without a gradient where no path fits, e.g. more
        tokens than vertices. The gradient in ``match`` is the posterior of each vertex, in
        ``links`` the expected use of each link. float32 for half-precision arguments, else their
        type; the sums are taken in float64.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    if not (torch.is_grad_enabled() and (match.requires_grad or links.requires_grad)):
        likelihood, _, _ = forward_backward(
            match, links, target_lengths, vertex_lengths, gradients=False
        )
        return _as(match, likelihood)
    return _LogLikelihood.apply(match, links, target_lengths, vertex_lengths)


def _as(match: Tensor, likelihood: Tensor) -> Tensor:
    return likelihood.to(torch.float32 if match.dtype.itemsize < 4 else match.dtype)


class _LogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
    ) -> Tensor:
        likelihood, posterior, usage = forward_backward(
            match, links, target_lengths, vertex_lengths
        )
        assert posterior is not None and usage is not None
        ctx.save_for_backward(posterior.to(match.dtype), usage.to(links.dtype))
        return _as(match, likelihood)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, None, None]:
        posterior, usage = ctx.saved_tensors
        gradient = gradient.view(-1, 1, 1)
        return (
            (gradient * posterior).to(posterior.dtype),
            (gradient * usage).to(usage.dtype),
            None,
            None,
        )


def forward_backward(
    match: Tensor,
    links: Tensor,
    target_lengths: Tensor,
    vertex_lengths: Tensor,
    *,
    gradients: bool = True,
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Likelihood and its gradients.

    Args:
        match, links, target_lengths, vertex_lengths: see :func:`dag_log_likelihood`.
        gradients: False computes neither of them.

    Returns:
        (log-likelihood ``[B]``, posterior of the vertices ``[B, T, L]``, expected use of the links
        ``[B, L, L]``), float64.
    """
    terms = _scaled(match, links, target_lengths, vertex_lengths)
    forward, backward = _forward(terms), _backward(terms)
    rows = torch.arange(len(match), device=match.device)
    reached = (forward.values[rows, terms.last] * terms.ends).sum(1)
    likelihood = torch.where(
        reached > 0, _log(reached) + forward.scales[rows, terms.last], float("-inf")
    )
    joint = forward.values * backward.values
    mass = joint.sum(2)
    found: _Found = (likelihood, None, None)
    if gradients:
        found = (likelihood, *_gradients(terms, forward, backward, likelihood, joint, mass))
    # Both factors of a step have 1 as their largest number: whatever underflowed is less than
    # 1e-300 of that, nothing beside this.
    sound = mass * torch.minimum(forward.factors, backward.factors) > 1e-280
    # An impossible sentence has no mass, and is doubtful with the others.
    doubtful = (terms.inside & ~sound).any(1) & (target_lengths <= vertex_lengths)
    if bool(doubtful.any()):
        # Most of them have no path at all, which is told without any probability.
        doubtful &= _has_path(match, links, target_lengths, vertex_lengths)
        chosen = doubtful.nonzero().squeeze(1)
        redone = _in_log_space(
            match[chosen], links[chosen], target_lengths[chosen], vertex_lengths[chosen]
        )
        for whole, part in zip(found, redone):
            if whole is not None:
                whole[chosen] = part
    return found


_Found = Tuple[Tensor, Optional[Tensor], Optional[Tensor]]


class _Terms(NamedTuple):
    """The factors of the recursions, float64.

    Attributes:
        edges: ``[B, L, L]``, P(v | u).
        emissions: ``[B, T, L]``, P(y_i | v) divided by the largest of its step; 0 outside the
            lengths.
        scale: ``[B, T]``, logarithm of that largest.
        inside: BoolTensor ``[B, T]``, real tokens.
        last: LongTensor ``[B]``, the last token.
        ends: ``[B, L]``, 1 at the last vertex.
    """

    edges: Tensor
    emissions: Tensor
    scale: Tensor
    inside: Tensor
    last: Tensor
    ends: Tensor


class _Scan(NamedTuple):
    """One recursion over the steps.

    Attributes:
        values: ``[B, T, L]``, divided at each step by the largest.
        scales: ``[B, T]``, logarithm of what they were divided by so far.
        factors: ``[B, T]``, what they were divided by at this step.
    """

    values: Tensor
    scales: Tensor
    factors: Tensor


def _gradients(
    terms: _Terms, forward: _Scan, backward: _Scan, likelihood: Tensor, joint: Tensor, mass: Tensor
) -> Tuple[Tensor, Tensor]:
    """Posterior of the vertices ``[B, T, L]`` and expected use of the links ``[B, L, L]``.

    Args:
        joint: ``[B, T, L]``, the product of both recursions; mass: its sum over the vertices.
    """
    counted = (likelihood > float("-inf")).unsqueeze(1) & terms.inside
    posterior = joint / torch.where(mass > 0, mass, 1.0).unsqueeze(2) * counted.unsqueeze(2)
    weight = torch.exp(
        forward.scales[:, :-1]
        + terms.scale[:, 1:]
        + backward.scales[:, 1:]
        - likelihood.unsqueeze(1)
    )
    left = forward.values[:, :-1] * torch.where(counted[:, 1:], weight, 0.0).unsqueeze(2)
    usage = terms.edges * torch.bmm(
        left.transpose(1, 2), terms.emissions[:, 1:] * backward.values[:, 1:]
    )
    return posterior, usage


def _scaled(match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor) -> _Terms:
    steps, size = match.shape[1:]
    inside = torch.arange(steps, device=match.device) < target_lengths.unsqueeze(1)
    vertex = torch.arange(size, device=match.device)
    read = inside.unsqueeze(2) & (vertex < vertex_lengths.unsqueeze(1)).unsqueeze(1)
    scores = match.double().masked_fill(~read, float("-inf"))
    # One scale a step keeps products of small probabilities in range.
    scale = scores.amax(2, keepdim=True).clamp(min=-1e300)
    return _Terms(
        edges=only_inside(links, vertex_lengths).double().exp(),
        emissions=(scores - scale).exp(),
        scale=scale.squeeze(2),
        inside=inside,
        last=target_lengths - 1,
        ends=(vertex == (vertex_lengths - 1).unsqueeze(1)).double(),
    )


def _log(values: Tensor) -> Tensor:
    """log, finite for 0."""
    return values.clamp(min=1e-320).log()


def _rescaled(current: Tensor, total: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """(``current`` ``[B, L]`` with 1 as its largest number, the logarithm of all scales so far,
    that largest number before)."""
    largest = current.amax(1)
    usable = largest > 0
    total = torch.where(usable, total + _log(largest), total)
    return current / torch.where(usable, largest, 1.0).unsqueeze(1), total, largest


def _forward(terms: _Terms) -> _Scan:
    """f_k from the first token on."""
    forward, scales, factors = (
        torch.zeros_like(terms.emissions),
        torch.zeros_like(terms.scale),
        torch.zeros_like(terms.scale),
    )
    current = terms.emissions[:, 0].clone()
    # A path begins at the first vertex.
    current[:, 1:] = 0
    total = terms.scale[:, 0]
    for step in range(forward.size(1)):
        if step:
            current = (
                torch.bmm(current.unsqueeze(1), terms.edges).squeeze(1) * terms.emissions[:, step]
            )
            total = total + terms.scale[:, step]
        current, total, factors[:, step] = _rescaled(current, total)
        forward[:, step], scales[:, step] = current, total
    return _Scan(forward, scales, factors)


def _backward(terms: _Terms) -> _Scan:
    """The same from the end: the probability of what follows a vertex."""
    backward, scales, factors = (
        torch.zeros_like(terms.emissions),
        torch.zeros_like(terms.scale),
        torch.zeros_like(terms.scale),
    )
    current, total = torch.zeros_like(terms.ends), torch.zeros_like(terms.scale[:, 0])
    steps = backward.size(1)
    # Rows times a matrix: six times as fast on a CPU as the matrix times columns.
    edges = terms.edges.transpose(1, 2)
    for step in range(steps - 1, -1, -1):
        if step + 1 < steps:
            current = torch.bmm(
                (terms.emissions[:, step + 1] * current).unsqueeze(1), edges
            ).squeeze(1)
            total = total + terms.scale[:, step + 1]
        begins = terms.last == step
        current = torch.where(begins.unsqueeze(1), terms.ends, current)
        current, total, factors[:, step] = _rescaled(current, torch.where(begins, 0.0, total))
        backward[:, step], scales[:, step] = current, total
    return _Scan(backward, scales, factors)


def _has_path(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """Whether any path emits the target, however improbable: BoolTensor ``[B]``."""
    joined = (only_inside(links, vertex_lengths) > float("-inf")).float()
    emits = match > float("-inf")
    rows, last = torch.arange(len(match), device=match.device), target_lengths - 1
    current = torch.zeros_like(emits[:, 0])
    current[:, 0] = emits[:, 0, 0]
    reached = [current]
    for step in range(1, match.size(1)):
        # Numbers of vertices that lead there: small integers, so exact.
        current = (torch.bmm(current.float().unsqueeze(1), joined).squeeze(1) > 0) & emits[:, step]
        reached.append(current)
    return torch.stack(reached, 1)[rows, last, vertex_lengths - 1]


def _in_log_space(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """The same by logarithms, slowly, for the rare sentences whose probabilities leave the range of
    float64."""
    edges = only_inside(links.detach(), vertex_lengths).double()
    with torch.enable_grad():
        scores = match.detach().double().requires_grad_()
        edges = edges.requires_grad_()
        rows = torch.arange(len(scores), device=scores.device)
        start = torch.full_like(scores[:, 0], float("-inf"))
        start[:, 0] = 0
        steps = [scores[:, 0] + start]
        for step in range(1, scores.size(1)):
            steps.append(scores[:, step] + _logsumexp(steps[-1].unsqueeze(2) + edges, 1))
        likelihood = torch.stack(steps, 1)[rows, target_lengths - 1, vertex_lengths - 1]
        possible = likelihood > float("-inf")
        posterior, usage = torch.autograd.grad(
            torch.where(possible, likelihood, 0.0).sum(), (scores, edges)
        )
    return likelihood.detach(), posterior.nan_to_num(0.0), usage.nan_to_num(0.0)


def _logsumexp(values: Tensor, dim: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where everything is -inf."""
    largest = values.detach().amax(dim, keepdim=True).clamp(min=-1e300)
    total = (values - largest).exp().sum(dim)
    return torch.where(
        total > 0, total.clamp(min=1e-320).log() + largest.squeeze(dim), float("-inf")
    )


@torch.no_grad()
def dag_best_alignment(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """The most probable path that emits the target.

    Args:
        match, links, target_lengths, vertex_lengths: see :func:`dag_log_likelihood`.

    Returns:
        LongTensor ``[B, L]``: index of the target token that each vertex emits, -1 for vertices
        that the path passes by, and everywhere where no path fits.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    batch, steps, size = match.shape
    edges = only_inside(links, vertex_lengths).double()
    best = torch.full((batch, size), float("-inf"), dtype=torch.float64, device=match.device)
    best[:, 0] = match[:, 0, 0].double()
    scores = [best]
    for step in range(1, steps):
        # Without the predecessors of all vertices, which cost several times as much: a path asks
        # for one a step.
        best = (best.unsqueeze(2) + edges).amax(1) + match[:, step].double()
        scores.append(best)
    rows = torch.arange(batch, device=match.device)
    last = vertex_lengths - 1
    possible = torch.stack(scores, 1)[rows, target_lengths - 1, last] > float("-inf")
    alignment = torch.full((batch, size), -1, device=match.device)
    vertex = last
    for step in range(steps - 1, -1, -1):
        running = possible & (step < target_lengths)
        # Written everywhere, so that no index depends on a condition: that would wait for the
        # device.
        place = vertex.unsqueeze(1)
        alignment.scatter_(
            1, place, torch.where(running.unsqueeze(1), step, alignment.gather(1, place))
        )
        if step:
            parent = (scores[step - 1] + edges[rows, :, vertex]).argmax(1)
            vertex = torch.where(running, parent, vertex)
    return alignment
