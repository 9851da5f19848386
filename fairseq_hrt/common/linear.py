"""Matrix products with fixed weights, by the quicker of two CPU libraries.

PyTorch's ordinary product (MKL) is made for square matrices. For the few rows of a decoding step and a large weight it
reads the weight once a row; oneDNN, given the weight in its own blocked order, reads it once. Measured on one AVX-512
core, 256 → 6,056 values: 1 row 160 against 115 µs, 2 rows 310 against 109, 8 rows 458 against 250. For small weights
oneDNN's 15 µs of overhead are more than what it gains.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

# Numbers in the weight from which oneDNN is quicker for one row, and for two or more.
ONE_ROW, SEVERAL_ROWS = 2**20, 2**17


def has_blocked_products() -> bool:
    """Whether this build of PyTorch has oneDNN's products for reordered weights (inference on CPUs)."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedLinear:
    """x W^T + b.

    Args:
        weight: ``[N, K]``.
        bias: ``[N]`` or None.
        reorder: the weights never change, so that a copy of them may be kept in another order; a changed weight would
            not be noticed.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], *, reorder: bool) -> None:
        self.weight, self.bias = weight, bias
        size = weight.numel()
        usable = reorder and weight.device.type == "cpu" and weight.dtype == torch.float32 and has_blocked_products()
        # Rows from which the blocked copy is used; made when it is used first.
        self._rows: Optional[int] = None
        if usable and size >= SEVERAL_ROWS:
            self._rows = 1 if size >= ONE_ROW else 2
        self._blocked: Optional[Tensor] = None

    def __call__(self, x: Tensor) -> Tensor:
        """``[..., K]`` → ``[..., N]``."""
        if self._rows is None or x.numel() < self._rows * x.size(-1):
            return F.linear(x, self.weight, self.bias)
        if self._blocked is None:
            self._blocked = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), None)
        return torch.ops.mkldnn._linear_pointwise(x, self._blocked, self.bias, "none", [], "")
