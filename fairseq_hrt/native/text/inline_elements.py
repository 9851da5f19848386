"""Puts the marks of a text (tags, placeholders) into its translation, by the alignment of words.

For example, ``the <b>red</b> car`` becomes ``das <b>rote</b> Auto``. Each mark is written once, and
elements stay nested as they were.
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Callable, FrozenSet, Iterator, List, Optional, Sequence, Tuple

from .word_alignment import Link, Words, cut_words, digit_runs, has_digits, is_number, origins

# Signs without a space before them.
_CLOSING = tuple(",.;:!?)]}…%")


@dataclass(eq=False)
class Mark:
    """What is written into a translation: an element around some of the text, or a unit
    (placeholder, image or code), which is not translated.

    Attributes:
        opening, closing: the tags of an element; ``opening`` is the whole of a unit, whose
            ``closing`` is empty.
        start, end: an element encloses the characters [start, end) of the text without marks; for
            a unit, which is placed before character ``start``, both are the same.
        inside: the marks directly within this one.
        space_before, space_after: whether white space stands before and after a unit.
        preceding, following: where the space directly before or after a unit was removed from the
            text, the character beyond it (``preceding``: if that is white space); else empty.
        leading: whether a unit begins a line.
        glued: whether a unit belongs to the word after it: a letter or digit follows directly and
            none precedes; where the space before the unit was removed, at most one sign may stand
            between. Never at the beginning of a line.
    """

    opening: str
    start: int
    closing: str = ""
    end: int = 0
    inside: "List[Mark]" = field(default_factory=list)
    space_before: bool = False
    space_after: bool = False
    preceding: str = ""
    following: str = ""
    leading: bool = False
    glued: bool = False


def write_marks(
    root: Mark, text: str, translation: str, found: Sequence[Link], escape: Callable[[str], str]
) -> str:
    """Returns the translation with the marks of the text: an element encloses the translations of
    the words that it enclosed, and a unit (placeholder, image or code) is placed beside the
    translation of the aligned word nearest to it, on its left or right.

    Args:
        root: a mark around the whole text; its ``inside`` holds the marks to write.
        text: the text without marks.
        translation: the translation of ``text``, without marks.
        found: the links between the words of ``text`` and of ``translation``.
        escape: applied to each piece of the translation, e.g. to escape it for HTML.
    """
    source, target = Words(text), Words(translation)
    source, target, origin = cut_words(
        source, target, origins(source, target, found), _boundaries(root)
    )
    layout = _Layout(source, target, origin)
    writer = _Writer(target, escape)
    _write(root, layout, writer, 0, len(target))
    writer.to(len(translation))
    return "".join(writer.parts)


def mark_places(
    root: Mark, text: str, translation: str, found: Sequence[Link]
) -> Tuple[Words, List[Tuple[int, int]]]:
    """Finds the words of the translation that belong to each mark directly inside ``root``.

    Args:
        root, text, translation, found: see :func:`write_marks`. A mark may hold part of a word of
            the text; words of the translation are not cut.

    Returns:
        The words of the translation, and for each mark the indices [first, end) of the words that
        belong to it. These ranges do not overlap; a mark without words has an empty one.
    """
    source, target = Words(text).cut(_boundaries(root))[0], Words(translation)
    layout = _Layout(source, target, origins(source, target, found))
    placed = sorted(layout.inside(root, 0, len(target)), key=lambda entry: entry[2])
    return target, [(start, end) for start, end, _, _ in placed]


def _boundaries(mark: Mark) -> Iterator[int]:
    for one in mark.inside:
        yield from (one.start, one.end, *_boundaries(one))


_Placed = Tuple[int, int, int, Mark]


class _Layout:
    """Finds the words of a translation that belong to each mark.

    Args:
        source: the words of the text, cut where a mark begins or ends within one.
        target: the words of the translation.
        origin: for each word of the translation the index of its source word, or -1.
    """

    def __init__(self, source: Words, target: Words, origin: Sequence[int]) -> None:
        self.source, self.target, self.origin = source, target, origin
        size, count = len(source), len(target)
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

    def wordless(self, mark: Mark) -> bool:
        """Whether a mark encloses no words of the source text."""
        return self.source.before(mark.start) == self.source.before(mark.end)

    def gap(self, place: int) -> Tuple[int, int]:
        """The white space around index ``place`` of the source text, as (number of its characters
        before the place, number of all its characters)."""
        word = self.source.before(place)
        start = self.source.ends[word - 1] if word else 0
        end = self.source.starts[word] if word < len(self.source) else len(self.source.text)
        return place - start, end - start

    @cached_property
    def _translated(self) -> FrozenSet[int]:
        """The indices of the source words with which a word of the translation is aligned."""
        return frozenset(self.origin) - {-1}

    @cached_property
    def _other_number(self) -> bool:
        """Whether a number in the translation is aligned with no source word that has digits."""
        return any(
            has_digits(self.target[word]) and (own < 0 or not has_digits(self.source[own]))
            for word, own in enumerate(self.origin)
        )

    @cached_property
    def _missing_digits(self) -> "Counter[str]":
        """{run of digits: how many more times the source has it than the translation}."""
        return Counter(digit_runs(self.source.text)) - Counter(digit_runs(self.target.text))

    def lost_number(self, mark: Mark) -> Optional[Tuple[int, int]]:
        """The characters [start, end) of the source text that are the number in an element, if the
        translation lacks it; None for an element with other text, and where something else in the
        translation may stand for the number."""
        text = self.source.text
        number = text[mark.start : mark.end].strip()
        if not mark.closing or mark.inside or not is_number(number):
            return None
        start = text.index(number, mark.start)
        end = start + len(number)
        words = range(self.source.before(start), self.source.before(end))
        before, after = text[start - 1 : start], text[end : end + 1]
        if any(word in self._translated for word in words) or after.isalpha():
            return None
        if not any(digits in self._missing_digits for digits in digit_runs(number)):
            return None
        if before.isalnum() or before in _CLOSING:
            lost = words.start - 1 in self._translated
        else:
            lost = not self._other_number
        return (start, end) if lost else None

    def spaces(self, leaf: Mark) -> Tuple[bool, bool]:
        """Whether white space is needed before and after a mark without others in it, to which no
        word of the translation belongs."""
        number = self.lost_number(leaf)
        if number is None:
            return leaf.space_before, leaf.space_after
        (before, _), (left, length) = map(self.gap, number)
        return before > 0, left < length

    def inside(self, mark: Mark, low: int, high: int) -> List[_Placed]:
        """Finds the place of each mark directly inside ``mark``, whose own translation is the words
        ``low`` to ``high`` - 1.

        Returns:
            A tuple (first, end, index in ``mark.inside``, mark) for each, in the order of the
            translation. The mark's words are [first, end); a mark without words has ``first`` =
            ``end`` and belongs in the gap before that word.
        """
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
        """For each span of source words the words [first, end) of the translation that fit it best;
        None if no word is aligned with the span.

        The best words have the highest score: 2 for each word from the span, -1 for each aligned
        word from outside all spans. No word of another span is among them, so that the results do
        not overlap.

        Args:
            spans: [first, end) of source words, without overlaps.
            first, end: the source words of the mark around all spans.
            low, high: the words of the translation that are considered, [low, high).
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
        """Where a mark belongs that has no words in the translation: beside the translation of the
        nearest aligned word. Returns the index of the word of the translation that follows the
        mark. ``span``: the mark's source words [first, end)."""
        (before, left), (after, right) = self._left[span[0]], self._right[span[1]]
        return right if after < before or (mark.glued and after == before) else left

    @staticmethod
    def _between(place: int, number: int, taken: "Sequence[Tuple[int, int, int]]") -> int:
        """Returns ``place``, unless it lies inside the words of another mark: then their beginning
        or end, whichever keeps the order of the marks.

        Args:
            place: index of the word before which the mark is to stand.
            number: index of this mark among the marks of its parent.
            taken: (first word, end, number) of the marks that have words, sorted.
        """
        next_one = bisect_right(taken, place, key=itemgetter(1))
        if next_one < len(taken) and taken[next_one][0] < place:
            first, end, other = taken[next_one]
            return first if number < other else end
        return place


