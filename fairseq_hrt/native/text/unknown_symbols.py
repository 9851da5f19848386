"""Carries symbols that a model lacks (emoji, currency signs, …) through a translation.

A model cannot write what is not in its vocabulary. So these symbols are taken out of a line before
translation, and put back into the translation by the alignment of words. Symbols in the vocabulary
stay in the line, and so do letters: a word is more than its characters.
"""

import unicodedata
from bisect import bisect_right
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

from .dictionary import Words
from .pipeline import TextPipeline
from .remembered import Remembered
from .word_alignment import Link, links, locate
from .word_alignment import Words as WrittenWords

# Signs without a space before them.
_CLOSING = frozenset(",.;:!?)]}…")
# Signs that are parts of words between two letters, besides dashes, accents and closing quotation
# marks.
_WITHIN = frozenset("'.:·/&@*")
_JOINER = "\u200d"
_KEYCAP = "\u20e3"


class Symbol(NamedTuple):
    """Symbols that were taken out of a line, one or several in a row.

    Attributes:
        text: the symbols, with the white space between them.
        place: the number of source subwords before the symbols.
        inside: whether the symbols lie within the next subword.
        left, right: the characters of the line beside the symbols, a space for any white space;
            empty at an end of the line.
    """

    text: str
    place: int
    inside: bool
    left: str
    right: str


class UnknownSymbols:
    """Takes the symbols that a dictionary lacks out of lines.

    Args:
        pipeline: splits text into the model's subwords.
        known: the dictionary of these subwords.
    """

    def __init__(self, pipeline: TextPipeline, known: Words) -> None:
        self.pipeline, self.known = pipeline, known
        self._lacks: Remembered[str, bool] = Remembered(
            lambda symbol: self._unknown(pipeline.words(symbol))
        )

    def words(self, line: str) -> Tuple[List[str], List[Symbol]]:
        """Splits a raw line into subwords, without the symbols (emoji, currency signs, …) that the
        dictionary lacks. Returns the subwords, and the symbols with their places."""
        words = self.pipeline.words(line)
        if not self._unknown(words):
            return words, []
        runs = self._runs(line)
        if not runs:
            return words, []
        text, places = _without(line, runs)
        words = self.pipeline.words(text)
        spans = locate(text, words)
        ends = [end for _, end in spans]
        least = self.pipeline.prefix_length if words else 0
        found = []
        for (start, end), at in zip(runs, places):
            place = max(least, bisect_right(ends, at))
            inside = place < len(words) and spans[place][0] < at
            left, right = _neighbour(line, start - 1), _neighbour(line, end)
            text = " ".join(line[start:end].split())
            found.append(Symbol(text, place, inside, left, right))
        return words, found

    def _unknown(self, words: Sequence[str]) -> bool:
        return self.known.unk in self.known.ids(words)

    def _runs(self, line: str) -> List[Tuple[int, int]]:
        """The spans of the symbols in a line that the dictionary lacks; symbols with nothing but
        white space in between share a span."""
        runs: List[Tuple[int, int]] = []
        _, first = self.pipeline.own_token(line)
        for start, end in symbols(line):
            if start < first or not self._lacks[line[start:end]]:
                continue
            if runs and not line[runs[-1][1] : start].strip():
                start, _ = runs.pop()
            runs.append((start, end))
        return runs


def symbols(text: str) -> Iterator[Tuple[int, int]]:
    """Yields the spans of the symbols and punctuation marks of a text, each with what modifies it:
    variation selectors, skin colours, joined emoji, flags and keycaps. Apostrophes, hyphens and
    the like between two letters, as in ``don’t``, are parts of words."""
    place = 0
    while place < len(text):
        start, kind = place, unicodedata.category(text[place])
        place += 1
        # Cn: newer than Python's tables, as emoji often are.
        if kind[0] not in "SP" and kind not in ("No", "Cn", "Co") and not _keycap(text, start):
            continue
        flag = _regional(text[start])
        while place < len(text) and (
            _modifies(text[place])
            or text[place - 1] == _JOINER
            or (flag and place == start + 1 and _regional(text[place]))
        ):
            place += 1
        within = text[start - 1 : start].isalpha() and text[place : place + 1].isalpha()
        if not (within and (kind in ("Pc", "Pd", "Pf", "Sk") or text[start] in _WITHIN)):
            yield start, place


