"""Clipped distances between tokens, the index into a table of relative position vectors (Shaw et al., 2018)."""

from torch import Tensor


def relative_index(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Row of the relative position table for every pair of a query and a key.

    Args:
        queries: LongTensor ``[..., q]``, positions in the sentence.
        keys: LongTensor ``[..., T]``, likewise.
        window: w, the largest distance told apart; the table has 2w + 1 rows.

    Returns:
        LongTensor ``[..., q, T]``: clip(key - query, -w, w) + w. Keys to the left of the query have rows below w.
    """
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp_(-window, window).add_(window)
