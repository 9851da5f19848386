"""How many tokens a pass settles in each mode."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_decoding import make_generator

from fairseq_hrt.jacobi.windows import WIDTH, WindowPlan
from fairseq_hrt.native.options.schema import JACOBI_MODES


def test_windows():
    assert [WindowPlan("frontier", width=4).size(n, 10) for n in (0, 5, 8, 10)] == [4, 4, 3, 1]
    assert [WindowPlan("pj").size(n, 10) for n in (0, 4, 10)] == [11, 7, 1]
    assert [WindowPlan("pgj", block=3).size(n, 10) for n in (0, 1, 2, 3, 9, 10)] == [
        3,
        2,
        1,
        3,
        2,
        1,
    ]
    assert [WindowPlan("hgj", block=3, prefix=5).size(n, 10) for n in (0, 2, 3, 4, 5, 6)] == [
        3,
        1,
        2,
        1,
        1,
        1,
    ]
    assert WindowPlan("hgj", block=3).size(3, 10) == 3
    kept = [WindowPlan("pgj", block=3).keeps_answers(n) for n in range(4)]
    assert kept == [False, True, True, False] and WindowPlan("frontier").keeps_answers(3)


@pytest.mark.parametrize(
    "config, named",
    [
        (dict(mode="pgj", block_size=0), "--jacobi-block-size 0"),
        (dict(window=0), "--jacobi-window 0"),
        (dict(mode="hgj", prefix_length=-1), "--jacobi-prefix-length -1"),
        (dict(mode="other"), "--jacobi-mode other: choose one of frontier, hgj, pgj, pj"),
    ],
)
def test_impossible_windows(tiny, config, named):
    with pytest.raises(ValueError, match=named):
        make_generator(tiny, [tiny.lively()], **config)


def test_the_width_of_the_frontier_where_nothing_is_said(tiny):
    assert make_generator(tiny, [tiny.lively()]).plan == WindowPlan("frontier", width=WIDTH)
    assert make_generator(tiny, [tiny.lively()], window=7).plan.width == 7


@given(
    mode=st.sampled_from(JACOBI_MODES), block=st.integers(1, 6), width=st.integers(1, 6),
    prefix=st.one_of(st.none(), st.integers(0, 9)), limit=st.integers(0, 20), data=st.data(),
)  # fmt: skip
@settings(max_examples=20)
def test_windows_end_where_the_mode_says(mode, block, width, prefix, limit, data):
    """However many tokens each pass proves: blocks begin at multiples of their size, and nothing
    reaches behind ``</s>``."""
    plan = WindowPlan(mode, block=block, width=width, prefix=prefix)
    verified = 0
    while verified <= limit:
        size = plan.size(verified, limit)
        end = verified + size
        one_by_one = mode == "hgj" and prefix is not None and verified >= prefix
        whole = {"pj": limit + 1, "frontier": verified + width}.get(
            mode, (verified // block + 1) * block
        )
        if mode == "hgj" and prefix is not None:
            whole = min(whole, prefix)
        assert size >= 1 and end == (verified + 1 if one_by_one else min(whole, limit + 1))
        verified += data.draw(st.integers(1, size))
        # A block that is over has no answers left.
        assert plan.keeps_answers(verified) == (
            mode in ("frontier", "pj") or verified not in range(0, 99, block)
        )
