"""The dynamic programs of :mod:`..dag_likelihood` as kernels, in log space.

Numbers and sums are float32. Log space has no range to leave: nothing is redone, and the host never
waits for the device. One program computes a whole recursion of a sentence: a barrier of its threads
separates two target tokens, and all sentences and both recursions run side by side.
"""

from typing import Any, Dict, Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# Vertices of a tile, [from, to], and warps: of few sentences, whose programs have a multiprocessor
# for themselves; of many; of the use of the links.
FEW, MANY, USED = (64, 64, 16), (32, 64, 8), (32, 64, 4)
# Programs that a GPU runs side by side with so many warps, about.
_SIDE_BY_SIDE = 128


@triton.jit
def _length(lengths, sentence, most):
    """A length of the batch, within 1 … ``most``: what is wrong is reported, but not read."""
    return tl.maximum(tl.minimum(tl.load(lengths + sentence).to(tl.int32), most), 1)


@triton.jit
def _backward_links_kernel(
    links, vertex_lengths, found, blocks, size, FROM: tl.constexpr, TO: tl.constexpr
):
    """Whether any link of the vertices of one block leads backwards or to the vertex itself:
    ``links`` [B, L, L] → ``found`` [B, blocks], 0 or 1."""
    sentence = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    last = _length(vertex_lengths, sentence, size)
    base = links + sentence * size * size
    source = block * FROM + tl.arange(0, FROM)
    top = tl.full((FROM, TO), float("-inf"), tl.float32)
    for start in range(0, tl.minimum((block + 1) * FROM, last), TO):
        vertex = start + tl.arange(0, TO)
        inside = (source[:, None] < last) & (vertex[None, :] <= source[:, None])
        at = source[:, None].to(tl.int64) * size + vertex[None, :]
        top = tl.maximum(top, tl.load(base + at, mask=inside, other=float("-inf")))
    largest = tl.max(tl.max(top, 1), 0)
    tl.store(found + sentence * blocks + block, (largest > float("-inf")).to(tl.int32))


@triton.jit
def _links(links, source, vertex, size):
    """A tile of the links of one sentence. It may reach behind the last vertex: the condition of a
    load has to be that of the tensor's width, if several numbers are to be read at once."""
    return tl.load(
        links + source[:, None] * size + vertex[None, :],
        mask=(source[:, None] < size) & (vertex[None, :] < size),
        other=float("-inf"),
    )


@triton.jit
def _accumulated(top, total, score):
    """Adds exp(score) to ``total`` exp(``top``), by element; ``top`` is finite, ``score`` may be
    -inf. One exponential serves both cases."""
    small = tl.exp(-tl.abs(score - top))
    grown = tl.where(score > top, total * small + 1.0, total + small)
    return tl.maximum(top, score), grown


@triton.jit
def _logarithm(top, total):
    """log(total) + top; -inf for a total of 0."""
    return tl.where(total == 0.0, float("-inf"), top + tl.log(tl.where(total == 0.0, 1.0, total)))


@triton.jit
def _forward(
    match, links, alpha, steps, last, size, backwards, FROM: tl.constexpr, TO: tl.constexpr
):
    """The forward recursion of one sentence, see the module's reference: ``alpha`` [T, L]."""
    tl.store(alpha, tl.load(match))
    tl.debug_barrier()
    for step in range(1, steps):
        for start in range(0, last, TO):
            vertex = start + tl.arange(0, TO)
            inside = vertex < last
            top = tl.full((FROM, TO), -1.0e30, tl.float32)
            total = tl.zeros((FROM, TO), tl.float32)
            end = tl.where(backwards > 0, last, tl.minimum(start + TO, last))
            for before in range(0, end, FROM):
                source = before + tl.arange(0, FROM)
                reached = tl.load(
                    alpha + (step - 1) * size + source, mask=source < last, other=float("-inf")
                )
                link = _links(links, source, vertex, size)
                # Behind the last vertex there may be anything.
                score = tl.where(source[:, None] < last, reached[:, None] + link, float("-inf"))
                top, total = _accumulated(top, total, score)
            whole = tl.max(top, 0)
            mass = tl.sum(total * tl.exp(top - whole[None, :]), 0)
            own = tl.load(match + step * size + vertex, mask=inside, other=float("-inf"))
            tl.store(alpha + step * size + vertex, _logarithm(whole, mass) + own, mask=inside)
        tl.debug_barrier()


