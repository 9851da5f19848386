"""Likelihood of a target under all paths of a graph, with exact gradients, and its best path (Huang et al., 2022, section 3).

    f_0(v) = match_0(v) for v = 0;  f_k(v) = match_k(v) + log sum_u exp(f_(k-1)(u) + links(u, v));  log P(y) = f_(T-1)(last)

Recorded by autograd in log space, this program keeps T tensors of the size of the links and reads each of them twice. Here it is a
forward and a backward recursion of probabilities in double precision, rescaled at each step: matrix-vector products, and for the
gradient of the links one matrix product, since that gradient is the expected number of times that a link is used.
"""

from typing import Any, Tuple

import torch
from torch import Tensor

from .checks import check, only_inside


def dag_log_likelihood(match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor) -> Tensor:
    """log P(y), summed over all paths.

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths: LongTensor ``[B]``, with ``<s>`` and ``</s>``.
        vertex_lengths: LongTensor ``[B]``.

    Returns:
        ``[B]``, differentiable in both; -inf without a gradient where no path fits, e.g. more tokens than vertices. The
        gradient in ``match`` is the posterior of each vertex, in ``links`` the expected use of each link. float32 for
        half-precision arguments, else their type; the sums are taken in float64.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    return _LogLikelihood.apply(match, links, target_lengths, vertex_lengths)


class _LogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor) -> Tensor:
        likelihood, posterior, usage = forward_backward(match, links, target_lengths, vertex_lengths)
        ctx.save_for_backward(posterior.to(match.dtype), usage.to(links.dtype))
        return likelihood.to(torch.float32 if match.dtype.itemsize < 4 else match.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, None, None]:
        posterior, usage = ctx.saved_tensors
        gradient = gradient.view(-1, 1, 1)
        return (gradient * posterior).to(posterior.dtype), (gradient * usage).to(usage.dtype), None, None


def forward_backward(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Likelihood and its gradients.

    Returns:
        (log-likelihood ``[B]``, posterior of the vertices ``[B, T, L]``, expected use of the links ``[B, L, L]``), float64.
    """
    batch, steps, size = match.shape
    edges = only_inside(links, vertex_lengths).double().exp()
    token = torch.arange(steps, device=match.device)
    inside = (token < target_lengths.unsqueeze(1)).unsqueeze(2)
    scores = match.double().masked_fill(~inside, float("-inf"))
    vertex = torch.arange(size, device=match.device)
    scores = scores.masked_fill(vertex >= vertex_lengths.view(-1, 1, 1), float("-inf"))
    # One scale a step keeps products of small probabilities in range.
    emission_scale = scores.amax(2, keepdim=True).clamp(min=-1e300)
    emissions = (scores - emission_scale).exp()
    emission_scale = emission_scale.squeeze(2)

    rows = torch.arange(batch, device=match.device)
    forward, forward_scale = torch.zeros_like(emissions), torch.zeros_like(emission_scale)
    current = emissions[:, 0] * (vertex == 0)
    total = emission_scale[:, 0].clone()
    for step in range(steps):
        if step:
            current = torch.bmm(current.unsqueeze(1), edges).squeeze(1) * emissions[:, step]
            total = total + emission_scale[:, step]
        largest = current.amax(1)
        usable = largest > 0
        current = current / torch.where(usable, largest, 1.0).unsqueeze(1)
        total = torch.where(usable, total + largest.clamp(min=1e-320).log(), total)
        forward[:, step], forward_scale[:, step] = current, total

    ends = (vertex == (vertex_lengths - 1).unsqueeze(1)).double()
    last = target_lengths - 1
    reached = (forward[rows, last] * ends).sum(1)
    likelihood = torch.where(reached > 0, reached.clamp(min=1e-320).log() + forward_scale[rows, last], float("-inf"))

    backward, backward_scale = torch.zeros_like(emissions), torch.zeros_like(emission_scale)
    current, total = torch.zeros_like(ends), torch.zeros_like(likelihood)
    for step in range(steps - 1, -1, -1):
        if step + 1 < steps:
            # Rows times a matrix: six times as fast on a CPU as the matrix times columns.
            current = torch.bmm((emissions[:, step + 1] * current).unsqueeze(1), edges.transpose(1, 2)).squeeze(1)
            total = total + emission_scale[:, step + 1]
        begins = step == last
        current = torch.where(begins.unsqueeze(1), ends, current)
        total = torch.where(begins, 0.0, total)
        largest = current.amax(1)
        usable = largest > 0
        current = current / torch.where(usable, largest, 1.0).unsqueeze(1)
        total = torch.where(usable, total + largest.clamp(min=1e-320).log(), total)
        backward[:, step], backward_scale[:, step] = current, total

    joint = forward * backward
    mass = joint.sum(2)
    # Every step's joint mass is the likelihood: where it is not, probabilities have underflowed.
    found = mass.clamp(min=1e-320).log() + forward_scale + backward_scale
    inside = inside.squeeze(2)
    exact = ((found - likelihood.unsqueeze(1)).abs() < 1e-8 * (1 + likelihood.abs().unsqueeze(1))) | ~inside
    possible = likelihood > float("-inf")
    posterior = joint / torch.where(mass > 0, mass, 1.0).unsqueeze(2) * (possible.unsqueeze(1) & inside).unsqueeze(2)

    weight = torch.exp((forward_scale[:, :-1] + emission_scale[:, 1:] + backward_scale[:, 1:] - likelihood.unsqueeze(1)))
    weight = torch.where(possible.unsqueeze(1) & inside[:, 1:], weight, 0.0)
    left = forward[:, :-1] * weight.unsqueeze(2)
    usage = edges * torch.bmm(left.transpose(1, 2), emissions[:, 1:] * backward[:, 1:])

    doubtful = (~exact).any(1) | ~possible
    doubtful &= target_lengths <= vertex_lengths
    if bool(doubtful.any()):
        chosen = doubtful.nonzero().squeeze(1)
        redone = _in_log_space(match[chosen], links[chosen], target_lengths[chosen], vertex_lengths[chosen])
        for whole, part in zip((likelihood, posterior, usage), redone):
            whole[chosen] = part
    return likelihood, posterior, usage


