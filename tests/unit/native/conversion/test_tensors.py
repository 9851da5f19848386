"""Tensors are taken by name and shape, and none is left over."""

import numpy as np
import pytest

from fairseq_hrt.native.conversion.tensors import Tensors


def test_what_is_taken_has_its_shape_and_all_is_taken():
    tensors = Tensors({"a": np.zeros((2, 3)), "b": np.zeros(4)}, "m.bin")
    assert "a" in tensors and "c" not in tensors and tensors.shape("a") == (2, 3)
    assert tensors.take("a", 2, 3) is tensors.held["a"]
    for call, message in (
        (
            lambda: tensors.take("a", 3, 2),
            "'a' has the shape '2×3', but the model's configuration gives '3×2'",
        ),
        (lambda: tensors.take("c", 1), "has no 'c'"),
        (lambda: tensors.shape("b"), "must be a matrix"),
        (lambda: tensors.shape("c"), "has no 'c'"),
        (
            lambda: tensors.require_all_used(),
            "1 tensors that cannot be imported, among them 'b'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    tensors.take("b", 4)
    tensors.require_all_used()
