"""Greedy translations by the generator: models of other families, given beginnings, history, drafts
that are learnt."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_decoding import MODE_OPTIONS, assert_same, greedy, make_generator

from fairseq_hrt.jacobi.drafts import Drafter, ModelDrafter, NGramDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize("family", ["hrt", "bidirectional"])
def test_autoregressive_decoders_of_other_families(tiny, family):
    if family == "hrt":
        model = tiny.lively("hrt_transformer", hrt_chunk_sizes=[2], hrt_relative_window=3)
    else:
        from argparse import Namespace

        from fairseq.models import ARCH_CONFIG_REGISTRY

        from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel

        args = Namespace(
            bidirectional_directions=1, encoder_embed_dim=16, decoder_embed_dim=16,
            encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, max_target_positions=64,
        )  # fmt: skip
        ARCH_CONFIG_REGISTRY["bidirectional_transformer"](args)
        task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
        model = BidirectionalTransformerModel.build_model(args, task).double().eval()
    sample = tiny.sample([6, 2, 9])
    rules = dict(max_len_b=12)
    expected = greedy(tiny, [model], sample, options=rules)
    for mode in MODE_OPTIONS:
        assert_same(
            make_generator(tiny, [model], options=rules, **mode).generate([model], sample), expected
        )


@pytest.mark.parametrize("mode", MODE_OPTIONS, ids=str)
def test_given_beginnings(tiny, mode):
    model, sample = tiny.lively(seed=3), tiny.sample([6, 3])
    prefix = torch.tensor([[5, 6, 7, 8], [9, 1, 1, 1]])
    expected = greedy(tiny, [model], sample, options=dict(max_len_b=9), prefix_tokens=prefix)
    found = make_generator(tiny, [model], options=dict(max_len_b=9), **mode).generate(
        [model], sample, prefix_tokens=prefix
    )
    assert_same(found, expected)
    assert found[0][0]["tokens"][:4].tolist() == [5, 6, 7, 8]
    started = greedy(tiny, [model], sample, options=dict(max_len_b=9), bos_token=4)
    assert_same(
        make_generator(tiny, [model], options=dict(max_len_b=9), **mode).generate(
            [model], sample, bos_token=4
        ),
        started,
    )


def test_history_and_steps(tiny):
    model, sample = tiny.lively(seed=2), tiny.sample([6, 3], seed=2)
    generator = make_generator(
        tiny,
        [model],
        options=dict(max_len_b=11, retain_iter_history=True),
        mode="frontier",
        window=4,
    )
    steps = []
    generator.step_hooks.append(steps.append)
    found = generator.generate([model], sample)
    for best in found:
        token_steps = best[0]["token_steps"].tolist()
        assert token_steps == sorted(token_steps) and best[0]["steps"] == token_steps[-1]
        history = [entry["tokens"].tolist() for entry in best[0]["history"]]
        assert len(history) == best[0]["steps"] and history[-1] == best[0]["tokens"].tolist()
        assert all(len(a) < len(b) for a, b in zip(history, history[1:]))
    assert [step.number for step in steps] == list(
        range(1, max(best[0]["steps"] for best in found) + 1)
    )
    # Each word was announced once, at its position, with its log-probability.
    announced = [{} for _ in found]
    for step in steps:
        rows = zip(step.sentences.tolist(), step.tokens, step.positions, step.scores)
        for sentence, tokens, positions, scores in rows:
            for token, position, score in zip(tokens, positions.tolist(), scores):
                if token != tiny.dictionary().pad():
                    assert announced[sentence].setdefault(position, (token, score))[0] is token
    for best, words in zip(found, announced):
        assert list(words) == list(range(1, len(best[0]["tokens"]) + 1))
        tokens, scores = map(torch.stack, zip(*words.values()))
        assert torch.equal(tokens, best[0]["tokens"])
        assert torch.equal(scores, best[0]["positional_scores"])


def test_what_has_no_greedy_result_is_refused(tiny):
    model = tiny.lively()
    with pytest.raises(ValueError, match="--beam 4"):
        JacobiGenerator([model], tiny.dictionary(), DecodingOptions(beam=4), drafter=Drafter())


@pytest.mark.parametrize("window", [1, 4])
def test_ngrams_are_learnt_from_what_was_decoded(tiny, window):
    """Every finished translation reaches the memory, whether it was written word by word or in
    windows."""
    model, sample, drafter = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4), NGramDrafter()
    generator = make_generator(
        tiny, [model], draft="ngram", drafter=drafter, options=dict(max_len_b=13), window=window
    )
    expected = NGramDrafter()
    for words in sorted(
        (best[0]["tokens"].tolist() for best in generator.generate([model], sample)), key=len
    ):
        expected.learn(words)
    assert drafter.following.keys() == expected.following.keys() and len(drafter.following) > 5
    generator.forget()
    assert not drafter.following


def test_every_pass_is_counted(tiny):
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5))
    executed, right = [], generator.ensemble.log_probabilities
    generator.ensemble.log_probabilities = lambda *arguments, **more: (
        executed.append(1) or right(*arguments, **more)
    )
    best = generator.generate([model], sample)
    assert (
        len(executed)
        == generator.counters.decoder_calls
        == best[0][0]["steps"]
        == generator.statistics.passes
    )


@pytest.fixture(scope="module")
def marians(tiny):
    """A function of a cell and a given start: options, a model, a batch, greedy translations."""

    @functools.cache
    def decoded(cell, forced, seed):
        model = tiny.lively("marian_transformer", seed=seed, marian_cell=cell)
        sample = tiny.sample([7, 3, 5, 1], seed=seed)
        options = dict(max_len_b=11, forced_start=forced)
        return options, model, sample, greedy(tiny, [model], sample, options=options)

    return decoded


@pytest.mark.parametrize("cell", ["attention", "ssru"])
@pytest.mark.parametrize("place", range(len(MODE_OPTIONS)), ids=lambda at: str(MODE_OPTIONS[at]))
def test_marians_models(tiny, marians, place, cell):
    """The states of recurrent cells are rolled back with wrong guesses; translations may have to
    begin with given words."""
    for seed in (1, 2):
        # Each mode with and without a given start, and with both cells.
        forced = None if (place + (cell == "ssru") + seed) % 2 else "w3 w0"
        options, model, sample, expected = marians(cell, forced, seed)
        assert_same(
            make_generator(tiny, [model], options=options, **MODE_OPTIONS[place]).generate(
                [model], sample
            ),
            expected,
        )
        if forced is not None:
            assert all(best[0]["tokens"][:2].tolist() == [7, 4] for best in expected)


@given(
    seed=st.integers(1, 12),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=12, deadline=None)
def test_drafts_for_recurrent_cells(tiny, seed, lengths, data):
    """Right and wrong ones: the translation is the greedy one."""
    model, sample = (
        tiny.lively("marian_transformer", seed=seed, marian_cell="ssru"),
        tiny.sample(lengths, seed=seed),
    )
    options = dict(max_len_b=12)
    expected = greedy(tiny, [model], sample, options=options)
    drafts = [
        [
            data.draw(st.sampled_from([token, token, token, 3, 5]))
            for token in best[0]["tokens"].tolist()
        ]
        for best in expected
    ]
    drafter, window = ModelDrafter(lambda net_input: drafts), data.draw(st.integers(2, 5))
    generator = make_generator(
        tiny, [model], drafter=drafter, options=options, mode="frontier", window=window
    )
    assert_same(generator.generate([model], sample), expected)
