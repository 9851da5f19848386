"""The best token of each position by one function of fixed shapes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from static_decoding import assert_recordable, assert_static_equals

from fairseq_hrt.ctc.generator import CtcGenerator
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.values import DecodingOptions


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 15),
    model=st.sampled_from(
        [
            dict(ctc_upsample_scale=3.0),
            dict(ctc_upsample_scale=1.5, ctc_inputs="soft-copy"),
            dict(ctc_upsample_scale=2.0, max_target_positions=20, decoder_learned_pos=True),
        ]
    ),
    options=st.sampled_from([dict(max_len_b=40), dict(max_len_b=3, lenpen=0.5), dict(unkpen=4.0)]),
    lengths=st.lists(st.integers(1, 18), min_size=1, max_size=6),
)
def test_equal_to_the_ordinary_way(tiny, seed, model, options, lengths):
    chosen = DecodingOptions(beam=1, **options)
    assert_static_equals(
        lambda model: CtcGenerator([model], tiny.dictionary(8), chosen),
        tiny.model("ctc_transformer", symbols=8, seed=seed, **model),
        [
            tiny.sample(lengths, symbols=8, seed=seed),
            tiny.sample(lengths[::-1], symbols=8, seed=seed + 1, left_pad=False),
        ],
    )


@pytest.mark.parametrize("inputs", ["copy", "soft-copy"])
def test_the_function_can_be_recorded(tiny, inputs):
    reads = assert_recordable(
        lambda model: CtcGenerator([model], tiny.dictionary(8), DecodingOptions(beam=1)),
        tiny.model("ctc_transformer", symbols=8, ctc_upsample_scale=3.0, ctc_inputs=inputs),
        tiny.sample([5, 3, 6], symbols=8),
    )
    # The lengths of the sources, and the result.
    assert reads <= 2


def test_a_search_goes_the_ordinary_way(tiny):
    generator = CtcGenerator(
        [tiny.model("ctc_transformer", symbols=8)], tiny.dictionary(8), DecodingOptions(beam=3)
    )
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == "--beam 3"


@pytest.mark.parametrize("captured", [False, True])
def test_nan_is_an_error(tiny, captured):
    model = tiny.model("ctc_transformer", symbols=8)
    model.encoder.embed_tokens.weight.data.fill_(float("nan"))
    generator = CtcGenerator([model], tiny.dictionary(8), DecodingOptions(beam=1))
    generator.uses_graphs = captured
    with pytest.raises(NumericalError):
        generator.find(tiny.sample([4, 2], symbols=8))
