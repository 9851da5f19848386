"""Both stages by computations of fixed shapes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from static_decoding import assert_recordable, assert_static_equals

from fairseq_hrt.engine import static_search
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(static_search, "ENOUGH", 2)
    monkeypatch.setattr(static_search, "FIRST_CAPACITY", 4)
    monkeypatch.setattr(static_search, "LENGTHS", (4, 8, 16, 32))
    monkeypatch.setattr("fairseq_hrt.hrt.generator.PARTS", (2, 4, 8, 16))


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 15),
    beams=st.sampled_from([(1, 1), (3, 1), (4, 3)]),
    chunk=st.sampled_from(["1", "2", "3", "auto"]),
    rules=st.sampled_from(
        [dict(), dict(unkpen=2.0, min_len=4), dict(temperature=0.5, hrt_eos_last_chunk=True)]
    ),
    limit=st.sampled_from([(0, 9), (1.5, 2), (0, 1)]),
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=6),
    window=st.sampled_from([0, 3]),
)
def test_equal_to_decoding_step_by_step(tiny, seed, beams, chunk, rules, limit, lengths, window):
    if limit == (0, 1):
        rules = {name: value for name, value in rules.items() if name != "min_len"}
    options = DecodingOptions(
        beam=beams[0], hrt_nat_beam=min(beams[1], beams[0]), hrt_decode_chunk=chunk,
        hrt_chunk_table="3:1,5:2,inf:3", max_len_a=limit[0], max_len_b=limit[1],
        nbest=min(beams), **rules,
    )  # fmt: skip
    assert_static_equals(
        lambda model: HRTGenerator([model], tiny.dictionary(), options),
        tiny.model(
            "hrt_transformer", seed=seed, hrt_chunk_sizes=[2, 3], hrt_relative_window=window
        ),
        [tiny.sample(lengths, seed=seed), tiny.sample(lengths[::-1], seed=seed + 1)],
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_both_stages_can_be_recorded(tiny, beam):
    options = DecodingOptions(beam=beam, hrt_decode_chunk="2", max_len_b=9, min_len=1)
    reads = assert_recordable(
        lambda model: HRTGenerator([model], tiny.dictionary(), options),
        tiny.model("hrt_transformer", hrt_chunk_sizes=[2], hrt_relative_window=3),
        tiny.sample([5, 3, 6]),
    )
    assert reads <= 5 + 6
