"""A translation of the autoregressive generator does not depend on what it is batched with,
whatever the options."""

import functools

from batch_independence import Batch, assert_independent, batches, decoding_options
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@functools.cache
def model_of(build, seed):
    return build(symbols=6, seed=seed, max_target_positions=16)


@settings(max_examples=18, deadline=None)
@given(seed=st.integers(0, 5), options=decoding_options(), batch=batches(), lively=st.booleans())
# A minimum above the maximum of the short sentence, and a maximum that depends on the source.
@example(
    seed=0,
    options=dict(beam=2, min_len=8, max_len_a=1.0, max_len_b=2),
    batch=Batch([[5, 2], [5, 6, 7, 8, 9, 4, 5, 2]]),
    lively=True,
)
def test_company_changes_nothing(tiny, seed, options, batch, lively):
    model = model_of(tiny.lively if lively else tiny.model, seed)
    assert_independent(
        AutoregressiveGenerator([model], tiny.dictionary(6), DecodingOptions(**options)), batch
    )
