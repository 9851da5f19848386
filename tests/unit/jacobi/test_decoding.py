"""Parallel decoding gives what greedy decoding gives, token by token, whatever is guessed."""

import functools

import pytest
import torch
from host_reads import HostReads
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_decoding import MODE_OPTIONS, assert_same, greedy, make_generator

from fairseq_hrt.engine.cache import DecoderState
from fairseq_hrt.engine.constraints import Constraints
from fairseq_hrt.jacobi.decoding import JacobiPlan, StepReader, jacobi_decode
from fairseq_hrt.jacobi.drafts import Drafter, ModelDrafter
from fairseq_hrt.jacobi.windows import WindowPlan
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.schema import JACOBI_MODES

# Without rules the model's own limit holds.
RULES = [
    {},
    dict(max_len_b=5),
    dict(max_len_b=1),
    dict(max_len_a=0.7, max_len_b=2),
    dict(min_len=6, max_len_b=20),
    dict(unkpen=3.0, max_len_b=20),
    dict(no_repeat_ngram_size=2, max_len_b=15),
    dict(no_repeat_ngram_size=1, max_len_b=9, min_len=4),
    dict(temperature=0.5, lenpen=0.5, max_len_b=20),
    dict(unnormalized=True, max_len_b=20),
]


@pytest.fixture(scope="module")
def greedily_decoded(tiny):
    """A function of a seed and rules: a model, a batch, and what greedy search makes of it."""

    @functools.cache
    def decoded(seed, place):
        model, sample = tiny.lively(seed=seed), tiny.sample([7, 3, 5, 1], seed=seed)
        return model, sample, greedy(tiny, [model], sample, options=RULES[place])

    return decoded


def kind(mode):
    return mode["mode"], mode.get("known_length", False)


# Each kind of mode has every rule, with one of its sizes after the other.
KINDS = {
    kind(mode): [own for own in MODE_OPTIONS if kind(own) == kind(mode)] for mode in MODE_OPTIONS
}
PAIRS = [
    (sizes[(place + number) % len(sizes)], place)
    for number, sizes in enumerate(KINDS.values()) for place in range(len(RULES))
]  # fmt: skip


@pytest.mark.parametrize("mode, place", PAIRS, ids=lambda value: str(value))
def test_lossless(tiny, greedily_decoded, mode, place):
    # Each mode has all three models.
    seed = 1 + (MODE_OPTIONS.index(mode) + place) % 3
    model, sample, expected = greedily_decoded(seed, place)
    generator = make_generator(tiny, [model], options=RULES[place], **mode)
    found = generator.generate([model], sample)
    assert_same(found, expected)
    longest = max(len(best[0]["tokens"]) for best in expected)
    # A length that is known beforehand costs nothing.
    assert generator.counters.decoder_calls <= longest
    assert generator.counters.encoder_calls == 1
    for best, other in zip(found, expected):
        assert best[0]["steps"] <= len(other[0]["tokens"])


@given(
    seed=st.integers(1, 12), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    mode=st.sampled_from(MODE_OPTIONS), limit=st.integers(1, 20), data=st.data(),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_any_draft_gives_the_same_result(tiny, seed, lengths, mode, limit, data):
    """Drafts of an adversary: right, wrong, with </s> and unknown words anywhere, too short and too
    long."""
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
            ][: data.draw(st.integers(0, len(truth)))] + data.draw(st.lists(st.integers(2, 15),
                                                                            max_size=3)))  # fmt: skip
        drafter = ModelDrafter(lambda net_input: drafts)
    generator = make_generator(tiny, [model], drafter=drafter, options=rules, **mode)
    assert_same(generator.generate([model], sample), expected)
    assert generator.statistics.row_passes <= sum(len(best[0]["tokens"]) for best in expected)


