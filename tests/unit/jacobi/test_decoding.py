"""Parallel decoding gives what greedy decoding gives, token by token, whatever is guessed."""

import json
import random

import pytest
import torch
from host_reads import HostReads
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.decoding.beam_search import NumericalError
from fairseq_hrt.decoding.constraints import Constraints
from fairseq_hrt.decoding.generator import AutoregressiveGenerator
from fairseq_hrt.decoding.options import DecodingOptions
from fairseq_hrt.engine.cache import DecoderState
from fairseq_hrt.jacobi.accounting import DecoderSize
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.costs import CostTable
from fairseq_hrt.jacobi.decoding import JacobiPlan, jacobi_decode
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
        drafter = ModelDrafter(lambda net_input, memories: drafts)
    generator = make_generator(tiny, [model], drafter=drafter, options=rules, **mode)
    assert_same(generator.generate([model], sample), expected)
    assert generator.statistics.row_passes <= sum(len(best[0]["tokens"]) for best in expected)


def test_a_perfect_draft_needs_as_few_passes_as_windows(tiny):
    model, sample = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4)
    rules = dict(max_len_b=13)
    expected = greedy(tiny, [model], sample, options=rules)
    drafter = ModelDrafter(lambda net_input, memories: [best[0]["tokens"].tolist() for best in expected])
    generator = make_generator(tiny, [model], drafter=drafter, options=rules, mode="frontier", window=4)
    assert_same(generator.generate([model], sample), expected)
    needed = sum(-(-len(best[0]["tokens"]) // 4) for best in expected)
    assert generator.statistics.row_passes == needed


def test_a_corrected_word_does_not_spoil_the_rest_of_the_draft():
    drafter = ModelDrafter(lambda net_input, memories: [[5, 6, 7, 8, 9, 10, 2]])
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

    def wrong(self, length, *, longest=None):
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
        found = make_generator(tiny, [model], options=dict(max_len_b=12), mode="frontier", window=3).generate(
            [model], sample
        )
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
    found = generator.generate([model], sample)
    for best in found:
        token_steps = best[0]["token_steps"].tolist()
        assert token_steps == sorted(token_steps) and best[0]["steps"] == token_steps[-1]
        history = [entry["tokens"].tolist() for entry in best[0]["history"]]
        assert len(history) == best[0]["steps"] and history[-1] == best[0]["tokens"].tolist()
        assert all(len(a) < len(b) for a, b in zip(history, history[1:]))
    assert [step.number for step in steps] == list(range(1, max(best[0]["steps"] for best in found) + 1))


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
        JacobiGenerator([model], tiny.dictionary(), DecodingOptions(beam=4), config=JacobiTaskConfig(), drafter=Drafter())
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


class Simulation:
    """A machine on which a pass costs ``costs[width]`` and a draft ``draft`` seconds, and guesses come true with probability
    ``luck``, one after the other."""

    def __init__(self, costs, luck, draft=0.0):
        self.costs, self.luck, self.draft, self.random = costs, luck, draft, random.Random(1)
        self.known, self.chooser, self.chosen, self.seconds, self.tokens = {}, WidthChooser(costs), [], 0.0, 0

    def batch(self, rows=1, length=60):
        width = self.chooser.choose(self.known, rows)
        proved = passes = whole = 0
        while proved < length:
            some = 1
            while some < min(width, length - proved) and self.random.random() < self.luck:
                some += 1
            proved, passes, whole = proved + some, passes + 1, whole + (some >= width)
        draft = self.draft if width > 1 else 0.0
        self.known[width] = self.costs[width]
        self.chooser.learn(width, proved=proved, passes=passes, whole=whole, rows=rows, length=length, draft=draft)
        self.chosen.append(width)
        self.seconds += passes * self.costs[width] + draft
        self.tokens += length


COSTS = {1: 1.0, 2: 1.1, 4: 1.3, 8: 9.0}


def test_the_width_follows_costs_and_luck():
    lucky, unlucky = Simulation(COSTS, 0.9), Simulation(COSTS, 0.0)
    for simulation in (lucky, unlucky):
        for _ in range(30):
            simulation.batch()
    assert lucky.chosen[0] == unlucky.chosen[0] == 1, "what everything else is compared with"
    assert set(lucky.chosen[5:]) <= {4, 8} and lucky.chosen.count(8) <= 2 and lucky.chosen[-1] == 4
    # Two batches with pairs show that no guess comes true: wider windows are not even tried.
    assert unlucky.chosen[:7] == [1, 2, 2, 1, 1, 1, 1] and set(unlucky.chosen) == {1, 2}
    for _ in range(128):
        unlucky.batch()
    assert unlucky.chosen[30:].count(1) == 128 - 16, "and yet it looks again now and then: 2 is not much slower"
    hopeless = Simulation({1: 1.0, 2: 1.8}, 0.0)
    for _ in range(3 + 128):
        hopeless.batch()
    assert hopeless.chosen.count(2) == 2 + 2


def test_a_width_that_cannot_pay_is_never_tried():
    """Known from an earlier run: 8 tokens cost 9 times as much as one."""
    simulation = Simulation(COSTS, 1.0)
    simulation.known = dict(COSTS)
    for _ in range(20):
        simulation.batch()
    assert 8 not in simulation.chosen and simulation.chosen[-1] == 4


@pytest.mark.parametrize("draft, pays", [(5.0, True), (45.0, False)])
def test_the_cost_of_drafts_counts(draft, pays):
    """60 tokens cost 60 s one by one and 19.5 s in fours with perfect guesses: a draft may cost 40 s."""
    simulation = Simulation(COSTS, 1.0, draft)
    for _ in range(300):
        simulation.batch()
    assert (simulation.chosen[-1] == 4) == pays
    if not pays:
        assert simulation.chosen[-1] == 1 and simulation.seconds < 1.05 * simulation.tokens


def test_a_chooser_gives_up_when_the_texts_change():
    simulation = Simulation(COSTS, 0.9)
    for _ in range(20):
        simulation.batch()
    assert simulation.chosen[-1] == 4
    simulation.luck = 0.0
    for _ in range(100):
        simulation.batch()
    assert simulation.chosen[-20:].count(1) >= 17


def test_what_a_draft_costs_is_known_by_the_size_of_the_batch():
    chooser = WidthChooser([1, 4], trials=1)
    chooser.learn(4, proved=80, passes=20, whole=20, rows=1, length=20, draft=40.0)
    chooser.learn(4, proved=80, passes=20, whole=20, rows=8, length=20, draft=2.0)
    costs = {1: 1.0, 4: 1.5}
    assert chooser.draft(1) == 2.0 and chooser.draft(8) == 0.1 and chooser.draft(2) == 0.0
    assert chooser.choose(costs, 1) == 1 and chooser.choose(costs, 8) == 4


class Clock:
    """Time that passes by decoder calls alone: ``cost`` seconds a call, and what is added."""

    def __init__(self, cost):
        self.cost, self.generator, self.more = cost, None, 0.0

    def __call__(self):
        return self.more + self.cost * (0 if self.generator is None else self.generator.counters.decoder_calls)


class DearDrafter(ModelDrafter):
    """Perfect guesses for a price."""

    def __init__(self, drafts, clock, price):
        super().__init__(lambda net_input, memories: drafts)
        self.clock, self.price, self.made = clock, price, 0

    def begin(self, net_input, memories=()):
        self.made += 1
        self.clock.more += self.price
        super().begin(net_input, memories)


@pytest.mark.parametrize("price, pays", [(0.5, True), (100.0, False)])
def test_drafts_are_given_up_when_they_lose(tiny, tmp_path, price, pays):
    """Through the generator: with passes of one second, perfect guesses are used if they are cheap, and not made if they are dear."""
    model, sample = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4)
    rules = dict(max_len_b=13)
    expected = greedy(tiny, [model], sample, options=rules)
    clock = Clock(1.0)
    drafter = DearDrafter([best[0]["tokens"].tolist() for best in expected], clock, price)
    generator = JacobiGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, **rules), drafter=drafter, clock=clock,
        config=JacobiTaskConfig(jacobi_draft="hrt", jacobi_cost_file=str(tmp_path / "costs.json")),
    )  # fmt: skip
    clock.generator = generator
    calls = []
    for _ in range(24):
        before = generator.counters.decoder_calls
        assert_same(generator.generate([model], sample), expected)
        calls.append(generator.counters.decoder_calls - before)
    longest = max(len(best[0]["tokens"]) for best in expected)
    assert calls[0] == longest, "the first batch is decoded one by one, and no batch twice"
    assert max(calls) <= longest
    if pays:
        assert calls[-1] < longest / 3 and drafter.made == 23
    else:
        assert calls[-10:] == [longest] * 10 and drafter.made <= 2