def _in_log_space(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """The same by logarithms, slowly, for the rare sentences whose probabilities leave the range of float64."""
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
        posterior, usage = torch.autograd.grad(torch.where(possible, likelihood, 0.0).sum(), (scores, edges))
    return likelihood.detach(), posterior.nan_to_num(0.0), usage.nan_to_num(0.0)


def _logsumexp(values: Tensor, dim: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where everything is -inf."""
    largest = values.detach().amax(dim, keepdim=True).clamp(min=-1e300)
    total = (values - largest).exp().sum(dim)
    return torch.where(total > 0, total.clamp(min=1e-320).log() + largest.squeeze(dim), float("-inf"))


@torch.no_grad()
def dag_best_alignment(match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor) -> Tensor:
    """The most probable path that emits the target.

    Args:
        match, links, target_lengths, vertex_lengths: see :func:`dag_log_likelihood`.

    Returns:
        LongTensor ``[B, L]``: index of the target token that each vertex emits, -1 for vertices that the path passes by, and
        everywhere where no path fits.

    Raises:
        ValueError: shapes or lengths that do not fit, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    batch, steps, size = match.shape
    edges = only_inside(links, vertex_lengths).double()
    best = torch.full((batch, size), float("-inf"), dtype=torch.float64, device=match.device)
    best[:, 0] = match[:, 0, 0].double()
    scores, parents = [best], []
    for step in range(1, steps):
        best, parent = (best.unsqueeze(2) + edges).max(1)
        best = best + match[:, step].double()
        scores.append(best)
        parents.append(parent)
    rows = torch.arange(batch, device=match.device)
    last = vertex_lengths - 1
    possible = torch.stack(scores, 1)[rows, target_lengths - 1, last] > float("-inf")
    alignment = torch.full((batch, size), -1, device=match.device)
    vertex = last
    for step in range(steps - 1, -1, -1):
        running = possible & (step < target_lengths)
        alignment[rows[running], vertex[running]] = step
        if step:
            vertex = torch.where(running, parents[step - 1][rows, vertex], vertex)
    return alignment
