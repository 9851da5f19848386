"""The speed protocol, measured with systems that move a clock of their own: no test depends on real
time."""

from typing import List

import pytest

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.evaluation.speed import Spread, Timing, make_batches, measure


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class StubSystem:
    """Needs ``seconds`` a sentence and ``calls`` decoder calls a batch."""

    def __init__(self, name: str, clock: Clock, seconds: float, calls: int, log: List[str]) -> None:
        self.name = name
        self.clock = clock
        self.seconds = seconds
        self.calls = calls
        self.log = log
        self.counters = GenerationCounters()

    def collate(self, ids):
        # Collating takes long here, so that a clock that includes it is found out.
        self.clock.now += 1000
        return ids

    def decode(self, sample):
        self.log.append(self.name)
        self.clock.now += self.seconds * len(sample)
        self.counters.decoder_calls += self.calls


def stub_run(repeats=3, batches=((0, 1), (2,))):
    clock, log = Clock(), []
    systems = [StubSystem("slow", clock, 0.5, 10, log), StubSystem("fast", clock, 0.125, 4, log)]
    return measure(systems, [list(batch) for batch in batches], repeats=repeats, clock=clock), log


def test_known_speeds_are_found():
    timings, _ = stub_run()
    assert timings["slow"].sentences_per_second() == Spread(2.0, 2.0, 2.0)
    assert timings["fast"].sentences_per_second() == Spread(8.0, 8.0, 8.0)
    assert timings["fast"].words_per_second(30) == Spread(80.0, 80.0, 80.0)
    assert timings["fast"].ratio_to(timings["slow"]) == Spread(4.0, 4.0, 4.0)
    assert timings["slow"].batch_milliseconds(50) == 500
    assert timings["slow"].batch_milliseconds(90) == 1000


def test_calls_are_those_of_one_repeat():
    timings, _ = stub_run()
    assert timings["slow"].decoder_calls == 20
    assert timings["slow"].decoder_calls_per_batch() == 10


def test_systems_take_turns_and_the_order_rotates():
    _, log = stub_run(repeats=3, batches=((0,),))
    assert log == ["slow", "fast", "slow", "fast", "fast", "slow", "slow", "fast"]


def test_warm_up_is_not_counted():
    timings, log = stub_run(repeats=2)
    assert len(log) == 2 * 2 * (1 + 2)
    assert [len(repeat) for repeat in timings["slow"].seconds] == [2, 2]


def test_ratio_pairs_the_repeats():
    # In the second repeat the whole machine was ten times as slow; the ratio does not notice.
    ours, theirs = Timing([[0]], [[1.0], [10.0]]), Timing([[0]], [[2.0], [20.0]])
    assert ours.ratio_to(theirs) == Spread(2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    "percent, expected", [(50, 5000), (90, 9000), (99, 10000), (100, 10000), (1, 1000)]
)
def test_percentiles_are_times_of_real_batches(percent, expected):
    timing = Timing([[i] for i in range(10)], [[float(i + 1) for i in range(10)]])
    assert timing.batch_milliseconds(percent) == expected


def test_batches_hold_similar_lengths_and_every_sentence_once():
    batches = make_batches([4, 7, 9, 11, 12], [30, 3, 29, 4, 8], 2)
    assert batches == [[7, 11], [12, 9], [4]]


@pytest.mark.parametrize(
    "repeats, batches, names, message",
    [
        (0, [[0]], ("a", "b"), "repeats=0"),
        (1, [], ("a", "b"), "no sentences"),
        (1, [[0]], ("a", "a"), "share a name"),
    ],
)
def test_misuse_is_refused(repeats, batches, names, message):
    clock = Clock()
    systems = [StubSystem(name, clock, 1.0, 1, []) for name in names]
    with pytest.raises(ValueError, match=message):
        measure(systems, batches, repeats=repeats, clock=clock)
