"""The devices on which Triton's kernels are tested: its interpreter, on the host, where
``TRITON_INTERPRET=1`` is set, and a real GPU where there is one."""

import os
from importlib.util import find_spec

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None

DEVICES = [
    pytest.param(
        "cpu",
        marks=pytest.mark.skipif(
            not INTERPRETED, reason="Triton's interpreter is off: set TRITON_INTERPRET=1"
        ),
    ),
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(
                INTERPRETED or not torch.cuda.is_available(), reason="there is no CUDA device"
            ),
        ],
    ),
]


def use_kernels(monkeypatch):
    """Takes the kernels on any device; the interpreter reads tensors of the host."""
    monkeypatch.setattr("fairseq_hrt.ops.fused.available", lambda device: True)


if INTERPRETED:
    from triton.runtime import interpreter

    _patch = interpreter._patch_lang_tensor

    def _with_numbers(tensor, scope):
        _patch(tensor, scope)
        # Triton's own conversion of arrays of one number to integers is refused by NumPy 2.4.
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = _with_numbers
