"""Shortlists: the target words (candidates) that each source word may be translated to. The output
layer is computed only for the candidates of a sentence's words.

A shortlist is read from a lexical table (Marian's ``lex`` files, which
:mod:`...export.lexical_table` writes: ``TARGET SOURCE PROBABILITY`` a line) or from CTranslate2's
``vmap`` (``SOURCE<tab>TARGET TARGET …``), plain or gzip; bundles store it as safetensors.
"""

from itertools import chain
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import numpy as np

from ..io.streams import raw_lines, reading
from ..runtime.engine import Shortlist
from ..runtime.format import DAMAGED
from ..text.dictionary import SPECIAL, Words

# Marian's names of the empty word.
_EMPTY = ("NULL", "")
# Of a lexical table, the most probable candidates of each source word that are kept; of any file,
# the most frequent target words, which are candidates of every sentence.
BEST, FREQUENT = 50, 100
# Most bytes of a text and of a line, unpacked: a small gzip file may hold any number.
LARGEST, LONGEST_LINE = 1 << 31, 1 << 24


def load_shortlist(path: Path, source: Words, target: Words) -> Shortlist:
    """Reads a shortlist from a lexical table, Marian's ``lex`` or CTranslate2's ``vmap``.

    Args:
        path: the file; a tab in its first line marks a ``vmap``.
        source, target: the dictionaries; words that they lack are skipped.

    Raises:
        ValueError: the file cannot be read, or holds none of the dictionaries' words.
    """
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path} is empty: give a lex or vmap file")
    given = chain([first], lines)
    found, always = (
        _read_vmap(given, source, target)
        if "\t" in first
        else (_read_lex(path, given, source, target), set())
    )
    if not any(found.values()):
        raise ValueError(
            f"{path} has none of the dictionaries' words: it belongs to other data; give the"
            " lex or vmap file that was made with this model"
        )
    # Dictionaries are sorted by frequency.
    always |= set(range(len(SPECIAL), min(len(SPECIAL) + FREQUENT, len(target))))
    return pack(found, always, len(source))


def pack(found: Mapping[int, Sequence[int]], always: Set[int], source_words: int) -> Shortlist:
    """Packs candidates into the arrays of a shortlist.

    Args:
        found: {id of a source word: ids of its candidates}.
        always: ids of the candidates of every sentence; special symbols are added.
        source_words: the size of the source dictionary.
    """
    offsets = np.zeros(source_words + 1, np.int64)
    for word, candidates in found.items():
        offsets[word + 1] = len(candidates)
    ordered = [np.asarray(found[word], np.int32) for word in sorted(found)]
    flat = np.concatenate(ordered) if ordered else np.zeros(0, np.int32)
    return Shortlist(
        np.cumsum(offsets), flat, np.array(sorted(always | set(range(len(SPECIAL)))), np.int32)
    )


def _lines(path: Path) -> Iterator[str]:
    size = 0
    try:
        with reading(path) as file:
            for line in raw_lines(file, str(path), LONGEST_LINE + 1):
                size += len(line)
                if len(line) > LONGEST_LINE or size > LARGEST:
                    raise ValueError(
                        f"{path} is not a shortlist: a line has more than {LONGEST_LINE >> 20} MB,"
                        f" or the whole unpacked file more than {LARGEST >> 20} MB; give a lex or"
                        " vmap file"
                    )
                yield line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is not UTF-8 text: give a lexical table (lex.s2t.gz). A binary shortlist of"
            " Marian can only be read with the model and vocabulary that it was made for, by"
            " fairseq-hrt import"
        ) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a shortlist: {error}") from error


def _read_lex(
    path: Path, lines: Iterator[str], source: Words, target: Words
) -> Dict[int, List[int]]:
    scored: Dict[int, Dict[int, float]] = {}
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if not parts:
            continue
        try:
            word, given, probability = parts[0], parts[1], float(parts[2])
        except (IndexError, ValueError):
            raise ValueError(
                f"{path}: line {number} is {line[:80]!r}, not TARGET SOURCE PROBABILITY; give a lex"
                " or vmap file"
            ) from None
        if word in _EMPTY or given in _EMPTY:
            continue
        (one,), (other,) = source.ids([given]), target.ids([word])
        if one >= len(SPECIAL) and other >= len(SPECIAL):
            scored.setdefault(one, {})[other] = probability
    # By id at equal probability: the more frequent word first.
    return {
        one: sorted(sorted(given, key=lambda other: (-given[other], other))[:BEST])
        for one, given in scored.items()
    }


def _read_vmap(
    lines: Iterator[str], source: Words, target: Words
) -> Tuple[Dict[int, List[int]], Set[int]]:
    found: Dict[int, Set[int]] = {}
    always: Set[int] = set()
    for line in lines:
        given, _, words = line.partition("\t")
        candidates = {other for other in target.ids(words.split()) if other >= len(SPECIAL)}
        parts = given.split()
        if not parts:
            always |= candidates
            continue
        # A phrase's candidates are given to its first word: each sentence gets at least those that
        # the vmap lists for it.
        one = source.ids(parts[:1])[0]
        if one >= len(SPECIAL):
            found.setdefault(one, set()).update(candidates)
    return {one: sorted(candidates) for one, candidates in found.items()}, always


def read_shortlist(path: Path) -> Shortlist:
    """Reads a shortlist that a bundle stores. Whether its token ids fit the model is checked later,
    by :meth:`..runtime.engine.Engine.set_shortlist`.

    Raises:
        ValueError: the file is not a shortlist.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        parts = load_file(str(path))
    except (SafetensorError, *DAMAGED) as error:
        raise ValueError(
            f"{path} is not a shortlist: {error!s:.200}; make the bundle again with --shortlist"
            " FILE"
        ) from None
    types = {"offsets": np.int64, "candidates": np.int32, "always": np.int32}
    if set(parts) != set(types) or any(
        parts[name].dtype != kind or parts[name].ndim != 1 for name, kind in types.items()
    ):
        raise ValueError(
            f"{path} is not a shortlist: it must hold vectors of integers named {', '.join(types)};"
            " make the bundle again with --shortlist FILE"
        )
    offsets, size = parts["offsets"], parts["candidates"].size
    if not offsets.size or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"{path} is not a shortlist: its offsets must ascend from 0 to {size}, the number of"
            " its candidates; make the bundle again with --shortlist FILE"
        )
    return Shortlist(**parts)


def mean_candidates(shortlist: Shortlist, sentences: Sequence[Sequence[int]]) -> float:
    """The mean number of target words with which a sentence may be translated: the candidates of
    its source words and of every sentence. ``sentences`` are lists of source ids."""
    sizes = []
    for sentence in sentences:
        words = [
            shortlist.candidates[shortlist.offsets[word] : shortlist.offsets[word + 1]]
            for word in set(sentence)
        ]
        sizes.append(len(np.unique(np.concatenate([shortlist.always, *words]))))
    return sum(sizes) / max(len(sizes), 1)
