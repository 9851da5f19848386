"""The two ends of a decoding step: the vector of a token, and the choice of the next one.

The logits of a greedy choice are never written: each program keeps the largest of its part of the
vocabulary and its sum of exponentials, and a second kernel puts the parts together.
"""

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..precision import log_softmax
from .support import (
    TILE,
    Norm,
    early,
    norm_parts,
    on_device,
    power_of_two,
    require_contiguous,
    stride_of,
    usable,
)

# The most rows for which one program reads its part of the weight only once.
MOST_ROWS = 2 * TILE
# Words of a program: with 32,768 words two programs for each of an H100's 132 processors.
BLOCK_V = 128


def choose_reference(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    norm: Optional[Norm] = None,
    temperature: float = 1.0,
    pad: int,
    eos: int,
    unk: int,
    unkpen: float = 0.0,
    forbid_eos: Tensor,
    only_eos: Tensor,
) -> Tuple[Tensor, Tensor]:
    """The most probable allowed token of each row, with its log-probability, by PyTorch's own
    functions, for any number of rows; arguments and result as for :func:`choose`."""
    if norm is not None:
        x = torch.layer_norm(x, x.shape[-1:], *norm)
    logits = F.linear(x, weight, bias)  # [M, V]
    if temperature != 1.0:
        logits = logits / temperature
    log_probs = log_softmax(logits)
    ends = log_probs[:, eos]  # [M]
    free = log_probs.clone()
    free[:, pad] = -math.inf
    free[:, unk] -= unkpen
    free[:, eos] = ends.masked_fill(forbid_eos, -math.inf)
    best, token = free.max(1)  # [M] each
    token = token.masked_fill(only_eos, eos)
    best = torch.where(only_eos, ends, best)
    return token, best.masked_fill(log_probs.isnan().any(1), math.nan)


