"""Matrix products with the weights of a model, by the fastest of three ways.

PyTorch's ordinary product (MKL) is made for square matrices: for the few rows of a decoding step it
reads a large weight once per row. oneDNN, given the weight in its own blocked order, reads it once:
on one AVX-512 core, 256 → 6,056 values take 115 µs instead of 160 for 1 row, 109 instead of 310 for
2 rows, 250 instead of 458 for 8. But each call has an overhead of 15 µs, and of 100 µs where other
work has displaced oneDNN from the caches. For weights of medium size and at least twice as many
outputs as inputs, MKL is faster with a transposed copy: 128 → 2,752 values take 27 µs instead of 43
for 1 row.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

# Weights of at least LARGE numbers are worth a reordered copy; for HUGE ones oneDNN is always
# fastest.
LARGE, HUGE = 2**17, 2**20
# Between the two, oneDNN is fastest from this many multiplications (rows * weight numbers).
MUCH_WORK = 2**22


def has_blocked_products() -> bool:
    """Whether this build of PyTorch has oneDNN's products for reordered weights (inference on
    CPUs)."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedLinear:
    """x W^T + b.

    Args:
        weight: ``[N, K]``, N outputs and K inputs.
        bias: ``[N]`` or None.
        reorder: True allows copies of the weight in another, faster order; they do not follow later
            changes of the weight.
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
        # Whether a transposed copy is worth making; both copies below are made at first use.
        self._turnable = (
            self._blockable and self.size < HUGE and weight.size(0) >= 2 * weight.size(1)
        )
        self._blocked: Optional[Tensor] = None
        self._turned: Optional[Tensor] = None

    def __call__(self, x: Tensor) -> Tensor:
        """x W^T + b: ``[..., K]`` → ``[..., N]``."""
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
