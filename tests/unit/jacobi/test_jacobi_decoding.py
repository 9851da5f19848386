"""Parallel decoding gives what greedy decoding gives, token by token, whatever is guessed."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.common.generator import AutoregressiveGenerator
from fairseq_hrt.common.options import DecodingOptions
from fairseq_hrt.common.search import NumericalError
from fairseq_hrt.common.state import DecoderState
from fairseq_hrt.jacobi.accounting import DecoderSize
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.drafts import Drafter, ModelDrafter, NGramDrafter, SourceDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.jacobi.windows import MODES, WidthChooser, WindowPlan

MODE_OPTIONS = [
    dict(mode="frontier", window=1),
    dict(mode="frontier", window=3),
    dict(mode="frontier", window=50),
    dict(mode="pj"),
    dict(mode="pgj", block_size=2),
    dict(mode="pgj", block_size=5),
    dict(mode="hgj", block_size=3, prefix_length=4),
    dict(mode="hgj", block_size=3, prefix_length=0),
    dict(mode="hgj", block_size=4),
]


def make_generator(tiny, models, *, drafter=None, symbols=12, options=None, draft="previous", **config):
    settings = JacobiTaskConfig(jacobi_draft=draft, **{f"jacobi_{name}": value for name, value in config.items()})
    options = DecodingOptions(beam=1, **(options or {}))
    return JacobiGenerator(models, tiny.dictionary(symbols), options, config=settings, drafter=drafter or Drafter())


def greedy(tiny, models, sample, *, symbols=12, options=None, **more):
    generator = AutoregressiveGenerator(models, tiny.dictionary(symbols), DecodingOptions(beam=1, **(options or {})))
    return generator.generate(models, sample, **more)


def assert_same(found, expected):
    for (mine,), (other,) in zip(found, expected):
        assert mine["tokens"].tolist() == other["tokens"].tolist()
        torch.testing.assert_close(mine["positional_scores"], other["positional_scores"], rtol=0, atol=1e-6)
        torch.testing.assert_close(mine["score"], other["score"], rtol=0, atol=1e-6)


RULES = [
    {},
    dict(max_len_b=5),
    dict(max_len_b=1),
    dict(max_len_a=0.7, max_len_b=2),
    dict(min_len=6),
    dict(unkpen=3.0),
    dict(no_repeat_ngram_size=2, max_len_b=15),
    dict(no_repeat_ngram_size=1, max_len_b=9, min_len=4),
    dict(temperature=0.5, lenpen=0.5),
    dict(normalize=False),
]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("mode", MODE_OPTIONS, ids=str)
def test_lossless(tiny, mode, rules):
    for seed in (1, 2, 3):
        model, sample = tiny.lively(seed=seed), tiny.sample([7, 3, 5, 1], seed=seed)
        expected = greedy(tiny, [model], sample, options=rules)
        generator = make_generator(tiny, [model], options=rules, **mode)
        found = generator.generate([model], sample)
        assert_same(found, expected)
        longest = max(len(best[0]["tokens"]) for best in expected)
        assert generator.counters.decoder_calls <= longest
        for best, other in zip(found, expected):
            assert best[0]["steps"] <= len(other[0]["tokens"])


@given(
    seed=st.integers(1, 60), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    mode=st.sampled_from(MODE_OPTIONS), limit=st.integers(1, 20), data=st.data(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_draft_gives_the_same_result(tiny, seed, lengths, mode, limit, data):
    """Drafts of an adversary: right, wrong, with </s> and unknown words anywhere, too short and too long."""
    model, sample = tiny.lively(seed=seed), tiny.sample(lengths, seed=seed)
    rules = dict(max_len_b=limit)
    expected = greedy(tiny, [model], sample, options=rules)
    drafter = None
    if mode["mode"] == "frontier":
        drafts = []
        for best in expected:
            truth = best[0]["tokens"].tolist()
            drafts.append([
                data.draw(st.sampled_from([token, token, token, 2, 3, 5])) for token in truth
            ][: data.draw(st.integers(0, len(truth)))] + data.draw(st.lists(st.integers(2, 15), max_size=3)))  # fmt: skip
        drafter = ModelDrafter(lambda net_input: drafts)
    generator = make_generator(tiny, [model], drafter=drafter, options=rules, **mode)
    assert_same(generator.generate([model], sample), expected)
    assert generator.statistics.row_passes <= sum(len(best[0]["tokens"]) for best in expected)


def test_a_perfect_draft_needs_as_few_passes_as_windows(tiny):
    model, sample = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4)
    rules = dict(max_len_b=13)
    expected = greedy(tiny, [model], sample, options=rules)
    drafter = ModelDrafter(lambda net_input: [best[0]["tokens"].tolist() for best in expected])
    generator = make_generator(tiny, [model], drafter=drafter, options=rules, mode="frontier", window=4)
    assert_same(generator.generate([model], sample), expected)
    needed = sum(-(-len(best[0]["tokens"]) // 4) for best in expected)
    assert generator.statistics.row_passes == needed


def test_a_corrected_word_does_not_spoil_the_rest_of_the_draft():
    drafter = ModelDrafter(lambda net_input: [[5, 6, 7, 8, 9, 10, 2]])
    for proved, expected in (
        ([], [5, 6, 7]),
        ([5, 6, 11], [8, 9, 10]),
        ([5, 6, 11, 8], [9, 10, 2]),
        ([5, 6, 11, 8, 12, 9], [10, 2]),
        ([5, 6, 11, 8, 12, 9, 2], []),
    ):
        if not proved:
            drafter.begin({})
        assert drafter.propose(0, proved, [], 3) == expected
    drafter.begin({})
    # A word left out.
    assert drafter.propose(0, [5, 6, 8], [], 2) == [9, 10]


@pytest.mark.parametrize("family", ["hrt", "bidirectional"])
def test_autoregressive_decoders_of_other_rooms(tiny, family):
    if family == "hrt":
        model = tiny.lively("hrt_transformer", hrt_chunk_sizes=[2], hrt_relative_window=3)
    else:
        from argparse import Namespace

        from fairseq.models import ARCH_CONFIG_REGISTRY

        from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel

        args = Namespace(
            bidirectional_directions=1, encoder_embed_dim=16, decoder_embed_dim=16, encoder_layers=1, decoder_layers=1,
            encoder_attention_heads=2, decoder_attention_heads=2, max_target_positions=64,
        )  # fmt: skip
        ARCH_CONFIG_REGISTRY["bidirectional_transformer"](args)
        task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
        model = BidirectionalTransformerModel.build_model(args, task).double().eval()
    sample = tiny.sample([6, 2, 9])
    rules = dict(max_len_b=12)
    expected = greedy(tiny, [model], sample, options=rules)
    for mode in MODE_OPTIONS:
        assert_same(make_generator(tiny, [model], options=rules, **mode).generate([model], sample), expected)


def test_an_ensemble(tiny):
    models, sample = [tiny.lively(seed=1), tiny.lively(seed=2)], tiny.sample([6, 3])
    expected = greedy(tiny, models, sample, options=dict(max_len_b=12))
    generator = make_generator(tiny, models, options=dict(max_len_b=12), mode="frontier", window=4)
    assert_same(generator.generate(models, sample), expected)


@pytest.mark.parametrize("mode", MODE_OPTIONS, ids=str)
def test_given_beginnings(tiny, mode):
    model, sample = tiny.lively(seed=3), tiny.sample([6, 3])
    prefix = torch.tensor([[5, 6, 7, 8], [9, 1, 1, 1]])
    expected = greedy(tiny, [model], sample, options=dict(max_len_b=9), prefix_tokens=prefix)
    found = make_generator(tiny, [model], options=dict(max_len_b=9), **mode).generate([model], sample, prefix_tokens=prefix)
    assert_same(found, expected)
    assert found[0][0]["tokens"][:4].tolist() == [5, 6, 7, 8]
    started = greedy(tiny, [model], sample, options=dict(max_len_b=9), bos_token=4)
    assert_same(
        make_generator(tiny, [model], options=dict(max_len_b=9), **mode).generate([model], sample, bos_token=4), started
    )


def test_the_result_does_not_depend_on_the_batch(tiny):
    model, sample = tiny.lively(seed=6), tiny.sample([9, 2, 6, 4], seed=6)
    rules = dict(max_len_b=14)
    together = make_generator(tiny, [model], options=rules, mode="frontier", window=3).generate([model], sample)
    for row, length in enumerate([9, 2, 6, 4]):
        alone = {"src_tokens": sample["net_input"]["src_tokens"][row : row + 1, 9 - length :],
                 "src_lengths": torch.tensor([length])}  # fmt: skip
        generator = make_generator(tiny, [model], options=rules, mode="frontier", window=3)
        assert_same(generator.generate([model], {"net_input": alone}), together[row : row + 1])


def test_single_precision_differs_only_where_the_best_two_are_close(tiny):
    """The gap rule: a different token is excused by a gap below 1e-4 in the reference, and by nothing else."""
    total = 0
    for seed in range(1, 9):
        model, sample = tiny.lively(seed=seed).float(), tiny.sample([8, 5, 3, 6], seed=seed)
        rules = dict(max_len_b=20)
        expected = greedy(tiny, [model], sample, options=rules)
        found = make_generator(tiny, [model], options=rules, mode="frontier", window=4).generate([model], sample)
        for (mine,), (other,) in zip(found, expected):
            total += 1
            if mine["tokens"].tolist() != other["tokens"].tolist():
                place = next(i for i, pair in enumerate(zip(mine["tokens"], other["tokens"])) if pair[0] != pair[1])
                gap = mine["positional_scores"][place] - other["positional_scores"][place]
                assert abs(float(gap)) < 1e-4
    assert total == 32


@pytest.mark.parametrize("mistake", ["one too many", "one too few", "never"])
def test_the_tests_see_a_wrong_cache(tiny, monkeypatch, mistake):
    """What the equality tests are worth: with a cache rolled back to a wrong length they fail."""
    right = DecoderState.rollback

    def wrong(self, length):
        if mistake == "never":
            return
        shift = 1 if mistake == "one too many" else -1
        limit = self.length if self.lengths is None else self.lengths
        if isinstance(length, torch.Tensor):
            right(self, torch.minimum((length + shift).clamp(min=0), torch.as_tensor(limit)))
        else:
            right(self, min(max(length + shift, 0), limit))

    monkeypatch.setattr(DecoderState, "rollback", wrong)
    different = False
    for seed in range(1, 6):
        model, sample = tiny.lively(seed=seed), tiny.sample([7, 5], seed=seed)
        expected = greedy(tiny, [model], sample, options=dict(max_len_b=12))
        found = make_generator(tiny, [model], options=dict(max_len_b=12), mode="frontier", window=3).generate([model], sample)
        different |= any(a[0]["tokens"].tolist() != b[0]["tokens"].tolist() for a, b in zip(found, expected))
    assert different


def test_statistics(tiny):
    model, sample = tiny.lively(seed=2), tiny.sample([6, 3], seed=2)
    generator = make_generator(tiny, [model], options=dict(max_len_b=11), mode="pgj", block_size=3)
    seen = []
    generator.iteration_hooks.append(seen.append)
    found = generator.generate([model], sample)
    statistics = generator.statistics
    lengths = [len(best[0]["tokens"]) for best in found]
    assert statistics.sentences == 2 and statistics.tokens == sum(lengths)
    assert statistics.row_passes == len(seen) == sum(statistics.proved.values())
    assert statistics.passes == generator.counters.decoder_calls == max(item.number for item in seen)
    assert statistics.pushed == sum(len(item.answers) for item in seen)
    assert sum(count * passes for count, passes in statistics.proved.items()) == sum(lengths)
    size = DecoderSize.of(model)
    assert size == DecoderSize(layers=2, width=16, inner=24, vocabulary=16)
    # Written out for one layer of the formula: 8d²q + 4dqk + 4d²q + 4dqm + 4d·ffn·q, and 2dVq.
    layer = 8 * 256 * 3 + 4 * 16 * 3 * 5 + 4 * 256 * 3 + 4 * 16 * 3 * 7 + 4 * 16 * 24 * 3
    assert size.flops(3, 5, 7) == 2 * layer + 2 * 16 * 16 * 3
    sources = [6, 3]
    expected = sum(size.flops(len(item.answers), item.first + len(item.answers), sources[item.sentence]) for item in seen)
    assert statistics.flops == expected + sum(size.source_flops(length) for length in sources)
    assert statistics.plain_flops < statistics.flops
    assert f"{sum(lengths)} tokens in {len(seen)} passes" in statistics.report()
    json.dumps(statistics.to_json())
    for item in seen:
        tokens = found[item.sentence][0]["tokens"].tolist()
        assert item.answers[: item.proved] == tokens[item.first : item.first + item.proved]
        assert len(item.guesses) == len(item.answers) - 1 == len(item.log_probs) - 1


def test_history_and_steps(tiny):
    model, sample = tiny.lively(seed=2), tiny.sample([6, 3], seed=2)
    generator = make_generator(tiny, [model], options=dict(max_len_b=11, retain_history=True), mode="frontier", window=4)
    steps = []
    generator.step_hooks.append(steps.append)
    for best in generator.generate([model], sample):
        token_steps = best[0]["token_steps"].tolist()
        assert token_steps == sorted(token_steps) and best[0]["steps"] == token_steps[-1]
        history = [entry["tokens"].tolist() for entry in best[0]["history"]]
        assert len(history) == best[0]["steps"] and history[-1] == best[0]["tokens"].tolist()
        assert all(len(a) < len(b) for a, b in zip(history, history[1:]))
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))


def test_windows():
    assert [WindowPlan("frontier", width=4).size(n, 10) for n in (0, 5, 8, 10)] == [4, 4, 3, 1]
    assert [WindowPlan("pj").size(n, 10) for n in (0, 4, 10)] == [11, 7, 1]
    assert [WindowPlan("pgj", block=3).size(n, 10) for n in (0, 1, 2, 3, 9, 10)] == [3, 2, 1, 3, 2, 1]
    assert [WindowPlan("hgj", block=3, prefix=5).size(n, 10) for n in (0, 2, 3, 4, 5, 6)] == [3, 1, 2, 1, 1, 1]
    assert WindowPlan("hgj", block=3).size(3, 10) == 3
    kept = [WindowPlan("pgj", block=3).keeps_answers(n) for n in range(4)]
    assert kept == [False, True, True, False] and WindowPlan("frontier").keeps_answers(3)


@pytest.mark.parametrize(
    "config, named",
    [
        (dict(mode="pgj", block_size=0), "--jacobi-block-size 0"),
        (dict(window=0), "--jacobi-window 0"),
        (dict(mode="hgj", prefix_length=-1), "--jacobi-prefix-length -1"),
        (dict(mode="other"), "--jacobi-mode other"),
    ],
)
def test_impossible_windows(tiny, config, named):
    with pytest.raises(ValueError, match=named):
        make_generator(tiny, [tiny.lively()], **config)


def test_what_has_no_greedy_result_is_refused(tiny):
    model = tiny.lively()
    with pytest.raises(ValueError, match="--beam 4"):
        JacobiGenerator(
            [model], tiny.dictionary(), DecodingOptions(beam=4), config=JacobiTaskConfig(), drafter=Drafter()
        )
    with pytest.raises(ValueError, match="--jacobi-draft ngram needs --jacobi-mode frontier"):
        make_generator(tiny, [model], draft="ngram", drafter=NGramDrafter(), mode="pj")


def test_broken_weights_are_named(tiny):
    model = tiny.lively()
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight[0, 0] = float("nan")
    with pytest.raises(NumericalError, match="NaN"):
        make_generator(tiny, [model], mode="frontier", window=3).generate([model], tiny.sample([4]))


def test_ngram_drafts():
    drafter = NGramDrafter(longest=3, most=8)
    drafter.learn([5, 6, 7, 8, 2])
    assert drafter.propose(0, [4, 5, 6], [9], 2) == [7, 8]
    assert drafter.propose(0, [7], [9], 5) == [8, 2]
    assert drafter.propose(0, [12], [9], 5) == [9] and drafter.propose(0, [], [9], 5) == [9]
    drafter.learn([5, 6, 10, 2])
    assert drafter.propose(0, [5, 6], [], 5) == [10, 2]
    assert drafter.propose(0, [6, 7], [], 5) == [8, 2], "the longer context counts"
    drafter.forget()
    assert drafter.propose(0, [5, 6], [1], 5) == [1]
    drafter.learn([5, 6, 7, 8, 2])
    for number in range(20, 40):
        drafter.learn([number, number + 1, 2])
    assert len(drafter.following) == 8 and drafter.propose(0, [6, 7], [1], 5) == [1]


def test_source_drafts(tiny):
    dictionary = tiny.dictionary()
    drafter = SourceDrafter(dictionary, dictionary)
    drafter.begin({"src_tokens": torch.tensor([[1, 5, 6, 7, 6, 8, 2]])})
    assert drafter.propose(0, [9, 6], [4], 2) == [7, 6]
    assert drafter.propose(0, [9, 9, 9, 6], [4], 2) == [8]
    assert drafter.propose(0, [8], [4], 2) == [4] and drafter.propose(0, [], [4], 2) == [4]
    with pytest.raises(ValueError, match="one dictionary for both sides"):
        SourceDrafter(dictionary, tiny.dictionary(9))


def test_the_width_follows_costs_and_luck():
    costs = {1: 1.0, 2: 1.1, 4: 1.3, 8: 9.0}
    lucky, unlucky = WidthChooser(), WidthChooser()
    for chooser, gain in ((lucky, 0.5), (unlucky, 0.02)):
        chosen = []
        for _ in range(30):
            width = chooser.choose(costs)
            chosen.append(width)
            passes = 10
            chooser.learn(width, round(passes * (1 + gain * (width - 1)) * 100), passes * 100)
        assert 8 not in chosen, "a width that could not pay even if all guesses came true"
        assert set(chosen[:4]) == {2, 4}
    assert lucky.choose(costs) == 4 and unlucky.choose(costs) == 1
    seen = [unlucky.choose(costs) for _ in range(2 * WidthChooser.EXPLORE)]
    assert seen.count(1) == 2 * WidthChooser.EXPLORE - 2, "and yet it looks again now and then"


def test_costs_are_measured_once(tiny, tmp_path):
    model, sample = tiny.lively(), tiny.sample([6, 3])
    path = tmp_path / "folder" / "costs.json"
    generator = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    expected = greedy(tiny, [model], sample, options=dict(max_len_b=9))
    for _ in range(4):
        assert_same(generator.generate([model], sample), expected)
    stored = json.loads(path.read_text())
    (key, table), = stored.items()
    assert key.endswith("rows 2") and all(seconds > 0 for seconds in table.values()) and "1" in table
    path.write_text(json.dumps({key: {width: 5.0 for width in table}}))
    again = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    assert_same(again.generate([model], sample), expected)
    (known,) = again._table.known.values()
    assert set(known.values()) == {5.0}
    for broken in ("no json", "[]"):
        path.write_text(broken)
        third = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
        assert_same(third.generate([model], sample), expected)


def test_costs_that_cannot_be_kept(tiny, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5), cost_file=str(tmp_path / "file" / "costs.json"))
    assert_same(generator.generate([model], sample), greedy(tiny, [model], sample, options=dict(max_len_b=5)))
    assert "not kept" in caplog.text


def test_measuring_is_not_counted(tiny, tmp_path):
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5), cost_file=str(tmp_path / "costs.json"))
    best = generator.generate([model], sample)
    assert generator.counters.decoder_calls == best[0][0]["steps"] == generator.statistics.passes


def test_every_mode_is_tested():
    assert {mode["mode"] for mode in MODE_OPTIONS} == set(MODES)


def test_the_models_of_these_tests_are_worth_it(tiny):
    """Different words, and </s> at different places."""
    lengths, kinds = set(), []
    for seed in range(1, 13):
        model, sample = tiny.lively(seed=seed), tiny.sample([7, 3, 5], seed=seed)
        for best in greedy(tiny, [model], sample, options=dict(max_len_b=20)):
            tokens = best[0]["tokens"].tolist()
            lengths.add(len(tokens))
            kinds.append(len(set(tokens)))
    assert len(lengths) >= 4 and sum(kinds) / len(kinds) > 3
