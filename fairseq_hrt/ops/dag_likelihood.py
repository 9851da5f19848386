"""The likelihood of a target, summed over all paths of a graph, with exact gradients, and the best
single path (Huang et al., 2022, section 3).

    f_0(v) = match_0(v) for v = 0;  f_k(v) = match_k(v) + log sum_u exp(f_(k-1)(u) + links(u, v));
    log P(y) = f_(T-1)(last)

In log space, autograd would store T tensors ``[B, L, L]``. Here a forward and a backward recursion
multiply probabilities in double precision, rescaled at each step: matrix-vector products, and one
matrix product for the gradient of the links, which is the expected number of times that each link
is used.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import fused
from .checks import check, only_inside
from .products import at_least_float32


def dag_log_likelihood(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """log P(y) of a target y, where P(y) is the sum over all paths that emit y.

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths: LongTensor ``[B]``, tokens of each target, ``<s>`` and ``</s>`` included.
        vertex_lengths: LongTensor ``[B]``, vertices of each graph.

    Returns:
        ``[B]``, differentiable in match and links; -inf with gradient 0 if no path fits, e.g. with
        more tokens than vertices. The gradient in ``match`` is the posterior of each vertex, in
        ``links`` the expected use of each link. The result has the dtype of ``match``, or float32
        if that is a half-precision type. It is computed in float64; on CUDA devices, unless an
        argument is float64, in float32, in log space, by :mod:`.fused`.

    Raises:
        ValueError: wrong shapes or lengths, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    differentiable = torch.is_grad_enabled() and (match.requires_grad or links.requires_grad)
    if _fuses(match, links):
        from .fused import dag

        program = dag.LogLikelihood.apply if differentiable else dag.likelihood
        return program(match, links, target_lengths, vertex_lengths)
    if not differentiable:
        likelihood, _, _ = forward_backward(
            match, links, target_lengths, vertex_lengths, gradients=False
        )
        return _as(match, likelihood)
    return _LogLikelihood.apply(match, links, target_lengths, vertex_lengths)


def _fuses(match: Tensor, links: Tensor) -> bool:
    """Whether the Triton kernels of :mod:`.fused` can be used: they run on the device of these
    tensors, and neither tensor is float64, which they do not support."""
    narrow = match.dtype.itemsize <= 4 and links.dtype.itemsize <= 4
    return narrow and fused.available(match.device)


def _as(match: Tensor, likelihood: Tensor) -> Tensor:
    return likelihood.to(at_least_float32(match.dtype))


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
        gradient = gradient.view(-1, 1, 1)  # [B, 1, 1]
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
    """The log-likelihood and its gradients in ``match`` and ``links``.

    Args:
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths, vertex_lengths: LongTensors ``[B]``, tokens of each target and vertices of
            each graph; see :func:`dag_log_likelihood`.
        gradients: False skips both gradients, which are None then.

    Returns:
        (log-likelihood ``[B]``, posterior of the vertices ``[B, T, L]``, expected use of the links
        ``[B, L, L]``), float64.
    """
    terms = _scaled(match, links, target_lengths, vertex_lengths)
    forward, backward = _forward(terms), _backward(terms)
    rows = torch.arange(len(match), device=match.device)  # [B]
    reached = (forward.values[rows, terms.last] * terms.ends).sum(1)  # [B]
    likelihood = torch.where(
        reached > 0, _log(reached) + forward.scales[rows, terms.last], float("-inf")
    )
    joint = forward.values * backward.values  # [B, T, L]
    mass = joint.sum(2)  # [B, T]
    found: _Found = (likelihood, None, None)
    if gradients:
        found = (likelihood, *_gradients(terms, forward, backward, likelihood, joint, mass))
    # A value that underflows is below 1e-300 before the division by the step's factor: nothing
    # beside the mass of the step if mass * factor exceeds 1e-280.
    sound = mass * torch.minimum(forward.factors, backward.factors) > 1e-280
    # [B], sentences whose mass may have underflowed at some step.
    doubtful = (terms.inside & ~sound).any(1) & (target_lengths <= vertex_lengths)
    if bool(doubtful.any()):
        # For most of these there is no path at all, and a mass of 0 is right.
        doubtful &= _has_path(match, links, target_lengths, vertex_lengths)
        chosen = doubtful.nonzero().squeeze(1)  # rows of the batch
        redone = _in_log_space(
            match[chosen], links[chosen], target_lengths[chosen], vertex_lengths[chosen]
        )
        for whole, part in zip(found, redone):
            if whole is not None:
                whole[chosen] = part
    return found


_Found = Tuple[Tensor, Optional[Tensor], Optional[Tensor]]


