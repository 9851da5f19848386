"""Converts Marian's shortlists, binary ones (``lex.s2t.bin``) and lexical tables (``lex.s2t.gz``),
to lines of a ``vmap`` file.

A binary shortlist (src/data/shortlist.h) begins with six uint64: a magic number, a checksum, the
number of frequent words that are always candidates, the number of candidates per source word, and
the total numbers of offsets and candidates. Then follow the offsets (uint64, one per source word
and the end) and the candidates (uint32). A lexical table has lines ``TARGET SOURCE PROBABILITY``.
If source and target share a vocabulary, each source word is also a candidate for its own
translation.
"""

import gzip
import io
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from .marian_tensors import MOST_COMPRESSED
from .plain_files import read_bytes
from .vocabularies import Vocabulary

MARK = 0xF11A48D5013417F5
_HEAD = 6 * 8
LARGEST = 1 << 31
# Most bytes of a line in a table.
_LONGEST = 1 << 16


def is_binary(path: Path) -> bool:
    """Whether a shortlist is binary; otherwise it is a lexical table."""
    with open(path, "rb") as file:
        return file.read(8) == MARK.to_bytes(8, "little")


def read_binary(path: Path, source: Vocabulary, target: Vocabulary) -> List[str]:
    """Reads a binary shortlist as lines of a ``vmap`` file: a source word, a tab, and its candidate
    target words, separated by spaces. The first line, without a source word, has the candidates of
    every sentence.

    Raises:
        ValueError: the file is damaged, or belongs to other vocabularies.
    """
    content = read_bytes(path, LARGEST)
    if len(content) < _HEAD:
        raise ValueError(
            f"{path} has {len(content)} bytes and is cut short: a binary shortlist of Marian has at"
            f" least {_HEAD}; download or copy it again"
        )
    mark, _, frequent, _, offsets, candidates = np.frombuffer(content, "<u8", 6).tolist()
    if mark != MARK:
        raise ValueError(
            f"{path} is not a binary shortlist of Marian: put the model's own there (lex.s2t.bin)"
        )
    if _HEAD + 8 * offsets + 4 * candidates != len(content):
        raise ValueError(
            f"{path} is damaged: it announces {offsets} offsets and {candidates} candidates, but"
            f" its {len(content)} bytes hold other numbers of them; download or copy it again"
        )
    if offsets != source.size + 1:
        raise ValueError(
            f"{path} has {offsets - 1} source words, but the model has {source.size}: the file"
            " belongs to another model; put this model's shortlist there"
        )
    ends = np.frombuffer(content, "<u8", offsets, _HEAD)
    flat = np.frombuffer(content, "<u4", candidates, _HEAD + 8 * offsets)
    if int(ends[-1]) != candidates or int(ends[0]) != 0 or (ends[1:] < ends[:-1]).any():
        raise ValueError(
            f"{path} is damaged: its offsets do not divide its {candidates} candidates among the"
            " source words; download or copy it again"
        )
    if candidates and int(flat.max()) >= target.size:
        raise ValueError(
            f"{path} has the target word id {int(flat.max())}, but the model has only"
            f" {target.size} target words: the file belongs to another model; put this model's"
            " shortlist there"
        )
    places = ends.tolist()
    found = {row: flat[places[row] : places[row + 1]].tolist() for row in range(source.size)}
    return _lines(found, frequent, source, target)


def read_table(
    path: Path, source: Vocabulary, target: Vocabulary, *, frequent: int, best: int, least: float
) -> List[str]:
    """Reads a lexical table, plain or gzip, as lines of a ``vmap`` file.

    Args:
        path: the file.
        source, target: vocabularies; pairs with other words are ignored.
        frequent: how many of the first target words are candidates of every sentence.
        best: how many candidates of a source word are kept, the most probable ones.
        least: candidates must be more probable than this.

    Raises:
        ValueError: the file is not a lexical table, or has no pair of the vocabularies' words.
    """
    rows, candidates = (
        {word: row for row, word in _words(side).items()} for side in (source, target)
    )
    scored: Dict[int, Dict[int, float]] = {}
    for one, word, probability in _pairs(path):
        if one in rows and word in candidates and probability > least:
            scored.setdefault(rows[one], {})[candidates[word]] = probability
    if not scored:
        raise ValueError(
            f"{path} has none of the model's words: the file belongs to another model; put this"
            " model's shortlist there"
        )
    found = {
        row: sorted(given, key=lambda word: (-given[word], word))[:best]
        for row, given in scored.items()
    }
    return _lines(found, frequent, source, target)


def _pairs(path: Path) -> Iterator[Tuple[str, str, float]]:
    """Yields (source word, target word, probability) of each line of a lexical table; ValueError if
    the file is not one."""
    size, number = 0, 0
    content = read_bytes(path, LARGEST)
    held, largest = io.BytesIO(content), min(MOST_COMPRESSED * len(content), LARGEST)
    packed = held.read(2) == b"\x1f\x8b"
    held.seek(0)
    try:
        with gzip.GzipFile(fileobj=held) if packed else held as file:
            # Decompressed data may be huge: read line by line, with a limit on the length of a
            # line.
            for line in iter(lambda: file.readline(_LONGEST), b""):
                size, number = size + len(line), number + 1
                if size > largest:
                    raise ValueError
                target, source, probability = line.decode("utf-8").split()
                if not 0 <= float(probability) <= 1:
                    raise ValueError
                yield source, target, float(probability)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path} cannot be read as a shortlist of Marian: {error}; download or copy it again"
        ) from None
    except ValueError:
        raise ValueError(
            f"{path}: line {number} is not TARGET SOURCE PROBABILITY: the file is not a shortlist"
            " of Marian; put the model's shortlist there"
        ) from None


def _words(vocabulary: Vocabulary) -> Dict[int, str]:
    """The words of a vocabulary as {row of the model's embedding: word}, without special symbols,
    which never occur in texts and are always candidates."""
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
