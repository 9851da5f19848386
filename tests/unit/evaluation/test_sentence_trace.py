"""How a sentence was decoded: which pass fixed which word, and what the passes before made of
it."""

import itertools
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.evaluation.sentence_trace import (
    FIXED,
    OPEN,
    RIGHT,
    SETTLED,
    STATES,
    WRONG,
    Cell,
    Trace,
    legend,
    to_text,
    trace,
)
from fairseq_hrt.jacobi.decoding import JacobiIteration
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.options.values import DecodingOptions


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_arcs_join_neighbours_of_one_pass(fixed):
    found = Trace("", "", ["x"] * len(fixed), [], fixed)
    # Two tokens of one pass are neighbours if none between them is of it.
    expected = [
        [one, other]
        for one, other in itertools.combinations(range(len(fixed)), 2)
        if fixed[one] == fixed[other] and fixed[one] not in fixed[one + 1 : other]
    ]
    assert sorted(found.arcs) == expected
    assert found.to_json()["arcs"] == found.arcs and found.to_json()["states"] == list(STATES)


def make_system(dictionary, hypothesis, iterations=None):
    """A system with one answer; a generator with ``iterations`` announces them."""
    generator = SimpleNamespace() if iterations is None else SimpleNamespace(iteration_hooks=[])

    def decode(sample):
        system.counters.decoder_calls += 3
        for iteration in iterations or ():
            for hook in generator.iteration_hooks:
                hook(iteration)
        return [[hypothesis]]

    task = SimpleNamespace(target_dictionary=dictionary)
    system = SimpleNamespace(
        name="x",
        generator=generator,
        counters=GenerationCounters(decoder_calls=50),
        task=task,
        decode=decode,
    )
    return system


def test_decoders_that_never_take_a_word_back(tiny):
    hypothesis = Hypothesis(
        [4, 5, 6, tiny.EOS], 0.0, [math.log(p) for p in (0.5, 0.25, 0.125, 1.0)],
        token_steps=[1, 2, 1, 2], token_directions=[0, 0, 1, 1],
    )  # fmt: skip
    found = trace(make_system(tiny.dictionary(), hypothesis), {}, "the source")
    assert (found.name, found.source, found.tokens) == (
        "x",
        "the source",
        ["w0", "w1", "w2", "</s>"],
    )
    assert found.passes == [
        [Cell(FIXED, "w0", 0.5), Cell(OPEN), Cell(FIXED, "w2", 0.125), Cell(OPEN)],
        [
            Cell(SETTLED, "w0"),
            Cell(FIXED, "w1", 0.25),
            Cell(SETTLED, "w2"),
            Cell(FIXED, "</s>", 1.0),
        ],
    ]
    assert (
        found.arcs == [[0, 2], [1, 3]]
        and found.directions == [0, 0, 1, 1]
        and found.decoder_calls == 3
    )


def test_without_steps_there_is_a_pass_for_each_word(tiny):
    """fairseq's own beam search tells of none. Rounded sums may exceed 0, probabilities do not
    exceed 1."""
    hypothesis = Hypothesis([4, 4, tiny.EOS], 0.0, [-0.5, 1e-3, 0.0])
    found = trace(make_system(tiny.dictionary(), hypothesis), {}, "")
    assert found.fixed == [1, 2, 3] and found.arcs == [] and found.directions == []
    assert [[cell.state for cell in row] for row in found.passes] == [
        [FIXED, OPEN, OPEN], [SETTLED, FIXED, OPEN], [SETTLED, SETTLED, FIXED],
    ]  # fmt: skip
    assert found.passes[1][1].probability == 1


def test_guesses_are_right_or_wrong_until_they_are_confirmed(tiny):
    w = lambda number: 4 + number  # noqa: E731
    tokens = [w(0), w(1), w(2), tiny.EOS]
    hypothesis = Hypothesis(tokens, 0.0, [0.0] * 4, token_steps=[1, 2, 2, 2])
    iterations = [
        JacobiIteration(0, 1, 0, [w(9), w(2)], [w(0), w(5), w(2)], [-0.5, -1.0, -1.5], 1),
        # Reads further than the translation goes.
        JacobiIteration(
            0, 2, 1, [w(1), w(2)], [w(1), w(2), tiny.EOS, w(3)], [0.0, 0.0, 0.0, 0.0], 3
        ),
    ]
    system = make_system(tiny.dictionary(), hypothesis, iterations)
    found = trace(system, {}, "")
    shown = [[(cell.state, cell.token) for cell in row] for row in found.passes]
    assert shown == [
        [(FIXED, "w0"), (WRONG, "w5"), (RIGHT, "w2"), (OPEN, "")],
        [(SETTLED, "w0"), (FIXED, "w1"), (FIXED, "w2"), (FIXED, "</s>")],
    ]  # fmt: skip
    assert (
        found.passes[0][1].probability == pytest.approx(0.3679, abs=1e-4)
        and found.passes[1][0].probability is None
    )
    assert system.generator.iteration_hooks == [], "who watches goes again"


def test_a_real_search(tiny):
    model, dictionary, sample = tiny.lively(), tiny.dictionary(), tiny.sample([5])
    options = DecodingOptions(beam=1, max_len_a=0, max_len_b=6)
    generator = AutoregressiveGenerator([model], dictionary, options)
    system = SimpleNamespace(
        name="AT", generator=generator, counters=generator.counters,
        task=SimpleNamespace(target_dictionary=dictionary),
        decode=generator.find,
    )  # fmt: skip
    found = trace(system, sample, "s")
    expected = generator.find(sample)[0][0]
    assert (
        found.tokens == [dictionary[token] for token in expected.tokens] and len(found.tokens) > 2
    )
    probabilities = [row[place].probability for place, row in enumerate(found.passes)]
    assert probabilities == pytest.approx([math.exp(score) for score in expected.positional_scores])
    assert found.decoder_calls == len(found.passes) == len(found.tokens)


def example():
    rows = [[Cell(FIXED, "a", 0.5), Cell(WRONG, "b\x1b", 0.1), Cell(RIGHT, "c", 0.1), Cell(OPEN)],
            [Cell(SETTLED, "a"), Cell(FIXED, "d", 0.5), Cell(FIXED, "c", 0.5), Cell(OPEN)],
            [Cell(SETTLED, "a"), Cell(SETTLED, "d"), Cell(SETTLED, "c"),
             Cell(FIXED, "</s>", 1.0)]]  # fmt: skip
    return Trace("n\x1b[0m", "s\x07", ["a", "d", "c", "</s>"], rows, [1, 2, 2, 3])


def test_the_terminal():
    assert to_text(example(), colour=False).splitlines() == [
        r"n\x1b[0m: 4 tokens in 3 passes", r"  source  s\x07", r"       1  ●a ✗b\x1b ○c ·",
        "       2  – ●d ●c ·", "       3  a d c ●</s>",
    ]  # fmt: skip
    painted = to_text(example(), colour=True)
    assert (
        painted.count("\x1b[0m") == 12
        and "\x1b[31m✗b\\x1b\x1b[0m" in painted
        and "\x1b[90m–\x1b[0m" in painted
    )
    assert (
        legend(colour=False)
        == "· open   ✗ wrong   ○ right, not confirmed   ● fixed now   – settled"
    )
    assert legend(colour=True).count("\x1b[0m") == len(STATES)
