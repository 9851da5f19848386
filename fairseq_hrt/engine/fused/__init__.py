"""Triton kernels that do a larger part of a decoding step at once, for the few rows of a step on a
GPU.

Each function has a reference (``…_reference``) in its module, written with PyTorch's own functions.
Tests compare with it, and it runs where :func:`available` is false. No function reads the device,
so all of them can be captured in a CUDA graph once they have run; positions are tensors.
Within :func:`.support.constant_parameters` kernels start early.
"""

from .attention import attention_block, cross_attention
from .linear import fused_linear
from .output import choose, embed
from .search import best_continuations, best_words
from .step import close_step
from .support import available

__all__ = [
    "attention_block",
    "available",
    "best_continuations",
    "best_words",
    "choose",
    "close_step",
    "cross_attention",
    "embed",
    "fused_linear",
]
