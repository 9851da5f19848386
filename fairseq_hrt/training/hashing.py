"""Draws random numbers by hashing.

A random number generator with a state gives different numbers when the number of workers or
processes changes, or training is resumed. Here every number is a hash of (seed, update, sentence
id, purpose, …): a sentence draws the same number in the same update on any device and in any batch.
"""

from enum import IntEnum, unique
from typing import List, Union

import torch
from torch import Tensor

from ..ops import fused

_MASK_53, _MASK_64 = (1 << 53) - 1, (1 << 64) - 1


@unique
class Purpose(IntEnum):
    """What a random number is used for; part of the hash, so that different uses get independent
    numbers. Changing a value changes the results of trainings."""

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
    # connectionist temporal classification
    GLANCED_POSITION = 21


def _signed(value: int) -> int:
    """The signed 64-bit integer with the same bits as the unsigned ``value``."""
    return value - (1 << 64) if value >= 1 << 63 else value


# Constants of splitmix64 (Steele et al., 2014).
_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Shifts int64 values right by ``bits`` and fills with zeros; ``>>`` would copy the sign
    bit."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    """The finaliser of splitmix64 for an int64 tensor, whose products are modulo 2 ** 64, as the
    finaliser needs them."""
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)


def _mix_number(value: int) -> int:
    """The same as :func:`_mix` for a Python integer; the result is signed."""
    value &= _MASK_64
    value = (value ^ (value >> 30)) * _FIRST & _MASK_64
    value = (value ^ (value >> 27)) * _SECOND & _MASK_64
    return _signed(value ^ (value >> 31))


def hash_uniform(*keys: Union[int, Tensor]) -> Tensor:
    """Random numbers, uniform in [0, 1): a hash of each combination of keys. The order of the keys
    matters.

    Args:
        keys: integers and LongTensors that broadcast against each other, at least one tensor.

    Returns:
        float64 tensor of the broadcast shape.
    """
    tensors = [key for key in keys if isinstance(key, Tensor)]
    if not tensors:
        raise ValueError(
            "hash_uniform needs at least one tensor among its keys: the tensor determines the"
            " device and the shape of the result"
        )
    # Integers are hashed by the host: each would be sent to the device, and the host wait for it.
    mixed = [
        key.to(tensors[0].device, torch.long)
        if isinstance(key, Tensor)
        else _mix_number(int(key) + _GOLDEN)
        for key in keys
    ]
    first = 0
    for number, key in enumerate(mixed):
        if isinstance(key, Tensor):
            return _hash_tensors(first, mixed[number:])
        first = _mix_number(first + _GOLDEN + key)
    raise AssertionError("not reached: one of the keys is a tensor")


def _hash_tensors(first: int, keys: List[Union[int, Tensor]]) -> Tensor:
    """The result of :func:`hash_uniform`: continues the hash ``first`` of its leading integers with
    the remaining ``keys``, which begin with a tensor; integers among these have passed
    :func:`_mix_number`."""
    device = next(key.device for key in keys if isinstance(key, Tensor))
    if fused.available(device):
        from ..ops.fused import hashing

        groups = hashing.grouped(keys)
        if groups is not None:
            return hashing.absorb(first, groups)
    state: Union[int, Tensor] = first
    for key in keys:
        mixed = _mix(key + _GOLDEN) if isinstance(key, Tensor) else key
        total = _golden(state) + mixed
        # Keys begin with a tensor.
        assert isinstance(total, Tensor)
        state = _mix(total)
    assert isinstance(state, Tensor)
    return (_shift(state, 11) & _MASK_53).double() * 2.0**-53  # of the broadcast shape


def _golden(value: Union[int, Tensor]) -> Union[int, Tensor]:
    """``value`` plus splitmix64's golden-ratio constant, modulo 2 ** 64."""
    if isinstance(value, Tensor):
        return value + _GOLDEN
    return _signed(value + _GOLDEN & _MASK_64)
