"""Turns a batch into HRT's training samples, as a pure function of batch, update and decoder:
random choices are hashes of seed, update and sentence id."""

from typing import Any, Dict, Sequence

import torch
from torch import Tensor

from ..training import Purpose, hash_uniform
from .decoder import HRTDecoder
from .sample import TrainingViews, training_views


def draw_views(
    sample: Dict[str, Any],
    update: int,
    share: float,
    decoder: HRTDecoder,
    *,
    seed: int,
) -> TrainingViews:
    """The training samples of a batch (HRT, Algorithm 1).

    Args:
        sample: fairseq's batch, right-padded; ``target`` has the targets to train on.
        update: number of the update.
        share: p_k, the probability that a sentence is trained with chunks.
        decoder: the model's decoder, which has the chunk sizes to draw from.
        seed: seed of the hashes.
    """
    ids, pad, targets = sample["id"], decoder.padding_idx, sample["target"]
    chunk_sizes = draw_chunk_sizes(seed, update, ids, share, decoder.chunk_sizes)
    return training_views(
        targets,
        chunk_sizes,
        starts=decoder.start_symbols(chunk_sizes),
        masked=draw_masks(seed, update, ids, targets.ne(pad).sum(1), targets.size(1)),
        eos=decoder.eos,
        mask=decoder.mask,
        pad=pad,
        learn_tail=decoder.learn_tail,
    )


def draw_chunk_sizes(
    seed: int, update: int, ids: Tensor, share: float, chunk_sizes: Sequence[int]
) -> Tensor:
    """Draws the chunk size K of each sentence in an update: with probability ``share`` one of
    ``chunk_sizes``, all equally likely, else 1 (no chunks).

    Each sentence draws for itself: batches are sorted by length, so that taking the first rows of a
    batch would tie K to the length.

    Args:
        seed, update: seed of the training and number of the update, hashed with the ids.
        ids: LongTensor ``[B]``, sentence ids.

    Returns:
        LongTensor ``[B]``.
    """
    chunked = hash_uniform(seed, update, ids, Purpose.CHUNKED) < share  # [B]
    choice = (hash_uniform(seed, update, ids, Purpose.CHUNK_SIZE) * len(chunk_sizes)).long()  # [B]
    # So few numbers are sent without waiting for the device.
    sizes = torch.tensor(list(chunk_sizes)).to(ids.device, non_blocking=True)  # [sizes]
    return torch.where(chunked, sizes[choice], 1)


def draw_masks(seed: int, update: int, ids: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Draws the tokens that CMLM masks (Ghazvininejad et al., 2019): their number is uniform in
    1 … length - 1, and ``</s>`` may be among them. If ``</s>`` is the only token, it is masked.

    Args:
        seed, update: seed of the training and number of the update, hashed with the ids.
        ids: LongTensor ``[B]``, sentence ids.
        lengths: LongTensor ``[B]``, target tokens with ``</s>``.
        width: T, the columns of the result, at least the largest length.

    Returns:
        BoolTensor ``[B, T]``, True for masked tokens.
    """
    spread = (lengths - 1).clamp(min=1)  # [B]
    count = 1 + (hash_uniform(seed, update, ids, Purpose.MASK_COUNT) * spread).long()  # [B]
    places = torch.arange(width, device=ids.device)  # [T]
    order = hash_uniform(seed, update, ids.unsqueeze(1), Purpose.MASK_ORDER, places)  # [B, T]
    order = order.masked_fill(places >= lengths.unsqueeze(1), float("inf"))
    rank = order.argsort(1).argsort(1)  # [B, T], 0 … length - 1 in random order
    return rank < count.unsqueeze(1)  # [B, T]
