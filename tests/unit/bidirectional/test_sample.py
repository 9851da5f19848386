"""Order, positions, mask and training samples, against the worked examples and independent definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.bidirectional.sample import (
    deduplicate,
    natural_index,
    natural_order,
    slot_mask,
    slot_order,
    slot_positions,
    slot_sample,
)

PAD, EOS = 1, 2
DIRECTIONS = [1, 2, 4, 6, 8]


def order_by_walking(length, directions):
    """The order, by taking words from both ends of each segment in turn."""
    if directions == 1:
        return list(range(length))
    segments, begin = [], 0
    for number in range(directions // 2):
        size = length // (directions // 2) + (number < length % (directions // 2))
        segments.append(list(range(begin, begin + size)))
        begin += size
    walks = []
    for segment in segments:
        walk, left = [], True
        while segment:
            walk.append(segment.pop(0 if left else -1))
            left = not left
        walks.append(walk)
    order = []
    for place in range(length):
        order += [walk[place] for walk in walks if place < len(walk)]
    return order


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
def test_order_and_inverse(directions, middle):
    for length in range(65):
        order = slot_order(length, directions, middle_to_side=middle)
        back = natural_order(length, directions, middle_to_side=middle)
        assert order[back].tolist() == back[order].tolist() == list(range(length))


@pytest.mark.parametrize("directions", DIRECTIONS[1:])
def test_a_slot_always_has_the_same_direction(directions):
    """Even walks go right, odd ones left, and slot t belongs to walk t mod h whatever the length."""
    for length in range(1, 40):
        order = slot_order(length, directions).tolist()
        for direction in range(directions):
            walk = order[direction::directions]
            right = direction < directions // 2
            assert walk == sorted(walk, reverse=not right)


def test_lengths_of_a_batch():
    slots, lengths = torch.arange(9), torch.tensor([[7], [0], [4]])
    for row, length in zip(natural_index(slots, lengths, 4), (7, 0, 4)):
        assert row[:length].tolist() == slot_order(length, 4).tolist()
        assert row[length:].tolist() == list(range(length, 9))


def test_positions():
    assert slot_positions(5, 1).tolist() == [0, 1, 2, 3, 4]
    assert slot_positions(6, 2).tolist() == [1, -1, 2, -2, 3, -3]
    assert slot_positions(6, 4).tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]]


@pytest.mark.parametrize("directions, tokens_per_step", [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1), (2, 8)])
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
    with pytest.raises(ValueError, match=f"{directions} directions"):
        slot_order(5, directions)


def test_a_worked_sample():
    targets = torch.tensor([[11, 12, 13, 14, 15, EOS], [11, 12, EOS, PAD, PAD, PAD]])
    sample = slot_sample(targets, 2, 4, start=EOS, pad=PAD, eos=EOS)
    assert sample.target.tolist() == [[11, 15, 12, 14, 13, EOS, PAD, PAD], [11, 12, EOS, PAD, PAD, PAD, PAD, PAD]]
    assert sample.input.tolist() == [[EOS] * 4 + [11, 15, 12, 14], [EOS] * 4 + [11, 12, EOS, PAD]]
    taught = slot_sample(targets, 2, 4, start=EOS, pad=PAD, eos=EOS, train_dead_slots=True)
    assert torch.equal(taught.input, sample.input)
    assert taught.target.tolist() == [[11, 15, 12, 14, 13, EOS, EOS, EOS], [11, 12, EOS, EOS, PAD, PAD, PAD, PAD]]


@settings(max_examples=150, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    shape=st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2), (2, 8), (4, 4), (6, 6)]),
)
def test_properties_of_samples(lengths, shape):
    directions, block = shape[0], shape[0] * shape[1] if shape[0] < 4 else shape[1]
    targets = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in zip(targets, lengths):
        row[: length + 1] = torch.tensor([*range(10, 10 + length), EOS])
    sample = slot_sample(targets, directions, block, start=3, pad=PAD, eos=EOS)
    assert sample.input.shape == sample.target.shape and sample.input.size(1) % block == 0
    for length, given_input, target in zip(lengths, sample.input.tolist(), sample.target.tolist()):
        words = [10 + index for index in order_by_walking(length, directions)]
        assert target == words + [EOS] + [PAD] * (len(target) - length - 1)
        own = -(-(length + 1) // block) * block
        # The whole last block, dead slots included, reads start symbols and real words only.
        assert given_input[:own] == ([3] * block + words)[:own]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""), ("a", "a"), ("a a", "a"), ("a a a b", "a b"), ("a b a b c", "a b c"), ("a b c d a b c d", "a b c d"),
        ("a b a", "a b a"), ("x y y x y y x", "x y x"), ("a b b a b b", "a b"),
    ],
)  # fmt: skip
def test_repetitions_are_collapsed(text, expected):
    words, kept = deduplicate(text.split())
    assert " ".join(words) == expected and [text.split()[place] for place in kept] == words


@given(words=st.lists(st.sampled_from("ab"), max_size=14))
def test_nothing_repeats_after_deduplication(words):
    kept, places = deduplicate(words)
    assert places == sorted(set(places)) and deduplicate(kept)[0] == kept
    for size in range(1, 5):
        assert all(kept[i : i + size] != kept[i + size : i + 2 * size] for i in range(len(kept) - 2 * size + 1))
