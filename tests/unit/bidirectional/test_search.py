"""Block search against exhaustive enumeration, and against itself in other batches."""

import functools
import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from host_reads import HostReads
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_device import DEVICE, SimulatedDevice

from fairseq_hrt.bidirectional.search import BlockPlan, block_search
from fairseq_hrt.engine.constraints import Constraints
from fairseq_hrt.native.options.schema import SCORINGS

EOS, PAD = 2, 1
TOLERANCE = 2e-5


SMALL = [(1, 1, 5), (1, 2, 5), (2, 1, 5), (1, 3, 2), (4, 1, 1), (2, 2, 1)]


@pytest.mark.parametrize("directions, count, symbols", SMALL)
@torch.no_grad()
def test_the_beam_equals_enumeration(family, directions, count, symbols):
    vocabulary = 4 + symbols
    compared = Counter()
    for seed in range(2):
        model = family.bidirectional(
            directions=directions, tokens_per_step=count, symbols=symbols, seed=seed
        )
        sample = family.sample([4, 3], symbols=symbols, seed=seed)
        # One pass over a beginning serves both.
        alike = [family.oracle(model, family.one(sample, row), limit=1) for row in range(2)]
        for best, beams, options in (
            (False, (2, vocabulary - 1), dict(max_len_b=3)),
            (True, (3, vocabulary - 1), dict(max_len_b=5, min_len=3, lenpen=0.4)),
        ):
            # One enumeration serves beams of all sizes.
            oracles = [
                family.oracle(
                    model, family.one(sample, row), limit=options["max_len_b"],
                    min_length=options.get("min_len", 1), lenpen=options.get("lenpen", 1.0), like=alike[row],
                )
                for row in range(2)
            ]  # fmt: skip
            for scoring, beam in itertools.product(SCORINGS, beams):
                nbest = beam if best else 1
                mine = family.generator(
                    model, symbols, scoring=scoring, beam=beam, nbest=nbest, **options
                )
                found = mine.generate(None, sample)
                for oracle, hypotheses in zip(oracles, found):
                    expected = oracle.expected(scoring, beam, nbest=nbest)
                    got = [(h["tokens"].tolist(), float(h["score"])) for h in hypotheses]
                    assert [family.natural(list(words), directions) for words, _ in expected] == [
                        words for words, _ in got
                    ]
                    for (_, a), (_, b) in zip(expected, got):
                        assert a == pytest.approx(b, abs=TOLERANCE)
                    compared[scoring] += len(expected)
    assert min(compared[scoring] for scoring in SCORINGS) > 20


