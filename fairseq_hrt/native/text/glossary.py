"""A glossary: terms of the source language with the translations to use for them.

A term is found wherever a text has its words as whole words; of overlapping terms the longest is
taken. In scripts without spaces between words a term is found wherever its characters stand.
"""

import hashlib
import re
import unicodedata
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from ..io.escaping import shown
from .placeholders import placeholders
from .word_alignment import SPACELESS, UNSPACED

# The most terms and characters of a file, characters of a term or translation, and units (words and
# signs) of a term. Finding terms takes at most MOST_UNITS steps for each unit of a text.
MOST_TERMS, MOST_CHARACTERS = 100_000, 20_000_000
LONGEST, MOST_UNITS = 200, 40
# Signs that join two words to one: "state-of-the-art" does not hold the word "art".
_JOINING = "-._@"
# Signs that are typed in different ways.
_VARIANTS = str.maketrans({"\u2019": "'", "\u2010": "-", "\u2011": "-"})
_UNIT = re.compile(f"[{UNSPACED}]|[^\\W{UNSPACED}]+|\\S")
# The most characters that are normalised together: the time is quadratic in the length of a run of
# combining characters.
_LONGEST_RUN = 30
# A node of the tree of terms: {next unit of a term in lower case: node}; where a term ends, also
# {"": {the term as it is written, or "" if it has no capitals: its translation}}.
_Node = Dict[str, Any]


class Term(NamedTuple):
    """A term of a glossary that was found in a text.

    Attributes:
        start, end: its characters in the text are [start, end).
        translation: the translation that the glossary gives for it.
    """

    start: int
    end: int
    translation: str


