"""The smallest kernel, launched to find out whether Triton works."""

import torch
import triton
import triton.language as tl


@triton.jit
def _one_kernel(found):
    tl.store(found, 1)


def launch(device: torch.device) -> None:
    """Runs a Triton kernel on ``device``; raises RuntimeError if it does not write the expected
    value, and whatever Triton raises if it cannot run."""
    found = torch.zeros(1, dtype=torch.int32, device=device)
    with torch.cuda.device(device):
        _one_kernel[(1,)](found)
    if int(found) != 1:
        raise RuntimeError("a kernel of Triton wrote nothing")
