"""Relative position vectors (Shaw et al., 2018), looked up by clipped distances between tokens."""

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
