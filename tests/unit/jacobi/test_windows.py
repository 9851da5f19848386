"""How many tokens a pass settles in each mode, and the width that is chosen on a simulated machine."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_decoding import make_generator

from fairseq_hrt.jacobi.windows import MODES, WidthChooser, WindowPlan


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


@given(
    mode=st.sampled_from(MODES), block=st.integers(1, 6), width=st.integers(1, 6), prefix=st.one_of(st.none(), st.integers(0, 9)),
    limit=st.integers(0, 20), data=st.data(),
)  # fmt: skip
@settings(max_examples=50)
def test_windows_end_where_the_mode_says(mode, block, width, prefix, limit, data):
    """However many tokens each pass proves: blocks begin at multiples of their size, and nothing reaches behind ``</s>``."""
    plan = WindowPlan(mode, block=block, width=width, prefix=prefix)
    proved = 0
    while proved <= limit:
        size = plan.size(proved, limit)
        end = proved + size
        one_by_one = mode == "hgj" and prefix is not None and proved >= prefix
        whole = {"pj": limit + 1, "frontier": proved + width}.get(mode, (proved // block + 1) * block)
        if mode == "hgj" and prefix is not None:
            whole = min(whole, prefix)
        assert size >= 1 and end == (proved + 1 if one_by_one else min(whole, limit + 1))
        proved += data.draw(st.integers(1, size))
        # A block that is over has no answers left.
        assert plan.keeps_answers(proved) == (mode in ("frontier", "pj") or proved not in range(0, 99, block))


def test_messages_name_the_value_and_the_choices():
    with pytest.raises(ValueError, match="--jacobi-mode other: choose one of frontier, hgj, pgj, pj"):
        WindowPlan("other")
    for sizes, message in (
        (dict(block=0), "--jacobi-block-size 0 must be at least 1"),
        (dict(width=-2), "--jacobi-window -2 must be at least 1"),
        (dict(prefix=-1), "--jacobi-prefix-length -1 must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            WindowPlan("frontier", **sizes)
