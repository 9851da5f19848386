"""Puts the given translations of a glossary's terms into a translation, by the alignment of its
words."""

import re
from bisect import bisect_right
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .glossary import Term, within_word
from .inline_elements import Mark, mark_places
from .word_alignment import UNSPACED, Link

_SPACELESS = re.compile(f"[{UNSPACED}]")
# Signs without a space behind them, and before them.
_OPENING, _CLOSING = "([{«„“‘¿¡", ",.;:!?)]}…%»”’"
_Span = Tuple[int, int]


class GivenTerm(NamedTuple):
    """A term's translation within a translation.

    Attributes:
        source: the term, as the text has it.
        origin: its first character in the text.
        text: its translation, as it was written.
        start, end: the span of that in the translation.
        replaced: what the model had written in its place.
    """

    source: str
    origin: int
    text: str
    start: int
    end: int
    replaced: str

    def moved(self, more: int, origin: int = 0) -> "GivenTerm":
        """The term where the text before it has grown, that of the source by ``origin``."""
        return self._replace(
            origin=self.origin + origin, start=self.start + more, end=self.end + more
        )


def with_terms(
    source: str, translation: str, found: Sequence[Link], terms: Sequence[Term]
) -> Tuple[str, List[GivenTerm]]:
    """A translation with the given translations of its source's terms, one for each term found
    there; and where these stand, in the order of the translation.

    What the model has written as it is given stays. Else the words that are aligned with the term
    are replaced, and where there are none, the given translation is added beside those of its
    neighbours.

    Args:
        source, translation: a sentence and its translation.
        found: the links between the two.
        terms: of the source, in its order.
    """
    root = Mark("", 0, end=len(source))
    root.inside = [Mark("", one.start, end=one.end) for one in terms]
    words, stretches = mark_places(root, source, translation, found)
    starts = [*words.starts, len(translation)]
    spans = [
        (starts[first], words.ends[end - 1] if first < end else starts[first])
        for first, end in stretches
    ]
    kept = _kept(translation, terms, spans)
    fixed = sorted(span for span in kept if span is not None)
    edits = [
        (*(own or _free(translation, span, fixed)), number)
        for number, (own, span) in enumerate(zip(kept, spans))
    ]
    given: List[GivenTerm] = []
    text, last = "", 0
    for start, end, number in sorted(edits):
        term, replaced = terms[number], translation[start:end]
        text += translation[last:start]
        written = replaced
        if kept[number] is None:
            written = _cased(term.translation, translation[:start], replaced)
            if start == end and _apart(text[-1:], written[0]):
                text += " "
        place = len(text)
        text += written
        if start == end and _apart(written[-1], translation[end : end + 1]):
            text += " "
        name = source[term.start : term.end]
        given.append(GivenTerm(name, term.start, written, place, place + len(written), replaced))
        last = end
    return text + translation[last:], given


def without_terms(translation: str, given: Sequence[GivenTerm]) -> str:
    """The translation as it was before :func:`with_terms`, apart from added spaces."""
    parts, last = [], 0
    for one in given:
        parts += [translation[last : one.start], one.replaced]
        last = one.end
    return "".join([*parts, translation[last:]])


def links_with_terms(found: Sequence[Link], given: Sequence[GivenTerm]) -> List[Link]:
    """The links of a translation with terms, from those of the one without.

    Args:
        found: the links of :func:`without_terms`.
        given: the terms, in the order of the translation.
    """
    terms = [Link(one.start, one.end, one.origin + len(one.source) // 2) for one in given]
    if not given:
        return list(found)
    # Where each term begins and ends in the translation without terms, and how far what follows
    # has moved.
    starts, ends, moved = [], [], [0]
    for one in given:
        starts.append(one.start - moved[-1])
        ends.append(starts[-1] + len(one.replaced))
        moved.append(one.end - ends[-1])
    result = []
    for link in found:
        term = bisect_right(ends, link.start)
        if term < len(given) and starts[term] < link.end:
            continue
        result.append(Link(link.start + moved[term], link.end + moved[term], link.source))
    return sorted([*result, *terms])


def _kept(translation: str, terms: Sequence[Term], spans: Sequence[_Span]) -> List[Optional[_Span]]:
    """For each term the span where its given translation stands already, or None: the nearest to
    ``spans``, and for each term another one."""
    wanted: Dict[str, List[int]] = {}
    for number, term in enumerate(terms):
        wanted.setdefault(term.translation, []).append(number)
    kept: List[Optional[_Span]] = [None] * len(terms)
    taken = bytearray(len(translation))
    for text in sorted(wanted, key=lambda text: (-len(text), text)):
        places = [span for span in _occurrences(text, translation) if 1 not in taken[slice(*span)]]
        pairs = sorted(
            (max(start - spans[number][1], spans[number][0] - end, 0), number, start, end)
            for number in wanted[text]
            for start, end in places
        )
        for _, number, start, end in pairs:
            if kept[number] is None and not taken[start]:
                kept[number] = start, end
                taken[start:end] = b"\1" * (end - start)
    return kept


def _occurrences(text: str, translation: str) -> Iterator[_Span]:
    """The spans of whole words that are a given translation, or that with a capital at the
    beginning of the sentence."""
    place = translation.find(text)
    if place != 0 and translation.startswith(_cased(text, "", translation)):
        yield 0, len(text)
    while place >= 0:
        end = place + len(text)
        inside = within_word(translation, place) or within_word(translation, end)
        if not inside:
            yield place, end
        place = translation.find(text, place + 1 if inside else end)


def _free(translation: str, span: _Span, fixed: Sequence[_Span]) -> _Span:
    """The longest part of a span outside those that stay, which are sorted; empty, and behind
    them, where there is none."""
    start, end = span
    best, place = (0, 0), start
    for low, high in (*fixed, (end, end)):
        if high > place or low >= end:
            part = _stripped(translation, place, min(low, end))
            best = max(best, part, key=lambda one: one[1] - one[0])
            place = max(place, high)
    if best[0] < best[1]:
        return best
    for low, high in fixed:
        if low < end < high:
            end = high
    return end, end


def _stripped(text: str, start: int, end: int) -> _Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, max(start, end)


def _cased(text: str, before: str, replaced: str) -> str:
    """A given translation, with a capital where it replaces one at the beginning of a sentence;
    one that has capitals is written as it is."""
    first = text[0].upper()
    begins = not any(map(str.isalnum, before)) and replaced[:1].isupper()
    return first + text[1:] if begins and text.islower() and len(first) == 1 else text


def _apart(left: str, right: str) -> bool:
    """Whether a space belongs between a word that is added and what stands beside it, either of
    which may be missing."""
    if not left or not right or _SPACELESS.search(left + right):
        return False
    return not (left.isspace() or left in _OPENING or right.isspace() or right in _CLOSING)