class _Terms(NamedTuple):
    """The inputs of the recursions, float64.

    Attributes:
        edges: ``[B, L, L]``, P(v | u).
        emissions: ``[B, T, L]``, P(y_i | v) divided by max_v P(y_i | v); 0 outside the lengths.
        scale: ``[B, T]``, log max_v P(y_i | v).
        inside: BoolTensor ``[B, T]``, True for tokens, False for padding.
        last: LongTensor ``[B]``, index of the last token.
        ends: ``[B, L]``, 1 at the last vertex, else 0.
    """

    edges: Tensor
    emissions: Tensor
    scale: Tensor
    inside: Tensor
    last: Tensor
    ends: Tensor


class _Scan(NamedTuple):
    """The results of one recursion over the target tokens.

    Attributes:
        values: ``[B, T, L]``, the recursion's values, divided at each step by their maximum.
        scales: ``[B, T]``, logarithm of the product of all divisors up to this step.
        factors: ``[B, T]``, the divisor of this step.
    """

    values: Tensor
    scales: Tensor
    factors: Tensor


def _gradients(
    terms: _Terms, forward: _Scan, backward: _Scan, likelihood: Tensor, joint: Tensor, mass: Tensor
) -> Tuple[Tensor, Tensor]:
    """The gradients of log P(y): (posterior of the vertices ``[B, T, L]``, expected use of the
    links ``[B, L, L]``).

    Args:
        terms: the inputs of both recursions.
        forward, backward: the results of :func:`_forward` and :func:`_backward`.
        likelihood: ``[B]``, log P(y).
        joint: ``[B, T, L]``, the product of the values of both recursions.
        mass: ``[B, T]``, the sum of ``joint`` over the vertices.
    """
    counted = (likelihood > float("-inf")).unsqueeze(1) & terms.inside  # [B, T]
    posterior = joint / torch.where(mass > 0, mass, 1.0).unsqueeze(2) * counted.unsqueeze(2)
    weight = torch.exp(  # [B, T - 1]
        forward.scales[:, :-1]
        + terms.scale[:, 1:]
        + backward.scales[:, 1:]
        - likelihood.unsqueeze(1)
    )
    # [B, T - 1, L]
    left = forward.values[:, :-1] * torch.where(counted[:, 1:], weight, 0.0).unsqueeze(2)
    usage = terms.edges * torch.bmm(
        left.transpose(1, 2), terms.emissions[:, 1:] * backward.values[:, 1:]
    )  # [B, L, L]
    return posterior, usage


def _scaled(match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor) -> _Terms:
    steps, size = match.shape[1:]
    inside = torch.arange(steps, device=match.device) < target_lengths.unsqueeze(1)  # [B, T]
    vertex = torch.arange(size, device=match.device)  # [L]
    read = inside.unsqueeze(2) & (vertex < vertex_lengths.unsqueeze(1)).unsqueeze(1)  # [B, T, L]
    scores = match.double().masked_fill(~read, float("-inf"))  # [B, T, L]
    # [B, T, 1], a scale per token: products of small probabilities do not underflow.
    scale = scores.amax(2, keepdim=True).clamp(min=-1e300)
    return _Terms(
        edges=only_inside(links, vertex_lengths).double().exp(),
        emissions=(scores - scale).exp(),
        scale=scale.squeeze(2),
        inside=inside,
        last=target_lengths - 1,
        ends=(vertex == (vertex_lengths - 1).unsqueeze(1)).double(),  # [B, L]
    )


def _log(values: Tensor) -> Tensor:
    """The logarithm of non-negative ``values``; those below 1e-320, 0 included, count as 1e-320, so
    that the result is finite."""
    return values.clamp(min=1e-320).log()


