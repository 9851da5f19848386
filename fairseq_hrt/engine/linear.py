"""Matrix products with fixed weights, by the quickest of three ways.

PyTorch's ordinary product (MKL) is made for square matrices. For the few rows of a decoding step
and a large weight it reads the weight once a row; oneDNN, given the weight in its own blocked
order, reads it once. Measured on one AVX-512 core, 256 → 6,056 values: 1 row 160 against 115 µs, 2
rows 310 against 109, 8 rows 458 against 250. But each call of it costs 15 µs, and 100 µs where
other work has displaced it from the caches. In between, MKL is helped by a weight that is stored
the other way round where that is wider than high: 128 → 2,752 values, 1 row 43 against 27 µs.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

# Numbers in the weight from which another order is worth its memory, and from which oneDNN always
# is the quickest.
LARGE, HUGE = 2**17, 2**20
# Products of numbers from which it is with a large weight.
MUCH_WORK = 2**22


def has_blocked_products() -> bool:
    """Whether this build of PyTorch has oneDNN's products for reordered weights (inference on
    CPUs)."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedLinear:
    """x W^T + b.

    Args:
        weight: ``[N, K]``.
        bias: ``[N]`` or None.
        reorder: the weights never change, so that a copy of them may be kept in another order; a
            changed weight would not be noticed.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], *, reorder: bool) -> None:
        self.weight, self.bias = weight, bias
        self.size = weight.numel()
        usable = (
            reorder
            and weight.device.type == "cpu"
            and weight.dtype == torch.float32
            and has_blocked_products()
        )
        self._blockable = usable and self.size >= LARGE
        # Copies, made when they are used first.
        self._turnable = (
            self._blockable and self.size < HUGE and weight.size(0) >= 2 * weight.size(1)
        )
        self._blocked: Optional[Tensor] = None
        self._turned: Optional[Tensor] = None

    def __call__(self, x: Tensor) -> Tensor:
        """``[..., K]`` → ``[..., N]``."""
        if not self._blockable:
            return F.linear(x, self.weight, self.bias)
        if self.size < HUGE and x.numel() // x.size(-1) * self.size < MUCH_WORK:
            if not self._turnable:
                return F.linear(x, self.weight, self.bias)
            if self._turned is None:
                self._turned = self.weight.detach().t().contiguous().t()
            return F.linear(x, self._turned, self.bias)
        if self._blocked is None:
            self._blocked = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), None)
        return torch.ops.mkldnn._linear_pointwise(x, self._blocked, self.bias, "none", [], "")
