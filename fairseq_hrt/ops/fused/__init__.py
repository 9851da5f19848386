"""Triton kernels of the losses for CUDA devices, and whether such kernels run at all.

The functions in PyTorch of :mod:`fairseq_hrt.ops` are the reference, and run on all other devices.
PyTorch's CUDA wheels contain Triton. Nothing here imports it before a CUDA device is used.
"""

import functools
import logging

import torch

logger = logging.getLogger(__name__)

# Earlier cards are not supported by Triton.
_CAPABILITY = (8, 0)


def available(device: torch.device) -> bool:
    """Whether Triton's kernels run on a device. At the first call for a CUDA device a small kernel
    is launched to find out, and a failure is logged: Triton may be missing, or the C compiler that
    Triton needs."""
    return device.type == "cuda" and _runs(device.index or 0)


@functools.cache
def _runs(index: int) -> bool:
    try:
        capability = torch.cuda.get_device_capability(index)
        if capability < _CAPABILITY:
            found, needed = (".".join(map(str, pair)) for pair in (capability, _CAPABILITY))
            raise RuntimeError(f"the GPU has compute capability {found}, they need {needed}")
        from . import probe

        probe.launch(torch.device("cuda", index))
    except Exception as error:  # of many types: import, compiler, driver
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        logger.warning("Triton's kernels do not run, PyTorch's slower ones are used: %s", reason)
        return False
    return True