class _Writer:
    """Writes a translation from left to right, with marks in between, into the list ``parts``.

    Args:
        words: the words of the translation.
        escape: applied to each piece of the translation before it is written.
    """

    def __init__(self, words: Words, escape: Callable[[str], str]) -> None:
        self.text, self.words, self.escape = words.text, words, escape
        self.parts: List[str] = []
        self._place = 0
        self._last, self._space, self._following = "", False, ""

    def to(self, place: int) -> None:
        """Writes the characters of the translation that are not written yet and stand before index
        ``place``."""
        if place > self._place:
            piece = self.text[self._place : place]
            self._settle(piece[0])
            self.parts.append(self.escape(piece))
            self._place, self._last = place, piece[-1]

    def tag(self, word: int, gap: Tuple[int, int], closing: bool = False) -> None:
        """Writes the text that precedes a tag in the gap before the word with index ``word``, but
        not the tag. ``gap``: the white space around the tag in the source, see :meth:`_Layout.gap`.
        ``closing``: whether the tag belongs to the text before it, as a closing tag does."""
        before, length = gap
        start = self.words.ends[word - 1] if word else 0
        end = self.words.starts[word] if word < len(self.words) else len(self.text)
        if closing and not before:
            self.to(start)
        else:
            self.to(min(start + before, end) if before < length else end)

    def opening(self, written: str) -> None:
        """Writes an opening tag."""
        if self._place < len(self.text):
            self._settle(self.text[self._place])
        self.parts.append(written)

    def unit(
        self, written: str, before: bool, after: bool, preceding: str = "", following: str = ""
    ) -> None:
        """Writes a unit, with a space on those sides where the source has white space (``before``,
        ``after``). The space is left out beside white space and before a sign such as a comma,
        except beside the characters ``preceding`` and ``following``, see :class:`Mark`."""
        there = self._last.isspace() and self._last != preceding
        if (before or self._space) and self._last and not there:
            self.parts.append(" ")
        self.parts.append(written)
        self._last, self._space, self._following = written[-1], after, following

    def _settle(self, following: str) -> None:
        """Writes a space if the unit written last had one after it in the source, unless the
        ``following`` character is white space or a punctuation mark such as a comma, and was not
        behind this space in the source."""
        there = following.isspace() or following in _CLOSING
        if self._space and (not there or following == self._following):
            self.parts.append(" ")
            self._last = " "
        self._space = False


