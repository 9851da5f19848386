"""The end of a greedy step against its reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.fused import close_step
from fairseq_hrt.engine.fused import step as module
from fairseq_hrt.engine.fused.step import close_step_reference

EOS = 2


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9), count=st.integers(1, 3), done=st.integers(0, 3), seed=st.integers(0, 99)
)
def test_equal_to_the_reference(device, rows, count, done, seed):
    module.ROWS_AT_ONCE = 4
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 5, (rows, count), generator=generator)
    best = torch.randn(rows, count, generator=generator)
    found = []
    for close in (close_step, close_step_reference):
        state = dict(
            tokens=torch.zeros(rows, count, dtype=torch.long),
            numbers=torch.full((4, rows, count), -7.0),
            ids=torch.full((4, rows, count), -7),
            is_open=torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < 0.7,
            done=torch.tensor([done]),
        )
        state = {name: part.to(device) for name, part in state.items()}
        close(best.to(device), words.to(device), **state, eos=EOS)
        found.append(state)
    for name, part in found[0].items():
        assert torch.equal(part, found[1][name]), name


@pytest.mark.parametrize("ended, left", [([], True), ([1], False)])
def test_a_row_is_closed_by_an_end_anywhere(ended, left):
    words = torch.tensor([[EOS if place in ended else 4 for place in range(3)]])
    is_open = torch.tensor([True])
    close_step(
        torch.zeros(1, 3), words, tokens=torch.zeros(1, 3, dtype=torch.long),
        numbers=torch.zeros(1, 1, 3), ids=torch.zeros(1, 1, 3, dtype=torch.long),
        is_open=is_open, done=torch.tensor([0]), eos=EOS,
    )  # fmt: skip
    assert bool(is_open) is left
