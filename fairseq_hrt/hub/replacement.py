"""Words instead of ``<unk>`` where raw text goes in: unlike fairseq's commands, we know the words that the dictionary does not."""

from typing import List, Mapping, Sequence, Tuple

from ..common.alignment import replace_unknown


def whole_words(subwords: Sequence[str], scheme: str) -> Tuple[List[str], List[int]]:
    """The words of a line, and for each subword the number of its word.

    Args:
        subwords: of the line.
        scheme: ``subword-nmt`` (``@@`` goes on), ``sentencepiece`` (``▁`` begins) or ``none``.
    """
    words: List[str] = []
    numbers: List[int] = []
    going_on = False
    for subword in subwords:
        begins = not words or (subword.startswith("▁") if scheme == "sentencepiece" else not going_on)
        if begins:
            words.append("")
        going_on = scheme == "subword-nmt" and subword.endswith("@@")
        words[-1] += subword[:-2] if going_on else subword.replace("▁", "") if scheme == "sentencepiece" else subword
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
    """A translation's subwords with whole words of the source, or of a lexicon, in place of ``<unk>``.

    Args:
        tokens: of the translation.
        alignment: the source subword of each.
        source: subwords as they were before the dictionary.
        scheme: see :func:`whole_words`.
        lexicon: from source words to what is written for them.
        unknown: how the unknown word is written.
    """
    words, numbers = whole_words(source, scheme)
    # Behind the last subword stands </s>, which is no word.
    places = [numbers[place] if place < len(numbers) else len(words) for place in alignment]
    mark = "▁" if scheme == "sentencepiece" else ""
    marked = {word: mark + lexicon.get(word, word) for word in words}
    return replace_unknown(tokens, places, words, marked, unknown)
