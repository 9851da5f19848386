"""Puts the marks of a text (tags, placeholders) into its translation, by the alignment of words.

For example, ``the <b>red</b> car`` becomes ``das <b>rote</b> Auto``. Each mark is written once, and
elements stay nested as they were.
"""

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Tuple

from .word_alignment import Link, Words, origins

# Signs without a space before them.
_CLOSING = tuple(",.;:!?)]}…%")


@dataclass(eq=False)
class Mark:
    """An element around text, or a unit: a placeholder, image or code, which is not text.

    Attributes:
        opening, closing: its tags; for a unit ``opening`` is all of it.
        start, end: its span of characters in the text.
        inside: the marks within it.
        space_before, space_after: whether white space stands before and after a unit.
        leading: whether a unit begins a line.
        glued: whether a unit directly precedes a letter and does not directly follow one.
    """

    opening: str
    start: int
    closing: str = ""
    end: int = 0
    inside: "List[Mark]" = field(default_factory=list)
    space_before: bool = False
    space_after: bool = False
    leading: bool = False
    glued: bool = False


def write_marks(
    root: Mark, text: str, translation: str, found: Sequence[Link], escape: Callable[[str], str]
) -> str:
    """The translation with the marks of the text.

    Args:
        root: a mark around the whole text.
        text: the text without marks.
        translation: its translation.
        found: the links between the two.
        escape: applied to each piece of text that is written.
    """
    source, target = Words(text), Words(translation)
    layout = _Layout(source, len(target), origins(source, target, found))
    writer = _Writer(translation, target, escape)
    _write(root, layout, writer, 0, len(target))
    writer.to(len(translation))
    return "".join(writer.parts)


_Placed = Tuple[int, int, int, Mark]


class _Layout:
    """Finds the words of a translation that belong to each mark.

    Args:
        source: the words of the text.
        count: the number of words of the translation.
        origin: for each of these the number of its source word, or -1.
    """

    def __init__(self, source: Words, count: int, origin: Sequence[int]) -> None:
        self.source, self.origin = source, origin
        size = len(source)
        first, last = [-1] * size, [-1] * size
        for word, own in enumerate(origin):
            if own >= 0:
                last[own] = word
                if first[own] < 0:
                    first[own] = word
        # For each gap between words of the text: (words to the nearest aligned word on that side,
        # the gap beside that word's translation). On the left the beginning counts as aligned.
        self._left = [(0, 0)]
        for word in range(size):
            distance, place = self._left[-1]
            self._left.append((distance + 1, place) if last[word] < 0 else (0, last[word] + 1))
        self._right = [(size + 1, count)]
        for word in reversed(range(size)):
            distance, place = self._right[-1]
            self._right.append((distance + 1, place) if first[word] < 0 else (0, first[word]))
        self._right.reverse()

    def inside(self, mark: Mark, low: int, high: int) -> List[_Placed]:
        """Places the marks inside ``mark``, whose translation is the words ``low`` to ``high`` - 1:
        tuples (first word, end, number, mark) in the order of the translation."""
        spans = [
            (self.source.before(one.start), self.source.before(one.end)) for one in mark.inside
        ]
        chosen = self._spans(
            spans, self.source.before(mark.start), self.source.before(mark.end), low, high
        )
        # Spans do not overlap, so sorting them by first word also sorts them by end.
        taken = sorted((*span, number) for number, span in enumerate(chosen) if span is not None)
        placed: List[_Placed] = []
        for number, (one, span) in enumerate(zip(mark.inside, chosen)):
            if span is None:
                place = self._between(
                    min(max(self._beside(spans[number], one), low), high), number, taken
                )
                span = place, place
            placed.append((*span, number, one))
        return sorted(placed, key=lambda entry: entry[:3])

    def _spans(
        self, spans: Sequence[Tuple[int, int]], first: int, end: int, low: int, high: int
    ) -> List[Optional[Tuple[int, int]]]:
        """For each span of source words the stretch (first word, end) of the translation that fits
        it best; None if no word is aligned with it.

        The best stretch has the highest score: 2 for each word from the span, -1 for each aligned
        word from outside all spans. It holds no word of another span, so that stretches do not
        overlap.
        """
        owner = [-1] * (end - first)
        for number, (start, stop) in enumerate(spans):
            owner[start - first : stop - first] = [number] * (stop - start)
        best = [0] * len(spans)
        chosen: List[Optional[Tuple[int, int]]] = [None] * len(spans)
        current, begin, score = -1, low, 0
        for word in range(low, high):
            origin = self.origin[word]
            if origin < 0:
                continue
            own = owner[origin - first] if first <= origin < end else -1
            if own < 0:
                score -= 1
                continue
            if own != current or score <= 0:
                current, begin, score = own, word, 0
            score += 2
            if score > best[own]:
                best[own], chosen[own] = score, (begin, word + 1)
        return chosen

    def _beside(self, span: Tuple[int, int], mark: Mark) -> int:
        """The gap in the translation for a mark without words: beside the nearest aligned word."""
        (before, left), (after, right) = self._left[span[0]], self._right[span[1]]
        return right if after < before or (mark.glued and after == before) else left

    @staticmethod
    def _between(place: int, number: int, taken: "Sequence[Tuple[int, int, int]]") -> int:
        """``place``, unless it lies inside a stretch of another mark: then that stretch's beginning
        or end, whichever keeps the order of the marks."""
        low, high = 0, len(taken)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if taken[middle][1] <= place else (low, middle)
        if low < len(taken) and taken[low][0] < place:
            return taken[low][0] if number < taken[low][2] else taken[low][1]
        return place


