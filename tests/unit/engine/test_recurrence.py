"""Scans give what the recurrence gives, written out."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.recurrence import recur, scan


@settings(max_examples=18, deadline=None)
@given(
    rows=st.integers(1, 3), count=st.integers(1, 40), width=st.integers(1, 3),
    seed=st.integers(0, 99), sharpness=st.sampled_from([0.1, 1.0, 300.0]),
)  # fmt: skip
def test_scans(rows, count, width, seed, sharpness):
    """Gates that are 0 or 1 in floating point among them."""
    generator = torch.Generator().manual_seed(seed)
    gates, fresh = (
        torch.randn(rows, count, width, generator=generator, dtype=torch.double) for _ in range(2)
    )
    gates, before = (
        torch.sigmoid(sharpness * gates),
        torch.randn(rows, width, generator=generator, dtype=torch.double),
    )
    state, expected = before, []
    for place in range(count):
        state = gates[:, place] * state + fresh[:, place]
        expected.append(state)
    expected = torch.stack(expected, 1)
    kept = gates.clone(), fresh.clone(), before.clone()
    torch.testing.assert_close(scan(gates, fresh, before), expected)
    # recur multiplies by 1 - gates, which is divided by here: gates next to 1 cannot be.
    divisible = (1 - gates).gt(1e-6).all(2).all(1)
    torch.testing.assert_close(
        recur(gates, fresh / (1 - gates).clamp(min=1e-9), before)[divisible], expected[divisible]
    )
    assert all(one.equal(other) for one, other in zip(kept, (gates, fresh, before)))
