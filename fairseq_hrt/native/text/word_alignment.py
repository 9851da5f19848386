"""Alignment of the words of a translation with those of its source, in raw text.

Models align subwords. Raw text differs from them by normalisation and tokenisation, of which only
the result is known here: each subword is searched in the text, from left to right.
"""

import re
from bisect import bisect_left, bisect_right
from typing import Dict, List, NamedTuple, Sequence, Tuple

from .moses import unescape

# Scripts without spaces between words, of which each character is a word: Thai, Lao, Japanese,
# Chinese.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+(?:[-'’.,@/][^\\W{_UNSPACED}]+)*|\\S")
# A subword is searched in the next characters: its own length, that of the subwords before it which
# were not found (at most _MOST_MISSING), and _SLACK for what a normaliser replaced.
_SLACK = 8
_MOST_MISSING = 200


class Link(NamedTuple):
    """A subword of a translation and the source subword that it is aligned with.

    Attributes:
        start, end: the span of characters of the subword in the translation.
        source: the middle character of the source subword.
    """

    start: int
    end: int
    source: int


class Words:
    """The words and punctuation marks of a text; every character but white space belongs to one.

    Attributes:
        starts, ends: the span of each in the text.
        signs: whether each is punctuation rather than a word.
    """

    def __init__(self, text: str) -> None:
        spans = [found.span() for found in _WORD.finditer(text)]
        self.starts: List[int] = [start for start, _ in spans]
        self.ends: List[int] = [end for _, end in spans]
        self.signs: List[bool] = [not text[start].isalnum() for start in self.starts]
        self._twice_middles = [start + end for start, end in spans]

    def __len__(self) -> int:
        return len(self.starts)

    def before(self, place: int) -> int:
        """The number of words whose middle lies before a character."""
        return bisect_left(self._twice_middles, 2 * place)

    def at(self, start: int, end: int) -> range:
        """The numbers of the words that overlap a span of characters."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end))


def links(
    source: str,
    subwords: Sequence[str],
    translation: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
) -> List[Link]:
    """Turns the alignment of subwords into links between raw texts.

    Args:
        source, translation: raw texts of a sentence.
        subwords: the source's subwords.
        tokens: the translation's subwords.
        alignment: for each token the index of a source subword; ``len(subwords)`` is ``</s>``.
    """
    places, spans = locate(source, subwords), locate(translation, tokens)
    return [
        Link(start, end, (places[place][0] + places[place][1]) // 2)
        for (start, end), place in zip(spans, alignment)
        if start < end and 0 <= place < len(places) and places[place][0] < places[place][1]
    ]


def locate(text: str, subwords: Sequence[str]) -> List[Tuple[int, int]]:
    """The span (start, end) of each subword in the text; empty, (n, n), for subwords that are not
    found, as after normalisation."""
    spans, place, missing = [], 0, 0
    lowered = text.lower()
    # Some letters have a lower case of two characters.
    texts = (text, lowered) if len(lowered) == len(text) else (text,)
    for subword in subwords:
        written = subword.removesuffix("@@").replace("\u2581", "")
        # Variants of Moses write signs otherwise.
        written = "-" if written == "@-@" else unescape(written)
        while place < len(text) and text[place].isspace():
            place += 1
        end = place + missing + len(written) + _SLACK
        start = max(one.find(written, place, end) for one in texts)
        if start < 0 or not written:
            spans.append((place, place))
            missing = min(missing + len(written), _MOST_MISSING)
        else:
            place = start + len(written)
            spans.append((start, place))
            missing = 0
    return spans


def origins(source: Words, translation: Words, found: Sequence[Link]) -> List[int]:
    """For each word of a translation the number of the source word to which most of its characters
    are linked; -1 if there is none.

    Punctuation is only linked with punctuation and words with words: at the end of a sentence
    attention is often on other tokens.
    """
    votes: List[Dict[int, int]] = [{} for _ in translation.starts]
    for link in found:
        for origin in source.at(link.source, link.source + 1):
            for word in translation.at(link.start, link.end):
                if source.signs[origin] == translation.signs[word]:
                    shared = min(link.end, translation.ends[word]) - max(
                        link.start, translation.starts[word]
                    )
                    votes[word][origin] = votes[word].get(origin, 0) + shared
    return [max(own, key=lambda origin: own[origin]) if own else -1 for own in votes]
