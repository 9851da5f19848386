"""The dynamic programs of :mod:`..dag_likelihood` as kernels, in log space.

Numbers and sums are float32. Log space has no range to leave: nothing is redone, and the host never
waits for the device. The vertices of a sentence are split into blocks, one program each. From one
target token to the next a block needs the blocks before it, which count their tokens in memory.
Blocks are handed out in this order as programs start, so that a program only waits for others that
run already, however many fit on the GPU. If links lead backwards, every block needs all others: one
program computes the whole sentence then.
"""

from typing import Any, Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# (vertices, vertices, warps) of programs. SUMMED of the recursions and BEST of the best path:
# vertices read at a time, vertices of a program. USED of the use of links: vertices [from, to].
SUMMED, BEST, USED = (32, 32, 4), (64, 32, 4), (32, 64, 4)
# Vertices of which the best one is looked for at a time when a path is read backwards.
SCAN = 256


@triton.jit
def _length(lengths, sentence, most):
    """The length of a sentence, clamped to 1 … ``most``, so that nothing is read outside the
    tensors; :mod:`..checks` reports wrong lengths."""
    return tl.maximum(tl.minimum(tl.load(lengths + sentence).to(tl.int32), most), 1)


@triton.jit
def _backward_links_kernel(
    links, vertex_lengths, found, blocks, size, FROM: tl.constexpr, TO: tl.constexpr
):
    """Writes whether any link that starts in one block of vertices leads backwards or to its own
    vertex.

    Args:
        links: [B, L, L], log P(v | u).
        vertex_lengths: [B], the vertices of each graph.
        found: [B, blocks], the result: 1 if there is such a link, else 0.
        blocks: the number of blocks per sentence.
        size: L.
        FROM, TO: vertices u of a block, and vertices v read at a time.
    """
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
    """Loads the links from the vertices ``source`` to the vertices ``vertex`` of one sentence,
    ``links`` [L, L] with L = ``size``. Links of padding are loaded, too: several numbers are read
    at once only if the load's mask depends on L alone."""
    return tl.load(
        links + source[:, None] * size + vertex[None, :],
        mask=(source[:, None] < size) & (vertex[None, :] < size),
        other=float("-inf"),
    )


@triton.jit
def _accumulated(top, total, score):
    """Adds exp(``score``) to the sum ``total`` * exp(``top``), by element; returns (new top, new
    total). ``top`` is finite, ``score`` may be -inf. A single exponential suffices, whether
    ``score`` or ``top`` is the larger one."""
    small = tl.exp(-tl.abs(score - top))
    grown = tl.where(score > top, total * small + 1.0, total + small)
    return tl.maximum(top, score), grown


@triton.jit
def _logarithm(top, total):
    """log(``total``) + ``top``; -inf for a total of 0."""
    return tl.where(total == 0.0, float("-inf"), top + tl.log(tl.where(total == 0.0, 1.0, total)))


@triton.jit
def _fresh(scores, at, source, last):
    """Loads ``scores[at + source]``, and -inf where ``source`` >= ``last``. The first-level cache
    is bypassed, since other programs may have just written the scores."""
    return tl.load(
        scores + at + source, mask=source < last, other=float("-inf"), cache_modifier=".cg"
    )


@triton.jit
def _wait(counter, least):
    """Waits until ``counter``, set by another program, is at least ``least``. Whatever that program
    wrote before it set the counter is then visible."""
    while tl.atomic_add(counter, 0, sem="acquire") < least:
        pass


@triton.jit
def _count(counter, value):
    """Sets this program's ``counter`` to ``value``, after all of its threads have written their
    results."""
    tl.debug_barrier()
    tl.atomic_xchg(counter, value, sem="release")