def _write(mark: Mark, layout: _Layout, writer: _Writer, low: int, high: int) -> None:
    for start, end, _, one in layout.inside(mark, low, high):
        first, last = _leaf(one, 0), _leaf(one, -1)
        if start < end or (first.closing and layout.wordless(one)):
            writer.tag(start, layout.gap(one.start))
            writer.opening(one.opening)
            _write(one, layout, writer, start, end)
            writer.tag(end, layout.gap(one.end), closing=True)
            writer.parts.append(one.closing)
            continue
        if first.glued and start < high:
            writer.to(writer.words.starts[start])
        elif first.glued or not layout.wordless(one):
            writer.tag(start, (0, 0), closing=True)
        else:
            writer.tag(start, layout.gap(one.start), closing=not first.leading)
        before, after = layout.spaces(first)[0], layout.spaces(last)[1]
        writer.unit(_whole(one, layout, writer), before, after, first.preceding, last.following)


def _leaf(mark: Mark, side: int) -> Mark:
    while mark.inside:
        mark = mark.inside[side]
    return mark


def _whole(mark: Mark, layout: _Layout, writer: _Writer) -> str:
    """The tags of a mark to which no word of the translation belongs, and of all marks inside it;
    between them the numbers that the translation lacks, see :meth:`_Layout.lost_number`."""
    parts = [mark.opening]
    for place, one in enumerate(mark.inside):
        others = (_leaf(mark.inside[place - 1], -1), _leaf(one, 0))
        if place and (layout.spaces(others[0])[1] or layout.spaces(others[1])[0]):
            parts.append(" ")
        parts.append(_whole(one, layout, writer))
    number = layout.lost_number(mark)
    if number is not None:
        parts.append(writer.escape(layout.source.text[slice(*number)]))
    return "".join((*parts, mark.closing))
