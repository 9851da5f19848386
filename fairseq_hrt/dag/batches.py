"""Limits training batches by the number of vertices in their graphs (``--dag-max-vertices``)."""

from typing import Iterator, Sequence

import numpy as np


def divided(
    batch: Sequence[int], vertices: np.ndarray, limit: int, multiple: int = 1
) -> Iterator[np.ndarray]:
    """Splits a batch into pieces of at most ``limit`` vertices, padding included: n sentences count
    as n graphs of the largest size. Yields the sentence indices of each piece.

    Args:
        batch: indices of sentences.
        vertices: the number of vertices of each sentence's graph, ``[len(batch)]``.
        limit: the most vertices of a piece; must be at least the largest of ``vertices``.
        multiple: a piece of more than this many sentences holds a multiple of this number, except
            the last one (``--required-batch-size-multiple``).
    """
    start = 0
    while start < len(batch):
        largest = np.maximum.accumulate(vertices[start:]) * np.arange(1, len(batch) - start + 1)
        # largest[n - 1], the padded vertices of n sentences, never decreases: bisect.
        count = int(np.searchsorted(largest, limit, side="right"))
        if count < len(batch) - start and count > multiple:
            count -= count % multiple
        yield np.asarray(batch[start : start + count])
        start += count