@triton.jit
def _begin(counter, order, works):
    """Sets this program's counter to 1: the recursion's first token is computed. Only the first
    block has a vertex that may emit this token; other blocks wait for the one before.

    Args:
        counter: this program's counter; that of the block before precedes it in memory.
        order: index of the block in the order of the recursion, from 0.
        works: whether the block has vertices; if not, nothing is done unless ``order`` is 0.
    """
    if order == 0:
        _count(counter, 1)
    if works & (order > 0):
        _wait(counter - 1, 1)
        _count(counter, 1)


@triton.jit
def _go_on(counter, order, steps, forward):
    """Ends the work on a token: waits until the block before, and thus every earlier one, has
    computed ``steps`` tokens, then sets this block's counter to ``steps``.

    Args:
        counter, order: this program's counter, and index of its block; see :func:`_begin`.
        steps: the tokens that this block has computed.
        forward: False: one program computes all vertices, so there is no block to wait for.
    """
    if forward:
        if order > 0:
            _wait(counter - 1, steps)
        _count(counter, steps)
    else:
        tl.debug_barrier()


@triton.jit
def _range(step, steps, last, forward):
    """The vertices [first, end) that may emit token ``step`` of ``steps``, in a graph of ``last``
    vertices. If all links lead ``forward``, each earlier token takes a vertex before this one, and
    each later token one behind it; otherwise all vertices may."""
    first = tl.where(forward, step, 0)
    return first, tl.where(forward, tl.maximum(last - steps + step + 1, 0), last)