def _keycap(text: str, place: int) -> bool:
    """Whether the character at index ``place`` is the digit or sign in an emoji of a key, such as
    ``1️⃣``."""
    return _KEYCAP in (text[place + 1 : place + 2], text[place + 2 : place + 3]) and _modifies(
        text[place + 1]
    )


def _modifies(sign: str) -> bool:
    return unicodedata.category(sign) in ("Mn", "Me", "Cf") or "\U0001f3fb" <= sign <= "\U0001f3ff"


def _regional(sign: str) -> bool:
    """Whether a character is one of the letters of which two make the emoji of a flag."""
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _neighbour(line: str, place: int) -> str:
    found = line[place : place + 1] if place >= 0 else ""
    return " " if found.isspace() else found


def _without(line: str, runs: Sequence[Tuple[int, int]]) -> Tuple[str, List[int]]:
    """Removes the symbols at the spans ``runs`` from a line, and the spaces that are needless
    without them. Returns the rest of the line, and the index in it at which each run stood."""
    text, places, last = "", [], 0
    for start, end in runs:
        text += line[last:start] if text else line[last:start].lstrip()
        last = end
        left, right = text[-1:], line[end : end + 1]
        if left.isspace() and not right.isalnum():
            # A space is left on the other side, or none belongs before a comma.
            text = text.rstrip()
        elif left.isalnum() and right.isalnum():
            text += " "
        places.append(len(text.rstrip()))
    return text + (line[last:] if text else line[last:].lstrip()), places


def with_symbols(
    text: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
    found: Sequence[Symbol],
    source: Sequence[str],
    first: int = 0,
) -> str:
    """A translation with the symbols of its source, each beside the translation of the word that it
    stood beside.

    Args:
        text: the translation.
        tokens: the translation's subwords.
        alignment: for each of ``tokens`` the index of a source subword; empty where the model
            aligns no words. Symbols then have the same relative place as in the source.
        found: the symbols that :meth:`UnknownSymbols.words` took out of the source.
        source: the source's subwords without these symbols.
        first: the number of language tokens at the beginning of ``source``.
    """
    if not text.strip():
        return " ".join(symbol.text for symbol in found)
    layout = _Layout(text, tokens, alignment, source, first)
    placed = sorted(((layout.place(one), one) for one in found), key=lambda entry: entry[0])
    written, last = "", 0
    for place, symbol in placed:
        written = _joined(written + text[last:place], symbol)
        last = place
        rest = text[last:]
        following = rest.lstrip()[:1]
        if symbol.right.isalnum() and following.isalnum():
            last += len(rest) - len(rest.lstrip())
        elif rest and not rest[0].isspace() and _apart(symbol.right, following):
            written += " "
    return written + text[last:]


