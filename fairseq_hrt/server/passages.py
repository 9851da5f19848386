"""Text across inline elements: translated as one text, the elements put back by its alignment.

What is not text at all (placeholders, addresses, code, images, comments) is cut out before and put
back like an element without words. Each element and each such unit is written once, whatever the
alignment; elements stay nested as they were.
"""

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Tuple, Union

from .alignment import Link, Words, origins
from .placeholders import without_placeholders

# Signs without a space before them.
_CLOSING = tuple(",.;:!?)]}…%")
_LINE_BREAKS = tuple("\r\n\x0b\x0c\x85\u2028\u2029")


@dataclass(eq=False)
class _Mark:
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
    inside: "List[_Mark]" = field(default_factory=list)
    space_before: bool = False
    space_after: bool = False
    leading: bool = False
    glued: bool = False


class Passage:
    """A text with marks.

    Args:
        escape: how text is written.

    Attributes:
        text: what is translated.
    """

    def __init__(self, escape: Callable[[str], str] = str) -> None:
        self.text = ""
        self._escape = escape
        self._root = _Mark("", 0)
        self._open = [self._root]
        self._written: List[str] = []
        self._parts: List[str] = []
        self._length = 0
        self._last = ""
        # The unit behind which no text stands yet, and whether a space before it was cut off.
        self._unit: Optional[_Mark] = None
        self._cut = False
        self._worded = False
        # Whether text stands directly before.
        self._bare = False

    @property
    def marked(self) -> bool:
        """Whether it holds marks."""
        return bool(self._root.inside)

    def add(self, text: str) -> None:
        """Adds text, at least one character, to the end."""
        self._written.append(self._escape(text))
        self._bare = True
        if self._unit is not None:
            unit, self._unit = self._unit, None
            unit.space_after = text[0].isspace()
            if unit.leading and text[0] == " ":
                # A line must not begin with the space behind what was cut out.
                text = text[1:]
                if not text:
                    self._bare = False
                    return
            unit.glued = (
                text[0].isalnum() and not unit.leading and (self._cut or not self._last.isalnum())
            )
            if self._cut and not text[0].isspace() and any(sign.isalnum() for sign in text[:2]):
                # Two words stay two.
                self._append(" ")
        self._append(text)
        self._cut = False

    def unit(self, written: str) -> None:
        """Adds what is not text.

        Args:
            written: as it is written.
        """
        self._written.append(written)
        unit = _Mark(written, self._length, leading=not self._worded or self._last in _LINE_BREAKS)
        unit.space_before = self._unit is None and self._last.isspace()
        if self._bare and self._last == " " and not unit.leading:
            # Otherwise a comma behind the unit would have a space before it.
            self._parts[-1] = self._parts[-1][:-1]
            self._length -= 1
            self._cut, self._last = True, self._parts[-1][-1:]
            for element in self._open:
                element.start = min(element.start, self._length)
        unit.start = unit.end = self._length
        self._open[-1].inside.append(unit)
        self._unit, self._bare = unit, False

    def open(self, written: str) -> None:
        """Begins an element."""
        self._written.append(written)
        element = _Mark(written, self._length)
        self._open[-1].inside.append(element)
        self._open.append(element)
        self._bare = False

    def close(self, written: str) -> None:
        """Ends the element that was begun last."""
        self._written.append(written)
        element = self._open.pop()
        element.closing, element.end = written, self._length
        self._bare = False

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        self._last = text[-1]
        self._worded = self._worded or not text.isspace()

    def finish(self) -> None:
        """Ends the text."""
        self.text = "".join(self._parts)
        self._root.end = self._length

    def untranslated(self) -> str:
        """As it was."""
        return "".join(self._written)

    def write(self, translation: str, found: Sequence[Link]) -> str:
        """The translation with its marks.

        Args:
            translation: of ``text``; without its marks the result is this text.
            found: between ``text`` and the translation.
        """
        if not self.marked:
            return self._escape(translation)
        source, target = Words(self.text), Words(translation)
        layout = _Layout(source, len(target), origins(source, target, found))
        writer = _Writer(translation, target, self._escape)
        _write(self._root, layout, writer, 0, len(target))
        writer.to(len(translation))
        return "".join(writer.parts)


class Document:
    """A text of a request: passages, and what is written between them.

    Args:
        escape: how text is written.
        aligned: whether translations come with alignments; without them each piece of text between
            two marks is a passage.

    Attributes:
        passages: in their order; each has text to be translated.
    """

    def __init__(self, escape: Callable[[str], str] = str, aligned: bool = False) -> None:
        self.passages: List[Passage] = []
        self._escape, self._aligned = escape, aligned
        self._parts: List[Union[str, Passage]] = []
        # What is added to.
        self.passage = Passage(escape)

    def add(self, text: str) -> None:
        """Adds text whose placeholders are kept."""
        for piece, is_placeholder in without_placeholders(text):
            if not is_placeholder:
                self.passage.add(piece)
            elif self._aligned:
                self.passage.unit(self._escape(piece))
            else:
                self.end(self._escape(piece))

    def end(self, written: str = "") -> None:
        """Ends a passage.

        Args:
            written: what is written behind it.
        """
        ended, self.passage = self.passage, Passage(self._escape)
        ended.finish()
        if ended.text.strip():
            self.passages.append(ended)
            self._parts += [ended, written]
        else:
            self._parts += [ended.untranslated(), written]

    def join(self, translations: Sequence[str]) -> str:
        """The whole, its passages as they are written now."""
        written = iter(translations)
        return "".join(next(written) if isinstance(part, Passage) else part for part in self._parts)


_Placed = Tuple[int, int, int, _Mark]


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

    def inside(self, mark: _Mark, low: int, high: int) -> List[_Placed]:
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

    def _beside(self, span: Tuple[int, int], mark: _Mark) -> int:
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


def _write(mark: _Mark, layout: _Layout, writer: _Writer, low: int, high: int) -> None:
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


def _leaf(mark: _Mark, side: int) -> _Mark:
    while mark.inside:
        mark = mark.inside[side]
    return mark


def _whole(mark: _Mark) -> str:
    """A mark none of whose words was translated."""
    parts = [mark.opening]
    for number, one in enumerate(mark.inside):
        if number and (
            _leaf(one, 0).space_before or _leaf(mark.inside[number - 1], -1).space_after
        ):
            parts.append(" ")
        parts.append(_whole(one))
    return "".join((*parts, mark.closing))
