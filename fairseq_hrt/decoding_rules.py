"""Rules that the eager engine and the native runtime share, from the standard library alone: the runtime needs neither PyTorch nor fairseq."""

import math
from typing import List, Optional, Sequence, Tuple

LARGEST_PENALTY = 20.0


class NumericalError(ArithmeticError, ValueError):
    """The model computed NaN where a probability was needed."""


def without_repeated_ngrams(tokens: Sequence[object], *, longest: int = 4) -> List[int]:
    """Collapses immediately repeated n-grams, n from ``longest`` down to 1, until nothing repeats: the indices that are kept.

    Args:
        tokens: words without ``</s>``.
    """
    kept = list(range(len(tokens)))
    changed = True
    while changed:
        changed = False
        for size in range(longest, 0, -1):
            place = 0
            while place + 2 * size <= len(kept):
                words = [tokens[index] for index in kept[place : place + 2 * size]]
                if words[:size] == words[size:]:
                    del kept[place + size : place + 2 * size]
                    changed = True
                else:
                    place += 1
    return kept


def chunk_table(choice: Optional[str], table: str, trained: Sequence[int]) -> List[Tuple[float, int]]:
    """What ``--hrt-decode-chunk`` and ``--hrt-chunk-table`` say: (longest source in subwords, chunk size) pairs, ascending, the last
    limit infinite.

    Args:
        choice: ``auto``, a number, or None for the smallest trained chunk size.
        table: like ``10:1,30:2,inf:1``; read for ``auto``.
        trained: the chunk sizes of the model.

    Raises:
        ValueError: a value cannot be read.
    """
    if choice == "auto":
        return _parse_chunk_table(table)
    if choice is None:
        return [(math.inf, min(trained))]
    if not choice.isdecimal() or int(choice) < 1:
        raise ValueError(f"--hrt-decode-chunk {choice!r} is neither a chunk size (1, 2, …) nor auto")
    return [(math.inf, int(choice))]


def _parse_chunk_table(text: str) -> List[Tuple[float, int]]:
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


def check_rescoring_penalty(lenpen: float) -> float:
    """``--rescore-lenpen`` as it is.

    Raises:
        ValueError: with it powers of lengths would overflow, or it is NaN.
    """
    if not abs(lenpen) <= LARGEST_PENALTY:
        raise ValueError(f"--rescore-lenpen {lenpen} must lie between -{LARGEST_PENALTY:g} and {LARGEST_PENALTY:g}")
    return lenpen
