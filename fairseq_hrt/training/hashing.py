"""Random numbers that depend on nothing but what they are for.

A generator with a state gives other numbers for another number of workers, processes or resumed
updates. Here every number is a hash of (seed, update, sentence, purpose, …), computed on the device
of its arguments: the same sentence in the same update draws the same number wherever and in
whatever batch it is trained.
"""

from enum import IntEnum, unique
from typing import Union

import torch
from torch import Tensor

_MASK_53 = (1 << 53) - 1


@unique
class Purpose(IntEnum):
    """What a random number is drawn for. The values are part of the hash: with others a seed would
    give another training."""

    RAW_TARGET = 1
    # hybrid-regressive
    CHUNKED = 2
    CHUNK_SIZE = 3
    MASK_COUNT = 4
    MASK_ORDER = 5
    # directed acyclic
    GLANCED_VERTEX = 11
    GLANCED_SHARE = 12
    GRAPH_SCALE = 13
    WALK = 14


def _signed(value: int) -> int:
    """A 64-bit pattern as the int64 that holds it."""
    return value - (1 << 64) if value >= 1 << 63 else value


# Constants of splitmix64 (Steele et al., 2014).
_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Logical right shift; that of int64 tensors copies the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    """The finaliser of splitmix64; int64 products wrap around as it needs."""
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)


def hash_uniform(*keys: Union[int, Tensor]) -> Tensor:
    """Uniform numbers in [0, 1), one for each combination of keys.

    Args:
        keys: integers and LongTensors that broadcast against each other, at least one tensor; their
            order matters.

    Returns:
        float64 tensor of the broadcast shape.
    """
    tensors = [key for key in keys if isinstance(key, Tensor)]
    if not tensors:
        raise ValueError(
            "hash_uniform needs at least one tensor among its keys: it tells the device and the"
            " shape"
        )
    state = torch.zeros((), dtype=torch.long, device=tensors[0].device)
    for key in keys:
        state = _mix(
            state
            + _GOLDEN
            + _mix(torch.as_tensor(key, dtype=torch.long, device=state.device) + _GOLDEN)
        )
    return (_shift(state, 11) & _MASK_53).double() * 2.0**-53