@pytest.mark.parametrize("window", [1, 4])
def test_ngrams_are_learnt_from_what_was_decoded(tiny, window):
    """Every finished translation reaches the memory, whether it was written one by one or in windows."""
    model, sample, drafter = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4), NGramDrafter()
    generator = make_generator(tiny, [model], draft="ngram", drafter=drafter, options=dict(max_len_b=13), window=window)
    expected = NGramDrafter()
    for words in sorted((best[0]["tokens"].tolist() for best in generator.generate([model], sample)), key=len):
        expected.learn(words)
    assert drafter.following.keys() == expected.following.keys() and len(drafter.following) > 5
    generator.forget()
    assert not drafter.following


def test_costs_are_kept_for_the_next_run(tiny, tmp_path):
    model, sample = tiny.lively(), tiny.sample([6, 3])
    path = tmp_path / "folder" / "costs.json"
    generator = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    expected = greedy(tiny, [model], sample, options=dict(max_len_b=9))
    for _ in range(12):
        assert_same(generator.generate([model], sample), expected)
    stored = json.loads(path.read_text())
    ((key, table),) = stored.items()
    assert key.endswith("rows 2") and all(seconds > 0 for seconds in table.values())
    path.write_text(json.dumps({key: dict.fromkeys(map(str, range(1, 9)), 5.0)}))
    again = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    seen = again.chooser.choose
    with pytest.MonkeyPatch.context() as patch:
        asked = []
        patch.setattr(again.chooser, "choose", lambda costs, rows: asked.append((dict(costs), rows)) or seen(costs, rows))
        assert_same(again.generate([model], sample), expected)
    assert asked == [(dict.fromkeys(range(1, 9), 5.0), 2)]
    for broken in ("no json", "[]", json.dumps({key: 3}), json.dumps({key: {"1": "x", "y": 2.0, "2": None, "3": -1.0}})):
        path.write_text(broken)
        third = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
        for _ in range(3):
            assert_same(third.generate([model], sample), expected)


