"""Where the fused kernels run, and checks that all of them share."""

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from torch import Tensor

from ...ops.fused import available as runs

# (gamma [K], beta [K], eps) of a layer normalisation.
Norm = Tuple[Tensor, Tensor, float]

TYPES = (torch.float16, torch.bfloat16, torch.float32)
# The smallest side of a matrix product on tensor cores; fewer rows are padded to it.
TILE = 16

_constant: ContextVar[bool] = ContextVar("parameters_are_constant", default=False)


def available(device: torch.device) -> bool:
    """Whether the fused kernels run on ``device``: where the Triton kernels of the losses do
    (``fairseq_hrt.ops.fused``), and anywhere in Triton's interpreter, which ``TRITON_INTERPRET=1``
    chooses."""
    return runs(device) or os.environ.get("TRITON_INTERPRET") == "1"


def usable(x: Tensor, *others: Optional[Tensor]) -> bool:
    """Whether the kernels take these tensors: float16, bfloat16 or float32, all of one dtype and on
    one device where kernels run (:func:`available`). Tensors that are None count as fitting."""
    return (
        x.dtype in TYPES
        and available(x.device)
        and all(
            other is None or (other.dtype == x.dtype and other.device == x.device)
            for other in others
        )
    )


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """A context in which the device of ``x`` is PyTorch's current one, on which Triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


@contextmanager
def constant_parameters() -> Iterator[None]:
    """Promises that nothing writes weights, biases and norms within the context: on GPUs of
    capability 9.0 or more a kernel may then start, and read them, before the previous kernel has
    ended.

    Kernels are compiled anew for this. A function that is to be recorded in a CUDA graph has to run
    within the context once before, so that they are compiled.
    """
    before = _constant.set(True)
    try:
        yield
    finally:
        _constant.reset(before)


def early(x: Tensor) -> Dict[str, Any]:
    """Launch options, {name: value}, of a kernel on the device of ``x``: ``EARLY``, an argument of
    the kernel, True within :func:`constant_parameters` if GPU and Triton let a kernel start before
    the previous one has ended (programmatic dependent launch); and, if it is True, Triton's option
    ``launch_pdl``, which permits that."""
    if _constant.get() and x.is_cuda and _starts_early(x.device):
        return {"EARLY": True, "launch_pdl": True}
    return {"EARLY": False}


@cache
def _starts_early(device: torch.device) -> bool:
    """Whether the device and Triton have programmatic dependent launches, by which a kernel may
    start before the previous one has ended."""
    if torch.version.hip or torch.cuda.get_device_capability(device) < (9, 0):
        return False
    from .linear_kernels import STARTS_EARLY

    return STARTS_EARLY


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a Triton program may have on this device; under the interpreter,
    those that an H100 has."""
    if device.type != "cuda":
        return 227 * 1024
    from triton.runtime import driver

    return int(driver.active.utils.get_device_properties(device.index)["max_shared_mem"])


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least ``count``."""
    return 1 << (count - 1).bit_length()


def require_contiguous(**tensors: Optional[Tensor]) -> None:
    """Refuses tensors with gaps, whose addresses the kernels would get wrong.

    Raises:
        ValueError: a tensor is not contiguous; the message names the first of them.
    """
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(
                f"{name} with strides {tensor.stride()} is not contiguous; give {name}.contiguous()"
            )


def norm_parts(norm: Optional[Norm]) -> Tuple[Optional[Tensor], Optional[Tensor], float]:
    """(gamma, beta, eps) of a norm; (None, None, 0) without one."""
    return (None, None, 0.0) if norm is None else norm


def stride_of(position: Tensor, rows: int) -> int:
    """0 if the one number of ``position`` holds for all rows, 1 if each row has its own.

    Raises:
        ValueError: ``position`` has neither one number nor ``rows`` of them, or is not of int64.
    """
    if position.dtype != torch.int64 or position.shape not in ((1,), (rows,)):
        raise ValueError(
            f"position is {position.dtype} {tuple(position.shape)}; give a LongTensor [1] or"
            f" [{rows}]"
        )
    return 0 if position.numel() == 1 else 1