def _rescaled(current: Tensor, total: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Divides ``current`` ``[B, L]`` by its maximum ``[B]``, unless that is 0; returns (the
    quotient, ``total`` ``[B]`` plus the logarithm of the divisor, the maximum)."""
    largest = current.amax(1)  # [B]
    usable = largest > 0
    total = torch.where(usable, total + _log(largest), total)  # [B]
    return current / torch.where(usable, largest, 1.0).unsqueeze(1), total, largest


def _forward(terms: _Terms) -> _Scan:
    """The forward recursion: its value for token k and vertex v is P(y_0 … y_k, v emits y_k)."""
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
    """The backward recursion: its value for token k and vertex v is P(y_(k+1) … y_(T-1) | v emits
    y_k)."""
    backward, scales, factors = (
        torch.zeros_like(terms.emissions),
        torch.zeros_like(terms.scale),
        torch.zeros_like(terms.scale),
    )
    current, total = torch.zeros_like(terms.ends), torch.zeros_like(terms.scale[:, 0])
    steps = backward.size(1)
    # [B, L, L]; row vector times matrix is six times as fast on a CPU as matrix times column.
    edges = terms.edges.transpose(1, 2)
    for step in range(steps - 1, -1, -1):
        if step + 1 < steps:
            current = torch.bmm(  # [B, L]
                (terms.emissions[:, step + 1] * current).unsqueeze(1), edges
            ).squeeze(1)  # [B, L]
            total = total + terms.scale[:, step + 1]
        begins = terms.last == step
        current = torch.where(begins.unsqueeze(1), terms.ends, current)  # [B, L]
        current, total, factors[:, step] = _rescaled(current, torch.where(begins, 0.0, total))
        backward[:, step], scales[:, step] = current, total
    return _Scan(backward, scales, factors)


def _has_path(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """Whether any path emits the target, at whatever probability above 0: BoolTensor ``[B]``.
    ``match`` ``[B, T, L]`` and ``links`` ``[B, L, L]`` are log-probabilities; the lengths ``[B]``
    are those of targets and graphs."""
    joined = (only_inside(links, vertex_lengths) > float("-inf")).float()  # [B, L, L]
    emits = match > float("-inf")
    rows, last = torch.arange(len(match), device=match.device), target_lengths - 1  # [B] each
    current = torch.zeros_like(emits[:, 0])  # [B, L]
    current[:, 0] = emits[:, 0, 0]
    reached = [current]
    for step in range(1, match.size(1)):
        # The products count predecessors: small integers, exact in float32.
        current = (torch.bmm(current.float().unsqueeze(1), joined).squeeze(1) > 0) & emits[:, step]
        reached.append(current)
    return torch.stack(reached, 1)[rows, last, vertex_lengths - 1]  # [B]


def _in_log_space(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """The same results as :func:`forward_backward`, but computed in log space, which is slower: for
    the rare sentences whose probabilities underflow in float64."""
    edges = only_inside(links.detach(), vertex_lengths).double()
    with torch.enable_grad():
        scores = match.detach().double().requires_grad_()
        edges = edges.requires_grad_()
        rows = torch.arange(len(scores), device=scores.device)
        start = torch.full_like(scores[:, 0], float("-inf"))  # [B, L]
        start[:, 0] = 0
        steps = [scores[:, 0] + start]  # [B, L] each
        for step in range(1, scores.size(1)):
            # [B, L, L] -> [B, L]
            steps.append(scores[:, step] + _logsumexp(steps[-1].unsqueeze(2) + edges, 1))  # [B, L]
        likelihood = torch.stack(steps, 1)[rows, target_lengths - 1, vertex_lengths - 1]  # [B]
        possible = likelihood > float("-inf")
        posterior, usage = torch.autograd.grad(
            torch.where(possible, likelihood, 0.0).sum(), (scores, edges)
        )
    return likelihood.detach(), posterior.nan_to_num(0.0), usage.nan_to_num(0.0)


def _logsumexp(values: Tensor, dim: int) -> Tensor:
    """logsumexp of ``values`` over the dimension ``dim``; where all are -inf, the gradient is 0
    instead of NaN."""
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
        match: ``[B, T, L]``, log P(y_i | v).
        links: ``[B, L, L]``, log P(v | u).
        target_lengths, vertex_lengths: LongTensors ``[B]``, tokens of each target and vertices of
            each graph; see :func:`dag_log_likelihood`.

    Returns:
        LongTensor ``[B, L]``: index of the target token that each vertex emits; -1 for vertices
        that are not on the path, and for all vertices if no path fits. Paths are compared in
        float64; on CUDA devices in float32, unless an argument is float64.

    Raises:
        ValueError: wrong shapes or lengths, or NaN.
    """
    check(links, vertex_lengths, match, target_lengths)
    if _fuses(match, links):
        from .fused import dag

        return dag.best_alignment(match, links, target_lengths, vertex_lengths)
    batch, steps, size = match.shape
    edges = only_inside(links, vertex_lengths).double()
    best = torch.full((batch, size), float("-inf"), dtype=torch.float64, device=match.device)
    best[:, 0] = match[:, 0, 0].double()
    scores = [best]
    for step in range(1, steps):
        # Predecessors are recomputed on the way back, for one vertex per step: max with indices
        # would take several times as long here.
        best = (best.unsqueeze(2) + edges).amax(1) + match[:, step].double()  # [B, L]
        scores.append(best)
    rows = torch.arange(batch, device=match.device)
    last = vertex_lengths - 1
    possible = torch.stack(scores, 1)[rows, target_lengths - 1, last] > float("-inf")  # [B]
    alignment = torch.full((batch, size), -1, device=match.device)  # [B, L]
    vertex = last
    for step in range(steps - 1, -1, -1):
        running = possible & (step < target_lengths)  # [B]
        # Finished sentences write their old value again: a boolean index would wait for the device.
        place = vertex.unsqueeze(1)  # [B, 1]
        alignment.scatter_(
            1, place, torch.where(running.unsqueeze(1), step, alignment.gather(1, place))
        )
        if step:
            parent = (scores[step - 1] + edges[rows, :, vertex]).argmax(1)  # [B]
            vertex = torch.where(running, parent, vertex)  # [B]
    return alignment
