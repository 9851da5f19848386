"""Where the fused kernels are tested: in Triton's interpreter at tiny size, and on a GPU."""

import importlib.util

import pytest
import torch
from triton_devices import INTERPRETED


@pytest.fixture(
    scope="session", params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)]
)
def device(request) -> torch.device:
    """The device of a kernel's test."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU")
        if INTERPRETED:
            pytest.skip("TRITON_INTERPRET=1 is set: kernels do not run on the GPU")
        return torch.device("cuda")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed; PyTorch's wheels for CUDA bring it")
    if not INTERPRETED:
        pytest.skip("set TRITON_INTERPRET=1 to run the kernels on a CPU")
    return torch.device("cpu")
