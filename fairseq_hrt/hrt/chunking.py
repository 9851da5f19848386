"""The chunk size that each sentence is decoded with."""

from typing import List, Sequence, Tuple

from torch import Tensor


class ChunkChooser:
    """One chunk size for all sentences, or one that depends on the source length.

    Args:
        table: (longest source in subwords, chunk size) pairs, ascending, the last limit infinite.
    """

    def __init__(self, table: Sequence[Tuple[float, int]]) -> None:
        self.table = list(table)
        self.sizes = {size for _, size in self.table}

    def __call__(self, lengths: Tensor) -> List[int]:
        """The chunk size of each sentence; ``lengths`` is LongTensor ``[B]``, source subwords
        without ``</s>``."""
        if len(self.table) == 1:
            return [self.table[0][1]] * lengths.numel()
        return [
            next(size for limit, size in self.table if length <= limit)
            for length in lengths.tolist()
        ]