class _Writer:
    """Writes a translation from left to right, and marks in between."""

    def __init__(self, text: str, words: Words, escape: Callable[[str], str]) -> None:
        self.text, self.words, self.escape = text, words, escape
        self.parts: List[str] = []
        self._place = 0
        self._last, self._space = "", False

    def to(self, place: int) -> None:
        """Writes the text up to the character ``place``."""
        if place > self._place:
            piece = self.text[self._place : place]
            self._settle(piece[0])
            self.parts.append(self.escape(piece))
            self._place, self._last = place, piece[-1]

    def beginning(self, word: int) -> None:
        """Writes the text up to a word, before which the opening tag of an element will follow."""
        self.to(self.words.starts[word])
        self._settle(self.text[self._place])

    def beside(self, place: int, leading: bool) -> None:
        """Writes the text up to the gap before word ``place``: to the end of the word before it,
        or, if ``leading``, to the beginning of that word."""
        if place < len(self.words) and (leading or not place):
            self.to(self.words.starts[place])
        elif place:
            self.to(self.words.ends[place - 1])

    def unit(self, written: str, before: bool, after: bool) -> None:
        """Writes a unit, with a space before and after it where there was white space."""
        if (before or self._space) and self._last and not self._last.isspace():
            self.parts.append(" ")
        self.parts.append(written)
        self._last, self._space = written[-1], after

    def _settle(self, following: str) -> None:
        """Writes the space after a unit, unless a punctuation mark such as a comma follows."""
        if self._space and not following.isspace() and following not in _CLOSING:
            self.parts.append(" ")
        self._space = False


def _write(mark: Mark, layout: _Layout, writer: _Writer, low: int, high: int) -> None:
    for start, end, _, one in layout.inside(mark, low, high):
        if start < end:
            writer.beginning(start)
            writer.parts.append(one.opening)
            _write(one, layout, writer, start, end)
            writer.to(writer.words.ends[end - 1])
            writer.parts.append(one.closing)
            continue
        first, last = _leaf(one, 0), _leaf(one, -1)
        writer.beside(start, (first.leading or first.glued) and start < high)
        writer.unit(_whole(one), first.space_before, last.space_after)


def _leaf(mark: Mark, side: int) -> Mark:
    while mark.inside:
        mark = mark.inside[side]
    return mark


def _whole(mark: Mark) -> str:
    """A mark with all marks inside it, for marks without words in the translation."""
    parts = [mark.opening]
    for number, one in enumerate(mark.inside):
        if number and (
            _leaf(one, 0).space_before or _leaf(mark.inside[number - 1], -1).space_after
        ):
            parts.append(" ")
        parts.append(_whole(one))
    return "".join((*parts, mark.closing))
