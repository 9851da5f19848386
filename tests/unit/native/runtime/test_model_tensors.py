"""The tensors of a model file: what they are made of, and what rounding makes of matrices."""

import numpy as np
import pytest

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.runtime.model_tensors import (
    model_tensors,
    quantise_rows,
    require_stored,
    rest_of_rows,
)


def test_the_rest_of_a_row_makes_its_integers_finer():
    weights = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    weights[3] = 0
    integers, scale = quantise_rows(weights)
    rest = rest_of_rows(weights, integers, scale)
    coarse, fine = scale[:, None] * integers, scale[:, None] * (integers + rest / 254)
    step = scale.max()
    assert np.abs(weights - coarse).max() > step / 8
    assert np.abs(weights - fine).max() <= 1.01 * step / 508
    assert not integers[3].any() and not rest[3].any()


def test_kinds_of_weights_are_named():
    require_stored("int8")
    with pytest.raises(ValueError, match="weights 'int4': choose one of int8, float32"):
        require_stored("int4")


def test_a_missing_parameter_is_named(tiny):
    header, _ = convert(tiny.model(), tiny.dictionary(), tiny.dictionary(), weights="float32")
    with pytest.raises(KeyError, match=r"encoder\.embed_tokens\.weight"):
        model_tensors(
            header, {}, dict.fromkeys(("encoder.positions", "decoder.positions"), np.zeros(1))
        )
