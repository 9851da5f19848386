"""Byte pair encoding of words as subword-nmt applies it (Sennrich et al., 2016), each word once.

Reads the files of ``subword-nmt learn-bpe`` (versions 0.1 and 0.2) and of ``fastBPE learnbpe``, and
gives the units of ``subword-nmt apply-bpe`` without a vocabulary threshold, glossaries or dropout,
which our preparation does not use. Needs no other package.
"""

import re
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Dict, List, Tuple

from .remembered import Remembered

END = "</w>"


class SubwordUnits:
    """Splits words.

    Args:
        codes: the file of merges.

    Raises:
        ValueError: the file cannot be read or holds no merges.
    """

    def __init__(self, codes: Path) -> None:
        try:
            text = codes.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{codes} cannot be read as subword codes: {error}") from error
        lines = text.rstrip("\n").split("\n")
        self.version: Tuple[int, ...] = (0, 1)
        if lines[0].startswith("#version:"):
            self.version, lines = _version(codes, lines[0]), lines[1:] or [""]
        merges = [tuple(line.strip("\r\n ").split(" ")) for line in lines]
        if self.version == (0, 1) and all(
            len(line) == 3 and line[2].isdecimal() for line in merges
        ):
            # fastBPE's: the third column is a frequency, and ends of words are marked as in version
            # 0.2.
            self.version, merges = (0, 2), [line[:2] for line in merges]
        for number, pair in enumerate(merges, start=1):
            if len(pair) != 2:
                raise ValueError(
                    f"{codes}: merge {number} is {' '.join(pair)!r}; each line needs two units"
                    " separated by a space"
                )
        # Of a pair that stands there twice the first counts.
        self.ranks: Dict[Tuple[str, ...], int] = {
            pair: rank for rank, pair in reversed(list(enumerate(merges)))
        }
        # Left part, right part, and what they become.
        self.merges = [(left, right, left + right) for left, right in merges]
        self.units = Remembered(self._units)

    def split(self, text: str) -> List[str]:
        """Units of a text's words, all but the last of each word ending in ``@@``."""
        return " ".join(map(self.units.__getitem__, text.split())).split()

    def _units(self, word: str) -> str:
        """The units of a word, separated by spaces."""
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
        """Merges pairs, that of the best rank first and everywhere, from left to right, before the
        next one.

        Near-linear: pairs wait by rank, and a merge looks at its two neighbours only.
        """
        ranks, last = self.ranks.get, len(parts)
        # The place of the left part of each pair, by rank. Pairs that are gone are noticed when it
        # is their turn.
        waiting: Dict[int, List[int]] = {}
        for place, rank in enumerate(map(ranks, zip(parts, parts[1:]))):
            if rank is not None:
                waiting.setdefault(rank, []).append(place)
        order = list(waiting)
        heapify(order)
        # The part behind the last one, which is also before the first one, is empty, as are those
        # merged into their left neighbour.
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
                # New pairs; none has this rank, for both parts of this one are shorter than what
                # they were joined to.
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
