"""Block searches that run on the device alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from static_decoding import assert_recordable, assert_static_equals

from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.engine import static_search
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(static_search, "ENOUGH", 2)
    monkeypatch.setattr(static_search, "FIRST_CAPACITY", 4)
    monkeypatch.setattr(static_search, "LENGTHS", (4, 8, 16, 32))


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 15),
    order=st.sampled_from(
        [
            dict(),
            dict(directions=1, tokens_per_step=2),
            dict(directions=1),
            dict(tokens_per_step=2, independent_directions=True),
            dict(directions=4),
            dict(vanilla_mask=True, distinct_starts=True),
        ]
    ),
    search=st.sampled_from(
        [dict(beam=1), dict(beam=3), dict(beam=2, bidirectional_scoring="algorithm1")]
    ),
    rules=st.sampled_from([dict(), dict(unkpen=2.0, min_len=4), dict(temperature=0.5)]),
    limit=st.sampled_from([(0, 9), (1.5, 2), (0, 20)]),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_equal_to_decoding_step_by_step(family, seed, order, search, rules, limit, lengths):
    options = DecodingOptions(max_len_a=limit[0], max_len_b=limit[1], **search, **rules)
    assert_static_equals(
        lambda model: BidirectionalGenerator([model], family.dictionary(), options),
        family.bidirectional(seed=seed, **order),
        [family.sample(lengths, seed=seed), family.sample(lengths[::-1], seed=seed + 1)],
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_steps_can_be_recorded(family, beam):
    options = DecodingOptions(beam=beam, max_len_b=9, min_len=1)
    reads = assert_recordable(
        lambda model: BidirectionalGenerator([model], family.dictionary(), options),
        family.bidirectional(),
        family.sample([5, 3, 6]),
    )
    assert reads <= 5 + 6


def test_the_released_scoring_goes_step_by_step(family):
    options = DecodingOptions(beam=2, bidirectional_scoring="paper")
    generator = BidirectionalGenerator([family.bidirectional()], family.dictionary(), options)
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == "--bidirectional-scoring paper"


@pytest.mark.parametrize("words, way", [
    (1, "with CUDA graphs"), (2, "without CUDA graphs because of --forced-start"),
])  # fmt: skip
def test_a_given_start(family, words, way):
    model = family.bidirectional(directions=1, tokens_per_step=words)
    sample, found = family.sample([5, 3, 6]), []
    options = DecodingOptions(beam=2, max_len_b=9, forced_start="w3 w4")
    for captured in (True, False):
        generator = BidirectionalGenerator([model], family.dictionary(), options)
        generator.uses_graphs = captured
        found.append([[one.tokens for one in best] for best in generator.find(sample)])
        assert generator.ways == [way][: int(captured)]
    assert found[0] == found[1]
    assert all(one[:2] == generator.forced for best in found[0] for one in best)


@pytest.mark.parametrize("beam", [1, 2])
def test_a_step_may_have_more_words_than_fit_at_first(family, beam):
    options = DecodingOptions(beam=beam, max_len_b=20)
    assert_static_equals(
        lambda model: BidirectionalGenerator([model], family.dictionary(), options),
        family.bidirectional(tokens_per_step=3),
        [family.sample([5, 3]), family.sample([2])],
    )
