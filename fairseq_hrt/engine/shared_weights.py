"""Stacks parameters into one tensor that shares memory with them.

One matrix product for queries, keys and values needs their weights one below the other in memory. A
copy would take memory twice and go stale: optimizers write to ``parameter.data``, which no version
counter sees. Therefore the parameters are moved next to each other once and become views of the
stacked tensor; an optimizer step, ``load_state_dict`` or a broadcast changes both.
"""

from typing import Sequence

import torch
from torch import Tensor, nn


def fuse_rows(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Stacks parameters along their first dimension, sharing memory with them.

    Args:
        parameters: at least one; equal in dtype, device and all but the first dimension, e.g.
            ``[D, D]`` three times.

    Returns:
        The stacked tensor, e.g. ``[3 * D, D]``, detached from autograd. Parameters that an earlier
        call has stacked are not moved again, so that several engines may share one model.

    Raises:
        ValueError: the shapes, dtypes or devices do not fit together.
    """
    first = parameters[0]
    for parameter in parameters:
        if (parameter.shape[1:], parameter.dtype, parameter.device) != (
            first.shape[1:],
            first.dtype,
            first.device,
        ):
            raise ValueError(
                f"cannot stack {describe(parameter)} below {describe(first)}: "
                "the widths, dtypes and devices of fused projections must be equal; cast and move"
                " the model as a whole"
            )
    if not _adjacent(parameters):
        stacked = torch.cat([parameter.data for parameter in parameters])
        row = 0
        for parameter in parameters:
            parameter.data = stacked[row : row + parameter.size(0)]
            row += parameter.size(0)
    rows = sum(parameter.size(0) for parameter in parameters)
    data = first.data
    return data.as_strided((rows, *data.shape[1:]), data.stride(), data.storage_offset())


def describe(tensor: Tensor) -> str:
    """Shape, dtype and device of a tensor, for error messages."""
    return f"{list(tensor.shape)} {tensor.dtype} on {tensor.device}"


def _adjacent(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether the parameters are contiguous and follow each other in one storage."""
    data = parameters[0].data
    storage, offset = data.untyped_storage().data_ptr(), data.storage_offset()
    for parameter in parameters:
        data = parameter.data
        if (
            data.untyped_storage().data_ptr() != storage
            or data.storage_offset() != offset
            or not data.is_contiguous()
        ):
            return False
        offset += data.numel()
    return True