def test_measuring(tiny, tmp_path):
    """The median of the last five batches; the first one of a run, which pays for more than itself, is dropped; few writes; the
    file does not grow for ever."""
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({f"other {number}": {"1": 1.0} for number in range(400)}))
    ensemble = make_generator(tiny, [tiny.lively()], cost_file=str(path)).ensemble
    table, writes = CostTable(ensemble, path), []
    with pytest.MonkeyPatch.context() as patch:
        write = table._write
        patch.setattr(table, "_write", lambda *arguments: writes.append(1) or write(*arguments))
        for seconds in (50.0, 2.0, 4.0, 6.0, 4.0, 4.0, 4.0, 40.0):
            table.learn(3, 2, seconds, 2)
            table.learn(4, 4, seconds, 1)
    assert table.known(4) == table.known(3) == {2: 2.0, 4: 4.0} and table.known(5) == {} and len(writes) == 4
    again = CostTable(ensemble, path)
    assert again.known(3) == {2: 2.0, 4: 4.0}
    again.learn(3, 2, 500.0, 1)
    again.learn(3, 2, 8.0, 1)
    assert again.known(3)[2] == 5.0
    stored = json.loads(path.read_text())
    assert len(stored) == 256 and "other 399" in stored and "other 0" not in stored


def test_costs_that_cannot_be_kept(tiny, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5), cost_file=str(tmp_path / "file" / "costs.json"))
    for _ in range(8):
        assert_same(generator.generate([model], sample), greedy(tiny, [model], sample, options=dict(max_len_b=5)))
    assert "not kept" in caplog.text


