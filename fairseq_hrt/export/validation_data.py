"""Sentences of binarised data, of the validation set if there is one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ..native.text.dictionary import Words

# Sentences of the validation set that are compared, and subwords of each at most.
COMPARED, LONGEST = 200, 40
Rows = Sequence[Any]


def validation_sides(
    data: Path, languages: Tuple[str, str]
) -> Iterator[Tuple[Rows, Optional[Rows]]]:
    """Yields, for each of the subsets ``valid``, ``test`` and ``train`` that has sentences, the
    source and the target side as rows of ids; None as the target side if the data have only
    sources."""
    source, target = languages
    for subset in ("valid", "test", "train"):
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            sides = [_loaded(data / f"{subset}.{pair}.{language}") for language in languages]
            if sides[0] is not None and len(sides[0]):
                yield sides[0], sides[1]
                break


def _loaded(path: Path) -> Optional[Rows]:
    """One side of a subset as rows of ids; None if its file, ``path`` with the suffix ``.bin``, is
    missing, or empty, which fairseq cannot map."""
    from fairseq.data import data_utils

    content = path.with_name(f"{path.name}.bin")
    if not content.is_file() or not content.stat().st_size:
        return None
    found: Optional[Rows] = data_utils.load_indexed_dataset(str(path), None)
    return found


@dataclass(frozen=True)
class Sentences:
    """Some sentences of one side of the data, in three forms.

    Attributes:
        rows: the subwords of each sentence.
        words: the words of each sentence, separated by spaces.
        raw: the raw text of each sentence; empty if it is not known.
    """

    rows: List[List[str]]
    words: List[str]
    raw: List[str]


def sampled(
    rows: Rows,
    words: Words,
    subwords: str,
    data: Path,
    join: Callable[[str], str],
    sources: Optional[Sequence[str]],
) -> Sentences:
    """Chooses up to COMPARED sentences without unknown words, spread over one side of the data.

    Args:
        rows: the ids of each sentence of this side.
        words: the dictionary of this side.
        subwords: the kind of subwords, e.g. ``sentencepiece``.
        data: the folder, for messages.
        join: turns subwords, separated by spaces, into words.
        sources: the raw text of each sentence; None: unknown, and sentences of more than LONGEST
            subwords are cut after a word.
    """
    found, raw = [], []
    step = max(1, len(rows) // (2 * COMPARED))
    for number in range(0, len(rows), step):
        ids = rows[number].tolist()[:-1]
        if ids and max(ids) >= len(words):
            raise ValueError(
                f"{data}: its sentences have the word id {max(ids)}, but its dictionary has only"
                f" {len(words)} words: put the dictionary with which the sentences were binarised"
                " there"
            )
        if words.unk in ids:
            continue
        symbols = [words.words[one] for one in ids]
        if sources is None:
            symbols = symbols[: _whole(symbols, subwords)]
        if symbols:
            found.append(symbols)
            raw += [] if sources is None else [sources[number]]
        if len(found) == COMPARED:
            break
    return Sentences(found, [join(" ".join(row)) for row in found], raw)


def _whole(symbols: Sequence[str], subwords: str) -> int:
    """How many of the leading ``symbols``, LONGEST at most, can be kept without cutting a word in
    two; 0 if none. ``subwords`` names the kind of the symbols, e.g. "sentencepiece"."""
    for end in range(min(len(symbols), LONGEST), 0, -1):
        if subwords == "sentencepiece":
            if end == len(symbols) or symbols[end].startswith("\u2581"):
                return end
        elif not symbols[end - 1].endswith("@@"):
            return end
    return 0
