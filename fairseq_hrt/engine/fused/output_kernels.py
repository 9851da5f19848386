"""Triton kernels of :mod:`.output`; imported only where they run."""

import triton
import triton.language as tl

from .linear_kernels import let_next_start, statistics, wait_for_previous


@triton.jit
def choose_in_block(
    x,
    weight,
    bias,
    gamma,
    beta,
    forbid_eos,
    only_eos,
    tops,
    picks,
    peaks,
    sums,
    rows,
    width,
    words,
    blocks,
    x_stride,
    eps,
    temperature,
    pad,
    eos,
    unk,
    unkpen,
    BLOCK_M: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
    SCALED: tl.constexpr,
    WITH_UNK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """The logits of a block of ``BLOCK_V`` words for all rows, and the best of them; the first
    kernel of :func:`.output.choose`.

    Args:
        x, weight, bias, forbid_eos, only_eos, temperature, pad, eos, unk, unkpen: arguments of that
            function; ``gamma``, ``beta`` and ``eps`` are its ``norm``.
        tops, picks: ``[M, blocks]``, written: the largest logit of an allowed word, and the first
            word that has it.
        peaks, sums: ``[M, blocks]``, written: the largest logit of all words of the block, and the
            sum of exp(logit - peak).
        rows, width, words, blocks: M, D, V and the number of blocks.
        x_stride: distance of neighbouring rows of ``x`` in memory.
        BLOCK_M: a power of two, at least M.
        BLOCK_K, BLOCK_ROW: how many numbers of a row the product, and the normalisation, read at a
            time.
        SCALED, WITH_UNK: whether the temperature differs from 1, and whether ``<unk>`` is allowed.
        EARLY: whether the next kernel may be launched before this one ends.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    block = tl.program_id(0)
    v = block * BLOCK_V + tl.arange(0, BLOCK_V)
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    real = m < rows
    wanted = v < words
    if gamma is not None:
        mean, inverse = statistics(x, x_stride, m, rows, width, eps, BLOCK_ROW)
    x_starts = x + m.to(tl.int64)[:, None] * x_stride + k[None, :]
    w_starts = weight + v.to(tl.int64)[None, :] * width + k[:, None]
    logits = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = start + k < width
        w = tl.load(w_starts + start, mask=wanted[None, :] & inside[:, None], other=0.0)
        a = tl.load(x_starts + start, mask=real[:, None] & inside[None, :], other=0.0)
        if gamma is not None:
            g = tl.load(gamma + start + k, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(beta + start + k, mask=inside, other=0.0).to(tl.float32)
            exact = (a.to(tl.float32) - mean[:, None]) * inverse[:, None]
            a = (exact * g[None, :] + b[None, :]).to(a.dtype)
        logits = tl.dot(a, w, logits, input_precision="ieee", out_dtype=tl.float32)
    if bias is not None:
        logits += tl.load(bias + v, mask=wanted, other=0.0).to(tl.float32)[None, :]
    # Rounded as PyTorch rounds a matrix product, so that words tie where they tie there.
    logits = logits.to(x.dtype.element_ty).to(tl.float32)
    if SCALED:
        logits = (logits / temperature).to(x.dtype.element_ty).to(tl.float32)
    logits = tl.where(wanted[None, :], logits, float("-inf"))
    peak = tl.max(logits, 1)
    # -inf where all logits are: their sum is 0.
    finite = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.sum(tl.exp(logits - finite[:, None]), 1)

    only = tl.load(only_eos + m, mask=real, other=0) != 0
    forbidden = tl.load(forbid_eos + m, mask=real, other=0) != 0
    is_eos = (v == eos)[None, :]
    free = (wanted & (v != pad))[None, :] & ((forbidden[:, None] & is_eos) == 0)
    if not WITH_UNK:
        free = free & (v != unk)[None, :]
    allowed = tl.where(only[:, None], is_eos, free)
    logits = tl.where((v == unk)[None, :], logits - unkpen, logits)
    logits = tl.where(allowed, logits, float("-inf"))
    top = tl.max(logits, 1)
    # The first word with the largest; an allowed word even where all logits are -inf.
    first = tl.where(allowed & (logits == top[:, None]), v[None, :], words)
    place = m.to(tl.int64) * blocks + block
    tl.store(tops + place, top, mask=real)
    tl.store(picks + place, tl.min(first, 1), mask=real)
    tl.store(peaks + place, peak, mask=real)
    tl.store(sums + place, total, mask=real)


@triton.jit
def choose_of_blocks(
    tops,
    picks,
    peaks,
    sums,
    token,
    log_prob,
    words,
    blocks,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Chooses the token of a row among the best ones of its blocks; the second kernel of
    :func:`.output.choose`.

    Args:
        tops, picks, peaks, sums: results of :func:`choose_in_block`.
        token, log_prob: ``[M]``, written: the token and its log-probability.
        words, blocks: V and the number of blocks.
        BLOCK: a power of two, at least ``blocks``.
        EARLY: whether the next kernel may be launched before this one ends.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    row = tl.program_id(0)
    block = tl.arange(0, BLOCK)
    inside = block < blocks
    place = row.to(tl.int64) * blocks + block
    top = tl.load(tops + place, mask=inside, other=float("-inf"))
    pick = tl.load(picks + place, mask=inside, other=words)
    peak = tl.load(peaks + place, mask=inside, other=float("-inf"))
    total = tl.load(sums + place, mask=inside, other=0.0)
    largest = tl.max(peak, 0)
    finite = tl.where(largest == float("-inf"), 0.0, largest)
    whole = tl.sum(tl.where(total == 0.0, 0.0, total * tl.exp(peak - finite)), 0)
    best = tl.max(top, 0)
    first = tl.min(tl.where(inside & (top == best), pick, words), 0)
    # With a NaN nothing equals the largest; any word will do, its log-probability is NaN.
    tl.store(token + row, tl.minimum(first, words - 1).to(tl.int64))
    tl.store(log_prob + row, (best - finite) - tl.log(whole))


@triton.jit
def embed_row(
    token,
    table,
    positions_table,
    position,
    gamma,
    beta,
    out,
    width,
    places,
    position_stride,
    scale,
    zero,
    eps,
    BLOCK_D: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.output.embed`: a program computes the vector of one token.

    Args:
        token, table, positions_table, position, out, scale, zero: arguments of that function;
            ``gamma``, ``beta`` and ``eps`` are its ``norm``.
        width, places: D, and P, the number of positions.
        position_stride: 0 if all tokens have the position ``position[0]``, 1 if each has its own.
        BLOCK_D: a power of two, at least D.
        EARLY: whether the next kernel may be launched before this one ends.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    row = tl.program_id(0)
    channel = tl.arange(0, BLOCK_D)
    inside = channel < width
    word = tl.load(token + row)  # int64
    vector = tl.load(table + word * width + channel, mask=inside, other=0.0).to(tl.float32) * scale
    if zero is not None:
        vector = tl.where(word == zero, 0.0, vector)
    if positions_table is not None:
        own = tl.load(position + row * position_stride)  # int64
        # A step beyond the last position, whose result is not used, must not read beyond the table.
        own = tl.minimum(own, places - 1)
        vector += tl.load(positions_table + own * width + channel, mask=inside, other=0.0).to(
            tl.float32
        )
    # Rounded as PyTorch rounds the sum before the normalisation.
    vector = vector.to(out.dtype.element_ty).to(tl.float32)
    if gamma is not None:
        g = tl.load(gamma + channel, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(beta + channel, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(vector, 0) / width
        centred = tl.where(inside, vector - mean, 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
        vector = centred * inverse * g + b
    place = row.to(tl.int64) * width + channel
    tl.store(out + place, vector.to(out.dtype.element_ty), mask=inside)
