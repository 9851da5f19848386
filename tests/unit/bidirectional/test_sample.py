"""Training samples in slots, against a worked example and independent definitions."""

from types import SimpleNamespace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from walking import order_by_walking

from fairseq_hrt.bidirectional.sample import slot_sample, training_view

PAD, EOS = 1, 2


def test_a_worked_sample():
    targets = torch.tensor([[11, 12, 13, 14, 15, EOS], [11, 12, EOS, PAD, PAD, PAD]])
    sample = slot_sample(targets, 2, 4, start=EOS, pad=PAD, eos=EOS)
    assert sample.target.tolist() == [
        [11, 15, 12, 14, 13, EOS, PAD, PAD],
        [11, 12, EOS, PAD, PAD, PAD, PAD, PAD],
    ]
    assert sample.input.tolist() == [[EOS] * 4 + [11, 15, 12, 14], [EOS] * 4 + [11, 12, EOS, PAD]]
    taught = slot_sample(targets, 2, 4, start=EOS, pad=PAD, eos=EOS, train_dead_slots=True)
    assert torch.equal(taught.input, sample.input)
    assert taught.target.tolist() == [
        [11, 15, 12, 14, 13, EOS, EOS, EOS],
        [11, 12, EOS, EOS, PAD, PAD, PAD, PAD],
    ]


@settings(max_examples=40, deadline=None)
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


def view_of(targets, *, block=2, opposite=None, middle=False, **more):
    """The view for a decoder that writes from both ends."""
    decoder = SimpleNamespace(
        directions=2, block=block, padding_idx=PAD, dictionary=SimpleNamespace(eos=lambda: EOS),
        opposite_start=opposite, middle_to_side=middle,
    )  # fmt: skip
    return training_view(targets, decoder, **more)


def test_a_view_written_out():
    targets = torch.tensor([[4, 5, 6, 7, EOS]])
    view = view_of(targets)
    assert view.input.tolist() == [[EOS, EOS, 4, 7, 5, 6]]
    assert view.target.tolist() == [[4, 7, 5, 6, EOS, PAD]]
    dead = view_of(targets, block=4, train_dead_slots=True)
    assert dead.target.tolist() == [[4, 7, 5, 6, EOS, EOS, EOS, EOS]]
    middle = view_of(targets, middle=True)
    assert middle.target.tolist() == [[5, 6, 4, 7, EOS, PAD]]
    starts = view_of(targets, block=4, opposite=0)
    assert starts.input.tolist() == [[EOS, 0, EOS, 0, 4, 7, 5, 6]]
