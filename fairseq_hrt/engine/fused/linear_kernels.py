"""Triton kernels of :mod:`.linear`; imported only where they run.

M rows ``x`` of K inputs are multiplied by a weight of N rows (outputs). A block is the part that
one Triton program computes; where it reaches beyond the matrices, its rows and columns are padding.
"""

import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # Triton before 3.4: EARLY is never set
    gdc_launch_dependents = gdc_wait = None

STARTS_EARLY = gdc_wait is not None


@triton.jit
def activate(value, ACTIVATION: tl.constexpr):
    """The activation ``"relu"`` or ``"gelu"`` (exact) of float32 values; None: the values as they
    are. NaN stays NaN."""
    if ACTIVATION == "relu":
        value = tl.where(value < 0.0, 0.0, value)
    if ACTIVATION == "gelu":
        value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    return value


@triton.jit
def let_next_start(EARLY: tl.constexpr):
    """With ``EARLY`` lets the next kernel start now; until this kernel has ended, the next one may
    read only what no kernel writes."""
    if EARLY:
        gdc_launch_dependents()


@triton.jit
def wait_for_previous(EARLY: tl.constexpr):
    """With ``EARLY`` waits until the previous kernel has ended and what it wrote can be read."""
    if EARLY:
        gdc_wait()


@triton.jit
def moments(x, inside, width, eps):
    """(means ``[M]``, 1 / standard deviations ``[M]``) of rows that are held as a whole.

    Args:
        x: ``[M, P]``, rows of ``width`` numbers, padded with zeros to P columns.
        inside: ``[P]``, False for the columns of padding.
        width: the number of columns that are not padding, by which sums are divided.
        eps: is added to the variance.
    """
    exact = x.to(tl.float32)
    mean = tl.sum(exact, 1) / width
    centred = tl.where(inside[None, :], exact - mean[:, None], 0.0)
    return mean, 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / width + eps)


@triton.jit
def normalise(x, gamma, beta, inside, width, eps):
    """The layer normalisation of rows ``x``, in the dtype of ``x`` and zero in columns of padding;
    ``gamma`` and ``beta`` ``[P]`` are its weight and bias, the rest as for :func:`moments`."""
    mean, inverse = moments(x, inside, width, eps)
    exact = (x.to(tl.float32) - mean[:, None]) * inverse[:, None]
    exact = exact * gamma.to(tl.float32)[None, :] + beta.to(tl.float32)[None, :]
    return tl.where(inside[None, :], exact, 0.0).to(x.dtype)


@triton.jit
def addend(
    residual, gamma, beta, stride, m, n, real, wanted, outputs, eps,
    BLOCK_ROW: tl.constexpr,
):  # fmt: skip
    """A block ``[BLOCK_M, BLOCK_N]`` of the residual, float32; layer-normalised if ``gamma`` and
    ``beta`` are given.

    Args:
        residual: pointer to the first of its rows, each ``outputs`` (N) numbers long.
        gamma, beta: ``[BLOCK_N]``, weight and bias of the normalisation in the columns ``n``; or
            None.
        stride: distance of neighbouring rows in memory.
        m, n: indices of the block's rows and columns.
        real, wanted: False for rows and for columns of padding.
        eps: is added to the variance.
        BLOCK_ROW: a power of two, at least N; needed to normalise whole rows.
    """
    starts = residual + m.to(tl.int64)[:, None] * stride
    kept = tl.load(starts + n[None, :], mask=real[:, None] & wanted[None, :], other=0.0)
    kept = kept.to(tl.float32)
    if gamma is not None:
        r = tl.arange(0, BLOCK_ROW)
        there = r < outputs
        whole = tl.load(starts + r[None, :], mask=real[:, None] & there[None, :], other=0.0)
        mean, inverse = moments(whole, there, outputs, eps)
        kept = (kept - mean[:, None]) * inverse[:, None] * gamma.to(tl.float32)[None, :]
        kept += beta.to(tl.float32)[None, :]
        kept = kept.to(residual.dtype.element_ty).to(tl.float32)
    return kept


