"""Words instead of ``<unk>`` where raw text goes in: unlike fairseq's commands, we know the words
that the dictionary does not."""

from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .dictionary import Words


def whole_words(subwords: Sequence[str], scheme: str) -> Tuple[List[str], List[int]]:
    """The words of a line, and for each subword the number of its word.

    Args:
        subwords: of the line.
        scheme: ``subword-nmt`` (``@@`` continues), ``sentencepiece`` (``▁`` begins) or ``none``.
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
) -> List[str]:
    """A translation's subwords with whole words of the source, or of a lexicon, in place of
    ``<unk>``.

    Args:
        tokens: of the translation.
        alignment: the source subword of each.
        source: subwords as they were before the dictionary.
        scheme: see :func:`whole_words`.
        lexicon: from source words to what is written for them.
        unknown: how the unknown word is written.
    """
    words, numbers = whole_words(source, scheme)
    # Behind the last subword stands </s>, which is not a word.
    mark = "▁" if scheme == "sentencepiece" else ""
    found: List[str] = []
    last: Optional[int] = None
    for token, subword in zip(tokens, alignment):
        place = numbers[subword] if subword < len(numbers) else len(words)
        if token != unknown or place == len(words):
            found.append(token)
            last = None
        elif place != last:
            # Several of one word are replaced together.
            found.append(mark + lexicon.get(words[place], words[place]))
            last = place
    return found


def read_lexicon(path: str) -> Dict[str, str]:
    """fairseq's format: a source word and its translation a line; an empty path is an empty
    lexicon.

    Raises:
        ValueError: the file cannot be read, or a line has fewer than two words.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--replace-unk {path}: the lexicon cannot be read: {error}") from error
    lexicon = {}
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if columns and len(columns) < 2:
            raise ValueError(
                f"--replace-unk {path}, line {number}: {line!r} is not a source word with its"
                " translation"
            )
        if columns:
            lexicon[columns[0]] = columns[1]
    return lexicon


def mostly_unknown(symbols: Sequence[str], known: Words, scheme: str) -> List[str]:
    """The words of a line that a model does not know, where they are more than half of its words;
    otherwise none.

    Args:
        symbols: subwords of the line.
        known: the source dictionary.
        scheme: see :func:`whole_words`.
    """
    ids = known.ids(symbols)
    if known.unk not in ids:
        return []
    missing = [number == known.unk for number in ids]
    words, numbers = whole_words(symbols, scheme)
    # Punctuation is known to every model.
    counted = [number for number, word in enumerate(words) if any(sign.isalnum() for sign in word)]
    unknown = {number for number, lacks in zip(numbers, missing) if lacks}.intersection(counted)
    return [words[number] for number in sorted(unknown)] if 2 * len(unknown) > len(counted) else []
