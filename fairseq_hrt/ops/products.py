"""Sums that keep more digits than their terms."""

import torch
from torch import Tensor


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The dtype for sums of exponentials: float32 instead of half precision, in which small terms
    of a sum over the vocabulary are lost."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total`` += ``left`` @ ``right``, in place. In half precision on a CUDA device, the product
    is not rounded before it is added (PyTorch 2.8 or later).

    Args:
        total: ``[V, D]``, float32 for factors in half precision.
        left, right: ``[V, n]`` and ``[n, D]``.
    """
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.device.type == "cuda" and "dtype" in torch.ops.aten.mm.overloads():
        total += torch.mm(left, right, out_dtype=total.dtype)
    else:
        total += left @ right
