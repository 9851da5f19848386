"""Training batches by the vertices of their graphs."""

from typing import Iterator, Sequence

import numpy as np


def divided(
    batch: Sequence[int], vertices: np.ndarray, limit: int, multiple: int = 1
) -> Iterator[np.ndarray]:
    """A batch, in pieces of at most ``limit`` vertices.

    Args:
        batch: numbers of sentences.
        vertices: of each of them, ``[len(batch)]``; as padding makes graphs of one batch equally
            large, n sentences count as n of the largest.
        limit: at least the largest of ``vertices``.
        multiple: of sentences in a piece wherever that many fit
            (``--required-batch-size-multiple``).
    """
    start = 0
    while start < len(batch):
        largest = np.maximum.accumulate(vertices[start:]) * np.arange(1, len(batch) - start + 1)
        # Non-decreasing: the first piece that is too large ends the search.
        count = int(np.searchsorted(largest, limit, side="right"))
        if count < len(batch) - start and count > multiple:
            count -= count % multiple
        yield np.asarray(batch[start : start + count])
        start += count