def all_links(
    source: str,
    subwords: Sequence[str],
    translation: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
) -> List[Link]:
    """The links that :func:`.word_alignment.links` makes from the alignment of subwords. Equal
    symbols of both texts, paired in order, are linked, too, where the model has linked none: they
    were carried over without the model. If both texts are equal, each character is linked with
    itself.

    Args:
        source, translation: raw texts of a sentence.
        subwords, tokens: their subwords.
        alignment: for each of ``tokens`` the index of a source subword.
    """
    if translation == source:
        # A name or a formula, for example: each character is where it was.
        return [Link(place, place + 1, place) for place in range(len(source))]
    found = links(source, subwords, translation, tokens, alignment)
    linked = {place for link in found for place in range(link.start, link.end)}
    places: Dict[str, List[int]] = {}
    for start, end in symbols(source):
        places.setdefault(source[start:end], []).append((start + end) // 2)
    for start, end in symbols(translation):
        waiting = places.get(translation[start:end])
        if waiting:
            place = waiting.pop(0)
            if linked.isdisjoint(range(start, end)):
                found.append(Link(start, end, place))
    return found


def _joined(written: str, symbol: Symbol) -> str:
    """Returns ``written``, the beginning of a translation, followed by a symbol, with a space in
    between if the source has one there, or if only in the translation the symbol follows a word."""
    bare = written.rstrip()
    if not bare or (symbol.left.isalnum() and bare[-1].isalnum()):
        return bare + symbol.text
    apart = symbol.left == " " or (bare[-1].isalnum() and not symbol.left.isalnum())
    return (bare + " " if apart else written) + symbol.text


def _apart(right: str, following: str) -> bool:
    """Whether a space belongs between a symbol and the character ``following`` it in the
    translation; ``right`` is the character behind the symbol in the source."""
    return following.isalnum() or (right == " " and following not in _CLOSING)


def _is_sign(subword: str) -> bool:
    return not any(sign.isalnum() for sign in subword)


class _Layout:
    """Finds where symbols belong in a translation.

    Args:
        text, tokens, alignment: the translation, its subwords, and for each of these the index of a
            source subword, or empty; see :func:`with_symbols`.
        source: the source's subwords.
        first: the number of language tokens at the beginning of ``source``.
    """

    def __init__(
        self,
        text: str,
        tokens: Sequence[str],
        alignment: Sequence[int],
        source: Sequence[str],
        first: int,
    ) -> None:
        self.text, self.words, self.source, self.first = text, WrittenWords(text), source, first
        self.aligned = bool(alignment)
        # {source subword: beginning or end of its translation}
        self._starts: Dict[int, int] = {}
        self._ends: Dict[int, int] = {}
        for token, (start, end), origin in zip(tokens, locate(text, tokens), alignment):
            # At the end of a sentence attention is often on other tokens: words are not translated
            # as signs.
            if (
                start < end
                and first <= origin < len(source)
                and _is_sign(token) == _is_sign(source[origin])
            ):
                self._starts[origin] = min(start, self._starts.get(origin, start))
                self._ends[origin] = max(end, self._ends.get(origin, end))

    def place(self, symbol: Symbol) -> int:
        """The index in the translation at which a symbol is to be inserted, never within a word."""
        first, last, place = self.first, len(self.source), symbol.place
        if place >= last:
            return len(self.text)
        if symbol.inside and place in self._starts:
            return self._settled(self._starts[place] + 1, 1)
        if place <= first:
            # At the beginning of a line a symbol stays there, unless it belongs to the first word.
            own = symbol.right.isalnum() and first in self._starts
            return self._settled(self._starts[first], 0) if own else 0
        if not self.aligned:
            words = len(self.words)
            share = (place - first) / (last - first)
            return self.words.ends[max(1, min(words, round(share * words))) - 1]
        before, after = place - 1, place
        while before >= first and before not in self._ends:
            before -= 1
        while after < last and after not in self._starts:
            after += 1
        nearer = (after - place) - (place - 1 - before)
        if nearer < 0 or (nearer == 0 and self._of_next(symbol)):
            return self._settled(self._starts[after], 0) if after < last else len(self.text)
        return self._settled(self._ends[before], 1) if before >= first else 0

    def _of_next(self, symbol: Symbol) -> bool:
        """Whether a symbol belongs to the subword after it rather than to the one before: it
        touches a word on its right only, or of the two subwords only the one after it is a
        punctuation mark and the one before does not end in a digit (``€`` belongs to a number)."""
        before, after = self.source[symbol.place - 1], self.source[symbol.place]
        touches = symbol.right.isalnum() and not symbol.left.isalnum()
        return touches or (_is_sign(after) and not _is_sign(before) and not before[-1:].isdigit())

    def _settled(self, place: int, side: int) -> int:
        """Returns the index ``place`` or, if it lies within a word, that of the beginning (side 0)
        or end (side 1) of the word."""
        word = bisect_right(self.words.ends, place)
        if word < len(self.words) and self.words.starts[word] < place:
            return (self.words.starts, self.words.ends)[side][word]
        return place
