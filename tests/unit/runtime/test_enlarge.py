"""examples/measure/enlarge.py: a larger model of the same words, step by step and as a command."""

import numpy as np
import pytest
from runtime_models import convert, sources

from fairseq_hrt.runtime.engine import DecodingOptions, Engine
from fairseq_hrt.runtime.format import check_tensors

FAMILIES = {
    "transformer": [{"beam": 1}, {"beam": 3}],
    "hrt_transformer": [
        {"beam": 1, "hrt_decode_chunk": "1"}, {"beam": 1, "hrt_decode_chunk": "3"},
        {"beam": 1, "hrt_decode_chunk": "1", "hrt_draft_chunk": 3, "hrt_draft_width": 4},
    ],
    "bidirectional_transformer": [{"beam": 1}, {"beam": 2}],
}  # fmt: skip


@pytest.fixture(scope="module")
def enlarge(load_example):
    return load_example("measure/enlarge.py")


def decoded(model, options):
    with Engine(*model) as engine:
        results = engine.decode(
            sources((1, 4, 9, 13)), DecodingOptions(max_len_a=1.0, max_len_b=6, **options)
        )
    return [result for best in results for result in best]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_larger_model_writes_the_same_with_the_same_scores(
    enlarge, runtime, family, pre_norm, tied
):
    norms = dict(
        encoder_normalize_before=pre_norm,
        decoder_normalize_before=pre_norm,
        layernorm_embedding=not pre_norm,
    )
    model = runtime.build(family, share_all_embeddings=tied, **norms)
    small = convert(model, *model.dictionaries, weights="float32")
    layers, words = (
        (small[0].encoder_layers + 2, small[0].decoder_layers + 1),
        small[0].target_vocabulary,
    )
    large, more_words = (
        enlarge.enlarge(*small, 3, layers, words),
        enlarge.enlarge(*small, 3, layers, words + 7),
    )
    check_tensors(*large)
    check_tensors(*more_words)
    assert (
        large[0].decoder_width == 3 * small[0].decoder_width
        and more_words[0].target_vocabulary == words + 7
    )
    for options in FAMILIES[family]:
        one, other = decoded(small, options), decoded(large, options)
        assert [result.tokens for result in one] == [result.tokens for result in other]
        for mine, theirs in zip(one, other):
            np.testing.assert_allclose(mine.positional_scores, theirs.positional_scores, atol=2e-4)
        assert len({tuple(result.positional_scores) for result in one}) > 2
        if options["beam"] == 1:
            # A beam would hold the same translation several times.
            assert [result.tokens for result in one] == [
                result.tokens for result in decoded(more_words, options)
            ]


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_weights_of_several_large_pages(enlarge, runtime, weights):
    """A vocabulary of more than 4 MB, which the kernel keeps in pages of 2 MB, and the same
    sentences."""
    model = runtime.build("hrt_transformer", share_all_embeddings=True)
    small = convert(model, *model.dictionaries, weights="float32")
    layers, width = (small[0].encoder_layers, small[0].decoder_layers), small[0].decoder_width
    large = enlarge.enlarge(*small, 1, layers, (9 << 20) // 2 // width)
    if weights == "int8":
        small, large = enlarge.rounded(*small), enlarge.rounded(*large)
    assert large[1]["decoder.embedding"].nbytes > 4 << 20
    options = {"beam": 1, "hrt_decode_chunk": "2"}
    assert [one.tokens for one in decoded(small, options)] == [
        other.tokens for other in decoded(large, options)
    ]


def test_rounding_is_that_of_a_conversion(enlarge, runtime):
    model = runtime.build("hrt_transformer", share_all_embeddings=True)
    header, tensors = enlarge.rounded(*convert(model, *model.dictionaries, weights="float32"))
    expected_header, expected = convert(model, *model.dictionaries, weights="int8")
    assert header == expected_header and set(tensors) == set(expected)
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)


def test_what_cannot_grow_is_refused(enlarge, runtime):
    built, graphs = runtime.build(), runtime.build("dag_transformer")
    model = convert(built, *built.dictionaries, weights="float32")
    layers = model[0].encoder_layers, model[0].decoder_layers
    for times, wanted, size, message in (
        (0, layers, 16, "0 times as wide"),
        (1, (layers[0] - 1, layers[1]), 16, "encoder layers"),
        (1, layers, 15, "15 words"),
    ):
        with pytest.raises(ValueError, match=message):
            enlarge.enlarge(*model, times, wanted, size)
    graph = convert(graphs, *graphs.dictionaries, weights="float32")
    with pytest.raises(ValueError, match="only transformers"):
        enlarge.enlarge(*graph, 2, layers, 32)
