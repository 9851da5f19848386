"""Triton kernels of :mod:`.linear`; imported only where they run."""

import triton
import triton.language as tl


@triton.jit
def activate(value, ACTIVATION: tl.constexpr):
    """ReLU or the exact GELU of fp32 values; a NaN stays one."""
    if ACTIVATION == "relu":
        value = tl.where(value < 0.0, 0.0, value)
    if ACTIVATION == "gelu":
        value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    return value


@triton.jit
def one_row(
    x,
    weight,
    bias,
    gamma,
    beta,
    residual,
    residual_gamma,
    residual_beta,
    out,
    width,
    outputs,
    eps,
    residual_eps,
    ACTIVATION: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
):
    """A row times ``BLOCK_N`` rows of the weight, by elementwise products."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    wanted = n < outputs
    inside = k < width
    # The weight is asked for first: the norm is computed while it is on its way.
    w = tl.load(
        weight + n.to(tl.int64)[:, None] * width + k[None, :],
        mask=wanted[:, None] & inside[None, :],
        other=0.0,
    )
    row = tl.load(x + k, mask=inside, other=0.0)
    if gamma is not None:
        g = tl.load(gamma + k, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(beta + k, mask=inside, other=0.0).to(tl.float32)
        exact = row.to(tl.float32)
        mean = tl.sum(exact, 0) / width
        centred = tl.where(inside, exact - mean, 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
        # Rounded as the output of a norm of its own would be.
        row = (centred * inverse * g + b).to(row.dtype)
    value = tl.sum(w.to(tl.float32) * row.to(tl.float32)[None, :], 1)
    if bias is not None:
        value += tl.load(bias + n, mask=wanted, other=0.0).to(tl.float32)
    value = activate(value, ACTIVATION)
    if residual is not None:
        kept = tl.load(residual + n, mask=wanted, other=0.0).to(tl.float32)
        if residual_gamma is not None:
            r = tl.arange(0, BLOCK_ROW)
            there = r < outputs
            whole = tl.load(residual + r, mask=there, other=0.0).to(tl.float32)
            mean = tl.sum(whole, 0) / outputs
            centred = tl.where(there, whole - mean, 0.0)
            inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / outputs + residual_eps)
            g = tl.load(residual_gamma + n, mask=wanted, other=0.0).to(tl.float32)
            b = tl.load(residual_beta + n, mask=wanted, other=0.0).to(tl.float32)
            kept = ((kept - mean) * inverse * g + b).to(row.dtype).to(tl.float32)
        value += kept
    tl.store(out + n, value.to(out.dtype.element_ty), mask=wanted)


@triton.jit
def statistics(x, stride, rows, width, eps, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Mean and inverse deviation ``[BLOCK_M]`` of rows, read twice: the second time from a
    cache."""
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    starts = x + m.to(tl.int64)[:, None] * stride + k[None, :]
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = (m < rows)[:, None] & (start + k < width)[None, :]
        total += tl.sum(tl.load(starts + start, mask=inside, other=0.0).to(tl.float32), 1)
    mean = total / width
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = (m < rows)[:, None] & (start + k < width)[None, :]
        part = tl.load(starts + start, mask=inside, other=0.0).to(tl.float32)
        centred = tl.where(inside, part - mean[:, None], 0.0)
        total += tl.sum(centred * centred, 1)
    return mean, 1.0 / tl.sqrt(total / width + eps)


