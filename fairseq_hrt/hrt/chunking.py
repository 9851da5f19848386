"""The chunk size that each sentence is decoded with."""

import math
from typing import List, Optional, Sequence, Tuple

from torch import Tensor


class ChunkChooser:
    """One chunk size for all sentences, or one that depends on the source length.

    Args:
        table: (longest source in subwords, chunk size) pairs, ascending, the last limit infinite.
    """

    def __init__(self, table: Sequence[Tuple[float, int]]) -> None:
        self.table = list(table)
        self.sizes = {size for _, size in self.table}

    @classmethod
    def parse(cls, choice: Optional[str], table: str, trained: Sequence[int]) -> "ChunkChooser":
        """Reads ``--hrt-decode-chunk`` and ``--hrt-chunk-table``.

        Args:
            choice: ``auto``, a number, or None for the smallest trained chunk size.
            table: like ``10:1,30:2,inf:1``; read for ``auto``.
            trained: the chunk sizes of the model.

        Raises:
            ValueError: a value cannot be read.
        """
        if choice is None:
            return cls([(math.inf, min(trained))])
        if choice == "auto":
            return cls(_parse_table(table))
        if not choice.isdecimal() or int(choice) < 1:
            raise ValueError(f"--hrt-decode-chunk {choice!r} is neither a chunk size (1, 2, …) nor auto")
        return cls([(math.inf, int(choice))])

    def __call__(self, lengths: Tensor) -> List[int]:
        """The chunk size of each sentence; ``lengths`` is LongTensor ``[B]``, source subwords without ``</s>``."""
        if len(self.table) == 1:
            return [self.table[0][1]] * lengths.numel()
        return [next(size for limit, size in self.table if length <= limit) for length in lengths.tolist()]


def _parse_table(text: str) -> List[Tuple[float, int]]:
    """``10:1,30:2,inf:1`` → [(10, 1), (30, 2), (inf, 1)]."""
    try:
        table = [(float(limit), int(size)) for limit, size in (entry.split(":") for entry in text.split(","))]
    except ValueError:
        table = []
    limits = [limit for limit, _ in table]
    # Compared pair by pair, for no order of a list with nan in it means anything.
    ascending = all(lower < upper for lower, upper in zip(limits, limits[1:]))
    if not table or not ascending or limits[-1] != math.inf or any(size < 1 for _, size in table):
        raise ValueError(
            f"--hrt-chunk-table {text!r}: expected ascending source lengths with their chunk sizes, "
            "the last one inf, such as 10:1,30:2,inf:1"
        )
    return table
