"""Marian's shortlists, binary ones (``lex.s2t.bin``) and lexical tables (``lex.s2t.gz``), as lines
of a ``vmap`` file.

The binary layout (src/data/shortlist.h): six uint64, a mark, a checksum, the most frequent words
that always count, the best of a source word, how many offsets, how many candidates; then the
offsets (uint64, for each source word and the end) and the candidates (uint32). A table has a line
``TARGET SOURCE PROBABILITY`` for each pair. With one vocabulary for both sides a source word is a
candidate itself.
"""

import gzip
import io
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from .plain_files import read_bytes
from .vocabularies import Vocabulary

MARK = 0xF11A48D5013417F5
_HEAD = 6 * 8
LARGEST = 1 << 31
# Bytes of a table's line.
_LONGEST = 1 << 16


def is_binary(path: Path) -> bool:
    """Whether a shortlist is of this kind; others are tables."""
    with open(path, "rb") as file:
        return file.read(8) == MARK.to_bytes(8, "little")


def read_binary(path: Path, source: Vocabulary, target: Vocabulary) -> List[str]:
    """The lines of a ``vmap`` file: a source word, a tab, its candidates; the first line has those
    of every sentence.

    Raises:
        ValueError: the file is damaged, or belongs to other vocabularies.
    """
    content = read_bytes(path, LARGEST)
    if len(content) < _HEAD:
        raise ValueError(
            f"{path} is cut short: a binary shortlist of Marian has {_HEAD} bytes and more"
        )
    mark, _, frequent, _, offsets, candidates = np.frombuffer(content, "<u8", 6).tolist()
    if mark != MARK:
        raise ValueError(f"{path} is not a binary shortlist of Marian")
    if _HEAD + 8 * offsets + 4 * candidates != len(content):
        raise ValueError(
            f"{path} is damaged: it announces {offsets} offsets and {candidates} candidates, but"
            f" has {len(content)} bytes"
        )
    if offsets != source.size + 1:
        raise ValueError(
            f"{path} has {offsets - 1} source words, but the model has {source.size}: it belongs to"
            " another model"
        )
    ends = np.frombuffer(content, "<u8", offsets, _HEAD)
    flat = np.frombuffer(content, "<u4", candidates, _HEAD + 8 * offsets)
    if int(ends[-1]) != candidates or int(ends[0]) != 0 or (ends[1:] < ends[:-1]).any():
        raise ValueError(
            f"{path} is damaged: its offsets do not divide its {candidates} candidates"
        )
    if candidates and int(flat.max()) >= target.size:
        raise ValueError(
            f"{path} names the target word {int(flat.max())}, but the model has {target.size}: it"
            " belongs to another model"
        )
    places = ends.tolist()
    found = {row: flat[places[row] : places[row + 1]].tolist() for row in range(source.size)}
    return _lines(found, frequent, source, target)


def read_table(
    path: Path, source: Vocabulary, target: Vocabulary, *, frequent: int, best: int, least: float
) -> List[str]:
    """The same of a lexical table, plain or gzip.

    Args:
        path: the file.
        source, target: vocabularies; words that they do not have are passed over.
        frequent: words of the target that always count, the first ones.
        best: candidates of a source word, the most probable ones.
        least: they must be more probable than this.

    Raises:
        ValueError: the file is not such a table, or has none of the words.
    """
    rows, candidates = (
        {word: row for row, word in _words(side).items()} for side in (source, target)
    )
    scored: Dict[int, Dict[int, float]] = {}
    for one, word, probability in _pairs(path):
        if one in rows and word in candidates and probability > least:
            scored.setdefault(rows[one], {})[candidates[word]] = probability
    if not scored:
        raise ValueError(f"{path} has none of the model's words: it belongs to another model")
    found = {
        row: sorted(given, key=lambda word: (-given[word], word))[:best]
        for row, given in scored.items()
    }
    return _lines(found, frequent, source, target)


def _pairs(path: Path) -> Iterator[Tuple[str, str, float]]:
    """Source word, target word and probability of each line.

    Raises:
        ValueError: the file is not such a table.
    """
    size, number = 0, 0
    held = io.BytesIO(read_bytes(path, LARGEST))
    packed = held.read(2) == b"\x1f\x8b"
    held.seek(0)
    try:
        with gzip.GzipFile(fileobj=held) if packed else held as file:
            # What is packed may be far larger: line by line, of a line no more than words can have.
            for line in iter(lambda: file.readline(_LONGEST), b""):
                size, number = size + len(line), number + 1
                if size > LARGEST:
                    raise ValueError
                target, source, probability = line.decode("utf-8").split()
                if not 0 <= float(probability) <= 1:
                    raise ValueError
                yield source, target, float(probability)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a shortlist of Marian: {error}") from None
    except ValueError:
        raise ValueError(
            f"{path}: line {number} is not TARGET SOURCE PROBABILITY: it is not a shortlist of"
            " Marian"
        ) from None


def _words(vocabulary: Vocabulary) -> Dict[int, str]:
    """The words by their rows, without special symbols: those are candidates anyway, and no words
    of a text."""
    special = len(vocabulary.rows) - len(vocabulary.words)
    return {
        row: vocabulary.words[number - special]
        for row, number in vocabulary.ids().items()
        if number >= special
    }


def _lines(
    found: Mapping[int, Sequence[int]], frequent: int, source: Vocabulary, target: Vocabulary
) -> List[str]:
    words, shared = _words(target), source == target
    lines = [_line("", range(min(frequent, target.size)), words)]
    for row, name in _words(source).items():
        own = [*found.get(row, ()), *([row] if shared else ())]
        if own:
            lines.append(_line(name, own, words))
    return lines


def _line(name: str, rows: Sequence[int], words: Dict[int, str]) -> str:
    return f"{name}\t{' '.join(words[row] for row in dict.fromkeys(rows) if row in words)}"
