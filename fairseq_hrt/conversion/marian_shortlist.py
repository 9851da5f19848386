"""Marian's binary shortlists (``lex.s2t.bin``) as lines of a ``vmap`` file.

The layout (src/data/shortlist.h): six uint64, a mark, a checksum, the most frequent words that always count, the best of a source word,
how many offsets, how many candidates; then the offsets (uint64, for each source word and the end) and the candidates (uint32).
"""

from pathlib import Path
from typing import List

import numpy as np

from .plain_files import read_bytes
from .vocabularies import Vocabulary

MARK = 0xF11A48D5013417F5
_HEAD = 6 * 8
LARGEST = 1 << 31


def is_binary(path: Path) -> bool:
    """Whether a shortlist is of this kind; others are text."""
    with open(path, "rb") as file:
        return file.read(8) == MARK.to_bytes(8, "little")


def read_binary(path: Path, source: Vocabulary, target: Vocabulary) -> List[str]:
    """The lines of a ``vmap`` file: a source word, a tab, its candidates; the first line has those of every sentence.

    Raises:
        ValueError: the file is damaged, or belongs to other vocabularies.
    """
    content = read_bytes(path, LARGEST)
    if len(content) < _HEAD:
        raise ValueError(f"{path} is cut short: a binary shortlist of Marian has {_HEAD} bytes and more")
    mark, _, frequent, _, offsets, candidates = np.frombuffer(content, "<u8", 6).tolist()
    if mark != MARK:
        raise ValueError(f"{path} is no binary shortlist of Marian")
    if _HEAD + 8 * offsets + 4 * candidates != len(content):
        raise ValueError(
            f"{path} is damaged: it announces {offsets} offsets and {candidates} candidates, but has {len(content)} bytes"
        )
    if offsets != source.size + 1:
        raise ValueError(
            f"{path} has {offsets - 1} source words, but the model has {source.size}: it belongs to another model"
        )
    ends = np.frombuffer(content, "<u8", offsets, _HEAD)
    flat = np.frombuffer(content, "<u4", candidates, _HEAD + 8 * offsets)
    if int(ends[-1]) != candidates or int(ends[0]) != 0 or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"{path} is damaged: its offsets do not divide its {candidates} candidates")
    if candidates and int(flat.max()) >= target.size:
        raise ValueError(
            f"{path} names the target word {int(flat.max())}, but the model has {target.size}: it belongs to another model"
        )
    special = len(target.rows) - len(target.words)
    words = {row: target.words[number - special] for row, number in target.ids().items() if number >= special}
    sources = {row: source.words[number - special] for row, number in source.ids().items() if number >= special}

    def line(name: str, rows: object) -> str:
        return f"{name}\t{' '.join(words[row] for row in rows if row in words)}"  # type: ignore[attr-defined]  # integers

    lines = [line("", range(min(frequent, target.size)))]
    places = ends.tolist()
    for row, name in sources.items():
        own = flat[places[row] : places[row + 1]].tolist()
        if own:
            lines.append(line(name, own))
    return lines
