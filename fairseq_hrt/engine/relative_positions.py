"""Relative position vectors (Shaw et al., 2018), looked up by clipped distances between tokens."""

from typing import Optional

import torch
from torch import Tensor


def relative_index(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Row of the relative position table for every pair of a query and a key.

    Args:
        queries: LongTensor ``[..., q]``, positions of the queries in the sentence.
        keys: LongTensor ``[..., T]``, positions of the keys.
        window: w, the distance at which distances are clipped; the table has 2w + 1 rows.

    Returns:
        LongTensor ``[..., q, T]``: clip(key - query, -w, w) + w; below w for keys left of the
        query.
    """
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp_(-window, window).add_(window)


class EvenDistances:
    """Relative position vectors of tokens that stand ``stride`` apart, sorted by distance.

    Token i (in slot i) stands at position i * stride, so that the vector of query i for key j
    depends only on j - i. The vectors of one query for keys 0, 1, 2, … are consecutive rows of one
    table; those of the next query begin one row earlier.

    Args:
        table: ``[2w + 1, d]``, the vectors for distances -w to w, see :func:`relative_index`.
        stride: at least 1.
        count: the number of slots.
    """

    def __init__(self, table: Tensor, stride: int, count: int) -> None:
        self.count = count
        slots = torch.arange(1 - count, count, device=table.device)
        window = table.size(0) // 2
        # [2 * count - 1, d]: row r is the vector for j - i = r - (count - 1).
        self.rows = table[(slots * stride).clamp_(-window, window).add_(window)]

    def behind(self, total: int) -> Tensor:
        """``[T, d]``, T = ``total``: the vectors of a query in slot T - 1 for keys in slots 0 to T
        - 1."""
        return self.rows.narrow(0, self.count - total, total)

    def products(self, queries: Tensor, total: int, chosen: Optional[Tensor], count: int) -> Tensor:
        """The product of each query, in one of the last slots, and its relative position vector for
        the key in each slot.

        Args:
            queries: ``[R, H, q, d]``; q is ``count``, or the number of ``chosen``.
            total: T, the number of slots with keys.
            chosen: LongTensor ``[q]``, indices of the queries among the last ``count`` slots; None:
                all of them.
            count: how many of the slots, at the end, have queries.

        Returns:
            ``[R, H, q, T]``.
        """
        rows, heads, asked, width = queries.shape
        reach = total + count - 1
        near = self.rows.narrow(0, self.count - total, reach)  # [T + count - 1, d]
        by_distance = torch.mm(queries.reshape(-1, width), near.t())  # [R * H * q, T + count - 1]
        if chosen is None:
            # Query i for key j needs column j - i + count - 1: one query further is one column
            # less.
            strides = (heads * asked * reach, asked * reach, reach - 1, 1)
            return by_distance.as_strided((rows, heads, asked, total), strides, count - 1)
        slots = torch.arange(count - 1, count - 1 + total, device=chosen.device)  # [T]
        index = (slots - chosen.unsqueeze(1)).expand(rows, heads, asked, total)  # [R, H, q, T]
        return by_distance.view(rows, heads, asked, reach).gather(3, index)  # [R, H, q, T]
