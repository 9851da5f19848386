"""Attention of the few new tokens of a decoding step, in one kernel: cache and softmax included.

Kernels read the positions on the device and end their loop over the cache there, so that unused
slots need neither a mask nor work. Sums are taken in float32.
"""

from typing import Optional

import torch
from torch import Tensor

from ...ops import at_least_float32
from .support import (
    TILE,
    early,
    on_device,
    power_of_two,
    require_contiguous,
    stride_of,
    usable,
)

# The most new tokens of a row that one product on tensor cores holds.
MOST_TOKENS = TILE
# The most numbers of a head for which the kernels have registers.
WIDEST_HEAD = 128


def block_reference(
    qkv: Tensor,
    cache_k: Tensor,
    cache_v: Tensor,
    position: Tensor,
    *,
    heads: int,
    scale: float,
    causal: bool = True,
    visible: Optional[Tensor] = None,
    relative: Optional[Tensor] = None,
    stride: int = 1,
) -> Tensor:
    """Self-attention of q new tokens per row to the cache, where they are written, and to each
    other, by PyTorch's own functions: over the whole capacity, without copying anything to the
    host. Arguments and result as for :func:`attention_block`."""
    rows, count, _ = qkv.shape
    capacity, width = cache_k.shape[1:]  # C, d
    parts = qkv.view(rows, count, 3, heads, width).permute(2, 0, 3, 1, 4)  # [3, R, H, q, d]
    queries, keys, values = parts
    slots = torch.arange(capacity, device=qkv.device)  # [C]
    own = position.view(-1, 1) + torch.arange(count, device=qkv.device)  # [1 or R, q]
    own = own.expand(rows, count)  # [R, q]
    for cache, new in ((cache_k, keys), (cache_v, values)):
        stored = cache.view(rows, heads, capacity, width)
        for number in range(count):
            written = slots.eq(own[:, number, None])[:, None, :, None]  # [R, 1, C, 1]
            stored.copy_(torch.where(written, new[:, :, number, None], stored))
    ends = own if causal else own[:, -1:].expand(rows, count)
    seen = slots <= ends.unsqueeze(2)  # [R, q, C]
    if visible is not None:
        seen = seen & visible
    wide = at_least_float32(qkv.dtype)
    queries = queries.to(wide) * scale  # [R, H, q, d]
    stored = cache_k.view(rows, heads, capacity, width)
    scores = queries @ stored.to(wide).transpose(2, 3)  # [R, H, q, C]
    if relative is not None:
        window = relative.size(0) // 2
        apart = ((slots - own.unsqueeze(2)) * stride).clamp(-window, window) + window  # [R, q, C]
        scores = scores + torch.einsum("rhqd,rqcd->rhqc", queries, relative.to(wide)[apart])
    weights = scores.masked_fill(~seen.unsqueeze(1), float("-inf")).softmax(-1)
    mixed = weights @ cache_v.view(rows, heads, capacity, width).to(wide)  # [R, H, q, d]
    return mixed.transpose(1, 2).reshape(rows, count, heads * width).to(qkv.dtype)


