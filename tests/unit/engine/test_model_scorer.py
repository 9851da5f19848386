"""Ranking by another model against fairseq's modules, hypothesis by hypothesis."""

import functools
import math

import pytest
import torch
from batch_independence import assert_independent, batches
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.engine.model_scorer import ModelScorer
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.decoding.rescoring import Rescorer
from fairseq_hrt.native.options.values import DecodingOptions


def generator_of(tiny, model, rescoring=(), lenpen=1.0, **options):
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(**{"beam": 4, "max_len_b": 9, **options})
    )
    if rescoring:
        judge = ModelScorer(rescoring, tiny.dictionary(), generator.counters, like=model)
        generator.rank_by(Rescorer(judge, lenpen=lenpen))
    return generator


@torch.no_grad()
def log_probabilities(models, source, tokens, eos):
    """log P of each token under the averaged probabilities of fairseq's modules, one sentence at a
    time."""
    inputs = torch.cat([tokens.new_tensor([eos]), tokens[:-1]])[None]
    parts = []
    for model in models:
        logits, _ = model(source[None], torch.tensor([source.numel()]), inputs)
        parts.append(logits[0].softmax(-1).gather(1, tokens[:, None])[:, 0])
    return (sum(parts) / len(parts)).log()


# All pairs of values.
@pytest.mark.parametrize(
    "cell, left_pad, seeds, lenpen",
    [
        (None, True, [2], 0.0),
        (None, False, [2, 3], 1.0),
        (None, True, [2, 3], 2.0),
        ("ssru", False, [2, 3], 0.0),
        ("ssru", True, [2], 1.0),
        ("ssru", False, [2], 2.0),
    ],
)
def test_translations_are_ranked_by_the_other_model(
    tiny, monkeypatch, left_pad, seeds, lenpen, cell
):
    monkeypatch.setattr("fairseq_hrt.engine.ensemble.SCORED_AT_ONCE", 7)
    judge = ("transformer", {}) if cell is None else ("marian_transformer", dict(marian_cell=cell))
    model, rescoring = (
        tiny.model(seed=1),
        [tiny.lively(judge[0], seed=seed, **judge[1]) for seed in seeds],
    )
    sample = tiny.sample([5, 3, 1, 7], left_pad=left_pad)
    own = generator_of(tiny, model).generate([model], sample)
    generator = generator_of(tiny, model, rescoring, lenpen)
    found = generator.generate([model], sample)
    moved = 0
    for source, before, after in zip(sample["net_input"]["src_tokens"], own, found):
        assert sorted(h["tokens"].tolist() for h in before) == sorted(
            h["tokens"].tolist() for h in after
        )
        moved += [h["tokens"].tolist() for h in before] != [h["tokens"].tolist() for h in after]
        scores = [float(h["score"]) for h in after]
        assert scores == sorted(scores, reverse=True)
        steps = {
            tuple(h["tokens"].tolist()): (h["steps"], h["token_steps"].tolist()) for h in before
        }
        for hypothesis in after:
            tokens = hypothesis["tokens"]
            expected = log_probabilities(rescoring, source[source.ne(tiny.PAD)], tokens, tiny.EOS)
            assert hypothesis["positional_scores"].tolist() == pytest.approx(
                expected.tolist(), abs=1e-5
            )
            assert float(hypothesis["score"]) == pytest.approx(
                float(expected.sum()) / len(tokens) ** lenpen, abs=1e-5
            )
            assert (hypothesis["steps"] - 1, hypothesis["token_steps"].tolist()) == steps[
                tuple(tokens.tolist())
            ]
    assert moved, "the other model agrees: this shows nothing"
    # One pass of each model for the batch, whatever the beam.
    plain = generator_of(tiny, model)
    plain.generate([model], sample)
    assert generator.counters.decoder_calls - plain.counters.decoder_calls == len(seeds)
    assert generator.counters.encoder_calls - plain.counters.encoder_calls == len(seeds)


def test_what_ties_keeps_its_order(tiny):
    """A model that finds every word equally likely, and the sum of their logarithms divided by
    their number."""
    model, indifferent = tiny.model(seed=1), tiny.model(seed=2)
    with torch.no_grad():
        indifferent.decoder.output_projection.weight.zero_()
    sample = tiny.sample([5, 3])
    own = generator_of(tiny, model, beam=3, min_len=9).generate([model], sample)
    found = generator_of(tiny, model, [indifferent], beam=3, min_len=9).generate([model], sample)
    for before, after in zip(own, found):
        assert [h["tokens"].tolist() for h in before] == [h["tokens"].tolist() for h in after]
        assert float(after[0]["score"]) == pytest.approx(
            -math.log(len(tiny.dictionary())), abs=1e-5
        )


@functools.cache
def models_of(build, seed):
    return build(symbols=6, seed=seed), build(symbols=6, seed=seed + 10)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 4),
    batch=batches(),
    beam=st.integers(2, 4),
    lenpen=st.sampled_from([0.0, 1.0, 1.4]),
)
def test_company_changes_nothing(tiny, seed, batch, beam, lenpen):
    model, other = models_of(tiny.lively, seed)
    options = DecodingOptions(beam=beam, max_len_b=9)
    generator = AutoregressiveGenerator([model], tiny.dictionary(6), options)
    judge = ModelScorer([other], tiny.dictionary(6), generator.counters, like=model)
    generator.rank_by(Rescorer(judge, lenpen=lenpen))
    assert_independent(generator, batch)


@pytest.mark.parametrize("learned", [False, True])
def test_no_translation_is_longer_than_both_can_read(tiny, learned):
    model, other = (
        tiny.model(seed=1),
        tiny.model(seed=2, max_target_positions=6, decoder_learned_pos=learned),
    )
    generator = generator_of(tiny, model, [other], max_len_b=25, min_len=20)
    for best in generator.generate([model], tiny.sample([5, 3])):
        assert all(h["tokens"].numel() == 6 for h in best)


def test_it_computes_as_the_decoded_model_does(tiny):
    model, other = tiny.model(seed=1).float(), tiny.model(seed=2)
    generator = generator_of(tiny, model, [other])
    generator.generate([model], tiny.sample([5, 3]))
    assert {parameter.dtype for parameter in other.parameters()} == {torch.float32}
    model.double()
    generator.generate([model], tiny.sample([5, 3]))
    assert {parameter.dtype for parameter in other.parameters()} == {torch.float64}


def test_what_is_refused(tiny):
    model = tiny.model(seed=1)
    with pytest.raises(
        ValueError,
        match="--rescore-path: there is only one translation to choose from; give --beam 2 or more",
    ):
        generator_of(tiny, model, [tiny.model(seed=2)], beam=1)
    with pytest.raises(ValueError, match="--rescore-lenpen nan: give a number from -20 to 20"):
        generator_of(tiny, model, [tiny.model(seed=2)], lenpen=math.nan)
    short = tiny.model(seed=2, max_source_positions=4)
    with pytest.raises(
        ValueError,
        match="--rescore-path: a source of 5 tokens is longer than the 4 which the rescoring model reads",
    ):
        generator_of(tiny, model, [short]).generate([model], tiny.sample([5, 3]))
    broken = tiny.model(seed=2)
    with torch.no_grad():
        broken.decoder.layers[0].fc1.weight.fill_(math.nan)
    with pytest.raises(NumericalError, match="--rescore-path: "):
        generator_of(tiny, model, [broken]).generate([model], tiny.sample([5, 3]))
