"""Words instead of ``<unk>`` where raw text goes in: unlike fairseq's commands, we know the words
that the dictionary does not."""

from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple


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
    places = [numbers[place] if place < len(numbers) else len(words) for place in alignment]
    mark = "▁" if scheme == "sentencepiece" else ""
    marked = {word: mark + lexicon.get(word, word) for word in words}
    return replace_unknown(tokens, places, words, marked, unknown)


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


def replace_unknown(
    tokens: Sequence[str],
    alignment: Sequence[int],
    source: Sequence[str],
    lexicon: Mapping[str, str],
    unknown: str,
) -> List[str]:
    """Words instead of ``<unk>``: the translation that the lexicon has for the source word, or the
    source word itself.

    Args:
        tokens: a translation.
        alignment: the place in ``source`` of each token.
        source: whole words, or subwords; those of one word give one replacement.
        lexicon: see :func:`read_lexicon`.
        unknown: how the unknown word is written.
    """
    found: List[str] = []
    last: Optional[int] = None
    for token, place in zip(tokens, alignment):
        if token != unknown or place >= len(source):
            found.append(token)
            last = None
        elif place != last:
            found.append(lexicon.get(source[place], source[place]))
            last = place
    return found
