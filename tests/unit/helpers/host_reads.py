"""Counts what a search reads from its device, on a machine without one: every tensor counts as
lying on a device until ``cpu()`` has brought it over, and what is computed from that stays on the
host."""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

READS = {
    getattr(Tensor, name)
    for name in (
        "tolist",
        "item",
        "numpy",
        "nonzero",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__contains__",
    )
} | {
    torch.nonzero,
    torch.masked_select,
    Tensor.masked_select,
    torch.equal,
    Tensor.equal,
    torch.allclose,
}
INDEXING = {Tensor.__getitem__, Tensor.__setitem__}


class _OnHost(Tensor):
    """What ``cpu()`` gave, and everything computed from it."""


class HostReads(TorchFunctionMode):
    """``with HostReads() as reads: ...; reads.count``"""

    def __init__(self):
        super().__init__()
        self.count, self.named = 0, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        first = args[0] if args else None
        on_device = isinstance(first, Tensor) and not isinstance(first, _OnHost)
        masks = (
            args[1]
            if func in INDEXING and isinstance(args[1], tuple)
            else args[1:2]
            if func in INDEXING
            else ()
        )
        masked = any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in masks)
        if on_device and (func in READS or func is Tensor.cpu or masked):
            self.count += 1
            self.named.append(getattr(func, "__name__", str(func)))
        found = func(*args, **(kwargs or {}))
        return found.as_subclass(_OnHost) if func is Tensor.cpu else found
