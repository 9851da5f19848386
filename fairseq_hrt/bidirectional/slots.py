"""Order, positions and mask of the slots in which a target is generated; pure functions of a few
integers.

A target y_1 … y_n is generated slot by slot; slots are numbered from 0. With h directions slot t
belongs to direction t mod h, and z slots, one block, are predicted in one step. ``</s>`` is
appended after the words were put in order, in slot n, so N = n + 1 slots are scored. The decoder
reads z start symbols and then the words, delayed by z::

    h = 2, c = 1, n = 5     slot      0    1  |  2    3  |  4     5
                            word     y_1  y_5 | y_2  y_4 | y_3  </s>
                            input    <s>  <s> | y_1  y_5 | y_2  y_4
                            position +1   -1  | +2   -2  | +3   -3
"""

from typing import Optional

import torch
from torch import Tensor


def check_directions(directions: int) -> None:
    """Raises ValueError for a number of directions without a defined order."""
    if directions != 1 and (directions < 2 or directions % 2):
        raise ValueError(
            f"{directions} directions: give 1 (left to right), 2 (from both ends) or a larger even"
            " number"
        )


def natural_index(
    slots: Tensor, lengths: Tensor, directions: int, *, middle_to_side: bool = False
) -> Tensor:
    """Which word each slot holds (IBDecoder, Eq. 6 and 9).

    With h > 2 directions the sentence is cut into h / 2 contiguous segments, the longer ones first,
    each ordered as with two directions, and their words are taken in turn: the only split in which
    slot t always carries direction t mod h.

    Args:
        slots: LongTensor, t.
        lengths: LongTensor, n, broadcastable with ``slots``.
        directions: h.
        middle_to_side: with two directions, walk from the middle to both ends instead.

    Returns:
        LongTensor, the natural index (0 = first word); slots behind the last word map to
        themselves.
    """
    check_directions(directions)
    if directions == 1:
        index = slots + torch.zeros_like(lengths)
    elif middle_to_side:
        half = (lengths + 1) // 2
        index = torch.where(slots % 2 == 0, half - 1 - slots // 2, half + slots // 2)
    else:
        segments = directions // 2
        segment, place = slots % segments, slots // segments
        base, longer = lengths // segments, lengths % segments
        size = base + (segment < longer).long()
        start = segment * base + torch.minimum(segment, longer)
        index = start + torch.where(place % 2 == 0, place // 2, size - 1 - place // 2)
    return torch.where(slots < lengths, index, slots)


def slot_order(length: int, directions: int, *, middle_to_side: bool = False) -> Tensor:
    """Natural index of the word in each slot of a sentence: LongTensor ``[length]``; see
    :func:`natural_index`."""
    return natural_index(
        torch.arange(length), torch.tensor(length), directions, middle_to_side=middle_to_side
    )


def natural_order(length: int, directions: int, *, middle_to_side: bool = False) -> Tensor:
    """Slot of each word in natural order, the inverse of :func:`slot_order`: LongTensor
    ``[length]``."""
    return slot_order(length, directions, middle_to_side=middle_to_side).argsort()


def slot_positions(slots: int, directions: int) -> Tensor:
    """Position of each slot's prediction (IBDecoder, Eq. 7 and 8).

    Args:
        slots: how many.
        directions: h.

    Returns:
        One direction: LongTensor ``[slots]``, 0, 1, 2, … Two: +1, -1, +2, -2, …, counted from both
        ends. More: LongTensor ``[slots, 2]`` of (step, direction).
    """
    check_directions(directions)
    slot = torch.arange(slots)
    if directions == 1:
        return slot
    if directions == 2:
        return (slot // 2 + 1) * (1 - 2 * (slot % 2))
    return torch.stack([slot // directions, slot % directions], -1)


def start_symbols(
    slots: int, directions: int, *, start: int, opposite: Optional[int] = None
) -> Tensor:
    """What the decoder reads in the slots of the first step: LongTensor ``[slots]``.

    Args:
        slots: z.
        directions: h.
        start: id of the symbol before words that are written from left to right.
        opposite: and from right to left (from middle to side: to the right); None: the same, as in
            the paper.
    """
    check_directions(directions)
    symbols = torch.full((slots,), start)
    if opposite is None or directions == 1:
        return symbols
    backwards = torch.arange(slots) % directions >= directions // 2
    return symbols.masked_fill(backwards, opposite)


def slot_mask(
    slots: int, directions: int, tokens_per_step: int, *, independent: bool = False
) -> Tensor:
    """Which slot may attend which: all of its own block and of the blocks before (IBDecoder, Eq.
    4).

    Args:
        slots: how many.
        directions: h.
        tokens_per_step: c, words a direction emits in one step.
        independent: moreover only slots of the own direction (Table 2, "independent directions").

    Returns:
        BoolTensor ``[slots, slots]``, rows ask, True = may attend.
    """
    check_directions(directions)
    if tokens_per_step < 1:
        raise ValueError(f"{tokens_per_step} tokens per step: each direction emits at least one")
    slot = torch.arange(slots)
    block = slot // (directions * tokens_per_step)
    seen = block.unsqueeze(1) >= block
    return seen & (slot.unsqueeze(1) % directions == slot % directions) if independent else seen
