"""Which models the native runtime takes, and what it is told of them."""

from argparse import Namespace

import numpy as np
import pytest
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_REGISTRY

from fairseq_hrt.engine.torch_to_native import UnsupportedModelError, check_convertible, convert
from fairseq_hrt.native.decoding import NumericalError


def dag_model(tiny, **options):
    args = Namespace(
        encoder_embed_dim=16, decoder_embed_dim=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_embed_dim=24,
        decoder_ffn_embed_dim=24, max_source_positions=32, max_target_positions=48, **options,
    )  # fmt: skip
    ARCH_CONFIG_REGISTRY["dag_transformer"](args)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    return MODEL_REGISTRY["dag_transformer"].build_model(args, task).eval()


@pytest.mark.parametrize(
    "features, rows", [("feature", 1), ("feature:position", 48), ("position", 48)]
)
def test_the_header_of_a_graph(tiny, features, rows):
    header, tensors = convert(
        dag_model(tiny, dag_link_features=features),
        tiny.dictionary(),
        tiny.dictionary(),
        weights="float32",
    )
    assert (header.family, header.link_rows, header.longest_source, header.longest_target) == (
        "dag",
        rows,
        32,
        48,
    )
    assert (header.special_symbols, header.chunk_sizes, header.reach, header.length_classes) == (
        0,
        (),
        0,
        0,
    ) and tensors


def test_the_header_of_chunks(tiny):
    header, _ = convert(
        tiny.model("hrt_transformer", hrt_chunk_sizes=[2, 3]),
        tiny.dictionary(),
        tiny.dictionary(),
        weights="int8",
    )
    assert (header.family, header.special_symbols, header.chunk_sizes, header.weights) == (
        "hrt",
        3,
        (2, 3),
        "int8",
    )


@pytest.mark.parametrize("cell", ["ssru", "attention"])
def test_the_header_of_marians_models(tiny, cell):
    model = tiny.model(
        "marian_transformer", marian_cell=cell, marian_epsilon=1e-3, share_all_embeddings=True
    )
    header, tensors = convert(model, tiny.dictionary(), tiny.dictionary(), weights="float32")
    assert (header.family, header.cell, header.zero_start) == ("autoregressive", cell, True)
    assert (header.activation, header.epsilon, header.output_bias, header.tied_output) == (
        "swish",
        1e-3,
        True,
        True,
    )
    assert (
        ("decoder.layers.0.cell" in tensors)
        == (cell == "ssru")
        != ("decoder.layers.0.self.input" in tensors)
    )
    assert "encoder.layers.0.self.input" in tensors
    # The first word's sinusoids: sin 0 and cos 0.
    assert tensors["decoder.positions"][0].tolist() == [0.0] * 8 + [1.0] * 8
    if cell == "ssru":
        assert (
            tensors["decoder.layers.0.cell"].shape == (32, 16)
            and not tensors["decoder.layers.0.cell.bias"][16:].any()
        )


def test_all_norms_have_one_epsilon(tiny):
    model = tiny.model("marian_transformer")
    model.encoder.layers[1].final_layer_norm.eps = 1e-5
    with pytest.raises(
        UnsupportedModelError,
        match="layer normalisations of different epsilons, which the native engine",
    ):
        check_convertible(model, tiny.dictionary(), tiny.dictionary())


@pytest.mark.parametrize("weights", ["int8", "float32"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_number_that_is_not_finite_is_named(tiny, weights, value):
    model = tiny.model()
    model.decoder.layers[0].fc1.weight.data[0, 1] = value
    with pytest.raises(
        NumericalError, match="the model's decoder.layers.0.inner holds a number that is not finite"
    ):
        convert(model, tiny.dictionary(), tiny.dictionary(), weights=weights)


def test_layers_of_one_side_are_alike(tiny):
    model = tiny.model()
    assert check_convertible(model, tiny.dictionary(), tiny.dictionary()) == "autoregressive"
    # The sides may differ from each other.
    assert (
        check_convertible(
            tiny.model(encoder_ffn_embed_dim=32), tiny.dictionary(), tiny.dictionary()
        )
        == "autoregressive"
    )
    model.decoder.layers[1].fc1 = type(model.decoder.layers[1].fc1)(16, 32)
    with pytest.raises(
        UnsupportedModelError,
        match=(
            "layers of different sizes, which the native engine does not support;"
            " use --engine torch"
        ),
    ):
        check_convertible(model, tiny.dictionary(), tiny.dictionary())


@pytest.mark.parametrize("name", ["bos", "pad", "eos", "unk"])
@pytest.mark.parametrize("side", [0, 1])
def test_symbols_are_the_same_on_both_sides(tiny, name, side):
    dictionaries = [tiny.dictionary(), tiny.dictionary()]
    setattr(dictionaries[side], f"{name}_index", 9)
    with pytest.raises(UnsupportedModelError, match=f"the symbol {name} has id"):
        check_convertible(tiny.model(), *dictionaries)


@pytest.mark.parametrize("options, message", [
    (dict(activation_fn="linear"), "--activation-fn linear"),
    (dict(decoder_output_dim=8), "--decoder-output-dim"),
])  # fmt: skip
def test_what_the_runtime_does_not_know(tiny, options, message):
    with pytest.raises(UnsupportedModelError, match=message):
        check_convertible(tiny.model(**options), tiny.dictionary(), tiny.dictionary())


@pytest.mark.parametrize("arch", ["hrt_transformer", "bidirectional_transformer"])
def test_conventions_of_students(tiny, arch):
    """Positions from 0, where the model counts from there; epsilon and output bias."""
    more = (
        dict(hrt_chunk_sizes=[2]) if arch == "hrt_transformer" else dict(bidirectional_directions=1)
    )
    options = dict(marian_first_position=0, marian_epsilon=1e-6, marian_output_bias="yes", **more)
    header, tensors = convert(
        tiny.model(arch, **options), tiny.dictionary(), tiny.dictionary(), weights="float32"
    )
    assert header.epsilon == 1e-6 and header.output_bias and tensors["output.bias"].any()
    for side in ("encoder", "decoder"):
        angles = np.arange(5)[:, None] * 10_000.0 ** (-np.arange(8) / 7)
        expected = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        np.testing.assert_allclose(tensors[f"{side}.positions"][:5], expected, atol=1e-5)
