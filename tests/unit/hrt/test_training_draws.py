"""What is drawn for each sentence and update: shares, chunk sizes, masks, and that nothing else
matters."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.training_batch import draw_chunk_sizes, draw_masks
from fairseq_hrt.training.distillation import draw_raw

MANY = torch.arange(20_000)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_share_of_sentences_with_chunks(share):
    chunked = (draw_chunk_sizes(1, 5, MANY, share, [2]) > 1).double().mean().item()
    # Four standard errors; exact at the ends.
    assert abs(chunked - share) <= 4 * (share * (1 - share) / len(MANY)) ** 0.5


def test_chunk_sizes_are_equally_likely():
    sizes = draw_chunk_sizes(1, 5, MANY, 0.9, [2, 3, 4])
    counts = torch.tensor([(sizes == k).sum() for k in (1, 2, 3, 4)], dtype=torch.double)
    expected = torch.tensor([0.1, 0.3, 0.3, 0.3], dtype=torch.double) * len(MANY)
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-squared, 3 degrees, p = 0.001
    assert set(sizes.tolist()) == {1, 2, 3, 4}


def test_chunk_choice_does_not_follow_the_place_in_the_batch():
    # Batches are sorted by length, so that the place in the batch stands for the length.
    chunked = torch.cat(
        [(draw_chunk_sizes(1, u, 64 * u + torch.arange(64), 0.5, [2]) > 1) for u in range(200)]
    ).double()
    place = torch.arange(64.0).repeat(200)
    assert abs(torch.corrcoef(torch.stack([place.double(), chunked]))[0, 1]) < 0.04


def test_every_update_and_seed_draws_anew():
    draws = [draw_chunk_sizes(s, u, MANY, 0.5, [2]) > 1 for s, u in ((1, 1), (1, 2), (2, 1))]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        agreement = (draws[a] == draws[b]).double().mean()
        assert 0.48 < agreement < 0.52


def test_the_draws_of_one_sentence_are_independent():
    chunked = (draw_chunk_sizes(1, 5, MANY, 0.5, [2, 3]) > 1).double()
    size = (draw_chunk_sizes(1, 5, MANY, 1.0, [2, 3]) == 3).double()
    raw = draw_raw(1, 5, MANY, 0.5).double()
    count = draw_masks(1, 5, MANY, torch.full_like(MANY, 9), 9).sum(1).double()
    correlation = torch.corrcoef(torch.stack([chunked, size, raw, count]))
    assert (correlation - torch.eye(4, dtype=torch.double)).abs().max() < 0.03


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_share_of_raw_targets(probability):
    raw = draw_raw(1, 5, MANY, probability).double().mean().item()
    assert abs(raw - probability) <= 4 * (probability * (1 - probability) / len(MANY)) ** 0.5


def test_raw_targets_change_between_updates():
    assert (draw_raw(1, 5, MANY, 0.5) != draw_raw(1, 6, MANY, 0.5)).double().mean() > 0.4


def test_number_of_masks_is_uniform_from_one_to_length_minus_one():
    length = 7
    masks = draw_masks(1, 5, MANY, torch.full_like(MANY, length), length + 2)
    assert not masks[:, length:].any()
    counts = torch.bincount(masks.sum(1), minlength=length + 1).double()
    assert counts[0] == 0 and counts[length] == 0
    expected = len(MANY) / (length - 1)
    assert (
        (counts[1:length] - expected) ** 2 / expected
    ).sum() < 20.5  # chi-squared, 5 degrees, p = 0.001


def test_every_place_is_masked_equally_often_the_end_symbol_included():
    length = 6
    rates = draw_masks(1, 5, MANY, torch.full_like(MANY, length), length).double().mean(0)
    # Half of the tokens on average: the count is uniform in 1 … length - 1.
    assert (rates - 0.5).abs().max() < 0.02


@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_sentences_mask_one_token(length):
    masks = draw_masks(1, 5, MANY[:500], torch.full((500,), length), 4)
    assert masks.sum(1).eq(1).all() and not masks[:, length:].any()
    assert masks[:, :length].any(0).all()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 9)), min_size=1, max_size=8),
    st.randoms(),
    st.integers(0, 3),
)
def test_the_batch_changes_nothing(rows, random, extra):
    ids, lengths = (torch.tensor(column) for column in zip(*rows))
    order = list(range(len(rows)))
    random.shuffle(order)
    width = int(lengths.max())
    masks, sizes, raw = (
        draw_masks(3, 7, ids, lengths, width),
        draw_chunk_sizes(3, 7, ids, 0.6, [2, 3]),
        draw_raw(3, 7, ids, 0.4),
    )
    others = order[: len(rows) // 2 + 1]
    assert torch.equal(
        masks[others], draw_masks(3, 7, ids[others], lengths[others], width + extra)[:, :width]
    )
    assert torch.equal(sizes[others], draw_chunk_sizes(3, 7, ids[others], 0.6, [2, 3]))
    assert torch.equal(raw[others], draw_raw(3, 7, ids[others], 0.4))