def choose(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    norm: Optional[Norm] = None,
    temperature: float = 1.0,
    pad: int,
    eos: int,
    unk: int,
    unkpen: float = 0.0,
    forbid_eos: Tensor,
    only_eos: Tensor,
) -> Tuple[Tensor, Tensor]:
    """The most probable allowed token of each row, with its log-probability, in two kernels.

    The softmax is over all tokens. Tokens are allowed as by :class:`..constraints.Constraints`
    without prefix and n-gram blocking: padding never, ``<unk>`` with a penalty. Of equally probable
    tokens the first is chosen. Logits are rounded to the type of ``x``, as those of a matrix
    product are, before the division by the temperature and again after it; sums are taken in
    float32.

    Args:
        x: ``[M, D]``; rows may lie at any distance in memory.
        weight: ``[V, D]``, contiguous.
        bias: ``[V]`` or None.
        norm: (gamma ``[D]``, beta ``[D]``, eps) of a layer normalisation of ``x``, or None.
        temperature: divides the logits.
        pad, eos, unk: ids of the special tokens.
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        forbid_eos: BoolTensor ``[M]``, rows that must not end yet.
        only_eos: BoolTensor ``[M]``, rows that have to end: ``eos`` is chosen, with its
            log-probability, whatever ``forbid_eos`` is.

    Returns:
        token: LongTensor ``[M]``; always an id of the vocabulary.
        log_prob: float32 (float64 for float64) ``[M]``; NaN if any logit of the row is NaN.

    Raises:
        ValueError: a tensor of another shape or type, or one that is not contiguous.
    """
    require_contiguous(weight=weight, forbid_eos=forbid_eos, only_eos=only_eos)
    (rows, width), words = x.shape, weight.size(0)
    gamma, beta, eps = norm_parts(norm)
    _check_flags(rows, forbid_eos=forbid_eos, only_eos=only_eos)
    if not 1 <= rows <= MOST_ROWS or not usable(x, weight, bias, gamma, beta):
        return choose_reference(
            x, weight, bias, norm=norm, temperature=temperature, pad=pad, eos=eos, unk=unk,
            unkpen=unkpen, forbid_eos=forbid_eos, only_eos=only_eos,
        )  # fmt: skip
    x = x if x.stride(1) == 1 else x.contiguous()
    token = torch.empty(rows, dtype=torch.int64, device=x.device)
    log_prob = torch.empty(rows, device=x.device)
    blocks = -(-words // BLOCK_V)
    parts = torch.empty((3, rows, blocks), device=x.device)
    picks = torch.empty((rows, blocks), dtype=torch.int32, device=x.device)
    allowed = unkpen != math.inf
    from .output_kernels import choose_in_block, choose_of_blocks

    with on_device(x):
        choose_in_block[(blocks,)](
            x, weight, bias, gamma, beta,
            forbid_eos.view(torch.uint8), only_eos.view(torch.uint8),
            parts[0], picks, parts[1], parts[2],
            rows, width, words, blocks, x.stride(0), eps, float(temperature), pad, eos, unk,
            float(unkpen) if allowed else 0.0,
            BLOCK_M=max(power_of_two(rows), TILE),
            BLOCK_V=BLOCK_V,
            BLOCK_K=min(max(power_of_two(width), TILE), 64 if x.itemsize == 2 else 32),
            BLOCK_ROW=min(max(power_of_two(width), TILE), 1024),
            SCALED=temperature != 1.0,
            WITH_UNK=allowed,
            num_warps=8,
            num_stages=4,
            **early(x),
        )  # fmt: skip
        choose_of_blocks[(rows,)](
            parts[0], picks, parts[1], parts[2], token, log_prob, words, blocks,
            BLOCK=power_of_two(blocks), num_warps=4, **early(x),
        )  # fmt: skip
    return token, log_prob


def _check_flags(rows: int, **flags: Tensor) -> None:
    for name, flag in flags.items():
        if flag.dtype != torch.bool or flag.shape != (rows,):
            raise ValueError(
                f"{name} is {flag.dtype} {tuple(flag.shape)}; give a BoolTensor [{rows}]"
            )


def embed_reference(
    token: Tensor,
    table: Tensor,
    positions_table: Optional[Tensor],
    position: Optional[Tensor],
    *,
    scale: float = 1.0,
    norm: Optional[Norm] = None,
    zero: Optional[int] = None,
) -> Tensor:
    """LN?(scale * table[token] + positions_table[position]), ``[M, D]``, by PyTorch's own
    functions; LN? is a layer normalisation, if one is given. Arguments as for :func:`embed`."""
    x = torch.embedding(table, token)  # [M, D]
    if zero is not None:
        x = x.masked_fill(token.eq(zero).unsqueeze(1), 0.0)
    if positions_table is not None:
        assert position is not None
        own = position.clamp(max=positions_table.size(0) - 1)  # [1 or M]
        x = torch.add(torch.embedding(positions_table, own), x, alpha=scale)
    else:
        x = x * scale
    return x if norm is None else torch.layer_norm(x, x.shape[-1:], *norm)


def embed(
    token: Tensor,
    table: Tensor,
    positions_table: Optional[Tensor],
    position: Optional[Tensor],
    *,
    scale: float = 1.0,
    norm: Optional[Norm] = None,
    zero: Optional[int] = None,
) -> Tensor:
    """LN?(scale * table[token] + positions_table[position]), in one kernel; LN? is a layer
    normalisation, or nothing if none is given.

    Args:
        token: LongTensor ``[M]``.
        table: ``[V, D]``, contiguous.
        positions_table: ``[P, D]``, contiguous; None for a model without positions.
        position: LongTensor ``[1]`` (of all tokens) or ``[M]`` on the device; positions above P - 1
            count as P - 1. None if there is no ``positions_table``.
        scale: factor of the token's vector.
        norm: (gamma ``[D]``, beta ``[D]``, eps) of a layer normalisation, or None.
        zero: id of a token whose vector in ``table`` counts as zeros, or None.

    Returns:
        ``[M, D]``.

    Raises:
        ValueError: ``positions_table`` without ``position``, a position of another shape or type,
            or a tensor that is not contiguous.
    """
    rows, width = token.size(0), table.size(1)
    if positions_table is not None and position is None:
        raise ValueError("positions_table without position; give both or neither")
    by_row = 0 if position is None else stride_of(position, rows)
    require_contiguous(token=token, table=table, positions_table=positions_table)
    gamma, beta, eps = norm_parts(norm)
    if rows == 0 or not usable(table, positions_table, gamma, beta):
        return embed_reference(
            token, table, positions_table, position, scale=scale, norm=norm, zero=zero
        )
    out = table.new_empty(rows, width)
    from .output_kernels import embed_row

    with on_device(table):
        embed_row[(rows,)](
            token, table, positions_table, position, gamma, beta, out, width,
            0 if positions_table is None else positions_table.size(0), by_row, float(scale), zero,
            eps, BLOCK_D=max(power_of_two(width), TILE), num_warps=4 if width > 256 else 1,
            **early(table),
        )  # fmt: skip
    return out