def test_no_batch_is_decoded_for_the_clock_alone(tiny, tmp_path):
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5), cost_file=str(tmp_path / "costs.json"))
    executed, right = [], generator.ensemble.log_probabilities
    generator.ensemble.log_probabilities = lambda *arguments, **more: executed.append(1) or right(*arguments, **more)
    best = generator.generate([model], sample)
    assert len(executed) == generator.counters.decoder_calls == best[0][0]["steps"] == generator.statistics.passes


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


def test_a_pass_reads_the_device_once(tiny):
    """Rows of different lengths, rows that finish at different times."""
    model, sample = tiny.lively(seed=5), tiny.sample([9, 2, 6, 4, 7, 3], seed=5)
    generator = make_generator(tiny, [model], options=dict(max_len_b=20), mode="frontier", window=3)
    generator.ensemble.reserve_positions(64)
    memories = generator.ensemble.encode(sample["net_input"])
    rules = Constraints(tiny.dictionary(), min_length=0, max_lengths=torch.tensor([20, 12, 20, 9, 20, 20]))
    plan = JacobiPlan(
        start=2, constraints=rules, window=WindowPlan("frontier", width=3), drafter=Drafter(), filler=3, temperature=1.0,
        rank=lambda total, length: total,
    )  # fmt: skip
    with torch.inference_mode(), HostReads() as reads:
        found = jacobi_decode(generator.ensemble, memories, plan)
    assert len({len(hypothesis.tokens) for hypothesis in found}) > 2
    # The maximum lengths, once.
    assert reads.count == generator.counters.decoder_calls + 1, reads.named


def test_finished_rows_are_dropped_together(tiny, monkeypatch):
    """Caches are copied when a quarter of the rows has finished, not for each."""
    model, sample = tiny.lively(seed=5), tiny.sample([5] * 16, seed=5)
    copies, right = [], DecoderState.reorder

    def counted(self, rows, **more):
        copies.append((self.rows, rows.numel()))
        return right(self, rows, **more)

    monkeypatch.setattr(DecoderState, "reorder", counted)
    rules = dict(max_len_b=30)
    generator = make_generator(tiny, [model], options=rules, mode="frontier", window=2)
    found = generator.generate([model], sample)
    ends = {best[0]["steps"] for best in found}
    assert len(ends) > len(copies) >= 1 and all(4 * after <= 3 * before for before, after in copies)
    monkeypatch.undo()
    assert_same(found, greedy(tiny, [model], sample, options=rules))


@given(
    seed=st.integers(1, 40), lengths=st.lists(st.integers(1, 9), min_size=2, max_size=6), mode=st.sampled_from(MODE_OPTIONS),
    longest=st.integers(1, 14), data=st.data(),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_batch_mates_change_nothing(tiny, seed, lengths, mode, longest, data):
    """Whatever the options; ``--max-len-a`` alone counts padding, as in the search whose result this one has."""
    rules = dict(
        max_len_b=longest,
        min_len=data.draw(st.integers(0, longest)),
        lenpen=data.draw(st.sampled_from([-0.5, 0.0, 1.0])),
        unkpen=data.draw(st.sampled_from([0.0, 3.0, -3.0])),
        temperature=data.draw(st.sampled_from([0.5, 1.0])),
        normalize=data.draw(st.booleans()),
        no_repeat_ngram_size=data.draw(st.sampled_from([0, 0, 2])),
    )
    model, sample = tiny.lively(seed=seed), tiny.sample(lengths, seed=seed)
    together = make_generator(tiny, [model], options=rules, **mode).generate([model], sample)
    width = max(lengths)
    for row, length in enumerate(lengths):
        alone = {"src_tokens": sample["net_input"]["src_tokens"][row : row + 1, width - length :],
                 "src_lengths": torch.tensor([length])}  # fmt: skip
        generator = make_generator(tiny, [model], options=rules, **mode)
        assert_same(generator.generate([model], {"net_input": alone}), together[row : row + 1])
