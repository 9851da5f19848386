"""Byte pair encoding (Sennrich et al., 2016) with the results of ``subword-nmt apply-bpe``.

Reads the files of ``subword-nmt learn-bpe`` (versions 0.1 and 0.2) and of ``fastBPE learnbpe``.
Vocabulary thresholds, glossaries and dropout are not supported. Needs no other package.
"""

import re
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Dict, List, Tuple

from .remembered import Remembered

END = "</w>"


class SubwordUnits:
    """Splits words into subword units.

    Args:
        codes: the file of merge operations, in one of this module's formats.

    Raises:
        ValueError: the file cannot be read or holds no merges.
    """

    def __init__(self, codes: Path) -> None:
        try:
            text = codes.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{codes} cannot be read as codes of subword-nmt or fastBPE: {error}"
            ) from error
        lines = text.rstrip("\n").split("\n")
        self.version: Tuple[int, ...] = (0, 1)
        if lines[0].startswith("#version:"):
            self.version, lines = _version(codes, lines[0]), lines[1:] or [""]
        merges = [tuple(line.strip("\r\n ").split(" ")) for line in lines]
        if self.version == (0, 1) and all(
            len(line) == 3 and line[2].isdecimal() for line in merges
        ):
            # fastBPE's format: a third column of frequencies, ends of words marked as in version
            # 0.2.
            self.version, merges = (0, 2), [line[:2] for line in merges]
        for number, pair in enumerate(merges, start=1):
            if len(pair) != 2:
                raise ValueError(
                    f"{codes}: merge {number} is {' '.join(pair)!r}, not two units separated by a"
                    " space; give the file that subword-nmt learn-bpe or fastBPE learnbpe wrote"
                )
        # If a pair occurs twice, its first rank counts.
        self.ranks: Dict[Tuple[str, ...], int] = {
            pair: rank for rank, pair in reversed(list(enumerate(merges)))
        }
        # (left part, right part, their concatenation)
        self.merges = [(left, right, left + right) for left, right in merges]
        self.units = Remembered(self._units)

    def split(self, text: str) -> List[str]:
        """The subword units of a text; all but the last of each word end in ``@@``.

        Words are separated at spaces alone, as by ``apply-bpe``; the result is split at any white
        space, as fairseq does."""
        words = [word for word in text.strip("\r\n ").split(" ") if word]
        return " ".join(map(self.units.__getitem__, words)).split()

    def _units(self, word: str) -> str:
        """The subword units of a word, separated by spaces; all but the last end in ``@@``."""
        if len(word) == 1:
            return word
        parts = self._merge(
            [*word[:-1], word[-1] + END] if self.version == (0, 2) else [*word, END]
        )
        if parts[-1] == END:
            del parts[-1]
        elif parts[-1].endswith(END):
            parts[-1] = parts[-1][: -len(END)]
        return "@@ ".join(parts)

    def _merge(self, parts: List[str]) -> List[str]:
        """Merges neighbouring parts of a word in the order of the file of codes (their ranks), each
        pair at all its places from left to right. Returns the merged parts; changes ``parts``.

        Takes nearly linear time: pairs are queued by rank, and a merge touches only its neighbours.
        """
        ranks, last = self.ranks.get, len(parts)
        # {rank: places of the left parts of such pairs}. Pairs that a merge has destroyed are
        # skipped when their turn comes.
        waiting: Dict[int, List[int]] = {}
        for place, rank in enumerate(map(ranks, zip(parts, parts[1:]))):
            if rank is not None:
                waiting.setdefault(rank, []).append(place)
        order = list(waiting)
        heapify(order)
        # A linked list. Index ``last`` is an empty sentinel at both ends; parts that were merged
        # into their left neighbour are empty, too.
        parts.append("")
        before, after = [*range(-1, last)], [*range(1, last + 1)]
        while order:
            rank = heappop(order)
            left, right, joined = self.merges[rank]
            for place in sorted(waiting.pop(rank)):
                other = after[place] if parts[place] == left else last
                if parts[other] != right:
                    continue
                parts[place], parts[other] = joined, ""
                following = after[place] = after[other]
                before[following] = place
                previous = before[place]
                # Queue the two new pairs. They contain ``joined``, so that none has the current
                # rank.
                for first, found in (
                    (previous, ranks((parts[previous], joined))),
                    (place, ranks((joined, parts[following]))),
                ):
                    if found in waiting:
                        waiting[found].append(first)
                    elif found is not None:
                        waiting[found] = [first]
                        heappush(order, found)
        return [part for part in parts if part]


def _version(codes: Path, line: str) -> Tuple[int, ...]:
    text = line.split()[-1]
    known = re.fullmatch(r"0\.([12])(\.0{1,9}){0,9}", text)
    if known is None:
        raise ValueError(
            f"{codes} has the version {text[:40]!r}; 0.1 and 0.2 can be read: learn the codes with"
            " subword-nmt 0.3.8"
        )
    return (0, int(known[1]))
