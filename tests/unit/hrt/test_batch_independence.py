"""A hybrid-regressive translation does not depend on what it is batched with, whatever the
options."""

import functools

from batch_independence import Batch, assert_independent, batches, decoding_options
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@functools.cache
def model_of(build, seed, tail):
    return build(
        "hrt_transformer",
        symbols=6,
        seed=seed,
        hrt_chunk_sizes=[2, 3],
        hrt_relative_window=3,
        hrt_tail_target=tail,
    )


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 5),
    options=decoding_options(no_repeat_ngram_size=[0]),
    batch=batches(),
    chunk=st.sampled_from(["1", "2", "3", "auto"]),
    table=st.sampled_from(["2:1,5:2,inf:3", "4:3,inf:1", "0:2,1:1,inf:2"]),
    completed=st.integers(1, 4),
    eos_last_chunk=st.booleans(),
    tail=st.sampled_from(["eos", "pad"]),
)
@example(
    seed=0, options=dict(beam=1, min_len=8, max_len_a=1.0, max_len_b=0),
    batch=Batch([[5, 2], [5, 6, 7, 8, 9, 4, 5, 2]]), chunk="2", table="inf:1", completed=1,
    eos_last_chunk=False, tail="eos",
)  # fmt: skip
def test_company_changes_nothing(
    tiny, seed, options, batch, chunk, table, completed, eos_last_chunk, tail
):
    model = model_of(tiny.model, seed, tail)
    generator = HRTGenerator(
        [model],
        tiny.dictionary(6),
        DecodingOptions(
            hrt_decode_chunk=chunk,
            hrt_chunk_table=table,
            hrt_nat_beam=min(completed, options["beam"]),
            hrt_eos_last_chunk=eos_last_chunk,
            **options,
        ),
    )
    assert_independent(generator, batch)
