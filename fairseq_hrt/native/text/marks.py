"""The marks of a text, put where they belong in its translation: by the alignment of its words,
each once, nested as they were."""

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Tuple

from .word_alignment import Link, Words, origins

# Signs without a space before them.
_CLOSING = tuple(",.;:!?)]}…%")


@dataclass(eq=False)
class Mark:
    """An element, or a unit that is not text.

    Attributes:
        opening, closing: how it is written; a unit is all opening.
        start, end: its characters in the text.
        inside: the marks in it.
        space_before, space_after: whether white space stands around a unit.
        leading: whether a unit begins a line.
        glued: whether a unit stands directly before a letter and directly behind none.
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
    """A translation with the marks of its text.

    Args:
        root: the mark that is the whole text.
        found: between ``text`` and ``translation``.
        escape: how text is written.
    """
    source, target = Words(text), Words(translation)
    layout = _Layout(source, len(target), origins(source, target, found))
    writer = _Writer(translation, target, escape)
    _write(root, layout, writer, 0, len(target))
    writer.to(len(translation))
    return "".join(writer.parts)


_Placed = Tuple[int, int, int, Mark]


class _Layout:
    """Finds the words of a translation that belong to a mark.

    Args:
        source: the words of the text.
        count: how many words the translation has.
        origin: the word of the text that each comes from, or -1.
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
        # For each place between words of the text: (how far the next aligned word is, the place
        # beside its translation). The beginning stays one.
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
        """The marks inside of one that has the words ``low`` to ``high``: (first word, end, number,
        mark), in the order of the translation."""
        spans = [
            (self.source.before(one.start), self.source.before(one.end)) for one in mark.inside
        ]
        chosen = self._spans(
            spans, self.source.before(mark.start), self.source.before(mark.end), low, high
        )
        # By the word before which one of them ends: what is between is inside of another.
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
        """The stretch of a translation that fits each span of the text best; None where no word
        comes from it.

        That with the most: two for each word from the span, minus one for each other one. No
        stretch holds a word of another span, so that they never overlap.
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
        """The place of a mark without words in the translation: beside that of the nearest word."""
        (before, left), (after, right) = self._left[span[0]], self._right[span[1]]
        return right if after < before or (mark.glued and after == before) else left

    @staticmethod
    def _between(place: int, number: int, taken: "Sequence[Tuple[int, int, int]]") -> int:
        """The place, or the end of the stretch around it: that nearer to where the mark was."""
        low, high = 0, len(taken)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if taken[middle][1] <= place else (low, middle)
        if low < len(taken) and taken[low][0] < place:
            return taken[low][0] if number < taken[low][2] else taken[low][1]
        return place


class _Writer:
    """Writes a translation and, at places in it, marks."""

    def __init__(self, text: str, words: Words, escape: Callable[[str], str]) -> None:
        self.text, self.words, self.escape = text, words, escape
        self.parts: List[str] = []
        self._place = 0
        self._last, self._space = "", False

    def to(self, place: int) -> None:
        """Writes the text up to a character."""
        if place > self._place:
            piece = self.text[self._place : place]
            self._settle(piece[0])
            self.parts.append(self.escape(piece))
            self._place, self._last = place, piece[-1]

    def beginning(self, word: int) -> None:
        """Writes the text up to a word, which an element begins with."""
        self.to(self.words.starts[word])
        self._settle(self.text[self._place])

    def beside(self, place: int, leading: bool) -> None:
        """Writes the text up to a place between two words: to the end of the first one, or to the
        beginning of the second."""
        if place < len(self.words) and (leading or not place):
            self.to(self.words.starts[place])
        elif place:
            self.to(self.words.ends[place - 1])

    def unit(self, written: str, before: bool, after: bool) -> None:
        """Writes a unit with the white space that stood around it."""
        if (before or self._space) and self._last and not self._last.isspace():
            self.parts.append(" ")
        self.parts.append(written)
        self._last, self._space = written[-1], after

    def _settle(self, following: str) -> None:
        """Writes the space behind a unit, unless a sign follows that has none before it."""
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
    """A mark none of whose words was translated."""
    parts = [mark.opening]
    for number, one in enumerate(mark.inside):
        if number and (
            _leaf(one, 0).space_before or _leaf(mark.inside[number - 1], -1).space_after
        ):
            parts.append(" ")
        parts.append(_whole(one))
    return "".join((*parts, mark.closing))