def attention_block(
    qkv: Tensor,
    cache_k: Tensor,
    cache_v: Tensor,
    position: Tensor,
    *,
    heads: int,
    scale: float,
    causal: bool = True,
    visible: Optional[Tensor] = None,
    relative: Optional[Tensor] = None,
    stride: int = 1,
) -> Tensor:
    """Self-attention of q new tokens per row to the cache and to each other, in one kernel.

    Keys and values of the new tokens are written into slots ``position`` to ``position + q - 1``;
    what would lie behind the capacity is not written.

    Args:
        qkv: ``[R, q, 3 * D]``, projected queries, keys and values; queries are not scaled yet.
        cache_k, cache_v: ``[R * H, C, d]`` of one layer, with C slots for tokens; contiguous,
            written in place.
        position: LongTensor ``[1]`` or ``[R]`` on the device: the number of cached tokens so far.
        heads: H.
        scale: factor of the queries.
        causal: a new token sees the new tokens up to itself; False: all new tokens.
        visible: BoolTensor ``[q, C]``, the slots that each new token may see if ``causal`` allows
            it, too; it must see at least one. None: all.
        relative: ``[2w + 1, d]``, position vectors for the distances -w to w between two tokens
            (:func:`..relative_positions.relative_index`), or None.
        stride: distance between the positions of tokens in neighbouring slots.

    Returns:
        ``[R, q, D]``, before the output projection.

    Raises:
        ValueError: a shape or type that does not fit, or a tensor that is not contiguous.
    """
    rows, count = _check(qkv, cache_k, cache_v, heads, relative)
    capacity, width = cache_k.shape[1:]
    position_stride = stride_of(position, rows)
    _check_visible(visible, count, capacity)
    fits = width <= WIDEST_HEAD and count <= MOST_TOKENS
    if not fits or not usable(qkv, cache_k, cache_v, relative):
        return block_reference(
            qkv, cache_k, cache_v, position, heads=heads, scale=scale, causal=causal,
            visible=visible, relative=relative, stride=stride,
        )  # fmt: skip
    out = qkv.new_empty(rows, count, heads * width)
    window = 0 if relative is None else relative.size(0) // 2
    from .attention_kernels import one_token, some_tokens

    block = min(max(power_of_two(capacity), TILE), 128 if width <= 64 else 64)
    with on_device(qkv):
        if count == 1 and visible is None:
            one_token[(rows * heads,)](
                qkv, cache_k, cache_v, position, relative, out, heads, width, capacity,
                position_stride, stride, window, scale,
                BLOCK_S=block, BLOCK_D=power_of_two(width), num_warps=4, **early(qkv),
            )  # fmt: skip
        else:
            table = None if visible is None else visible.view(torch.uint8)
            # Shared memory: fetching ahead doubles what a block of the cache takes.
            stages = 1 if qkv.itemsize > 2 or relative is not None else 3
            some_tokens[(rows * heads,)](
                qkv, cache_k, cache_v, position, relative, table, out, heads, width, capacity,
                position_stride, stride, window, scale,
                COUNT=count, CAUSAL=causal, BLOCK_M=TILE, BLOCK_S=min(block, 64),
                BLOCK_D=max(power_of_two(width), TILE), num_warps=4, num_stages=stages,
                **early(qkv),
            )  # fmt: skip
    return out


def cross_reference(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    heads: int,
    scale: float,
    beams: int = 1,
    bias: Optional[Tensor] = None,
) -> Tensor:
    """Attention of R = B * N rows to the encoded source of their sentences, by PyTorch's own
    functions; arguments and result as for :func:`cross_attention`."""
    source, width = keys.shape[1:]  # S, d
    batch = keys.size(0) // heads
    wide = at_least_float32(queries.dtype)
    asked = queries.reshape(batch, -1, heads, width).transpose(1, 2).to(wide) * scale
    stored = keys.view(batch, heads, source, width).to(wide)
    scores = asked @ stored.transpose(2, 3)  # [B, H, N * q, S]
    if bias is not None:
        scores = scores + bias.to(wide)[:, None, None]
    weights = scores.softmax(-1)
    # Where everything is hidden the softmax is NaN, though no score is.
    nothing = scores.eq(float("-inf")).all(-1, keepdim=True)
    weights = weights.masked_fill(nothing, 0.0)
    mixed = weights @ values.view(batch, heads, source, width).to(wide)  # [B, H, N * q, d]
    return mixed.transpose(1, 2).reshape(queries.shape).to(queries.dtype)


