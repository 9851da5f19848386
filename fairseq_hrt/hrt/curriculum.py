"""Which sentence is trained how in which update: every choice is a hash of seed, update and
sentence."""

from typing import Sequence

import torch
from torch import Tensor

from ..training import Purpose, hash_uniform


def draw_chunk_sizes(
    seed: int, update: int, ids: Tensor, share: float, chunk_sizes: Sequence[int]
) -> Tensor:
    """K of each sentence: 1, or with probability ``share`` one of ``chunk_sizes``, all equally
    likely.

    Drawn sentence by sentence: taking the first rows of a batch, which is sorted by length, would
    tie K to the length.

    Returns:
        LongTensor ``[B]``.
    """
    chunked = hash_uniform(seed, update, ids, Purpose.CHUNKED) < share
    choice = (hash_uniform(seed, update, ids, Purpose.CHUNK_SIZE) * len(chunk_sizes)).long()
    sizes = torch.tensor(list(chunk_sizes), device=ids.device)
    return torch.where(chunked, sizes[choice], 1)


def draw_masks(seed: int, update: int, ids: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Positions that CMLM masks, ``</s>`` among them: uniformly many of 1 … length - 1
    (Ghazvininejad et al., 2019).

    A sentence of one token (``</s>`` alone) masks that one.

    Args:
        ids: LongTensor ``[B]``.
        lengths: LongTensor ``[B]``, tokens with ``</s>``.
        width: T.

    Returns:
        BoolTensor ``[B, T]``.
    """
    spread = (lengths - 1).clamp(min=1)
    count = 1 + (hash_uniform(seed, update, ids, Purpose.MASK_COUNT) * spread).long()
    places = torch.arange(width, device=ids.device)
    order = hash_uniform(seed, update, ids.unsqueeze(1), Purpose.MASK_ORDER, places)
    order = order.masked_fill(places >= lengths.unsqueeze(1), float("inf"))
    rank = order.argsort(1).argsort(1)
    return rank < count.unsqueeze(1)
