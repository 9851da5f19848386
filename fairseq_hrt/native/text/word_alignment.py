"""Which words of a translation come from which words of its source, in the raw texts of both.

Models align subwords. Between them and a raw text stand normalisation, tokenisation and their
reversals, of which only the results are known here: subwords are looked for in the text, from left
to right.
"""

import re
from bisect import bisect_left, bisect_right
from typing import Dict, List, NamedTuple, Sequence, Tuple

# Scripts without spaces between words, whose signs are words here: Thai to Lao, Japanese, Chinese.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+(?:[-'’.,@/][^\\W{_UNSPACED}]+)*|\\S")
# Characters that may stand before a subword and belong to none: what a normaliser replaced.
_SLACK = 8
# Of the subwords before that were not found; each of these is looked for in no longer a stretch.
_MOST_MISSING = 200


class Link(NamedTuple):
    """A subword of a translation and where it comes from.

    Attributes:
        start, end: its characters in the translation.
        source: a character of the source, in the middle of the subword that it is aligned with.
    """

    start: int
    end: int
    source: int


class Words:
    """The words and signs of a text: all that is not white space belongs to one.

    Attributes:
        starts, ends: of each in the text.
        signs: whether each is a sign and no word.
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
        """How many words stand before a character, a word with its middle counting."""
        return bisect_left(self._twice_middles, 2 * place)

    def at(self, start: int, end: int) -> range:
        """The words that share characters with a span."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end))


def links(
    source: str,
    subwords: Sequence[str],
    translation: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
) -> List[Link]:
    """The links of a sentence.

    Args:
        source, translation: raw texts.
        subwords: of the source.
        tokens: of the translation.
        alignment: for each token the place of a subword; one behind the last stands for ``</s>``.
    """
    places, spans = _locate(source, subwords), _locate(translation, tokens)
    return [
        Link(start, end, (places[place][0] + places[place][1]) // 2)
        for (start, end), place in zip(spans, alignment)
        if start < end and 0 <= place < len(places) and places[place][0] < places[place][1]
    ]


def _locate(text: str, subwords: Sequence[str]) -> List[Tuple[int, int]]:
    """The characters of each subword; none, (n, n), of what the text has otherwise."""
    spans, place, missing = [], 0, 0
    for subword in subwords:
        written = subword.removesuffix("@@").replace("\u2581", "")
        while place < len(text) and text[place].isspace():
            place += 1
        start = text.find(written, place, place + missing + len(written) + _SLACK)
        if start < 0 or not written:
            spans.append((place, place))
            missing = min(missing + len(written), _MOST_MISSING)
        else:
            place = start + len(written)
            spans.append((start, place))
            missing = 0
    return spans


def origins(source: Words, translation: Words, found: Sequence[Link]) -> List[int]:
    """For each word of a translation the word of the source that most of it comes from; -1 where
    that is unknown.

    Signs come from signs, words from words: attention often looks elsewhere at the end of a
    sentence.
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