def cross_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    heads: int,
    scale: float,
    beams: int = 1,
    bias: Optional[Tensor] = None,
) -> Tensor:
    """Attention of R = B * N rows to the encoded source of their sentences, in one kernel.

    Args:
        queries: ``[R, q * D]`` (or ``[R, q, D]``), the projected queries of the q tokens of a row;
            not scaled yet; contiguous.
        keys, values: ``[B * H, S, d]``, contiguous.
        heads: H.
        scale: factor of the queries.
        beams: N, the rows of each sentence.
        bias: ``[B, S]``, added to the scores; -inf hides a source token. Any shape with B * S
            numbers, such as ``[B, 1, 1, S]``, will do; the dtype should be that of the queries.

    Returns:
        Shape of ``queries``, before the output projection; zeros where everything is hidden.

    Raises:
        ValueError: a shape that does not fit, or a tensor that is not contiguous.
    """
    source, width = keys.shape[1:]
    batch = keys.size(0) // heads
    _check_cross(queries, keys, values, heads, beams)
    require_contiguous(queries=queries, keys=keys, values=values)
    bias = None if bias is None else bias.reshape(batch, source)
    if width > WIDEST_HEAD or not usable(queries, keys, values, bias):
        return cross_reference(
            queries, keys, values, heads=heads, scale=scale, beams=beams, bias=bias
        )
    out = torch.empty_like(queries)
    from .attention_kernels import one_query

    asked = queries.numel() // (heads * width)  # R * q
    with on_device(queries):
        one_query[(asked * heads,)](
            queries, keys, values, bias, out, heads, width, source, asked // batch, scale,
            BLOCK_S=min(max(power_of_two(source), TILE), 128 if width <= 64 else 64),
            BLOCK_D=power_of_two(width),
            num_warps=4,
            **early(queries),
        )  # fmt: skip
    return out


def _check(
    qkv: Tensor, cache_k: Tensor, cache_v: Tensor, heads: int, relative: Optional[Tensor]
) -> tuple[int, int]:
    """Checks the shapes of the arguments of :func:`attention_block`, except ``position`` and
    ``visible``; returns (R, q)."""
    if qkv.dim() != 3 or qkv.size(2) != 3 * heads * cache_k.size(2):
        raise ValueError(
            f"qkv {tuple(qkv.shape)} does not fit {heads} heads of {cache_k.size(2)} numbers; give"
            f" [R, q, {3 * heads * cache_k.size(2)}]"
        )
    rows, count = qkv.shape[:2]
    if cache_k.size(0) != rows * heads or cache_v.shape != cache_k.shape:
        raise ValueError(
            f"cache_k and cache_v are {tuple(cache_k.shape)} and {tuple(cache_v.shape)}; give"
            f" [{rows * heads}, C, {cache_k.size(2)}] twice"
        )
    if relative is not None and (relative.size(1) != cache_k.size(2) or relative.size(0) % 2 == 0):
        raise ValueError(
            f"relative is {tuple(relative.shape)}; give [2 * w + 1, {cache_k.size(2)}], one"
            " vector for each distance from -w to w"
        )
    require_contiguous(qkv=qkv, cache_k=cache_k, cache_v=cache_v, relative=relative)
    return rows, count


def _check_visible(visible: Optional[Tensor], count: int, capacity: int) -> None:
    shape = (count, capacity)
    if visible is not None and (visible.dtype != torch.bool or visible.shape != shape):
        raise ValueError(
            f"visible is {visible.dtype} {tuple(visible.shape)}; give a BoolTensor {shape}"
        )
    require_contiguous(visible=visible)


def _check_cross(queries: Tensor, keys: Tensor, values: Tensor, heads: int, beams: int) -> None:
    batch, width = keys.size(0) // heads, keys.size(2)
    rows = batch * beams
    if queries.size(0) != rows or queries.numel() % (rows * heads * width):
        raise ValueError(
            f"queries {tuple(queries.shape)} do not fit {batch} sentences with {beams} rows each"
            f" and {heads} heads of {width} numbers; give [{rows}, q * {heads * width}]"
        )
    if values.shape != keys.shape:
        raise ValueError(f"values are {tuple(values.shape)}; give {tuple(keys.shape)}, as keys are")
