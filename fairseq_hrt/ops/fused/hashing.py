"""Hashes of several keys by one kernel for each tensor, instead of fifty operations on integers."""

from typing import List, Optional, Sequence, Tuple, Union

import torch
import triton
import triton.language as tl
from torch import Tensor

# Constants of splitmix64 (Steele et al., 2014).
_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND = tl.constexpr(0x94D049BB133111EB)
_BLOCK = 256
# The most integers between two tensors that one launch takes.
_MOST_NUMBERS = 2


@triton.jit
def _mix(value):
    value = (value ^ (value >> 30)) * _FIRST
    value = (value ^ (value >> 27)) * _SECOND
    return value ^ (value >> 31)


@triton.jit(
    do_not_specialize=[
        "number", "columns", "count", "state_row", "state_column", "key_row", "key_column",
        "one", "two",
    ]
)  # fmt: skip
def _absorb_kernel(
    state,
    number,
    key,
    result,
    columns,
    count,
    state_row,
    state_column,
    key_row,
    key_column,
    one,
    two,
    HAS_STATE: tl.constexpr,
    NUMBERS: tl.constexpr,
    ENDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Mixes a key and then up to two integers into the state of a hash, by element.

    Args:
        state: [rows, columns], the state, read if HAS_STATE.
        number: the state of all elements, read unless HAS_STATE.
        key: [rows, columns].
        result: [rows, columns], the next state; if ENDS, float64 in [0, 1) made from that.
        columns, count: the columns and the number of elements.
        state_row, state_column, key_row, key_column: strides of ``state`` and ``key``.
        one, two: the integers, already hashed; NUMBERS of them are used.
        BLOCK: elements of a program.
    """
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = place // columns
    column = place % columns
    own = tl.load(key + row * key_row + column * key_column, mask=inside, other=0)
    if HAS_STATE:
        before = tl.load(state + row * state_row + column * state_column, mask=inside, other=0)
        value = before.to(tl.uint64)
    else:
        value = tl.zeros((BLOCK,), tl.int64).to(tl.uint64) + number.to(tl.int64).to(tl.uint64)
    value = _mix(value + _GOLDEN + _mix(own.to(tl.uint64) + _GOLDEN))
    if NUMBERS > 0:
        value = _mix(value + _GOLDEN + one.to(tl.int64).to(tl.uint64))
    if NUMBERS > 1:
        value = _mix(value + _GOLDEN + two.to(tl.int64).to(tl.uint64))
    if ENDS:
        # 53 bits, which float64 holds exactly.
        tl.store(result + place, (value >> 11).to(tl.int64).to(tl.float64) * 2.0**-53, mask=inside)
    else:
        tl.store(result + place, value.to(tl.int64), mask=inside)


def grouped(
    keys: Sequence[Union[int, Tensor]],
) -> Optional[List[Tuple[Tensor, List[int]]]]:
    """Groups ``keys``, of which the first is a tensor, as pairs (tensor, list of the integers that
    follow it up to the next tensor). None if more than two integers follow a tensor, or if a tensor
    has more than two dimensions: the kernel supports neither."""
    groups: List[Tuple[Tensor, List[int]]] = []
    for key in keys:
        if isinstance(key, Tensor):
            groups.append((key, []))
        else:
            groups[-1][1].append(key)
    fits = all(key.dim() <= 2 and len(numbers) <= _MOST_NUMBERS for key, numbers in groups)
    return groups if fits else None


def absorb(state: int, groups: Sequence[Tuple[Tensor, List[int]]]) -> Tensor:
    """The random numbers in [0, 1) of ``training.hash_uniform``: float64, of the shape to which the
    tensors broadcast.

    Args:
        state: the hash of the integers before the first tensor, as a signed 64-bit integer.
        groups: the result of :func:`grouped`; its integers are hashed already, as
            ``training.hash_uniform`` does on the host.
    """
    found: Optional[Tensor] = None
    for number, (key, numbers) in enumerate(groups):
        ends = number == len(groups) - 1
        shape = key.shape if found is None else torch.broadcast_shapes(found.shape, key.shape)
        result = torch.empty(shape, dtype=torch.double if ends else torch.long, device=key.device)
        rows, columns = (1, 1, *shape)[-2:]
        wide = key.expand(shape).view((1,) * (2 - len(shape)) + tuple(shape))
        held = wide if found is None else found.expand(shape).view(wide.shape)
        one, two = (*numbers, 0, 0)[:2]
        if result.numel():
            with torch.cuda.device_of(key):
                _absorb_kernel[(triton.cdiv(rows * columns, _BLOCK),)](
                    held, state, wide, result, columns, rows * columns,
                    *held.stride(), *wide.stride(), one, two,
                    HAS_STATE=found is not None, NUMBERS=len(numbers), ENDS=ends, BLOCK=_BLOCK,
                )  # fmt: skip
        found = result
    assert found is not None
    return found