@triton.jit
def _backward(
    match, links, beta, steps, last, size, backwards, FROM: tl.constexpr, TO: tl.constexpr
):
    """The backward recursion of one sentence: ``beta`` [T, L]."""
    tl.store(beta + (steps - 1) * size + last - 1, 0.0)
    tl.debug_barrier()
    for back in range(1, steps):
        step = steps - 1 - back
        for start in range(0, last, FROM):
            source = start + tl.arange(0, FROM)
            inside = source < last
            top = tl.full((FROM, TO), -1.0e30, tl.float32)
            total = tl.zeros((FROM, TO), tl.float32)
            first = tl.where(backwards > 0, 0, (start // TO) * TO)
            for after in range(first, last, TO):
                vertex = after + tl.arange(0, TO)
                at = (step + 1) * size + vertex
                goes_on = tl.load(beta + at, mask=vertex < last, other=float("-inf"))
                emits = tl.load(match + at, mask=vertex < last, other=float("-inf"))
                score = _links(links, source, vertex, size) + (goes_on + emits)[None, :]
                score = tl.where(vertex[None, :] < last, score, float("-inf"))
                top, total = _accumulated(top, total, score)
            whole = tl.max(top, 1)
            mass = tl.sum(total * tl.exp(top - whole[:, None]), 1)
            tl.store(beta + step * size + source, _logarithm(whole, mass), mask=inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["tokens"])
def _recursion_kernel(
    match,
    links,
    target_lengths,
    vertex_lengths,
    backwards,
    alpha,
    beta,
    likelihood,
    tokens,
    size,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """One recursion of one sentence: ``match``, ``alpha``, ``beta`` [B, T, L], ``links``
    [B, L, L], ``likelihood`` [B]; alpha and beta hold -inf. The second axis of the grid has one
    program for the likelihood alone, two with the backward recursion."""
    sentence = tl.program_id(0).to(tl.int64)
    steps = _length(target_lengths, sentence, tokens)
    last = _length(vertex_lengths, sentence, size)
    looks_back = tl.load(backwards + sentence)
    match += sentence * tokens * size
    links += sentence * size * size
    if tl.program_id(1) == 0:
        alpha += sentence * tokens * size
        _forward(match, links, alpha, steps, last, size, looks_back, FROM, TO)
        tl.store(likelihood + sentence, tl.load(alpha + (steps - 1) * size + last - 1))
    else:
        beta += sentence * tokens * size
        _backward(match, links, beta, steps, last, size, looks_back, FROM, TO)


@triton.jit(do_not_specialize=["tokens"])
def _use_kernel(
    match,
    links,
    target_lengths,
    vertex_lengths,
    backwards,
    alpha,
    beta,
    likelihood,
    gradient,
    result,
    tokens,
    size,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """The expected use of the links of one tile, times the ``gradient`` [B] of the likelihood:
    ``result`` [B, L, L]."""
    sentence = tl.program_id(0).to(tl.int64)
    steps = _length(target_lengths, sentence, tokens)
    last = _length(vertex_lengths, sentence, size)
    whole = tl.load(likelihood + sentence)
    possible = whole > float("-inf")
    whole = tl.where(possible, whole, 0.0)
    source = tl.program_id(1) * FROM + tl.arange(0, FROM)
    vertex = tl.program_id(2) * TO + tl.arange(0, TO)
    # Tiles that no path can use take no step.
    forward = (tl.program_id(2) + 1) * TO - 1 > tl.program_id(1) * FROM
    used = possible & (forward | (tl.load(backwards + sentence) > 0))
    used = used & (tl.program_id(1) * FROM < last) & (tl.program_id(2) * TO < last)
    steps = tl.where(used, steps, 0)
    match += sentence * tokens * size
    alpha += sentence * tokens * size
    beta += sentence * tokens * size
    at = source[:, None].to(tl.int64) * size + vertex[None, :]
    valid = (source[:, None] < last) & (vertex[None, :] < last)
    link = tl.load(
        links + sentence * size * size + at, mask=valid & (steps > 0), other=float("-inf")
    )
    link = link - whole
    total = tl.zeros((FROM, TO), tl.float32)
    for step in range(1, steps):
        before = tl.load(
            alpha + (step - 1) * size + source, mask=source < last, other=float("-inf")
        )
        goes_on = tl.load(beta + step * size + vertex, mask=vertex < last, other=float("-inf"))
        emits = tl.load(match + step * size + vertex, mask=vertex < last, other=float("-inf"))
        total += tl.exp(before[:, None] + (goes_on + emits)[None, :] + link)
    factor = tl.where(possible, tl.load(gradient + sentence), 0.0)
    inside = (source[:, None] < size) & (vertex[None, :] < size)
    tl.store(result + sentence * size * size + at, total * factor, mask=inside)


@triton.jit
def _best(scores, links, source, vertex, last, size, step):
    """Scores of the paths by ``source`` to ``vertex``, -inf behind the last source."""
    reached = tl.load(scores + (step - 1) * size + source, mask=source < last, other=float("-inf"))
    score = reached[:, None] + _links(links, source, vertex, size)
    return tl.where(source[:, None] < last, score, float("-inf"))


@triton.jit(do_not_specialize=["tokens"])
def _alignment_kernel(
    match,
    links,
    target_lengths,
    vertex_lengths,
    backwards,
    scores,
    parents,
    alignment,
    tokens,
    size,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """The best path of one sentence: ``scores``, which hold -inf, and ``parents`` [B, T, L];
    ``alignment`` [B, L] holds -1."""
    sentence = tl.program_id(0).to(tl.int64)
    steps = _length(target_lengths, sentence, tokens)
    last = _length(vertex_lengths, sentence, size)
    looks_back = tl.load(backwards + sentence)
    match += sentence * tokens * size
    scores += sentence * tokens * size
    parents += sentence * tokens * size
    links += sentence * size * size
    tl.store(scores, tl.load(match))
    tl.debug_barrier()
    for step in range(1, steps):
        for start in range(0, last, TO):
            vertex = start + tl.arange(0, TO)
            inside = vertex < last
            top = tl.full((FROM, TO), float("-inf"), tl.float32)
            parent = tl.zeros((FROM, TO), tl.int32)
            end = tl.where(looks_back > 0, last, tl.minimum(start + TO, last))
            for before in range(0, end, FROM):
                source = before + tl.arange(0, FROM)
                score = _best(scores, links, source, vertex, last, size, step)
                parent = tl.where(score > top, source[:, None], parent)
                top = tl.maximum(top, score)
            whole = tl.max(top, 0)
            # The first of several equal predecessors.
            chosen = tl.min(tl.where(top == whole[None, :], parent, size), 0)
            own = tl.load(match + step * size + vertex, mask=inside, other=float("-inf"))
            tl.store(scores + step * size + vertex, whole + own, mask=inside)
            tl.store(parents + step * size + vertex, chosen, mask=inside)
        tl.debug_barrier()
    possible = tl.load(scores + (steps - 1) * size + last - 1) > float("-inf")
    vertex = last - 1
    for back in range(0, steps):
        step = steps - 1 - back
        tl.store(alignment + sentence * size + vertex, step.to(tl.int64), mask=possible)
        parent = tl.load(parents + step * size + vertex, mask=possible & (step > 0), other=0)
        # NaN, which is reported elsewhere, has no predecessor.
        vertex = tl.minimum(parent, last - 1)


def _inputs(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Contiguous float32 match and links, both lengths, and whether any link of a sentence does
    not lead forward: int32 ``[B]``."""
    match, links = match.detach().float().contiguous(), links.detach().float().contiguous()
    target_lengths, vertex_lengths = target_lengths.contiguous(), vertex_lengths.contiguous()
    batch, size = links.shape[:2]
    before, after, warps = USED
    blocks = triton.cdiv(size, before)
    found = torch.empty(batch, blocks, dtype=torch.int32, device=links.device)
    _backward_links_kernel[(batch, blocks)](
        links, vertex_lengths, found, blocks, size, FROM=before, TO=after, num_warps=warps
    )
    return match, links, target_lengths, vertex_lengths, found.amax(1)


def _tile(programs: int) -> Dict[str, int]:
    """The tile of a recursion that so many programs compute."""
    before, after, warps = FEW if programs <= _SIDE_BY_SIDE else MANY
    return dict(FROM=before, TO=after, num_warps=warps)


def likelihood(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """See :func:`..dag_likelihood.dag_log_likelihood`; float32 ``[B]``, not differentiable."""
    with torch.cuda.device_of(match):
        given = _inputs(match, links, target_lengths, vertex_lengths)
        return _recursions(*given, both=False)[0]


def _recursions(
    match: Tensor,
    links: Tensor,
    target_lengths: Tensor,
    vertex_lengths: Tensor,
    backwards: Tensor,
    *,
    both: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """(likelihood ``[B]``, alpha ``[B, T, L]``, beta ``[B, T, L]``, which is alpha unless
    ``both``)."""
    batch, tokens, size = match.shape
    alpha = torch.full_like(match, float("-inf"))
    beta = torch.full_like(match, float("-inf")) if both else alpha
    found = match.new_empty(batch)
    _recursion_kernel[(batch, 1 + both)](
        match, links, target_lengths, vertex_lengths, backwards, alpha, beta, found,
        tokens, size, **_tile(batch * (1 + both)),
    )  # fmt: skip
    return found, alpha, beta


class LogLikelihood(torch.autograd.Function):
    """The differentiable likelihood: match ``[B, T, L]``, links ``[B, L, L]``, target_lengths and
    vertex_lengths ``[B]`` → float32 ``[B]``. The gradient of the links is made in the backward
    pass, from both recursions."""

    @staticmethod
    def forward(
        ctx: Any, match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
    ) -> Tensor:
        with torch.cuda.device_of(match):
            given = _inputs(match, links, target_lengths, vertex_lengths)
            found, alpha, beta = _recursions(*given, both=True)
        ctx.save_for_backward(*given, found, alpha, beta)
        ctx.types = match.dtype, links.dtype
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, None, None]:
        *given, found, alpha, beta = ctx.saved_tensors
        match, links = given[:2]
        batch, tokens, size = match.shape
        gradient = gradient.float().contiguous()  # [B]
        usage = torch.empty_like(links)
        before, after, warps = USED
        grid = (batch, triton.cdiv(size, before), triton.cdiv(size, after))
        with torch.cuda.device_of(match):
            _use_kernel[grid](
                *given, alpha, beta, found, gradient, usage,
                tokens, size, FROM=before, TO=after, num_warps=warps,
            )  # fmt: skip
        possible = (found > float("-inf")).view(-1, 1, 1)  # [B, 1, 1]
        whole = torch.where(possible, found.view(-1, 1, 1), 0.0)
        posterior = (alpha + beta - whole).exp_()  # [B, T, L]
        posterior *= torch.where(possible, gradient.view(-1, 1, 1), 0.0)
        of_match, of_links = ctx.types
        return posterior.to(of_match), usage.to(of_links), None, None


@torch.no_grad()
def best_alignment(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """See :func:`..dag_likelihood.dag_best_alignment`. Scores are float32."""
    batch, tokens, size = match.shape
    alignment = torch.full((batch, size), -1, device=match.device)  # [B, L]
    with torch.cuda.device_of(match):
        given = _inputs(match, links, target_lengths, vertex_lengths)
        scores = torch.full_like(given[0], float("-inf"))
        parents = torch.empty(match.shape, dtype=torch.int32, device=match.device)
        _alignment_kernel[(batch,)](
            *given, scores, parents, alignment,
            tokens, size, **_tile(batch),
        )  # fmt: skip
    return alignment
