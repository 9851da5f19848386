"""Which target word a source word is translated to: IBM Model 1 (Brown et al., 1993), trained by EM
with NumPy.

Model 1 lets every target word be written by one source word of its sentence, or by the empty word,
all equally likely before anything is known; EM finds t(target | source). All pairs of words that
share a sentence are held once, sentences go by in blocks, so that memory grows with the different
pairs and not with the text.
"""

from array import array
from pathlib import Path
from typing import Any, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..native.io.streams import writing

# Pairs of words that are looked at together.
BLOCK = 1 << 22


class Sentences(Sequence[np.ndarray]):
    """Rows of word ids behind each other, int32; each is an array when it is looked at: a million
    arrays of a few numbers would take ten times their memory."""

    def __init__(self, rows: Iterable[np.ndarray]) -> None:
        self._words, self._ends = array("i"), array("q", [0])
        for row in rows:
            self._words.frombytes(row.astype(np.int32).tobytes())
            self._ends.append(len(self._words))
        self._numbers = np.frombuffer(self._words, np.int32)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._numbers[self._ends[number] : self._ends[number + 1]]


class LexicalTable(NamedTuple):
    """t(target | source) of all pairs that share a sentence.

    Attributes:
        sources, targets: int64 ``[P]``, sorted by source, then target; source -1 is the empty word.
        probabilities: float64 ``[P]``; they sum to 1 for each source.
    """

    sources: np.ndarray
    targets: np.ndarray
    probabilities: np.ndarray


class _Block(NamedTuple):
    """The pairs of some sentences: target word by target word, the empty word first.

    Attributes:
        keys: ``(source + 1) * width + target`` of each pair.
        starts: where the pairs of each target word begin.
    """

    keys: np.ndarray
    starts: np.ndarray


def _blocks(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], width: int
) -> Iterator[_Block]:
    keys: List[np.ndarray] = []
    groups: List[np.ndarray] = []
    size = 0
    for source, target in zip(sources, targets):
        if not source.size * target.size:
            continue
        with_empty = np.concatenate(([0], source.astype(np.int64) + 1))
        pairs = (with_empty[None, :] * width + target.astype(np.int64)[:, None]).ravel()
        keys.append(pairs)
        groups.append(np.full(len(target), len(with_empty)))
        size += len(pairs)
        if size >= BLOCK:
            yield _block(keys, groups)
            keys, groups, size = [], [], 0
    if size:
        yield _block(keys, groups)


def _block(keys: List[np.ndarray], groups: List[np.ndarray]) -> _Block:
    lengths = np.concatenate(groups)
    return _Block(np.concatenate(keys), np.cumsum(lengths) - lengths)


def _different(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The different numbers of all parts, sorted.

    Each waits until as many have come as it has, and is merged with them: near-linear in all.
    """
    waiting = [np.zeros(0, np.int64)]
    for part in parts:
        waiting.append(_once(np.sort(part)))
        while len(waiting) > 1 and len(waiting[-2]) <= 2 * len(waiting[-1]):
            _merge_last(waiting)
    while len(waiting) > 1:
        _merge_last(waiting)
    return waiting[0]


def _merge_last(waiting: List[np.ndarray]) -> None:
    """Makes one of the last two."""
    both = np.concatenate((waiting[-2], waiting[-1]))
    # This kind merges what is already in order.
    both.sort(kind="stable")
    waiting[-2:] = [_once(both)]


def _once(numbers: np.ndarray) -> np.ndarray:
    """Sorted numbers of 0 or more, each once. np.unique, which would sort, takes much longer."""
    return numbers[np.diff(numbers, prepend=-1) != 0]


def train(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], *, iterations: int = 5
) -> LexicalTable:
    """Trains Model 1.

    Args:
        sources, targets: word ids of each sentence, from 0, without ``</s>``; pairs with an empty
        side are passed over.
        iterations: of EM.

    Raises:
        ValueError: different numbers of sentences, no words, or no iterations.
    """
    if len(sources) != len(targets):
        raise ValueError(
            f"{len(sources)} source but {len(targets)} target sentences: they must correspond"
            " line by line"
        )
    if iterations < 1:
        raise ValueError(f"{iterations} iterations: give at least 1")
    width = 1 + max(
        (
            int(target.max())
            for source, target in zip(sources, targets)
            if source.size * target.size
        ),
        default=-1,
    )
    if not width:
        raise ValueError("there is no pair of sentences with words on both sides")
    keys = _different(block.keys for block in _blocks(sources, targets, width))
    owners = keys // width
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    sizes = np.diff(np.append(firsts, len(keys)))
    # All targets of a source equally likely: the first step counts how often they stand together.
    probabilities = np.repeat(1.0 / sizes, sizes)
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for block in _blocks(sources, targets, width):
            # In the order of the table: it is looked through once a block, and not once a pair.
            own, members = np.unique(block.keys, return_inverse=True)
            places = np.searchsorted(keys, own)
            shares = probabilities[places][members]
            totals = np.add.reduceat(shares, block.starts)
            shares /= np.repeat(totals, np.diff(np.append(block.starts, len(shares))))
            counts[places] += np.bincount(members, shares)
        probabilities = counts / np.repeat(np.add.reduceat(counts, firsts), sizes)
    return LexicalTable(owners - 1, keys % width, probabilities)


def best_targets(
    table: LexicalTable, *, best: int, least: float
) -> Iterator[Tuple[int, int, float]]:
    """(source, target, probability) of each source's most probable targets, the empty word left
    out.

    Args:
        best: at most that many of each source.
        least: and none that is less probable.
    """
    # First of all: few pairs are probable, and those that are not come last.
    probable = np.flatnonzero((table.sources >= 0) & (table.probabilities >= least))
    sources, targets, probabilities = (values[probable] for values in table)
    order = np.lexsort((targets, -probabilities, sources))
    sources = sources[order]
    ranks = np.arange(len(order)) - np.searchsorted(sources, sources)
    for place in probable[order[ranks < best]]:
        yield (
            int(table.sources[place]),
            int(table.targets[place]),
            float(table.probabilities[place]),
        )


def write_lex(
    path: Path,
    table: LexicalTable,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    best: int,
    least: float,
) -> int:
    """Writes Marian's format, ``TARGET SOURCE PROBABILITY`` a line, and returns the number of
    lines.

    Args:
        sources, targets: the words of the ids.
        best, least: see :func:`best_targets`.
    """
    count = 0
    with writing(path) as file:
        for source, target, probability in best_targets(table, best=best, least=least):
            file.write(f"{targets[target]} {sources[source]} {probability:.6f}\n".encode())
            count += 1
    return count
