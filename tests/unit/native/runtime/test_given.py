"""Scores of given translations."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_models import NEAR, runtime_engine, sources

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.runtime.engine import (
    DecodingOptions,
    Engine,
    NumericalError,
    Shortlist,
    UnsupportedOption,
)

ROWS = sources([1, 2, 5, 9, 6, 3])


def targets_of(rows, *, seed=5):
    """None, one or several for each source."""
    found = [
        sources(lengths, seed=seed + number)
        for number, lengths in enumerate([[3], [], [1, 7, 2], [4], [9, 9], [2]])
    ]
    return found[: len(rows)]


@torch.no_grad()
def log_probabilities(model, source, target):
    """By fairseq's modules."""
    inputs = torch.tensor([[2, *target[:-1]]])
    logits, _ = model.decoder(
        inputs, encoder_out=model.encoder(torch.tensor([source]), torch.tensor([len(source)]))
    )
    return (
        logits[0].double().log_softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
    )


@pytest.mark.parametrize("lenpen", [0.0, 1.0, 1.4])
@pytest.mark.parametrize(
    "overrides", [{}, dict(decoder_learned_pos=True), dict(symbols=300, seed=3)]
)
def test_against_fairseq(runtime, overrides, lenpen):
    model = runtime.build(**overrides)
    targets = targets_of(ROWS)
    with runtime_engine(model) as engine:
        found = engine.score(ROWS, targets, lenpen=lenpen, batch_size=2)
    assert [len(own) for own in found] == [len(own) for own in targets]
    for row, own, results in zip(ROWS, targets, found):
        for target, result in zip(own, results):
            expected = log_probabilities(model, row, target)
            assert result.tokens == target and (result.steps, set(result.token_steps)) == (1, {1})
            assert result.positional_scores == pytest.approx(expected, abs=NEAR)
            assert result.score == pytest.approx(sum(expected) / len(target) ** lenpen, abs=NEAR)


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize(
    "arch, overrides, way",
    [
        ("transformer", {}, {}),
        ("hrt_transformer", {}, dict(hrt_decode_chunk="1")),
        ("bidirectional_transformer", dict(bidirectional_directions=1), {}),
        ("marian_transformer", dict(marian_cell="ssru"), {}),
    ],
)
def test_what_the_search_found_has_its_scores(runtime, arch, overrides, way, weights):
    """A beam to the last bit: one pass over all words computes what word by word is computed."""
    model = runtime.build(arch, seed=2, **overrides)
    with runtime_engine(model, weights=weights) as engine:
        found = engine.decode(ROWS, DecodingOptions(beam=4, nbest=4, max_len_b=20, **way))
        scored = engine.score(ROWS, [[one.tokens for one in best] for best in found])
        greedy = [
            best[0] for best in engine.decode(ROWS, DecodingOptions(beam=1, max_len_b=20, **way))
        ]
        after = engine.score(ROWS, [[one.tokens] for one in greedy])
    for best, again in zip(found, scored):
        assert [(one.score, one.positional_scores) for one in best] == [
            (one.score, one.positional_scores) for one in again
        ]
    # Greedy search sums the probabilities in another order.
    for one, (again,) in zip(greedy, after):
        assert one.positional_scores == pytest.approx(again.positional_scores, abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_company_changes_nothing(runtime, data):
    model = runtime.build(seed=4)
    rows = sources(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=6)))
    targets = [
        sources(data.draw(st.lists(st.integers(1, 12), max_size=3)), seed=7 + n)
        for n in range(len(rows))
    ]
    with runtime_engine(model, weights="int8", threads=data.draw(st.integers(1, 3))) as engine:
        together = engine.score(rows, targets, batch_size=data.draw(st.integers(1, 7)))
    with runtime_engine(model, weights="int8") as engine:
        alone = [
            [engine.score([row], [[target]])[0][0] for target in own]
            for row, own in zip(rows, targets)
        ]
    assert together == alone


def test_more_words_than_a_pass_takes(runtime):
    """Rows are cut into passes; the results are those of each alone."""
    model = runtime.build(seed=4, max_target_positions=900)
    long = [[*([5, 6, 7] * 280), 2] for _ in range(6)] + sources([4, 800])
    with runtime_engine(model) as engine:
        together = engine.score(ROWS[:1], [long])[0]
        assert together == [engine.score(ROWS[:1], [[target]])[0][0] for target in long]