@pytest.mark.parametrize("directions, count", [(1, 3), (2, 1), (2, 2), (4, 1), (2, 4)])
@pytest.mark.parametrize("min_length", [1, 4])
@torch.no_grad()
def test_greedy_takes_the_best_word_of_each_slot(family, directions, count, min_length):
    model, sample = (
        family.bidirectional(directions=directions, tokens_per_step=count),
        family.sample([5, 3, 6]),
    )
    found = family.generator(model, beam=1, max_len_b=11, min_len=min_length).generate(None, sample)
    for row in range(3):
        expected = family.oracle(
            model, family.one(sample, row), limit=11, min_length=min_length
        ).greedy()
        best = found[row][0]
        assert best["tokens"].tolist() == family.natural(expected, directions)
        assert best["steps"] == -(-len(expected) // (directions * count))
        # Words behind </s> in its step do not count.
        assert float(best["score"]) == pytest.approx(
            float(best["positional_scores"].mean()), abs=TOLERANCE
        )


@pytest.fixture(scope="module")
def plain(family):
    """A function of a seed: a model, a batch, what each scoring finds without options (with beams
    of 1 and 3), and an oracle for each sentence."""

    @functools.cache
    @torch.no_grad()
    def found(seed):
        model = family.bidirectional(directions=2, symbols=4, seed=seed)
        sample = family.sample([4, 3], symbols=4, seed=seed)
        searched = {
            (scoring, beam): family.generator(
                model, 4, scoring=scoring, beam=beam, max_len_b=6
            ).generate(None, sample)
            for scoring, beam in itertools.product(SCORINGS, (1, 3))
        }
        oracles = [family.oracle(model, family.one(sample, row), limit=6) for row in range(2)]
        return model, sample, searched, oracles

    return found


@pytest.mark.parametrize(
    "options",
    [
        dict(temperature=0.6), dict(temperature=1.7, lenpen=0.6), dict(unkpen=1.5),
        dict(unkpen=-4.0), dict(unnormalized=True), dict(lenpen=0.6, penalty="gnmt"),
        dict(lenpen=1.4, penalty="gnmt", unnormalized=True), dict(lenpen=-0.5),
    ],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_every_option_reaches_the_search(family, plain, options):
    """Against enumeration; an option that is lost on its way gives another score or another
    translation somewhere."""
    unchanged = set(itertools.product(SCORINGS, (1, 3)))
    settings = {
        name: value for name, value in options.items() if name not in ("penalty", "unnormalized")
    }
    for seed in range(3):
        model, sample, plainly, alike = plain(seed)
        oracles = [
            family.oracle(
                model,
                family.one(sample, row),
                limit=6,
                like=alike[row],
                gnmt="penalty" in options,
                normalize="unnormalized" not in options,
                **settings,
            )
            for row in range(2)
        ]
        for scoring, beam in itertools.product(SCORINGS, (1, 3)):
            found = family.generator(
                model, 4, scoring=scoring, beam=beam, max_len_b=6, **options
            ).generate(None, sample)
            without = plainly[scoring, beam]
            for row, oracle in enumerate(oracles):
                got = [(h["tokens"].tolist(), float(h["score"])) for h in found[row]]
                if beam > 1:
                    expected = oracle.expected(scoring, 3)
                    assert [family.natural(list(words), 2) for words, _ in expected] == [
                        words for words, _ in got
                    ]
                    assert [score for _, score in expected] == pytest.approx(
                        [score for _, score in got], abs=TOLERANCE
                    )
                else:
                    assert family.natural(oracle.greedy(), 2) == got[0][0]
                if got != [(h["tokens"].tolist(), float(h["score"])) for h in without[row]]:
                    unchanged.discard((scoring, beam))
    assert not unchanged, "the option does nothing"


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_batch_mates_change_nothing(family, data):
    """Whatever the options."""
    directions, count = data.draw(st.sampled_from([(1, 2), (2, 1), (2, 2), (4, 1)]))
    model = family.bidirectional(
        directions=directions, tokens_per_step=count, encoder_layers=1,
        seed=data.draw(st.integers(1, 9)),
        independent_directions=directions > 1 and data.draw(st.booleans()),
    )  # fmt: skip
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=6))
    sample = family.sample(lengths, seed=data.draw(st.integers(0, 99)))
    longest = data.draw(st.integers(1, 9))
    options = dict(
        beam=data.draw(st.sampled_from([1, 2, 3])),
        max_len_a=data.draw(st.sampled_from([0.0, 0.7, 1.2])),
        max_len_b=longest,
        min_len=data.draw(st.integers(0, longest)),
        lenpen=data.draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0])),
        unkpen=data.draw(st.sampled_from([0.0, 3.0, -3.0])),
        temperature=data.draw(st.sampled_from([0.5, 1.0, 2.0])),
        unnormalized=data.draw(st.booleans()),
        penalty=data.draw(st.sampled_from(["power", "gnmt"])),
        scoring=data.draw(st.sampled_from(SCORINGS)),
        collapse=data.draw(st.booleans()),
    )
    options["nbest"] = data.draw(st.integers(1, options["beam"]))
    together = family.generator(model, **options).generate(None, sample)
    alone = family.generator(model, **options)
    for row, best in enumerate(together):
        (single,) = alone.generate(None, {"net_input": family.one(sample, row)})
        assert [h["tokens"].tolist() for h in best] == [h["tokens"].tolist() for h in single]
        for a, b in zip(best, single):
            assert float(a["score"]) == pytest.approx(float(b["score"]), abs=TOLERANCE)


