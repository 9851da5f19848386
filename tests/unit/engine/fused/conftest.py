"""Where the fused kernels are tested: in Triton's interpreter at tiny size, and on a GPU."""

import importlib.util
import os

import pytest
import torch

INTERPRETED = (
    os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None
)

if INTERPRETED:
    from triton.runtime import interpreter

    _patch = interpreter._patch_lang_tensor

    def _with_numbers(tensor, scope):
        _patch(tensor, scope)
        # Triton's own conversion of arrays of one number to integers is refused by NumPy 2.4.
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = _with_numbers


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