def test_a_shortlist_does_not_matter(runtime):
    model = runtime.build(seed=4)
    targets = targets_of(ROWS)
    with runtime_engine(model) as engine:
        expected = engine.score(ROWS, targets)
        nothing = np.zeros(0, np.int32)
        engine.set_shortlist(Shortlist(np.zeros(17, np.int64), nothing, np.array([5], np.int32)))
        before = engine.decode(ROWS)
        assert engine.score(ROWS, targets) == expected
        assert engine.decode(ROWS) == before


def test_nothing_to_score(runtime):
    with runtime_engine(runtime.build()) as engine:
        assert engine.score([], []) == []
        assert engine.score(ROWS[:2], [[], []]) == [[], []]


def test_other_collections(runtime):
    with runtime_engine(runtime.build()) as engine:
        expected = engine.score(ROWS[:1], [[[5, 2], [6, 2]]])
        assert engine.score(ROWS[:1], [iter([(5, 2), np.array([6, 2])])]) == expected
        assert engine.score(ROWS[:1], np.array([[[5, 2], [6, 2]]])) == expected


def test_a_model_that_writes_nothing(runtime):
    with runtime_engine(runtime.build(max_target_positions=1)) as engine:
        assert engine.score([[4, 2]], [[[2]]])[0][0].score < 0
        with pytest.raises(
            ValueError, match="translation 0 of sentence 0 has 2 tokens, the model writes 1"
        ):
            engine.score([[4, 2]], [[[5, 2]]])


@pytest.mark.parametrize(
    "targets, message",
    [
        ([[[5, 2]], []], "1 sources but translations of 2: give a list of translations for each"),
        ([[[5, 2], []]], "translation 1 of sentence 0 has no tokens"),
        (
            [[[5, 16, 2]]],
            (
                "token 1 of translation 0 of sentence 0 is 16, which is padding or not in the"
                " dictionary of 16 words"
            ),
        ),
        ([[[1, 2]]], "token 0 of translation 0 of sentence 0 is 1, which is padding or not"),
        ([[[5] * 30]], "translation 0 of sentence 0 has 30 tokens, the model writes 24"),
        ([[[5, 2], [5, 6]]], "translation 1 of sentence 0 does not end in </s>"),
        ([[[-1, 2]]], "-1 is not a token id; each translation is a list of integers"),
        ([[["a", 2]]], "'a' is not a token id"),
        ([[5, 2]], "translation 0: 5 is not a list"),
        ([None], "the translations of sentence 0: None is not a list"),
    ],
)
def test_bad_translations(runtime, targets, message):
    with (
        runtime_engine(runtime.build(max_target_positions=24)) as engine,
        pytest.raises(ValueError, match=message),
    ):
        engine.score(ROWS[:1], targets)


@pytest.mark.parametrize(
    "arch", ["bidirectional_transformer", "dag_transformer", "ctc_transformer"]
)
def test_models_that_write_several_words_at_once(runtime, arch):
    refusal = pytest.raises(
        UnsupportedOption, match="scored by models that write one word after the other"
    )
    with runtime_engine(runtime.build(arch)) as engine, refusal:
        engine.score(ROWS[:1], [[[5, 2]]])


@pytest.mark.parametrize("place", ["decoder.layers.0.inner", "output"])
def test_broken_weights(runtime, place):
    """Finite in the file, sums overflow in use; in the output layer of one word that is not even
    given."""
    model = runtime.build()
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    if place == "output":
        tensors[place] = tensors["decoder.embedding"].copy()
        tensors[place][9] = np.where(np.arange(header.decoder_width) % 2, 3e38, -3e38)
        header = dataclasses.replace(header, tied_output=False)
    else:
        tensors[place] = np.full_like(tensors[place], 3e38)
    with Engine(header, tensors) as engine:
        for row in ROWS[2:]:
            with pytest.raises(NumericalError, match="the model computed NaN probabilities"):
                engine.score([row], [[[2]]])