def test_a_perfect_draft_needs_as_few_passes_as_windows(tiny):
    model, sample = tiny.lively(seed=4), tiny.sample([7, 3, 5], seed=4)
    rules = dict(max_len_b=13)
    expected = greedy(tiny, [model], sample, options=rules)
    drafter = ModelDrafter(lambda net_input: [best[0]["tokens"].tolist() for best in expected])
    generator = make_generator(
        tiny, [model], drafter=drafter, options=rules, mode="frontier", window=4
    )
    assert_same(generator.generate([model], sample), expected)
    needed = sum(-(-len(best[0]["tokens"]) // 4) for best in expected)
    assert generator.statistics.row_passes == needed


def iterations(model, source, tokens, block, rules):
    """Those of the paper's Algorithms 1 and 2 with a known length: one forward pass over all
    positions after the other, until a block is as it was before; fairseq's module, without caches.
    ``tokens`` is what they have to find.
    """
    # -1: not written yet, which no word is equal to.
    count, target = 0, [-1] * len(tokens)
    for first in range(0, len(tokens), block):
        end = min(first + block, len(tokens))
        for _ in range(end - first):
            before = list(target)
            with torch.no_grad():
                logits = model(
                    source,
                    torch.tensor([source.size(1)]),
                    torch.tensor([[2, *target[:-1]]]).clamp(min=0),
                )[0][0]
            logits[:, 1] = logits[: rules.get("min_len", 1), 2] = -torch.inf
            target[first:end] = logits.argmax(1)[first:end].tolist()
            target[-1] = 2 if end == len(tokens) else -1
            count += 1
            if target == before:
                break
    assert target == tokens
    return count


@given(
    seed=st.integers(1, 12), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    block=st.sampled_from([None, 1, 2, 3, 5, 50]),
    rules=st.sampled_from([dict(max_len_b=13), dict(max_len_b=6), dict(max_len_b=9, min_len=4)]),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_iterations_with_a_known_length_are_those_of_the_paper(tiny, seed, lengths, block, rules):
    model, sample = tiny.lively(seed=seed), tiny.sample(lengths, seed=seed)
    with torch.no_grad():
        # fairseq's modules do not count padding as a position: <s>, which then looks the same,
        # stands for it below.
        model.decoder.embed_tokens.weight[0] = model.decoder.embed_tokens.weight[1]
    expected = greedy(tiny, [model], sample, options=rules)
    mode = dict(mode="pj") if block is None else dict(mode="pgj", block_size=block)
    generator = make_generator(tiny, [model], options=rules, known_length=True, **mode)
    found = generator.generate([model], sample)
    assert_same(found, expected)
    for row, (best, length) in enumerate(zip(found, lengths)):
        tokens, source = (
            best[0]["tokens"].tolist(),
            sample["net_input"]["src_tokens"][row : row + 1, -length:],
        )
        assert best[0]["steps"] == iterations(model, source, tokens, block or len(tokens), rules)
    assert generator.statistics.iterations == sum(best[0]["steps"] for best in found)
    # No position beyond the end is read.
    passes = generator.statistics.row_passes
    assert block != 1 or generator.statistics.pushed == passes == sum(
        len(best[0]["tokens"]) for best in expected
    )


def test_an_ensemble(tiny):
    models, sample = [tiny.lively(seed=1), tiny.lively(seed=2)], tiny.sample([6, 3])
    expected = greedy(tiny, models, sample, options=dict(max_len_b=12))
    generator = make_generator(tiny, models, options=dict(max_len_b=12), mode="frontier", window=4)
    assert_same(generator.generate(models, sample), expected)


def test_single_precision_differs_only_where_the_best_two_are_close(tiny):
    """The gap rule: a different token is excused by a gap below 1e-4 in the reference, and by
    nothing else."""
    total = 0
    for seed in range(1, 6):
        model, sample = tiny.lively(seed=seed).float(), tiny.sample([8, 5, 3, 6], seed=seed)
        rules = dict(max_len_b=20)
        expected = greedy(tiny, [model], sample, options=rules)
        found = make_generator(tiny, [model], options=rules, mode="frontier", window=4).generate(
            [model], sample
        )
        for (mine,), (other,) in zip(found, expected):
            total += 1
            if mine["tokens"].tolist() != other["tokens"].tolist():
                place = next(
                    i
                    for i, pair in enumerate(zip(mine["tokens"], other["tokens"]))
                    if pair[0] != pair[1]
                )
                gap = mine["positional_scores"][place] - other["positional_scores"][place]
                assert abs(float(gap)) < 1e-4
    assert total == 20


@pytest.mark.parametrize("cell", [None, "ssru"])
@pytest.mark.parametrize("mistake", ["one too many", "one too few", "never"])
def test_the_tests_see_a_wrong_cache(tiny, monkeypatch, mistake, cell):
    """What the equality tests are worth: with a cache rolled back to a wrong length they fail."""
    right = DecoderState.rollback

    def wrong(self, length, *, lengths=None):
        if mistake == "never":
            return
        shift = 1 if mistake == "one too many" else -1
        limit = self.length if self.lengths is None else self.lengths
        if lengths is None:
            right(self, min(max(length + shift, 0), limit))
        else:
            lengths = torch.minimum((lengths + shift).clamp(min=0), torch.as_tensor(limit))
            right(self, int(lengths.max()), lengths=lengths)

    monkeypatch.setattr(DecoderState, "rollback", wrong)
    for seed in range(1, 6):
        model = (
            tiny.lively(seed=seed)
            if cell is None
            else tiny.lively("marian_transformer", seed=seed, marian_cell=cell)
        )
        sample = tiny.sample([7, 5], seed=seed)
        expected = greedy(tiny, [model], sample, options=dict(max_len_b=12))
        found = make_generator(
            tiny, [model], options=dict(max_len_b=12), mode="frontier", window=3
        ).generate([model], sample)
        pairs = [
            (a[0]["positional_scores"], b[0]["positional_scores"]) for a, b in zip(found, expected)
        ]
        if any(a.shape != b.shape or not torch.allclose(a, b, atol=1e-4) for a, b in pairs):
            return
    raise AssertionError("no test has seen the wrong cache")


def test_broken_weights_are_named(tiny):
    model = tiny.lively()
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight[0, 0] = float("nan")
    with pytest.raises(NumericalError, match="NaN"):
        make_generator(tiny, [model], mode="frontier", window=3).generate([model], tiny.sample([4]))


def test_every_mode_is_tested():
    assert {mode["mode"] for mode in MODE_OPTIONS} == set(JACOBI_MODES)


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
    rules = Constraints(
        tiny.dictionary(), min_length=0, max_lengths=torch.tensor([20, 12, 20, 9, 20, 20])
    )
    plan = JacobiPlan(
        start=2, constraints=rules, window=WindowPlan("frontier", width=3), drafter=Drafter(),
        filler=3, temperature=1.0, rank=lambda total, length: total,
    )  # fmt: skip
    with torch.inference_mode(), HostReads() as reads:
        found = jacobi_decode(StepReader(generator.ensemble, memories, plan), plan)
    assert len({len(hypothesis.tokens) for hypothesis in found}) > 2
    assert reads.count == generator.counters.decoder_calls, reads.named


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
    seed=st.integers(1, 12), lengths=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    mode=st.sampled_from(MODE_OPTIONS), longest=st.integers(1, 14), data=st.data(),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
def test_batch_mates_change_nothing(tiny, seed, lengths, mode, longest, data):
    """Whatever the options; ``--max-len-a`` alone counts padding, as in the search whose result
    this one has."""
    rules = dict(
        max_len_b=longest,
        min_len=data.draw(st.integers(0, longest)),
        lenpen=data.draw(st.sampled_from([-0.5, 0.0, 1.0])),
        unkpen=data.draw(st.sampled_from([0.0, 3.0, -3.0])),
        temperature=data.draw(st.sampled_from([0.5, 1.0])),
        unnormalized=data.draw(st.booleans()),
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
