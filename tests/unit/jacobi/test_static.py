"""Windows read by computations of fixed shapes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from static_decoding import assert_recordable, assert_static_equals

from fairseq_hrt.engine import EncodedSource, static_search
from fairseq_hrt.jacobi.drafts import Drafter, NGramDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.jacobi.static_reader import StaticReader
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    for module in (static_search, "fairseq_hrt.jacobi.static_reader"):
        name = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{name}.LENGTHS", (4, 8, 16, 32))


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 15),
    window=st.sampled_from(
        [
            dict(jacobi_mode="frontier", jacobi_window=3),
            dict(jacobi_mode="frontier", jacobi_window=1),
            dict(jacobi_mode="pgj", jacobi_block_size=4),
            dict(jacobi_mode="hgj", jacobi_block_size=3, jacobi_prefix_length=5),
            dict(jacobi_mode="pgj", jacobi_block_size=3, jacobi_known_length=True),
        ]
    ),
    rules=st.sampled_from([dict(), dict(unkpen=2.0, min_len=4), dict(temperature=0.5)]),
    limit=st.sampled_from([(0, 9), (1.5, 2), (0, 20)]),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    learns=st.booleans(),
)
def test_equal_to_decoding_step_by_step(tiny, seed, window, rules, limit, lengths, learns):
    options = DecodingOptions(beam=1, max_len_a=limit[0], max_len_b=limit[1], **window, **rules)
    assert_static_equals(
        lambda model: JacobiGenerator(
            [model], tiny.dictionary(), options, drafter=NGramDrafter() if learns else Drafter()
        ),
        tiny.lively(seed=seed),
        [tiny.sample(lengths, seed=seed), tiny.sample(lengths[::-1], seed=seed + 1)],
    )


def test_a_pass_can_be_recorded(tiny):
    options = DecodingOptions(
        beam=1, jacobi_mode="frontier", jacobi_window=3, max_len_b=9, min_len=1
    )
    reads = assert_recordable(
        lambda model: JacobiGenerator([model], tiny.dictionary(), options, drafter=Drafter()),
        tiny.lively(seed=5),
        tiny.sample([5, 3, 6]),
    )
    assert reads <= 10 + 2


@pytest.mark.parametrize(
    "window, reason",
    [
        (dict(jacobi_mode="pj"), "windows of 33 tokens (more than 16)"),
        (dict(jacobi_mode="pgj", jacobi_block_size=20), "windows of 20 tokens (more than 16)"),
    ],
)
def test_wide_windows_go_step_by_step(tiny, window, reason):
    generator = JacobiGenerator(
        [tiny.lively()], tiny.dictionary(), DecodingOptions(beam=1, **window), drafter=Drafter()
    )
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == reason


@pytest.mark.parametrize(
    "window", [dict(jacobi_mode="frontier"), dict(jacobi_mode="pgj", jacobi_block_size=4)]
)
def test_recurrent_cells_go_step_by_step(tiny, window):
    """Their static steps cannot forget what a wrong guess has added to a state."""
    options = DecodingOptions(beam=1, max_len_b=12, **window)
    model, sample = tiny.lively("marian_transformer", marian_cell="ssru"), tiny.sample([5, 3, 6])
    found = []
    for captured in (False, True):
        generator = JacobiGenerator([model], tiny.dictionary(), options, drafter=Drafter())
        generator.uses_graphs = captured
        found.append([best[0].tokens for best in generator.find(sample)])
    assert found[0] == found[1]
    assert generator.graph_refusal(None) == "recurrent cells, whose states wrong guesses change"


def test_nan_leaves_nothing_behind(tiny):
    """Also where no later pass writes before it reads."""
    options = DecodingOptions(beam=1, max_len_b=12, jacobi_mode="frontier", jacobi_window=3)
    model, sample = tiny.lively(seed=26), tiny.sample([5, 3])
    generator = JacobiGenerator([model], tiny.dictionary(), options, drafter=Drafter())
    generator.uses_graphs = True
    expected = [best[0].tokens for best in generator.find(sample)]
    word = next(token for token in expected[0][4:-1] if token not in expected[0][:4])
    with torch.no_grad():
        kept = model.decoder.embed_tokens.weight[word].clone()
        model.decoder.embed_tokens.weight[word] = math.nan
        with pytest.raises(NumericalError):
            generator.find(sample)
        model.decoder.embed_tokens.weight[word] = kept
    assert [best[0].tokens for best in generator.find(sample)] == expected


@pytest.mark.parametrize("known", [False, True])
def test_the_buffers_serve_one_batch_at_a_time(tiny, monkeypatch, known):
    """Generators of other threads may share the ensemble."""
    options = DecodingOptions(
        beam=1, max_len_b=6, jacobi_mode="pgj", jacobi_block_size=3, jacobi_known_length=known
    )
    generator = JacobiGenerator([tiny.lively()], tiny.dictionary(), options, drafter=Drafter())
    generator.uses_graphs = True
    lock, held = generator.ensemble.graphs.lock, []
    for owner, name in ((EncodedSource, "encode"), (StaticReader, "read")):
        function = getattr(owner, name)

        def watched(*given, function=function):
            held.append(lock._is_owned())
            return function(*given)

        monkeypatch.setattr(owner, name, watched)
    generator.find(tiny.sample([5, 3]))
    assert len(held) > 1 and all(held)
