"""Order, positions and attention mask of slots: the decoder's positions in the order of writing.

Slots are numbered from 0. With h directions slot t belongs to direction t mod h; a block of z slots
is predicted in one step. ``</s>`` takes slot n, after the n words, so that N = n + 1 slots are
scored. The decoder reads z start symbols and then the words, z slots later than they are written::

    h = 2, c = 1, n = 5     slot      0    1  |  2    3  |  4     5
                            word     y_1  y_5 | y_2  y_4 | y_3  </s>
                            input    <s>  <s> | y_1  y_5 | y_2  y_4
                            position +1   -1  | +2   -2  | +3   -3
"""

from typing import Optional

import torch
from torch import Tensor


def check_directions(directions: int) -> None:
    """Raises ValueError unless the number of directions of writing is 1 or positive and even."""
    if directions != 1 and (directions < 2 or directions % 2):
        raise ValueError(
            f"--bidirectional-directions {directions}: give 1 (left to right), 2 (from both ends)"
            " or a larger even number"
        )


def natural_index(
    slots: Tensor, lengths: Tensor, directions: int, *, middle_to_side: bool = False
) -> Tensor:
    """The index in the sentence of the word that each slot holds; slots are numbered from 0 in the
    order of writing (IBDecoder, Eq. 6 and 9).

    With h > 2 directions the sentence is split into h / 2 contiguous segments, the longer ones
    first. Each is ordered as with two directions, and their words are taken in turn: y_1 y_4 y_3
    y_6 y_2 y_5 for h = 4 and n = 6. Only in this split slot t always has direction t mod h.

    Args:
        slots: LongTensor, the slots t.
        lengths: LongTensor, n, the words of the sentence; broadcastable with ``slots``.
        directions: h, the directions of writing.
        middle_to_side: with two directions, write from the middle to both ends instead.

    Returns:
        LongTensor, the index of the word (0 = first word); slots after the last word map to
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


def slot_positions(slots: int, directions: int) -> Tensor:
    """The positions of the first ``slots`` slots (IBDecoder, Eq. 7 and 8) with ``directions``
    directions of writing.

    Returns:
        One direction: LongTensor ``[slots]``, 0, 1, 2, … Two: +1, -1, +2, -2, …, counted from both
        ends. More: LongTensor ``[slots, 2]`` of (step, direction).
    """
    check_directions(directions)
    slot = torch.arange(slots)  # [slots]
    if directions == 1:
        return slot
    if directions == 2:
        return (slot // 2 + 1) * (1 - 2 * (slot % 2))  # [slots]
    return torch.stack([slot // directions, slot % directions], -1)  # [slots, 2]


def start_symbols(
    slots: int, directions: int, *, start: int, opposite: Optional[int] = None
) -> Tensor:
    """The decoder's inputs in the first step: LongTensor ``[slots]``.

    Args:
        slots: z, the words of a step.
        directions: h, the directions of writing.
        start: id of the start symbol of left-to-right directions.
        opposite: id of the start symbol of right-to-left directions (with middle_to_side: of the
            direction that writes towards the right end); None: ``start``, as in the paper.
    """
    check_directions(directions)
    symbols = torch.full((slots,), start)  # [z]
    if opposite is None or directions == 1:
        return symbols
    backwards = torch.arange(slots) % directions >= directions // 2  # [z]
    return symbols.masked_fill(backwards, opposite)


def slot_mask(
    slots: int, directions: int, tokens_per_step: int, *, independent: bool = False
) -> Tensor:
    """The attention mask of slots: each attends to its own block and earlier ones (IBDecoder, Eq.
    4).

    Args:
        slots: the number of slots.
        directions: h, the directions of writing.
        tokens_per_step: c, the words that each direction writes per step.
        independent: attend only to slots of the same direction (Table 2, "independent directions").

    Returns:
        BoolTensor ``[slots, slots]`` of (query, key), True where the query may attend to the key.
    """
    check_directions(directions)
    if tokens_per_step < 1:
        raise ValueError(
            f"tokens_per_step {tokens_per_step}: each direction must write at least 1 token a step"
        )
    slot = torch.arange(slots)  # [slots]
    block = slot // (directions * tokens_per_step)  # [slots]
    seen = block.unsqueeze(1) >= block  # [slots, slots]
    return seen & (slot.unsqueeze(1) % directions == slot % directions) if independent else seen