def within_word(text: str, place: int) -> bool:
    """Whether the characters before and at index ``place`` of a text belong to the same word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if _continues(after):
        return True
    if _of_word(before):
        return _of_word(after) or (after in _JOINING and _of_word(text[place + 1 : place + 2]))
    return before in _JOINING and _of_word(after) and _of_word(text[max(place - 2, 0) : place - 1])


def _continues(sign: str) -> bool:
    """Whether a character always belongs to the character before it: accents, vowel signs, joiners,
    and the second and third letter of a Korean syllable that is written in letters."""
    return (
        unicodedata.category(sign)[0] == "M"
        or sign in "\u200c\u200d"
        or "\u1160" <= sign <= "\u11ff"
    )


def _without_capitals(folded: "_Folded") -> bool:
    return folded.text.replace("ς", "σ") == folded.small


def _of_word(sign: str) -> bool:
    """Whether a character belongs to a word of a script that separates words by spaces."""
    return bool(sign) and (sign.isalnum() or _continues(sign)) and not SPACELESS.match(sign)


@dataclass(frozen=True)
class _Folded:
    """A text in which accented letters, apostrophes and hyphens have one spelling each, so that
    texts can be compared.

    Attributes:
        text: the text in this spelling.
        small: ``text`` in lower case, of the same length.
        places: for each character of ``text``, and for its end, the index in the original text;
            None if the indices are the same.
    """

    text: str
    small: str
    places: Optional[List[int]]

    @classmethod
    def of(cls, given: str) -> "_Folded":
        if given.isascii():
            return cls(given, given.lower(), None)
        parts: List[str] = []
        places: List[int] = []
        start = 0
        while start < len(given):
            end = start + 1
            while end < min(len(given), start + _LONGEST_RUN) and _continues(given[end]):
                end += 1
            parts.append(unicodedata.normalize("NFC", given[start:end]))
            places += [start] * len(parts[-1])
            start = end
        text = "".join(parts).translate(_VARIANTS)
        # The few letters whose lower case is two characters are kept: lengths must agree.
        small = "".join(sign.lower() if len(sign.lower()) == 1 else sign for sign in text)
        # A sigma's form depends on what follows it.
        return cls(text, small.replace("ς", "σ"), [*places, len(given)])


class Glossary:
    """Terms with their translations.

    A term without capitals is found whatever the case of the text, one with capitals only as it is
    written. The order of the terms has no effect: glossaries with the same terms and translations
    are equal.

    Args:
        terms: {term: its translation}, at least one.

    Attributes:
        terms: the argument, with white space in terms and translations reduced to single spaces.

    Raises:
        ValueError: there are no terms or too many, a term or translation is empty, too long or
            holds control characters, or a term has two translations.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        if not terms:
            raise ValueError("a glossary without terms: give at least one term, or no glossary")
        if len(terms) > MOST_TERMS:
            raise ValueError(
                f"a glossary of {len(terms)} terms; at most {MOST_TERMS} are allowed: remove some"
            )
        self.terms: Dict[str, str] = {}
        self._roots: List[_Node] = [{}]
        for term, translation in terms.items():
            self._add(term, translation)
        self._hash = hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Glossary):
            return NotImplemented
        # Hashes first: the server compares glossaries of many terms while requests wait.
        if self is other or self._hash != other._hash:
            return self is other
        # Also ``_roots``: ``a.over(b)`` differs from ``b.over(a)``.
        return self.terms == other.terms and self._roots == other._roots

    def __hash__(self) -> int:
        return self._hash

    def _add(self, term: str, translation: str) -> None:
        written, translated = _checked("term", term), _checked("translation", translation)
        if self.terms.setdefault(written, translated) != translated:
            raise ValueError(
                f"term {shown(term)} has two translations, {shown(self.terms[written])} and"
                f" {shown(translated)}: keep one"
            )
        folded = _Folded.of(written)
        units = _Units(folded)
        if len(units.spans) > MOST_UNITS:
            raise ValueError(
                f"term {shown(term)} has {len(units.spans)} words and signs; {MOST_UNITS} are"
                " allowed: shorten it"
            )
        node = self._roots[0]
        for key in (units.bare[0], *units.keys[1:]):
            node = node.setdefault(key, {})
        exact = "" if _without_capitals(folded) else folded.text
        # Spellings that are found alike, such as those of an apostrophe, are one term.
        if node.setdefault("", {}).setdefault(exact, translated) != translated:
            raise ValueError(
                f"term {shown(term)} has two translations, {shown(node[''][exact])} and"
                f" {shown(translated)}, in two spellings of the term: keep one"
            )

    @classmethod
    def read(cls, path: Union[str, Path]) -> "Glossary":
        """Reads a glossary from a UTF-8 file that has a term, a tab and the term's translation in
        each line. Empty lines and white space around terms are ignored.

        Raises:
            ValueError: a line is not a pair of a term and its translation, a term has two
                translations, or the file cannot be read.
        """
        name = f"glossary {path}"
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                text = file.read(MOST_CHARACTERS + 1)
        except (OSError, UnicodeError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeError) else error.strerror
            raise ValueError(f"{name} cannot be read: {reason}") from error
        if len(text) > MOST_CHARACTERS:
            raise ValueError(
                f"{name} has more than {MOST_CHARACTERS} characters: leave out terms that are not"
                " needed"
            )
        return cls.parse(text, name)

    @classmethod
    def parse(cls, text: str, name: str = "glossary") -> "Glossary":
        """Makes a glossary from ``text``, the content of a file in the format of :meth:`read`, and
        raises the same errors. Their messages begin with ``name``."""
        found: Dict[str, str] = {}
        lines: Dict[str, int] = {}
        # splitlines() also splits at signs that may stand within a line.
        for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
            if not line.strip():
                continue
            columns = line.split("\t")
            try:
                if len(columns) != 2:
                    raise ValueError(
                        f"{shown(line)} is not a term, a tab and its translation: write one tab"
                        " between the two"
                    )
                term, translation = (
                    _checked(kind, column) for kind, column in zip(("term", "translation"), columns)
                )
                if found.setdefault(term, translation) != translation:
                    raise ValueError(
                        f"{shown(term)} has the translation {shown(found[term])} in line"
                        f" {lines[term]}, and another one here: remove one of the two lines"
                    )
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {error}") from None
            lines.setdefault(term, number)
        try:
            return cls(found)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    @classmethod
    def of(cls, given: "GivenGlossary") -> "Optional[Glossary]":
        """Returns the glossary for an argument of the Python interface: a Glossary, a mapping of
        terms to translations, or the path of a file; None stays None."""
        if given is None or isinstance(given, Glossary):
            return given
        if isinstance(given, Mapping):
            return cls(given)
        if not isinstance(given, (str, Path)):
            raise ValueError(
                f"glossary {shown(given)}: give terms with their translations, the path of a file,"
                " or a Glossary"
            )
        return cls.read(given)

    def over(self, other: "Optional[Glossary]") -> "Glossary":
        """A glossary with the terms of this one and of ``other`` (None: only of this one). For a
        term that both have, it gives the translation of this one."""
        if other is None:
            return self
        both = object.__new__(type(self))
        both.terms = {**other.terms, **self.terms}
        both._roots = [*self._roots, *other._roots]
        both._hash = hash(frozenset(both.terms.items()))
        return both

    def identity(self) -> str:
        """A hash (SHA-256) of terms and translations, which does not depend on their order."""
        pairs = "".join(f"{term}\t{text}\n" for term, text in sorted(self.terms.items()))
        return hashlib.sha256(pairs.encode("utf-8", "surrogatepass")).hexdigest()

    def find(self, text: str) -> List[Term]:
        """The terms that stand in a text, in the order of the text; none within addresses and
        placeholders. Of overlapping terms the longest is taken, of equally long ones the first."""
        units = _Units(_Folded.of(text))
        # {length: first and last unit of each candidate, in turn}: there can be many.
        found: Dict[int, array[int]] = {}
        for first, last in self._candidates(units):
            length = units.spans[last][1] - units.spans[first][0]
            found.setdefault(length, array("l")).extend((first, last))
        if not found:
            return []
        taken = bytearray(len(units.text))
        for start, end in placeholders(units.text):
            taken[start:end] = b"\1" * (end - start)
        terms: List[Term] = []
        for length in sorted(found, reverse=True):
            for first, last in zip(found[length][::2], found[length][1::2]):
                start, end = units.spans[first][0], units.spans[last][1]
                if taken.find(1, start, end) < 0:
                    taken[start:end] = b"\1" * length
                    terms.append(Term(start, end, self._translation(units, first, last)))
        places = units.folded.places
        if places is not None:
            terms = [Term(places[one.start], places[one.end], one.translation) for one in terms]
        return sorted(terms)

    def _candidates(self, units: "_Units") -> Iterator[Tuple[int, int]]:
        """Yields (index of the first unit, index of the last) for every place where a text, given
        as its ``units``, has a term; these places may overlap."""
        for root in self._roots:
            for first, (start, _) in enumerate(units.spans):
                node = root.get(units.bare[first])
                if node is None or within_word(units.text, start):
                    continue
                last = first
                while node is not None:
                    if "" in node and units.ends(last) and _fitting(node, units, first, last):
                        yield first, last
                    last += 1
                    node = node.get(units.keys[last]) if last < len(units.keys) else None

    def _translation(self, units: "_Units", first: int, last: int) -> str:
        for root in self._roots:
            node = root.get(units.bare[first])
            for key in units.keys[first + 1 : last + 1]:
                node = None if node is None else node.get(key)
            found = None if node is None else _fitting(node, units, first, last)
            if found is not None:
                return found
        raise AssertionError("candidate units are not a term of the glossary")