@pytest.mark.parametrize(
    "ablation", ["vanilla_mask", "vanilla_positions", "middle_to_side", "independent_directions"]
)
@pytest.mark.parametrize("beam", [1, 2])
@torch.no_grad()
def test_ablations_decode_what_they_train(family, ablation, beam):
    model = family.bidirectional(directions=2, symbols=4, **{ablation: True})
    sample = family.sample([4, 3], symbols=4)
    found = family.generator(model, 4, beam=beam, nbest=beam, max_len_b=5).generate(None, sample)
    for row in range(2):
        oracle = family.oracle(model, family.one(sample, row), limit=5)
        expected = [oracle.greedy()] if beam == 1 else [list(words) for words, _ in oracle.beam(2)]
        middle = ablation == "middle_to_side"
        assert [h["tokens"].tolist() for h in found[row]] == [
            family.natural(words, 2, middle) for words in expected
        ]


@pytest.mark.parametrize("directions, count, beam", [(2, 1, 1), (2, 1, 2), (2, 2, 1), (4, 1, 1)])
@torch.no_grad()
def test_distinct_starts(family, directions, count, beam):
    """Training and decoding begin alike, with <s> where words are written from right to left."""
    task, model = family.task(
        model=dict(directions=directions, tokens_per_step=count, symbols=4, distinct_starts=True)
    )
    start = [EOS, EOS, 0, 0] if directions == 4 else [EOS, 0] * count
    assert task.slots(torch.tensor([[4, 5, 6, EOS]])).input[0, : len(start)].tolist() == start
    sample = family.sample([4, 3], symbols=4)
    found = family.generator(model, 4, beam=beam, nbest=beam, max_len_b=5).generate(None, sample)
    different = False
    for row in range(2):
        oracle, plain = (
            family.oracle(model, family.one(sample, row), limit=5, start=own)
            for own in (start, None)
        )
        expected = [oracle.greedy()] if beam == 1 else [list(words) for words, _ in oracle.beam(2)]
        assert [h["tokens"].tolist() for h in found[row]] == [
            family.natural(words, directions) for words in expected
        ]
        different |= oracle.log_probs([]) != plain.log_probs([])
    assert different


@torch.no_grad()
def test_a_start_symbol_of_the_user_is_that_of_words_from_the_left(family):
    model = family.bidirectional(directions=2, symbols=6, distinct_starts=True)
    generator, sample = (
        family.generator(model, 6, beam=1, max_len_b=5),
        family.sample([4], symbols=6),
    )
    memories = generator.ensemble.encode(sample["net_input"])
    (found,) = generator.decode_memories(memories, start=5)
    expected = family.oracle(model, family.one(sample, 0), limit=5, start=[5, 0]).greedy()
    assert found[0].tokens == family.natural(expected, 2)


@pytest.mark.parametrize("directions, count", [(2, 1), (2, 8), (8, 1)])
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_blocks_larger_than_the_sentence(family, directions, count, beam):
    """An empty source, one word at most, none at all."""
    model = family.bidirectional(directions=directions, tokens_per_step=count)
    sample = family.sample([1, 2])
    for options in (dict(max_len_b=1), dict(max_len_b=2), dict(max_len_b=0, min_len=0)):
        for best in family.generator(model, beam=beam, **options).generate(None, sample):
            assert (
                1 <= best[0]["tokens"].numel() <= options["max_len_b"] + 1
                and best[0]["tokens"][-1] == EOS
            )


