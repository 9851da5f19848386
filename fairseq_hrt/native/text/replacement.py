"""Replaces ``<unk>`` in translations by source words (``--replace-unk``). Unlike fairseq's
commands, translation from raw text still has the source words that the dictionary lacks."""

from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .dictionary import Words


def whole_words(subwords: Sequence[str], scheme: str) -> Tuple[List[str], List[int]]:
    """Joins subwords to words. Returns the words, and for each subword the index of its word.

    Args:
        subwords: the subwords of a line.
        scheme: ``subword-nmt`` (``@@`` continues a word), ``sentencepiece`` (``▁`` begins one) or
            ``none``.
    """
    words: List[str] = []
    numbers: List[int] = []
    going_on = False
    for subword in subwords:
        begins = not words or (
            subword.startswith("▁") if scheme == "sentencepiece" else not going_on
        )
        if begins:
            words.append("")
        going_on = scheme == "subword-nmt" and subword.endswith("@@")
        words[-1] += (
            subword[:-2]
            if going_on
            else subword.replace("▁", "")
            if scheme == "sentencepiece"
            else subword
        )
        numbers.append(len(words) - 1)
    return words, numbers


def with_words(
    tokens: Sequence[str],
    alignment: Sequence[int],
    source: Sequence[str],
    *,
    scheme: str,
    lexicon: Mapping[str, str],
    unknown: str,
    first: int = 0,
) -> List[str]:
    """The subwords of a translation, with ``<unk>`` replaced by the aligned source word or by that
    word's translation in a lexicon.

    Args:
        tokens: the translation's subwords.
        alignment: for each of ``tokens`` the index of the source subword that it is aligned with;
            ``len(source)`` is ``</s>``. An ``<unk>`` aligned with that, or with a language token,
            is kept.
        source: the source's subwords, unknown ones as they are in the text.
        scheme: the kind of subwords, see :func:`whole_words`.
        lexicon: {source word: its translation}.
        unknown: the token to replace, ``<unk>``.
        first: the number of language tokens at the beginning of ``source``.
    """
    words, numbers = whole_words(source, scheme)
    mark = "▁" if scheme == "sentencepiece" else ""
    found: List[str] = []
    last: Optional[int] = None
    for token, subword in zip(tokens, alignment):
        place = numbers[subword] if first <= subword < len(numbers) else None
        if token != unknown or place is None:
            found.append(token)
            last = None
        elif place != last:
            # Consecutive <unk> of the same source word are replaced by it once.
            found.append(mark + lexicon.get(words[place], words[place]))
            last = place
    return found


def read_lexicon(path: str) -> Dict[str, str]:
    """Reads a lexicon in fairseq's format, a source word and its translation per line; an empty
    path gives an empty lexicon.

    Raises:
        ValueError: the file cannot be read, or a line has fewer than two words.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--replace-unk {path}: the lexicon cannot be read: {error}") from error
    lexicon = {}
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if columns and len(columns) < 2:
            raise ValueError(
                f"--replace-unk {path}, line {number}: {line!r} is not a source word with its"
                " translation: write both, separated by a space"
            )
        if columns:
            lexicon[columns[0]] = columns[1]
    return lexicon


def unknown_words(symbols: Sequence[str], known: Words, scheme: str) -> List[str]:
    """The words and punctuation marks of a line that the dictionary lacks at least in part: one of
    their subwords, such as a rare character, is not in it.

    Args:
        symbols: the subwords of the line.
        known: the source dictionary.
        scheme: the kind of subwords, see :func:`whole_words`.
    """
    ids = known.ids(symbols)
    if known.unk not in ids:
        return []
    words, numbers = whole_words(symbols, scheme)
    lacking = {number for number, found in zip(numbers, ids) if found == known.unk}
    return [words[number] for number in sorted(lacking)]


def mostly_unknown(symbols: Sequence[str], known: Words, scheme: str) -> List[str]:
    """The words of a line that the dictionary lacks at least in part, if they are more than half of
    its words; else an empty list. For the arguments see :func:`unknown_words`."""

    # Punctuation does not count: every model has it.
    def counted(words: Sequence[str]) -> List[str]:
        return [word for word in words if any(map(str.isalnum, word))]

    unknown = counted(unknown_words(symbols, known, scheme))
    # Most lines have none.
    if not unknown or 2 * len(unknown) <= len(counted(whole_words(symbols, scheme)[0])):
        return []
    return unknown
