"""Puts the translations that a glossary gives for its terms into the model's translation.

Two things show which words of the translation belong to a term: the alignment, which often includes
an article or a preposition, and the model's translation of the term alone, which is compared with
those words. The latter also works for models that align no words.
"""

import unicodedata
from bisect import bisect_right
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .glossary import Term, within_word
from .inline_elements import Mark, mark_places
from .word_alignment import SPACELESS, Link, Words, shared_beginning

# Signs without a space behind them, and before them.
_OPENING, _CLOSING = "([{«„“‘¿¡", ",.;:!?)]}…%»”’"
# Words of at most so many letters count as articles and the like, unless no word is longer.
_SHORT = 3
# The least likeness (0 to 1) of words that count as the same; the second is for words outside those
# that the alignment gives a term.
_LIKE, _SURE = 0.5, 0.75
# The most words that are compared of the translation of a term alone, and letters of each word.
_MOST_WORDS, _LONGEST_WORD = 8, 50
# The most occurrences of a word that are compared on either side of a term's relative place: time
# grows with terms, not with terms times words.
_NEAREST = 32
_Span = Tuple[int, int]


class GivenTerm(NamedTuple):
    """A term of a glossary whose given translation was put into a sentence's translation.

    Attributes:
        source: the term, as the source sentence has it.
        origin: index of its first character in the source sentence.
        text: the given translation, as it is written in the sentence's translation.
        start, end: ``text`` is the characters [start, end) of the sentence's translation.
        replaced: the model's own words where ``text`` now stands: equal to ``text`` if the model
            wrote it itself, empty if ``text`` was inserted.
    """

    source: str
    origin: int
    text: str
    start: int
    end: int
    replaced: str

    def moved(self, more: int, origin: int = 0) -> "GivenTerm":
        """A copy of the term whose place is ``more`` characters further on in the translation, and
        ``origin`` characters further on in the source."""
        return self._replace(
            origin=self.origin + origin, start=self.start + more, end=self.end + more
        )


def with_terms(
    source: str,
    translation: str,
    found: Sequence[Link],
    terms: Sequence[Term],
    alone: Sequence[str] = (),
) -> Tuple[str, List[GivenTerm]]:
    """Puts the given translation of each term into a sentence's translation.

    Where the model has written the given translation itself, nothing changes. Elsewhere the given
    translation replaces the words that belong to the term. If no words belong to the term, the
    given translation is inserted: beside the translation of the nearest aligned word or, without an
    alignment, at the same relative place as the term in the source.

    Args:
        source, translation: a sentence and its translation.
        found: the links between their words; empty where the model aligns no words.
        terms: the terms found in the source, in the order of the source.
        alone: the model's translation of each of ``terms`` by itself; empty: the words that belong
            to a term are found by the links only.

    Returns:
        The new translation, and a :class:`GivenTerm` for each of ``terms``, in the order of the
        translation.
    """
    root = Mark("", 0, end=len(source))
    root.inside = [Mark("", one.start, end=one.end) for one in terms]
    words, stretches = mark_places(root, source, translation, found)
    shares = [(one.start + one.end) / 2 / max(len(source), 1) for one in terms]
    if not found:
        places = [round(share * len(words)) for share in shares]
        stretches = [(place, place) for place in places]
    if alone:
        stretches = _compared(words, stretches, shares, alone)
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
    edits.sort()
    limits = [*(start for start, _, _ in edits[1:]), len(translation)]
    for (start, end, number), limit in zip(edits, limits):
        term = terms[number]
        if kept[number] is None and start < end:
            start, end = _with_repeated(translation, (start, end), term.translation, (last, limit))
        replaced = translation[start:end]
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
    """Undoes :func:`with_terms`, apart from the spaces that were added: returns the translation
    with the model's own words in place of the terms in ``given``."""
    parts, last = [], 0
    for one in given:
        parts += [translation[last : one.start], one.replaced]
        last = one.end
    return "".join([*parts, translation[last:]])


