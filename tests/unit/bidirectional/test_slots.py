"""Order, positions and mask, against the worked examples and independent definitions."""

import pytest
import torch
from walking import order_by_walking

from fairseq_hrt.bidirectional.slots import (
    natural_index,
    slot_mask,
    slot_positions,
    start_symbols,
)

DIRECTIONS = [1, 2, 4, 6, 8]


def slot_order(length, directions, **options):
    """The index of the word that each slot holds, for one sentence."""
    return natural_index(torch.arange(length), torch.tensor(length), directions, **options)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_the_order_equals_walking(directions):
    for length in range(65):
        order = slot_order(length, directions)
        assert order.dtype == torch.long and order.tolist() == order_by_walking(length, directions)


def test_examples_of_the_paper():
    """Figure 1, n = 6."""
    assert (slot_order(6, 2) + 1).tolist() == [1, 6, 2, 5, 3, 4]
    assert (slot_order(6, 4) + 1).tolist() == [1, 4, 3, 6, 2, 5]
    assert (slot_order(5, 2) + 1).tolist() == [1, 5, 2, 4, 3]
    assert (slot_order(5, 2, middle_to_side=True) + 1).tolist() == [3, 4, 2, 5, 1]


@pytest.mark.parametrize("directions, middle", [*((h, False) for h in DIRECTIONS), (2, True)])
def test_every_word_has_a_slot(directions, middle):
    for length in range(65):
        order = slot_order(length, directions, middle_to_side=middle)
        assert sorted(order.tolist()) == list(range(length))


@pytest.mark.parametrize("directions", DIRECTIONS[1:])
def test_a_slot_always_has_the_same_direction(directions):
    """Even walks go right, odd ones left, and slot t belongs to walk t mod h whatever the
    length."""
    for length in range(1, 40):
        order = slot_order(length, directions).tolist()
        for direction in range(directions):
            walk = order[direction::directions]
            right = direction < directions // 2
            assert walk == sorted(walk, reverse=not right)


@pytest.mark.parametrize(
    "directions, count", [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1), (4, 2), (6, 1)]
)
def test_start_symbols_say_where_a_direction_goes(directions, count):
    slots, order = directions * count, slot_order(60, directions)
    found = start_symbols(slots, directions, start=2, opposite=0)
    assert found.tolist() == [
        2 if order[slot] < order[slot + directions] else 0 for slot in range(slots)
    ]
    assert start_symbols(slots, directions, start=2).tolist() == [2] * slots


def test_lengths_of_a_batch():
    slots, lengths = torch.arange(9), torch.tensor([[7], [0], [4]])
    for row, length in zip(natural_index(slots, lengths, 4), (7, 0, 4)):
        assert row[:length].tolist() == slot_order(length, 4).tolist()
        assert row[length:].tolist() == list(range(length, 9))


def test_positions():
    assert slot_positions(5, 1).tolist() == [0, 1, 2, 3, 4]
    assert slot_positions(6, 2).tolist() == [1, -1, 2, -2, 3, -3]
    assert slot_positions(6, 4).tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]]


@pytest.mark.parametrize(
    "directions, tokens_per_step", [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1), (2, 8)]
)
@pytest.mark.parametrize("independent", [False, True])
def test_mask_by_its_definition(directions, tokens_per_step, independent):
    z = directions * tokens_per_step
    mask = slot_mask(11, directions, tokens_per_step, independent=independent)
    for i in range(1, 12):
        for j in range(1, 12):
            allowed = -(-i // z) >= -(-j // z) and (not independent or (i - j) % directions == 0)
            assert mask[i - 1, j - 1] == allowed


@pytest.mark.parametrize("directions", [0, 3, -2, 5])
def test_directions_without_an_order_are_refused(directions):
    with pytest.raises(ValueError, match=f"--bidirectional-directions {directions}: give 1"):
        slot_order(5, directions)
