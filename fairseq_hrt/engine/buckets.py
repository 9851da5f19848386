"""The sizes to which batches are padded where a computation needs fixed shapes."""

from typing import Sequence

# Sentences of a batch.
ROWS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Tokens of a source or a target. Multiples of 16, as matrix units and attention kernels want them.
LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
# Chunks of a translation, or other parts of it that are small in number.
PARTS = (4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def bucket(value: int, ladder: Sequence[int]) -> int:
    """The smallest of the increasing sizes ``ladder`` that is at least ``value``; if none is, the
    next multiple of the largest."""
    for size in ladder:
        if value <= size:
            return size
    return -(-value // ladder[-1]) * ladder[-1]
