"""Byte pair encoding of words as subword-nmt applies it (Sennrich et al., 2016), each word once.

Reads the files of ``subword-nmt learn-bpe`` (versions 0.1 and 0.2) and gives the units of ``subword-nmt apply-bpe`` without a
vocabulary threshold, glossaries or dropout, which our preparation does not use. Needs no other package.
"""

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Tuple

# Words whose units are remembered; more than a language has in everyday use.
REMEMBERED = 1 << 17
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
        for number, pair in enumerate(merges, start=1):
            if len(pair) != 2:
                raise ValueError(
                    f"{codes}: merge {number} is {' '.join(pair)!r}; each line needs two units separated by a space"
                )
        # Of a pair that stands there twice the first counts.
        self.ranks: Dict[Tuple[str, ...], int] = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self.units = lru_cache(maxsize=REMEMBERED)(self._units)

    def split(self, text: str) -> List[str]:
        """Units of a text's words, all but the last of each word ending in ``@@``."""
        units = self.units
        return [unit for word in text.split() for unit in units(word)]

    def _units(self, word: str) -> Tuple[str, ...]:
        parts = (
            self._merge([*word[:-1], word[-1] + END] if self.version == (0, 2) else [*word, END])
            if len(word) > 1
            else [word]
        )
        if len(word) > 1:
            if parts[-1] == END:
                parts = parts[:-1]
            elif parts[-1].endswith(END):
                parts[-1] = parts[-1][: -len(END)]
        return (*(part + "@@" for part in parts[:-1]), parts[-1])

    def _merge(self, parts: List[str]) -> List[str]:
        ranks = self.ranks
        beyond = math.inf
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:]))
            best = min(pairs, key=lambda pair: ranks.get(pair, beyond))
            if best not in ranks:
                break
            merged, place = [], 0
            while place < len(parts):
                if place < len(pairs) and pairs[place] == best:
                    merged.append(best[0] + best[1])
                    place += 2
                else:
                    merged.append(parts[place])
                    place += 1
            parts = merged
        return parts


def _version(codes: Path, line: str) -> Tuple[int, ...]:
    text = line.split()[-1]
    known = re.fullmatch(r"0\.([12])(\.0{1,9}){0,9}", text)
    if known is None:
        raise ValueError(
            f"{codes} has the version {text[:40]!r}; 0.1 and 0.2 can be read: learn the codes with subword-nmt 0.3.8"
        )
    return (0, int(known[1]))
