"""Random numbers that depend on nothing but their keys."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.training.hashing import Purpose, hash_uniform

MASK = (1 << 64) - 1


def splitmix(*keys):
    """The hash in plain Python integers."""

    def mix(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
        return value ^ (value >> 31)

    state = 0
    for key in keys:
        state = mix(
            state + 0x9E3779B97F4A7C15 + mix((key & MASK) + 0x9E3779B97F4A7C15 & MASK) & MASK
        )
    return (state >> 11) / 2.0**53


@given(keys=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=4))
def test_the_hash_is_splitmix64(keys):
    assert float(hash_uniform(*keys[:-1], torch.tensor(keys[-1]))) == splitmix(*keys)


def test_hashed_numbers_are_uniform_and_independent_of_their_batch():
    ids = torch.arange(20_000)
    numbers = hash_uniform(1, 7, ids, 3)
    counts = torch.histc(numbers, 20, 0, 1)
    assert (
        (counts - 1000) ** 2 / 1000
    ).sum() < 45  # chi square, 19 degrees of freedom, p about 0.0007
    order = torch.randperm(20_000)
    assert hash_uniform(1, 7, ids[order], 3).equal(numbers[order])
    for other in (
        hash_uniform(2, 7, ids, 3),
        hash_uniform(1, 8, ids, 3),
        hash_uniform(1, 7, ids, 4),
    ):
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.03


def test_keys_broadcast_and_one_must_be_a_tensor():
    grid = hash_uniform(torch.arange(3).unsqueeze(1), torch.arange(4))
    assert grid.shape == (3, 4) and float(grid[2, 1]) == splitmix(2, 1)
    with pytest.raises(ValueError, match="at least one tensor"):
        hash_uniform(1, 2)


def test_the_purposes_of_random_numbers_stay():
    """Another value would draw other numbers from the same seed."""
    names = (
        "RAW_TARGET CHUNKED CHUNK_SIZE MASK_COUNT MASK_ORDER GLANCED_VERTEX GLANCED_SHARE"
        " GRAPH_SCALE WALK GLANCED_POSITION".split()
    )
    assert {purpose.name: int(purpose) for purpose in Purpose} == dict(
        zip(names, (1, 2, 3, 4, 5, 11, 12, 13, 14, 21))
    )
    assert float(hash_uniform(1, 7, torch.tensor(3), Purpose.WALK)) == splitmix(1, 7, 3, 14)