def links_with_terms(found: Sequence[Link], given: Sequence[GivenTerm]) -> List[Link]:
    """Converts the links of a translation without given terms to links of the same translation with
    these terms. The links of words that a term replaced are dropped; each term gets one link, from
    its given translation to the middle of the source term.

    Args:
        found: the links of the translation that :func:`without_terms` returns.
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


def _compared(
    words: Words, stretches: Sequence[_Span], shares: Sequence[float], alone: Sequence[str]
) -> List[_Span]:
    """Finds for each term the words of the sentence's translation that resemble the model's
    translation of the term alone. Returns their indices [first, end); for a term that no words
    resemble, the first part of its entry in ``stretches`` that no other term has taken.

    Args:
        words: the words of the sentence's translation.
        stretches: the indices [first, end) of the words that the alignment gives each term, without
            overlaps.
        shares: the relative place of each term in the source, from 0 to 1.
        alone: the model's translation of each term alone.
    """
    texts = [_bare(words[number]) for number in range(len(words))]
    wanted = [_telling(text) for text in alone]
    alike: Dict[str, List[Tuple[int, float]]] = {}
    pairs = []
    for number, ((first, end), own) in enumerate(zip(stretches, wanted)):
        if alone[number] not in alike:
            alike[alone[number]] = _alike(texts, own)
        candidates = alike[alone[number]]
        middle = bisect_right(candidates, (round(shares[number] * len(texts)),))
        near = candidates[max(middle - _NEAREST, 0) : middle + _NEAREST]
        for place, likeness in near:
            inside = first <= place < end
            if likeness >= (_LIKE if inside or first == end else _SURE):
                apart = abs((place + 0.5) / len(texts) - shares[number])
                pairs.append((apart / 2 - likeness - inside / 2, number, place))
    found: List[Optional[_Span]] = [None] * len(stretches)
    taken = bytearray(len(texts))
    for _, number, place in sorted(pairs):
        if found[number] is None and not taken[place]:
            found[number] = place, place + 1
            taken[place] = 1
    for number, one in enumerate(found):
        if one is not None:
            found[number] = _grown(one, texts, wanted[number], taken)
    chosen = [own or _untaken(span, texts, taken) for own, span in zip(found, stretches)]
    ends = {place: end for start, end in chosen for place in range(start + 1, end)}
    # An empty span, where a translation is inserted, must not lie within another term's words.
    return [(start, end) if start < end else 2 * (ends.get(start, start),) for start, end in chosen]


def _alike(texts: Sequence[str], own: Sequence[str]) -> List[Tuple[int, float]]:
    """Finds the words of a sentence's translation that resemble a word of the translation of a term
    alone.

    Args:
        texts: the words of the sentence's translation.
        own: the words of the term's translation.

    Returns:
        (index in ``texts``, likeness from _LIKE to 1) of each such word, in the order of ``texts``.
    """
    most = max(map(len, own), default=0)
    # A short word such as a preposition is not looked for by itself.
    anchors = [word for word in own if len(word) > _SHORT or most <= _SHORT]
    known = {
        text: max((_likeness(text, word) for word in anchors), default=0.0) for text in set(texts)
    }
    return [(place, known[text]) for place, text in enumerate(texts) if known[text] >= _LIKE]


def _grown(span: _Span, texts: Sequence[str], wanted: Sequence[str], taken: bytearray) -> _Span:
    """Extends ``span``, one word of ``texts`` (the words of the sentence's translation), by the
    words beside it that resemble the remaining words of the term's translation, ``wanted``. Returns
    the longer span. ``taken`` has 1 for each word that belongs to a term, and is updated."""
    places = [span[0]]
    left = list(wanted)
    left.remove(max(left, key=lambda word: _likeness(texts[span[0]], word)))
    for step in (-1, 1):
        place = span[0] + step
        while left and 0 <= place < len(texts) and not taken[place]:
            like = max(left, key=lambda word: _likeness(texts[place], word))
            if _likeness(texts[place], like) < _LIKE:
                break
            left.remove(like)
            taken[place] = 1
            places.append(place)
            place += step
    return min(places), max(places) + 1


def _untaken(span: _Span, texts: Sequence[str], taken: bytearray) -> _Span:
    """Returns the first run of words in ``span`` that belong to no term yet, without short words,
    such as articles, at its beginning; an empty span if there is none. Spans are indices [first,
    end) in ``texts``, the words of the translation. ``taken`` has 1 for each of ``texts`` that
    belongs to a term; the words of the result are set to 1."""
    start, end = span
    while start < end and taken[start]:
        start += 1
    stop = taken.find(1, start, end)
    end = end if stop < 0 else stop
    longest = max(map(len, texts[start:end]), default=0)
    while start < end and len(texts[start]) <= _SHORT < longest:
        start += 1
    taken[start:end] = b"\1" * (end - start)
    return start, end


def _telling(text: str) -> List[str]:
    """The first _MOST_WORDS words of a term's translation, in lower case without accents
    (:func:`_bare`). Punctuation marks, and short words such as articles at the beginning, are left
    out."""
    found = Words(text)
    words = [_bare(found[place]) for place in range(len(found)) if not found.signs[place]]
    while len(words) > 1 and len(words[0]) <= _SHORT < max(map(len, words)):
        del words[0]
    return words[:_MOST_WORDS]


def _bare(word: str) -> str:
    """The first _LONGEST_WORD letters of a word, in lower case and without accents: inflection
    changes accents (Mann, Männer)."""
    parts = unicodedata.normalize("NFKD", word[:_LONGEST_WORD].lower())
    return "".join(sign for sign in parts if not unicodedata.combining(sign)) or word


def _likeness(one: str, other: str) -> float:
    """The length of the beginning that two words share, divided by the length of the longer word.
    Inflection changes the ends of words, so the ends are not compared."""
    return shared_beginning(one, other) / max(len(one), len(other), 1)


def _kept(translation: str, terms: Sequence[Term], spans: Sequence[_Span]) -> List[Optional[_Span]]:
    """For each term the span of ``translation`` where the model has already written the given
    translation; None if it has not. ``spans``: the characters [start, end) of the words that belong
    to each term. If terms have the same given translation, each occurrence of it goes to the term
    with the nearest span."""
    wanted: Dict[str, List[int]] = {}
    for number, term in enumerate(terms):
        wanted.setdefault(term.translation, []).append(number)
    kept: List[Optional[_Span]] = [None] * len(terms)
    taken = bytearray(len(translation))
    for text in sorted(wanted, key=lambda text: (-len(text), text)):
        places = [span for span in _occurrences(text, translation) if 1 not in taken[slice(*span)]]
        pairs = []
        for number in wanted[text]:
            low, high = spans[number]
            middle = bisect_right(places, (low, high))
            for start, end in places[max(middle - _NEAREST, 0) : middle + _NEAREST]:
                pairs.append((max(start - high, low - end, 0), number, start, end))
        pairs.sort()
        for _, number, start, end in pairs:
            if kept[number] is None and not taken[start]:
                kept[number] = start, end
                taken[start:end] = b"\1" * (end - start)
    return kept


def _occurrences(text: str, translation: str) -> Iterator[_Span]:
    """Yields the spans of ``translation``, a sentence, where a term's given translation, ``text``,
    stands as whole words. At the beginning of the sentence its first letter may be a capital."""
    place = translation.find(text)
    capital = place != 0 and translation.startswith(_cased(text, "", translation))
    if capital and not within_word(translation, len(text)):
        yield 0, len(text)
    while place >= 0:
        end = place + len(text)
        inside = within_word(translation, place) or within_word(translation, end)
        if not inside:
            yield place, end
        place = translation.find(text, place + 1 if inside else end)


def _free(translation: str, span: _Span, fixed: Sequence[_Span]) -> _Span:
    """The longest part of ``span``, without white space at its ends, that lies outside the sorted
    spans ``fixed``, whose text must not change. If all of ``span`` lies within fixed spans: an
    empty span at the end of ``span`` or, if this is inside a fixed span, at the end of that."""
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


def _with_repeated(translation: str, span: _Span, given: str, limits: _Span) -> _Span:
    """Extends ``span``, characters of the translation that are to be replaced, by the short words
    beside it with which the translation ``given`` for a term also begins or ends. The result stays
    within ``limits``, the characters [start, end).

    An article does not belong to the words of a term: if «die netten Köche» replaced only
    «freundlichen Köche» in «die freundlichen Köche», the result would have «die» twice. Longer
    words and numbers stay outside, as they may be translations of other words.
    """
    start, end = span
    words = given.split()
    short = [word.isalpha() and len(word) <= _SHORT for word in words]
    # How many words at the beginning and end of ``given`` are short, but never all of its words.
    most, last = ([*own[:-1], False].index(False) for own in (short, short[::-1]))
    for count in range(most, 0, -1):
        begin = " ".join(words[:count]) + " "
        place = start - len(begin)
        same = place >= limits[0] and translation[place:start].casefold() == begin.casefold()
        if same and not within_word(translation, place):
            start = place
            break
    for count in range(last, 0, -1):
        tail = " " + " ".join(words[-count:])
        place = end + len(tail)
        same = place <= limits[1] and translation[end:place].casefold() == tail.casefold()
        if same and not within_word(translation, place):
            end = place
            break
    return start, end


def _stripped(text: str, start: int, end: int) -> _Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, max(start, end)


def _cased(text: str, before: str, replaced: str) -> str:
    """A given translation, ``text``, with a capital first letter if the words that it replaces,
    ``replaced``, begin the sentence with a capital; unchanged if its first word has a capital
    itself. ``before``: the part of the sentence's translation in front of it."""
    first = text[0].upper()
    begins = not any(map(str.isalnum, before)) and replaced[:1].isupper()
    small = text.split(maxsplit=1)[0].islower()
    return first + text[1:] if begins and small and len(first) == 1 else text


def _apart(left: str, right: str) -> bool:
    """Whether a space has to be added between the characters ``left`` and ``right``; False if one
    of them is empty."""
    if not left or not right or SPACELESS.search(left + right):
        return False
    return not (left.isspace() or left in _OPENING or right.isspace() or right in _CLOSING)
