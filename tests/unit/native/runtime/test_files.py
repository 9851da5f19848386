"""Model files: what is written is read again, what is damaged is refused, nothing crashes."""

import dataclasses
import random

import pytest
import runtime_driver

from fairseq_hrt.engine.layers import UnsupportedModelError
from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.runtime.engine import ModelFileError


def test_damaged_files(files, tmp_path):
    generator = random.Random(5)
    for path in files:
        assert runtime_driver.try_damaged(path, tmp_path, 20, generator) > 3
        runtime_driver.try_wrong_sizes(path, generator, 20)


@pytest.mark.parametrize("overrides, message", [
    (dict(activation_fn="linear"), "activation-fn linear"),
    (dict(decoder_input_dim=8, decoder_output_dim=8), "decoder-input-dim"),
    (dict(cross_self_attention=True), "cross-self-attention"),
    (dict(arch="marian_transformer", activation_fn="linear"), "activation-fn linear"),
    (dict(arch="bidirectional_transformer", bidirectional_distinct_starts=True,
          no_token_positional_embeddings=True),
     "--bidirectional-distinct-starts without positions"),
])  # fmt: skip
def test_models_that_the_runtime_does_not_know(runtime, overrides, message):
    model = runtime.build(**overrides)
    with pytest.raises(UnsupportedModelError, match=message):
        convert(model, *model.dictionaries)


def test_unknown_weights_and_dictionaries(runtime, tiny):
    model = runtime.build()
    with pytest.raises(ValueError, match="int4"):
        convert(model, *model.dictionaries, weights="int4")
    header, _ = convert(model, *model.dictionaries)
    with pytest.raises(ModelFileError, match="eos=77"):
        dataclasses.replace(header, eos=77).check()