@torch.no_grad()
def test_nan_is_named(family):
    from fairseq_hrt.native.decoding import NumericalError

    for beam in (1, 2):
        model = family.bidirectional(directions=2)
        model.decoder.layers[0].fc1.weight.fill_(float("nan"))
        with pytest.raises(NumericalError, match="NaN"):
            family.generator(model, beam=beam).generate(None, family.sample([3]))


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_a_step_reads_the_device_once(family, beam, scoring):
    """However many hypotheses end in it; sentences that end early leave the batch without a further
    read."""
    model, sample = (
        family.bidirectional(directions=2, independent_directions=True),
        family.sample([5, 3, 6, 2, 7, 4]),
    )
    mine = family.generator(
        model, scoring=scoring, beam=beam, nbest=beam, max_len_a=1.0, max_len_b=6
    )
    memories, inner = mine.ensemble.encode(sample["net_input"]), []

    def counted(ensemble, memories, plan, **more):
        # Where the mask of a step is asked for, its step begins.
        with HostReads() as reads:
            found = block_search(ensemble, memories, plan, **more)
        inner.append((reads.count, reads.named))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairseq_hrt.bidirectional.generator.block_search", counted)
        mine.decode_blocks(memories)
    ((count, named),) = inner
    # Before the first step a beam search asks for the lengths, once.
    assert count == mine.counters.decoder_calls + (beam > 1), named
    assert mine.counters.decoder_calls > 3


def test_masks_are_made_where_they_are_used(family):
    decoder = family.bidirectional(directions=2, independent_directions=True).decoder
    with SimulatedDevice():
        assert decoder.visible_keys(4, DEVICE).device == DEVICE


class _Table:
    """Distributions by slot alone, in place of a model: ``[sentences, slots, V]``."""

    class State:
        def __init__(self, sentences):
            self.sentences = sentences

        def reorder(self, rows, sentences=None):
            if sentences is not None:
                self.sentences = self.sentences[sentences]

    def __init__(self, table):
        self.table = table

    def reserve_positions(self, count):
        pass

    def start(self, memories, *, beams=1):
        self.beams = beams
        return [self.State(torch.arange(len(self.table)))]

    def log_probabilities(self, states, tokens, slots, **ignored):
        return self.table[states[0].sentences][:, slots].log().repeat_interleave(self.beams, 0)


def test_paper_scoring_does_not_cut_translations(family):
    """</s> as second best word of every slot, at a tenth of the best one's probability: nothing is
    doubtful, yet blocks with </s> are among the best of each hypothesis from the first step on, and
    the printed algorithm, which counts them all as finished, stops after a few words."""
    from sacrebleu.metrics import BLEU

    generator = torch.Generator().manual_seed(3)
    lengths, dictionary = [8, 11, 14, 9, 20], family.dictionary(12)
    vocabulary, slots = len(dictionary), 32
    table = torch.full((5, slots, vocabulary), 0.01 / vocabulary, dtype=torch.float64)
    truths = []
    for row, length in enumerate(lengths):
        words = torch.randint(4, vocabulary, (length,), generator=generator).tolist()
        truths.append(words + [EOS])
        for slot in range(slots):
            table[row, slot, EOS] = 0.09
            table[row, slot, words[slot] if slot < length else EOS] = 0.9
    rules = Constraints(dictionary, min_length=1, max_lengths=torch.full((5,), slots - 3))
    plan = BlockPlan(
        start=torch.tensor([EOS, EOS]), block=2, constraints=rules, causal=False,
        visible=lambda first, device: None, slots=torch.arange(slots),
        positions=torch.arange(slots), beam=4, nbest=1, scoring="paper", lenpen=0.6,
        length_penalty="gnmt", normalize=True, temperature=1.0,
    )  # fmt: skip

    def bleu(translations):
        texts = [
            [" ".join(map(str, words[:-1])) for words in some] for some in (translations, truths)
        ]
        return BLEU(tokenize="none").corpus_score(texts[0], [texts[1]]).score

    released, printed = (
        [best[0].tokens for best in block_search(_Table(table), [], replace(plan, scoring=scoring))]
        for scoring in ("paper", "algorithm1")
    )
    assert bleu(released) == pytest.approx(100) and bleu(printed) < 50
