"""A linear layer with the norm before it and the activation and residual after it, in one kernel.

For the few rows of a decoding step a GPU spends most of its time on starting kernels and on reading
the weights; each weight is read once here.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .support import (
    TILE,
    Norm,
    early,
    norm_parts,
    on_device,
    power_of_two,
    shared_memory,
    usable,
)

# The most rows, and the largest inner width, for which the kernels are made; PyTorch's product is
# as fast for more.
MOST_ROWS, WIDEST = TILE, 4096
# Up to FEW rows, elementwise products are faster than tensor cores. On tensor cores a program
# computes ROWS rows.
FEW, ROWS = 2, 8
ACTIVATIONS = (None, "relu", "gelu")


def linear_reference(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    norm: Optional[Norm] = None,
    activation: Optional[str] = None,
    residual: Optional[Tensor] = None,
    residual_norm: Optional[Norm] = None,
) -> Tensor:
    """activation(LN?(x) W^T + b) + LN?(residual), ``[M, N]``, by PyTorch's own functions; LN? is a
    layer normalisation, if one is given. Arguments as for :func:`fused_linear`."""
    if norm is not None:
        x = torch.layer_norm(x, x.shape[-1:], *norm)
    out = F.linear(x, weight, bias)  # [M, N]
    if activation == "relu":
        out = torch.relu(out)
    elif activation == "gelu":
        out = F.gelu(out)
    if residual is not None:
        if residual_norm is not None:
            residual = torch.layer_norm(residual, residual.shape[-1:], *residual_norm)
        out = residual + out
    return out


def fused_linear(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    norm: Optional[Norm] = None,
    activation: Optional[str] = None,
    residual: Optional[Tensor] = None,
    residual_norm: Optional[Norm] = None,
) -> Tensor:
    """activation(LN?(x) W^T + b) + LN?(residual), in one kernel for 1 to 16 rows; LN? is a layer
    normalisation, or nothing if none is given.

    Sums are taken in float32; the normalised rows and the result are rounded to the type of ``x``,
    what lies between them is not. More than 16 rows, K above 4,096 (with ``residual_norm`` also N),
    and tensors that the kernels do not take go to :func:`linear_reference`.

    Args:
        x: ``[M, K]``; rows may lie at any distance in memory.
        weight: ``[N, K]``, contiguous.
        bias: ``[N]`` or None.
        norm: (gamma ``[K]``, beta ``[K]``, eps) of the layer normalisation of ``x``, or None.
        activation: "relu", "gelu" (exact) or None.
        residual: ``[M, N]``, added last; with post-norm, not normalised yet (see
            ``residual_norm``).
        residual_norm: (gamma ``[N]``, beta ``[N]``, eps) of the normalisation of ``residual``.

    Returns:
        ``[M, N]``.

    Raises:
        ValueError: an unknown activation, shapes that do not fit, or a weight that is not
            contiguous.
    """
    _check(x, weight, activation, residual, residual_norm)
    rows, width, outputs = x.size(0), x.size(1), weight.size(0)
    gamma, beta, eps = norm_parts(norm)
    residual_gamma, residual_beta, residual_eps = norm_parts(residual_norm)
    tensors = (weight, bias, gamma, beta, residual, residual_gamma, residual_beta)
    fitting = 1 <= rows <= MOST_ROWS and width <= WIDEST
    if residual_norm is not None:
        fitting = fitting and outputs <= WIDEST
    if not fitting or not usable(x, *tensors):
        return linear_reference(
            x, weight, bias, norm=norm, activation=activation,
            residual=residual, residual_norm=residual_norm,
        )  # fmt: skip
    x = x if x.stride(1) == 1 else x.contiguous()
    if residual is not None and residual.stride(1) != 1:
        residual = residual.contiguous()
    out = x.new_empty(rows, outputs)
    shared = (x, weight, bias, gamma, beta, residual, residual_gamma, residual_beta, out)
    with on_device(x):
        strides = (x.stride(0), 0 if residual is None else residual.stride(0))
        launch = _launch_few if rows <= FEW else _launch_some
        launch(shared, (rows, width, outputs, *strides), eps, residual_eps, activation)
    return out


def _launch_few(
    tensors: tuple[Optional[Tensor], ...],
    sizes: tuple[int, int, int, int, int],
    eps: float,
    residual_eps: float,
    activation: Optional[str],
) -> None:
    from .linear_kernels import few_rows

    rows, width, outputs, *_ = sizes
    inner = max(power_of_two(width), TILE)
    # One warp adds up rows of 512 without waiting for others.
    warps = min(max(inner // 512, 1), 8)
    columns = 2 if warps < 4 else 4
    assert tensors[0] is not None
    few_rows[(-(-outputs // columns),)](
        *tensors, *sizes, eps, residual_eps,
        ACTIVATION=activation,
        BLOCK_M=power_of_two(rows),
        BLOCK_N=columns,
        BLOCK_K=inner,
        BLOCK_ROW=1 if tensors[6] is None else power_of_two(outputs),
        num_warps=warps,
        **early(tensors[0]),
    )  # fmt: skip


def _launch_some(
    tensors: tuple[Optional[Tensor], ...],
    sizes: tuple[int, int, int, int, int],
    eps: float,
    residual_eps: float,
    activation: Optional[str],
) -> None:
    from .linear_kernels import some_rows

    rows, width, outputs, *_ = sizes
    x = tensors[0]
    assert x is not None
    warps, block, held = _split(width, x.itemsize, shared_memory(x.device))
    some_rows[(-(-outputs // TILE), -(-rows // ROWS))](
        *tensors, *sizes, eps, residual_eps,
        ACTIVATION=activation,
        BLOCK_M=ROWS,
        BLOCK_N=TILE,
        BLOCK_K=block,
        BLOCK_ROW=1 if tensors[6] is None else power_of_two(outputs),
        SPLIT=warps,
        HELD=held,
        num_warps=warps,
        **early(x),
    )  # fmt: skip


def _split(width: int, itemsize: int, memory: int) -> tuple[int, int, bool]:
    """How :func:`.linear_kernels.some_rows` splits the K inputs: (number of warps, inputs that each
    warp multiplies at once, whether all warps together cover K at once).

    Args:
        width: K.
        itemsize: bytes of a number.
        memory: bytes of shared memory. Both operands must fit there; twice, where a loop fetches
            the next inputs while it multiplies the present ones.
    """
    if itemsize == 2:
        most, warps = 512, 4 if width <= 512 else 8
    else:
        most, warps = 32, 4 if width <= 128 else 8 if width <= 256 else 16
    block = min(most, max(power_of_two(width) // warps, TILE))
    while True:
        held = warps * block >= width
        operands = warps * block * (TILE + ROWS) * itemsize
        # Half as much again for the sums of rows.
        if block == TILE or (operands if held else 2 * operands) * 3 // 2 <= memory:
            return warps, block, held
        block //= 2


def _check(
    x: Tensor,
    weight: Tensor,
    activation: Optional[str],
    residual: Optional[Tensor],
    residual_norm: Optional[Norm],
) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}; give 'relu', 'gelu' or None")
    if x.dim() != 2 or weight.dim() != 2 or x.size(1) != weight.size(1):
        raise ValueError(
            f"x {tuple(x.shape)} does not fit weight {tuple(weight.shape)}; give [M, K] and [N, K]"
        )
    if not weight.is_contiguous():
        raise ValueError(
            f"weight with strides {weight.stride()} is not contiguous; give weight.contiguous()"
        )
    if residual is not None and residual.shape != (x.size(0), weight.size(0)):
        raise ValueError(f"residual is {tuple(residual.shape)}; give {(x.size(0), weight.size(0))}")
    if residual_norm is not None and residual is None:
        raise ValueError("residual_norm without a residual; give both, or only a residual")
