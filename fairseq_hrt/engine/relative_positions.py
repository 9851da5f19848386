"""Clipped distances between tokens, the index into a table of relative position vectors (Shaw et
al., 2018)."""

from typing import Optional

import torch
from torch import Tensor


def relative_index(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Row of the relative position table for every pair of a query and a key.

    Args:
        queries: LongTensor ``[..., q]``, positions in the sentence.
        keys: LongTensor ``[..., T]``, likewise.
        window: w, the largest distance told apart; the table has 2w + 1 rows.

    Returns:
        LongTensor ``[..., q, T]``: clip(key - query, -w, w) + w. Keys to the left of the query have
        rows below w.
    """
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp_(-window, window).add_(window)


class EvenDistances:
    """Relative position vectors of tokens that stand ``stride`` apart, laid out by the distance of
    their slots.

    With token i at position i * stride, the vector of a query in slot i for a key in slot j depends
    on j - i alone. The vectors of all keys for one query are therefore neighbouring rows of one
    table, and those for several queries the same rows moved by one.

    Args:
        table: ``[2w + 1, d]``, see :func:`relative_index`.
        stride: at least 1.
        count: slots that may occur.
    """

    def __init__(self, table: Tensor, stride: int, count: int) -> None:
        self.count = count
        slots = torch.arange(1 - count, count, device=table.device)
        window = table.size(0) // 2
        # Row r belongs to the distance r - (count - 1) between slots.
        self.rows = table[(slots * stride).clamp_(-window, window).add_(window)]

    def behind(self, total: int) -> Tensor:
        """``[T, d]``: the vectors of slots 0 to ``total`` - 1 for a query in the last of them."""
        return self.rows.narrow(0, self.count - total, total)

    def products(self, queries: Tensor, total: int, chosen: Optional[Tensor], count: int) -> Tensor:
        """q R^T of queries in the last ``count`` of ``total`` slots, for all of these.

        Args:
            queries: ``[R, H, q, d]``; q is ``count``, or the number of ``chosen``.
            chosen: LongTensor ``[q]``, which of the last slots ask; None: all.

        Returns:
            ``[R, H, q, T]``.
        """
        rows, heads, asked, width = queries.shape
        reach = total + count - 1
        near = self.rows.narrow(0, self.count - total, reach)
        by_distance = torch.mm(queries.reshape(-1, width), near.t())
        if chosen is None:
            # One step down is one distance less: the diagonals of the result are the columns of the
            # product.
            strides = (heads * asked * reach, asked * reach, reach - 1, 1)
            return by_distance.as_strided((rows, heads, asked, total), strides, count - 1)
        slots = torch.arange(count - 1, count - 1 + total, device=chosen.device)
        index = (slots - chosen.unsqueeze(1)).expand(rows, heads, asked, total)
        return by_distance.view(rows, heads, asked, reach).gather(3, index)