@triton.jit
def product(
    x,
    weight,
    gamma,
    beta,
    rows,
    width,
    outputs,
    stride,
    eps,
    n,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr,
    HELD: tl.constexpr,
):
    """LN?(x) times columns ``n`` of the transposed weight: ``[BLOCK_M, len(n)]`` in fp32.

    The inner dimension is split over the warps: each multiplies ``BLOCK_K`` of it, and the parts
    are added at the end. A product of 16 rows would otherwise be the work of one warp.
    """
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, SPLIT)[:, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]  # [SPLIT, BLOCK_K]
    x_starts = x + m.to(tl.int64)[None, :, None] * stride + k[:, None, :]
    w_starts = weight + n.to(tl.int64)[None, None, :] * width + k[:, :, None]
    real = (m < rows)[None, :, None]
    wanted = (n < outputs)[None, None, :]
    if HELD:
        inside = k < width
        w = tl.load(w_starts, mask=wanted & inside[:, :, None], other=0.0)
        a = tl.load(x_starts, mask=real & inside[:, None, :], other=0.0)
        if gamma is not None:
            g = tl.load(gamma + k, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(beta + k, mask=inside, other=0.0).to(tl.float32)
            exact = a.to(tl.float32)
            mean = tl.sum(tl.sum(exact, 2), 0) / width  # [BLOCK_M]
            centred = tl.where(inside[:, None, :], exact - mean[None, :, None], 0.0)
            inverse = 1.0 / tl.sqrt(tl.sum(tl.sum(centred * centred, 2), 0) / width + eps)
            exact = centred * inverse[None, :, None] * g[:, None, :] + b[:, None, :]
            # Rounded as the output of a norm of its own would be.
            a = exact.to(a.dtype)
        parts = tl.dot(a, w, input_precision="ieee", out_dtype=tl.float32)
    else:
        parts = tl.zeros((SPLIT, BLOCK_M, n.shape[0]), tl.float32)
        if gamma is not None:
            mean, inverse = statistics(x, stride, rows, width, eps, BLOCK_M, BLOCK_K)
        for start in range(0, width, SPLIT * BLOCK_K):
            inside = start + k < width
            w = tl.load(w_starts + start, mask=wanted & inside[:, :, None], other=0.0)
            a = tl.load(x_starts + start, mask=real & inside[:, None, :], other=0.0)
            if gamma is not None:
                g = tl.load(gamma + start + k, mask=inside, other=0.0).to(tl.float32)
                b = tl.load(beta + start + k, mask=inside, other=0.0).to(tl.float32)
                exact = (a.to(tl.float32) - mean[None, :, None]) * inverse[None, :, None]
                a = (exact * g[:, None, :] + b[:, None, :]).to(a.dtype)
            parts = tl.dot(a, w, parts, input_precision="ieee", out_dtype=tl.float32)
    return tl.sum(parts, 0)


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
):
    """Up to ``BLOCK_M`` rows times ``BLOCK_N`` rows of the weight, on tensor cores."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    wanted = n < outputs
    value = product(
        x, weight, gamma, beta, rows, width, outputs, x_stride, eps, n,
        BLOCK_M, BLOCK_K, SPLIT, HELD,
    )  # fmt: skip
    if bias is not None:
        value += tl.load(bias + n, mask=wanted, other=0.0).to(tl.float32)[None, :]
    value = activate(value, ACTIVATION)
    both = (m < rows)[:, None] & wanted[None, :]
    if residual is not None:
        places = residual + m.to(tl.int64)[:, None] * residual_stride + n[None, :]
        kept = tl.load(places, mask=both, other=0.0).to(tl.float32)
        if residual_gamma is not None:
            mean, inverse = statistics(
                residual, residual_stride, rows, outputs, residual_eps, BLOCK_M, BLOCK_ROW
            )
            g = tl.load(residual_gamma + n, mask=wanted, other=0.0).to(tl.float32)
            b = tl.load(residual_beta + n, mask=wanted, other=0.0).to(tl.float32)
            kept = (kept - mean[:, None]) * inverse[:, None] * g[None, :] + b[None, :]
            kept = kept.to(residual.dtype.element_ty).to(tl.float32)
        value += kept
    places = out + m.to(tl.int64)[:, None] * outputs + n[None, :]
    tl.store(places, value.to(out.dtype.element_ty), mask=both)