class _Units:
    """The units of a text: words, punctuation marks, single characters of scripts without spaces.

    Attributes:
        folded: the text whose units these are, with one spelling of accents and apostrophes.
        text: ``folded.text``, that text as a string.
        spans: the characters [start, end) of each unit in ``text``.
        bare: each unit in lower case.
        keys: the keys by which units are looked up in the tree of terms: as in ``bare``, with a
            space in front if the unit follows white space.
    """

    def __init__(self, folded: _Folded) -> None:
        self.folded, self.text = folded, folded.text
        small = folded.small
        self.spans = [found.span() for found in _UNIT.finditer(small)]
        self.bare = [small[start:end] for start, end in self.spans]
        self.keys = [
            f" {unit}" if start and small[start - 1].isspace() else unit
            for unit, (start, _) in zip(self.bare, self.spans)
        ]
        self._ends: Dict[int, bool] = {}

    def ends(self, unit: int) -> bool:
        """Whether a term may end with the unit of this index: no word continues behind it."""
        found = self._ends.get(unit)
        if found is None:
            found = self._ends[unit] = not within_word(self.text, self.spans[unit][1])
        return found


def _fitting(node: _Node, units: _Units, first: int, last: int) -> Optional[str]:
    """The translation of the term that ends at ``node`` of the tree of terms and is found in the
    units ``first`` to ``last`` (inclusive) of a text; None if the text has the term in another case
    than the glossary requires."""
    given: Dict[str, str] = node.get("", {})
    if len(given) > 1 or "" not in given:
        written = " ".join(units.text[units.spans[first][0] : units.spans[last][1]].split())
        if written in given:
            return given[written]
    return given.get("")


GivenGlossary = Union[None, Glossary, Mapping[str, str], str, Path]


def _checked(kind: str, value: object) -> str:
    """Returns a term or translation, ``value``, with runs of white space as single spaces and none
    at its ends; a term in Unicode's form NFC. ``kind`` names it in messages.

    Raises:
        ValueError: it is not a string, is empty or too long, or holds control characters.
    """
    if not isinstance(value, str):
        raise ValueError(f"{kind} {shown(value)} is not a string")
    text = " ".join(value.split())
    if not text:
        raise ValueError(f"a {kind} is empty: fill it in, or leave out the entry")
    if len(text) > LONGEST:
        raise ValueError(
            f"{kind} {shown(text)} has {len(text)} characters; {LONGEST} are allowed: shorten it"
        )
    if any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in text):
        raise ValueError(f"{kind} {shown(text)} holds control characters: leave them out")
    return unicodedata.normalize("NFC", text) if kind == "term" else text
