"""What a search has chosen, brought to the host: bit by bit the same, with one transfer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated_device import SimulatedDevice

from fairseq_hrt.engine.transfer import lists_to_host, to_host

INF, NAN = float("inf"), float("nan")
ODD = [-INF, INF, NAN, -0.0, 1e-45, 3.4e38, 0.1]


@given(
    dtype=st.sampled_from([torch.float32, torch.float64]),
    kept=st.sampled_from([torch.int32, torch.int64]),
    rows=st.integers(1, 3),
    ids=st.lists(st.sampled_from([0, 1, 2**24 + 1, 2**31 - 1]), min_size=1, max_size=4),
)
def test_every_bit_arrives(dtype, kept, rows, ids):
    numbers = torch.tensor(ODD, dtype=dtype).repeat(rows, 2, 1)
    found, tokens = to_host(numbers, torch.tensor(ids, dtype=kept).repeat(rows, 2, 1))
    bits = torch.int32 if dtype is torch.float32 else torch.int64
    assert found.dtype is dtype and found.view(bits).equal(numbers.view(bits))
    assert tokens.dtype is torch.long and tokens.tolist() == [[ids] * 2] * rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_transfer_of_both(dtype):
    ids, numbers = (
        torch.tensor([[2**24, 5], [0, 7]]),
        torch.tensor([[-INF, 0.1], [-0.5, -1e30]], dtype=dtype),
    )
    expected = ids.tolist(), numbers.tolist()
    assert lists_to_host(ids, numbers) == expected
    with SimulatedDevice() as device:
        there = device.send(ids), device.send(numbers)
        assert lists_to_host(*there) == expected and device.reads == 1
        assert all(isinstance(token, int) for row in lists_to_host(*there)[0] for token in row)
        reads = device.reads
        found, tokens = to_host(there[1], there[0])
        assert device.reads == reads + 1 and (tokens.tolist(), found.tolist()) == expected