@triton.jit
def _forward(
    match,
    links,
    alpha,
    step,
    steps,
    last,
    size,
    forward,
    first,
    until,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """Writes row ``step`` of ``alpha``, the recursion f of :mod:`..dag_likelihood`, from row
    ``step`` - 1, for the vertices [first, until) of one sentence.

    Args:
        match: [T, L], log P(y_i | v).
        links: [L, L], log P(v | u).
        alpha: [T, L], updated in place.
        step, steps: index of the token, and number of tokens.
        last, size: number of vertices, and L, vertices with padding.
        forward: whether all links lead forward.
        FROM, TO: predecessors, and vertices of [first, until), computed at a time.
    """
    low, high = _range(step, steps, last, forward)
    for start in range(first, until, TO):
        vertex = start + tl.arange(0, TO)
        if (start + TO > low) & (start < high):
            inside = vertex < last
            top = tl.full((FROM, TO), -1.0e30, tl.float32)
            total = tl.zeros((FROM, TO), tl.float32)
            begin = (tl.maximum(low - 1, 0) // FROM) * FROM
            end = tl.where(forward, tl.minimum(start + TO, high - 1), last)
            for before in range(begin, end, FROM):
                source = before + tl.arange(0, FROM)
                reached = _fresh(alpha, (step - 1) * size, source, last)
                link = _links(links, source, vertex, size)
                # Behind the last vertex there may be anything.
                score = tl.where(source[:, None] < last, reached[:, None] + link, float("-inf"))
                top, total = _accumulated(top, total, score)
            whole = tl.max(top, 0)
            mass = tl.sum(total * tl.exp(top - whole[None, :]), 0)
            own = tl.load(match + step * size + vertex, mask=inside, other=float("-inf"))
            tl.store(alpha + step * size + vertex, _logarithm(whole, mass) + own, mask=inside)


@triton.jit
def _backward(
    match,
    links,
    beta,
    step,
    steps,
    last,
    size,
    forward,
    first,
    until,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """Writes row ``step`` of ``beta`` [T, L], the backward recursion, from row ``step`` + 1, for
    the vertices [first, until) of one sentence. FROM successors are read at a time; the other
    arguments (log-probabilities, numbers of tokens and vertices) are those of :func:`_forward`."""
    low, high = _range(step, steps, last, forward)
    for start in range(first, until, TO):
        source = start + tl.arange(0, TO)
        if (start + TO > low) & (start < high):
            inside = source < last
            top = tl.full((TO, FROM), -1.0e30, tl.float32)
            total = tl.zeros((TO, FROM), tl.float32)
            begin = tl.where(forward, (tl.maximum(start, low) // FROM) * FROM, 0)
            end = tl.where(forward, tl.minimum(high + 1, last), last)
            for after in range(begin, end, FROM):
                vertex = after + tl.arange(0, FROM)
                at = (step + 1) * size
                goes_on = _fresh(beta, at, vertex, last)
                emits = tl.load(match + at + vertex, mask=vertex < last, other=float("-inf"))
                score = _links(links, source, vertex, size) + (goes_on + emits)[None, :]
                score = tl.where(vertex[None, :] < last, score, float("-inf"))
                top, total = _accumulated(top, total, score)
            whole = tl.max(top, 1)
            mass = tl.sum(total * tl.exp(top - whole[:, None]), 1)
            tl.store(beta + step * size + source, _logarithm(whole, mass), mask=inside)


@triton.jit(do_not_specialize=["tokens", "sentences"])
def _recursion_kernel(
    match,
    links,
    target_lengths,
    vertex_lengths,
    backwards,
    alpha,
    beta,
    likelihood,
    counters,
    tokens,
    size,
    sentences,
    ways,
    FROM: tl.constexpr,
    TO: tl.constexpr,
):
    """Computes one recursion, forward or backward, for one block of vertices of a sentence.

    Args:
        match: [B, T, L], log P(y_i | v).
        links: [B, L, L], log P(v | u).
        target_lengths, vertex_lengths: [B].
        backwards: [B], 0 if all links lead forward.
        alpha, beta: [B, T, L], results of the forward and the backward recursion; given as -inf.
        likelihood: [B], the result log P(y).
        counters: [1 + ways * B * blocks], given as 0: programs started, tokens done by each.
        tokens, size, sentences: T, L and B.
        ways: 2: both recursions are computed; 1: the forward one alone.
        FROM, TO: vertices read at a time, and vertices of a block.
    """
    ticket = tl.atomic_add(counters, 1, sem="relaxed")
    order = ticket // (sentences * ways)
    way = (ticket % (sentences * ways)) // sentences
    sentence = (ticket % sentences).to(tl.int64)
    counter = counters + 1 + (way * sentences + sentence) * tl.cdiv(size, TO) + order
    steps = _length(target_lengths, sentence, tokens)
    last = _length(vertex_lengths, sentence, size)
    forward = tl.load(backwards + sentence) == 0
    blocks = tl.cdiv(last, TO)
    works = tl.where(forward, order < blocks, order == 0)
    # The backward recursion begins with the last block.
    block = tl.where(way == 0, order, blocks - 1 - order)
    first = tl.where(forward, block * TO, 0)
    until = tl.where(works, tl.where(forward, tl.minimum(first + TO, last), last), first)
    match += sentence * tokens * size
    links += sentence * size * size
    alpha += sentence * tokens * size
    beta += sentence * tokens * size
    if order == 0:
        if way == 0:
            tl.store(alpha, tl.load(match))
        else:
            tl.store(beta + (steps - 1) * size + last - 1, 0.0)
    _begin(counter, order, works)
    for step in range(1, tl.where(works, steps, 0)):
        if way == 0:
            _forward(match, links, alpha, step, steps, last, size, forward, first, until, FROM, TO)
        else:
            _backward(
                match, links, beta, steps - 1 - step, steps, last, size, forward, first, until,
                FROM, TO,
            )  # fmt: skip
        _go_on(counter, order, step + 1, forward)
    if works & (way == 0) & (until == last):
        tl.debug_barrier()
        found = tl.load(alpha + (steps - 1) * size + last - 1, cache_modifier=".cg")
        tl.store(likelihood + sentence, found)


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
    """Writes the gradient of the links of one tile, FROM predecessors by TO successors: how often a
    link is expected to be used, times the gradient of the log-likelihood.

    Args:
        match, links, target_lengths, vertex_lengths, backwards: log-probabilities, lengths, and
            whether links lead backwards; see :func:`_recursion_kernel`.
        alpha, beta, likelihood: the results of both recursions.
        gradient: [B], that of the log-likelihood.
        result: [B, L, L].
        tokens, size: T and L.
    """
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
def _parent(scores, links, vertex, end, size, SCAN: tl.constexpr):
    """The predecessor u < ``end`` of ``vertex`` with the largest ``scores[u]`` + link; the first of
    equal ones.

    Args:
        scores: [L], of the best paths that emit the token before at each vertex.
        links: [L, L], log P(v | u), with L = ``size``.
        SCAN: predecessors read at a time.
    """
    best = float("-inf")
    chosen = 0
    for before in range(0, end, SCAN):
        source = before + tl.arange(0, SCAN)
        link = tl.load(links + source * size + vertex, mask=source < end, other=float("-inf"))
        score = _fresh(scores, 0, source, end) + link
        top = tl.max(score, 0)
        place = tl.min(tl.where(score == top, source, size), 0)
        # NaN, which is reported elsewhere, is never better.
        chosen = tl.where(top > best, place, chosen)
        best = tl.maximum(best, top)
    return chosen


@triton.jit(do_not_specialize=["tokens", "sentences"])
def _alignment_kernel(
    match,
    links,
    target_lengths,
    vertex_lengths,
    backwards,
    scores,
    alignment,
    counters,
    tokens,
    size,
    sentences,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    SCAN: tl.constexpr,
):
    """Computes the scores of the best paths to the vertices of one block of a sentence. The program
    of the last block then follows the best path backwards. Predecessors are not stored, but
    searched for along this path alone.

    Args:
        match, links, target_lengths, vertex_lengths, backwards: log-probabilities, lengths, and
            whether links lead backwards; see :func:`_recursion_kernel`.
        scores: [B, T, L], of the best paths; given as -inf.
        alignment: [B, L], the result: index of the token that each vertex emits; given as -1.
        counters: [1 + B * blocks], given as 0: programs started, tokens done by each.
        tokens, size, sentences: T, L and B.
        FROM, TO: vertices read at a time, and vertices of a block.
        SCAN: predecessors read at a time when the path is followed.
    """
    ticket = tl.atomic_add(counters, 1, sem="relaxed")
    order = ticket // sentences
    sentence = (ticket % sentences).to(tl.int64)
    counter = counters + 1 + sentence * tl.cdiv(size, TO) + order
    steps = _length(target_lengths, sentence, tokens)
    last = _length(vertex_lengths, sentence, size)
    forward = tl.load(backwards + sentence) == 0
    first = order * TO
    until = tl.where(forward, tl.minimum(first + TO, last), tl.where(order == 0, last, 0))
    works = first < until
    match += sentence * tokens * size
    scores += sentence * tokens * size
    links += sentence * size * size
    if order == 0:
        tl.store(scores, tl.load(match))
    _begin(counter, order, works)
    for step in range(1, tl.where(works, steps, 0)):
        low, high = _range(step, steps, last, forward)
        for start in range(first, until, TO):
            vertex = start + tl.arange(0, TO)
            if (start + TO > low) & (start < high):
                inside = vertex < last
                top = tl.full((FROM, TO), float("-inf"), tl.float32)
                begin = (tl.maximum(low - 1, 0) // FROM) * FROM
                end = tl.where(forward, tl.minimum(start + TO, high - 1), last)
                for before in range(begin, end, FROM):
                    source = before + tl.arange(0, FROM)
                    reached = _fresh(scores, (step - 1) * size, source, last)
                    score = reached[:, None] + _links(links, source, vertex, size)
                    # Behind the last vertex there may be anything.
                    top = tl.maximum(top, tl.where(source[:, None] < last, score, float("-inf")))
                own = tl.load(match + step * size + vertex, mask=inside, other=float("-inf"))
                tl.store(scores + step * size + vertex, tl.max(top, 0) + own, mask=inside)
        _go_on(counter, order, step + 1, forward)
    if works & (until == last):
        found = tl.load(scores + (steps - 1) * size + last - 1, cache_modifier=".cg")
        possible = found > float("-inf")
        vertex = last - 1
        for back in range(0, steps):
            step = steps - 1 - back
            tl.store(alignment + sentence * size + vertex, step.to(tl.int64), mask=possible)
            end = tl.where(possible & (step > 0), tl.where(forward, vertex, last), 0)
            before = scores + tl.maximum(step - 1, 0) * size
            vertex = tl.minimum(_parent(before, links, vertex, end, size, SCAN), last - 1)


def _inputs(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The arguments of the kernels: (match and links, contiguous and in float32; target_lengths and
    vertex_lengths, contiguous; int32 ``[B]``, 1 if any link of a sentence does not lead
    forward)."""
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


def _counters(like: Tensor, ways: int, tile: Tuple[int, int, int]) -> Tuple[Tensor, int]:
    """(zeros: a counter of the programs started, and one for each program; number of programs).

    Args:
        like: ``[B, T, L]``, has the sizes and the device.
        ways: the number of recursions.
        tile: the sizes of a program, e.g. SUMMED.
    """
    batch, _, size = like.shape
    programs = batch * ways * triton.cdiv(size, tile[1])
    return torch.zeros(1 + programs, dtype=torch.int32, device=like.device), programs


def likelihood(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """log P(y) of each target, summed over all paths: float32 ``[B]``, not differentiable.
    ``match`` ``[B, T, L]`` and ``links`` ``[B, L, L]`` are log-probabilities; see
    :func:`..dag_likelihood.dag_log_likelihood`."""
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
    """Runs the forward recursion and, if ``both``, the backward one, on the results of
    :func:`_inputs`.

    Returns:
        (log-likelihood ``[B]``; alpha ``[B, T, L]``, the result of the forward recursion; beta
        ``[B, T, L]``, that of the backward one, or alpha again unless ``both``).
    """
    batch, tokens, size = match.shape
    alpha = torch.full_like(match, float("-inf"))
    beta = torch.full_like(match, float("-inf")) if both else alpha
    found = match.new_empty(batch)
    before, after, warps = SUMMED
    counters, programs = _counters(match, 1 + both, SUMMED)
    _recursion_kernel[(programs,)](
        match, links, target_lengths, vertex_lengths, backwards, alpha, beta, found, counters,
        tokens, size, batch, 1 + both, FROM=before, TO=after, num_warps=warps,
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
        # One table beside alpha and beta, no second one for the difference.
        posterior = (alpha + beta).sub_(whole).exp_()  # [B, T, L]
        posterior *= torch.where(possible, gradient.view(-1, 1, 1), 0.0)
        of_match, of_links = ctx.types
        return posterior.to(of_match), usage.to(of_links), None, None


@torch.no_grad()
def best_alignment(
    match: Tensor, links: Tensor, target_lengths: Tensor, vertex_lengths: Tensor
) -> Tensor:
    """The index of the target token that each vertex emits on the most probable path, -1 for
    vertices that are not on it: LongTensor ``[B, L]``. Paths are compared in float32. For the
    arguments see :func:`..dag_likelihood.dag_best_alignment`."""
    batch, tokens, size = match.shape
    alignment = torch.full((batch, size), -1, device=match.device)  # [B, L]
    with torch.cuda.device_of(match):
        given = _inputs(match, links, target_lengths, vertex_lengths)
        scores = torch.full_like(given[0], float("-inf"))
        before, after, warps = BEST
        counters, programs = _counters(match, 1, BEST)
        _alignment_kernel[(programs,)](
            *given, scores, alignment, counters, tokens, size, batch,
            FROM=before, TO=after, SCAN=SCAN, num_warps=warps,
        )  # fmt: skip
    return alignment