@triton.jit
def statistics(x, stride, m, rows, width, eps, BLOCK_K: tl.constexpr):
    """(means ``[M]``, 1 / standard deviations ``[M]``) of rows ``m`` of ``x``, read ``BLOCK_K``
    columns at a time: once for the means, and again, from the GPU's cache, for the deviations.

    Args:
        x: pointer to the first row.
        stride: distance of neighbouring rows in memory.
        m: indices of the rows; those from ``rows`` on are padding.
        width: K, the numbers in a row.
        eps: is added to the variance.
    """
    k = tl.arange(0, BLOCK_K)
    starts = x + m.to(tl.int64)[:, None] * stride + k[None, :]
    total = tl.zeros((m.shape[0],), tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = (m < rows)[:, None] & (start + k < width)[None, :]
        total += tl.sum(tl.load(starts + start, mask=inside, other=0.0).to(tl.float32), 1)
    mean = total / width
    total = tl.zeros((m.shape[0],), tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = (m < rows)[:, None] & (start + k < width)[None, :]
        part = tl.load(starts + start, mask=inside, other=0.0).to(tl.float32)
        centred = tl.where(inside, part - mean[:, None], 0.0)
        total += tl.sum(centred * centred, 1)
    return mean, 1.0 / tl.sqrt(total / width + eps)


@triton.jit
def finish(value, bias, residual, ACTIVATION: tl.constexpr):
    """activation(value + bias) + residual, ``[M, N]``; ``value`` and ``residual`` are ``[M, N]``,
    ``bias`` is ``[N]``. Bias and residual may be None; ``ACTIVATION``: name of the activation, as
    for :func:`activate`."""
    if bias is not None:
        value += bias.to(tl.float32)[None, :]
    value = activate(value, ACTIVATION)
    if residual is not None:
        value += residual
    return value


@triton.jit
def few_rows(
    x,
    weight,
    bias,
    gamma,
    beta,
    residual,
    residual_gamma,
    residual_beta,
    out,
    rows,
    width,
    outputs,
    x_stride,
    residual_stride,
    eps,
    residual_eps,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.linear.fused_linear` for few rows: a program multiplies all of them by ``BLOCK_N``
    rows of the weight, by elementwise products.

    Args:
        x, weight, bias, residual, out, ACTIVATION: arguments of :func:`.linear.fused_linear`.
        gamma, beta, eps: its ``norm``; ``residual_gamma``, ``residual_beta`` and ``residual_eps``:
            its ``residual_norm``.
        rows, width, outputs: M, K and N.
        x_stride, residual_stride: distance of neighbouring rows in memory.
        BLOCK_M, BLOCK_K: powers of two, at least M and K.
        BLOCK_ROW: a power of two, at least N; 1 if the residual is not normalised.
        EARLY: the parameters are read while the previous kernel is still running.
    """
    let_next_start(EARLY)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    real = m < rows
    wanted = n < outputs
    inside = k < width
    # Everything is asked for before the first sum, whose synchronisation loads cannot pass.
    w = tl.load(
        weight + n.to(tl.int64)[:, None] * width + k[None, :],
        mask=wanted[:, None] & inside[None, :],
        other=0.0,
    )
    if gamma is not None:
        g = tl.load(gamma + k, mask=inside, other=0.0)
        b = tl.load(beta + k, mask=inside, other=0.0)
    c = None
    if bias is not None:
        c = tl.load(bias + n, mask=wanted, other=0.0)
    rg = None
    rb = None
    if residual_gamma is not None:
        rg = tl.load(residual_gamma + n, mask=wanted, other=0.0)
        rb = tl.load(residual_beta + n, mask=wanted, other=0.0)
    wait_for_previous(EARLY)
    a = tl.load(
        x + m.to(tl.int64)[:, None] * x_stride + k[None, :],
        mask=real[:, None] & inside[None, :],
        other=0.0,
    )
    kept = None
    if residual is not None:
        kept = addend(
            residual, rg, rb, residual_stride, m, n, real, wanted, outputs, residual_eps, BLOCK_ROW
        )
    if gamma is not None:
        a = normalise(a, g, b, inside, width, eps)
    value = tl.sum(a.to(tl.float32)[:, None, :] * w.to(tl.float32)[None, :, :], 2)
    value = finish(value, c, kept, ACTIVATION)
    places = out + m.to(tl.int64)[:, None] * outputs + n[None, :]
    tl.store(places, value.to(out.dtype.element_ty), mask=real[:, None] & wanted[None, :])


@triton.jit
def normalise_split(a, gamma, beta, inside, width, eps):
    """:func:`normalise` of rows ``a`` ``[SPLIT, M, BLOCK_K]``, whose K numbers are split into
    ``SPLIT`` parts; so are ``gamma``, ``beta`` and ``inside`` ``[SPLIT, BLOCK_K]``."""
    exact = a.to(tl.float32)
    mean = tl.sum(tl.sum(exact, 2), 0) / width  # [M]
    centred = tl.where(inside[:, None, :], exact - mean[None, :, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(tl.sum(centred * centred, 2), 0) / width + eps)
    exact = centred * inverse[None, :, None] * gamma.to(tl.float32)[:, None, :]
    return (exact + beta.to(tl.float32)[:, None, :]).to(a.dtype)


@triton.jit
def in_blocks(
    x_starts, w_starts, gamma, beta, x, m, n, k, rows, width, outputs, x_stride, eps
):  # fmt: skip
    """The product of :func:`some_rows` where shared memory does not hold whole operands: a loop
    reads ``SPLIT * BLOCK_K`` of the K inputs at a time.

    Args:
        x_starts, w_starts: pointers ``[SPLIT, BLOCK_M, BLOCK_K]`` and ``[SPLIT, BLOCK_N, BLOCK_K]``
            to the numbers of ``x`` and of the weight that are read first.
        gamma, beta, eps: the layer normalisation of ``x``: pointers to weight and bias (None: no
            normalisation), and what is added to the variance.
        x, x_stride: pointer to the first row of ``x``, and distance of its rows in memory.
        m, n: indices of the block's rows of ``x`` and of the weight.
        k: ``[SPLIT, BLOCK_K]``, indices of the inputs that are read first.
        rows, width, outputs: M, K and N.

    Returns:
        float32 ``[SPLIT, BLOCK_N, BLOCK_M]``, the share of each warp, for the caller to add up.
    """
    wanted = (n < outputs)[None, :, None]
    real = (m < rows)[None, :, None]
    step: tl.constexpr = k.shape[0] * k.shape[1]
    parts = tl.zeros((k.shape[0], n.shape[0], m.shape[0]), tl.float32)
    if gamma is not None:
        mean, inverse = statistics(x, x_stride, m, rows, width, eps, k.shape[1])
    for start in range(0, width, step):
        inside = start + k < width
        w = tl.load(w_starts + start, mask=wanted & inside[:, None, :], other=0.0)
        a = tl.load(x_starts + start, mask=real & inside[:, None, :], other=0.0)
        if gamma is not None:
            g = tl.load(gamma + start + k, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(beta + start + k, mask=inside, other=0.0).to(tl.float32)
            exact = (a.to(tl.float32) - mean[None, :, None]) * inverse[None, :, None]
            a = (exact * g[:, None, :] + b[:, None, :]).to(a.dtype)
        a = tl.permute(a, (0, 2, 1))
        parts = tl.dot(w, a, parts, input_precision="ieee", out_dtype=tl.float32)
    return parts


@triton.jit
def some_rows(
    x,
    weight,
    bias,
    gamma,
    beta,
    residual,
    residual_gamma,
    residual_beta,
    out,
    rows,
    width,
    outputs,
    x_stride,
    residual_stride,
    eps,
    residual_eps,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
    SPLIT: tl.constexpr,
    HELD: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.linear.fused_linear` on tensor cores: a program multiplies ``BLOCK_M`` rows by
    ``BLOCK_N`` rows of the weight.

    The K inputs are split over the warps: each multiplies ``BLOCK_K`` of them, and the products are
    added at the end. So small a product would otherwise be the work of one warp. The weight is the
    left operand: tensor cores take 16 rows of the left one, and 8 columns of the right one.

    Arguments as for :func:`few_rows`, and:

    Args:
        BLOCK_M, BLOCK_N, BLOCK_K: the sizes named above, powers of two; M, N and K may be any.
        SPLIT: the number of warps.
        HELD: whether all warps together cover K at once; False: :func:`in_blocks` covers it in a
            loop.
    """
    let_next_start(EARLY)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, SPLIT)[:, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]  # [SPLIT, BLOCK_K]
    real = m < rows
    wanted = n < outputs
    w_starts = weight + n.to(tl.int64)[None, :, None] * width + k[:, None, :]
    x_starts = x + m.to(tl.int64)[None, :, None] * x_stride + k[:, None, :]
    inside = k < width
    # Everything is asked for before the first sum, whose synchronisation loads cannot pass.
    if HELD:
        w = tl.load(w_starts, mask=wanted[None, :, None] & inside[:, None, :], other=0.0)
        if gamma is not None:
            g = tl.load(gamma + k, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(beta + k, mask=inside, other=0.0).to(tl.float32)
    c = None
    if bias is not None:
        c = tl.load(bias + n, mask=wanted, other=0.0)
    rg = None
    rb = None
    if residual_gamma is not None:
        rg = tl.load(residual_gamma + n, mask=wanted, other=0.0)
        rb = tl.load(residual_beta + n, mask=wanted, other=0.0)
    wait_for_previous(EARLY)
    if HELD:
        a = tl.load(x_starts, mask=real[None, :, None] & inside[:, None, :], other=0.0)
    kept = None
    if residual is not None:
        kept = addend(
            residual, rg, rb, residual_stride, m, n, real, wanted, outputs, residual_eps, BLOCK_ROW
        )
    if HELD:
        if gamma is not None:
            a = normalise_split(a, g, b, inside, width, eps)
        a = tl.permute(a, (0, 2, 1))
        parts = tl.dot(w, a, input_precision="ieee", out_dtype=tl.float32)
    else:
        parts = in_blocks(
            x_starts, w_starts, gamma, beta, x, m, n, k, rows, width, outputs, x_stride, eps
        )
    value = tl.trans(tl.sum(parts, 0))  # [BLOCK_M, BLOCK_N]
    value = finish(value, c, kept, ACTIVATION)
    places = out + m.to(tl.int64)[:, None] * outputs + n[None, :]
    tl.store(places, value.to(out.dtype.element_ty), mask=real[:, None] & wanted[None, :])
