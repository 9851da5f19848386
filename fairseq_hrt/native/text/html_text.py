"""Splits HTML into texts to translate and markup. A sentence is translated as a whole, across its
inline elements (``<b>``, ``<a>``, …); their tags are put back around the translations of the words
that they enclosed. All other markup is copied byte for byte."""

import itertools
from html import escape as escape_all
from html import unescape
from html.parser import HTMLParser
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from .passages import Document

# The most "<" that a document may have after its last ">".
MOST_OPEN = 100
# Most inline elements within each other; a deeper one is translated as a text of its own.
MOST_NESTED = 20
# Elements whose content is kept untranslated.
_KEPT = frozenset(
    "code iframe noembed noframes noscript plaintext pre rp rt script style template textarea"
    " xmp".split()
)
# Elements within sentences (x, g and ph are XLIFF's). Any other element ends the text before it.
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font g i img ins kbd label mark ph q s samp"
    " small span strike strong sub sup time tt u var wbr x".split()
)
# Elements without content, which have no closing tag.
_VOID = frozenset(
    "area base br col embed frame hr img input link meta param source track wbr".split()
)
# XLIFF's elements without content; they may have a closing tag.
_PLACES = frozenset(("x", "ph"))


def escape(text: str) -> str:
    """Escapes ``&``, ``<`` and ``>`` in a text for HTML."""
    return escape_all(text, quote=False)


class UnreadableMarkup(ValueError):
    """HTML that cannot be parsed; the message tells the user what to write instead."""


class MarkedUpText(Document):
    """The passages of an HTML fragment and the markup between them.

    Args:
        html: a fragment or a document. The tags of elements that are not closed, or closed in the
            wrong order, stay where they are and separate the texts on both sides of them.
        aligned: whether translations have word alignments; without them all markup ends passages.

    Raises:
        UnreadableMarkup: the HTML cannot be parsed.
    """

    def __init__(self, html: str, aligned: bool = False) -> None:
        # For each "<" the parser would search the rest of the text for a ">": quadratic time.
        left_open = html.count("<", html.rfind(">") + 1)
        if left_open > MOST_OPEN:
            raise UnreadableMarkup(
                f'format html: {left_open} "<" without a ">" after them; at most {MOST_OPEN} are'
                ' allowed: write "&lt;" for those that are text'
            )
        super().__init__(escape, aligned)
        try:
            self._read(html)
        except AssertionError:
            raise UnreadableMarkup(
                'format html: "<![" does not begin a declaration here; write "&lt;![" where it'
                " is text"
            ) from None
        except ValueError:
            # int() refuses more than 4,300 digits.
            raise UnreadableMarkup(
                'format html: a character reference ("&#…;") has too many digits; write the'
                " character itself"
            ) from None

    def _read(self, html: str) -> None:
        events = _Events(_Tokens(html).found)
        for kind, written, element in events.found:
            if kind == "text":
                self.add(unescape(written), written)
            elif not self.aligned or kind == "block" or element in events.apart:
                self.end(written)
            elif kind == "open":
                self.passage.open(written)
            elif kind == "close":
                self.passage.close(written)
            else:
                self.passage.unit(written)
        self.end()


class _Token(NamedTuple):
    """A piece of a document.

    Attributes:
        kind: ``text``, ``open``, ``close``, ``empty`` (``<x/>``), ``comment`` or ``other``
            (declarations, processing instructions, stray ``<``).
        name: the name of a tag's element, else empty.
        attributes: {name: value} of a tag; empty for closing tags and other pieces.
        written: the piece as it is written in the document.
    """

    kind: str
    name: str
    attributes: Dict[str, Optional[str]]
    written: str


class _Tokens(HTMLParser):
    """Splits a document, ``html``, into tags, texts and other pieces, which add up to all of it.

    Attributes:
        found: the pieces, in the order of the document.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        lines = [0, *itertools.accumulate(len(line) + 1 for line in html.split("\n"))]
        # (kind, name, attributes, where it begins). Text that the parser skips has no entry.
        self._begun: List[Tuple[str, str, Any, int]] = []
        self._place = lambda: lines[self.getpos()[0] - 1] + self.getpos()[1]
        self.feed(html)
        self.close()
        self.found: List[_Token] = []
        ends = [begun[3] for begun in self._begun[1:]] + [len(html)]
        if not self._begun or self._begun[0][3]:
            self._add("other", "", {}, html[: self._begun[0][3] if self._begun else None])
        for (kind, name, attributes, start), end in zip(self._begun, ends):
            # Skipped text after a text begins with "<": "</>", or a tag that does not end.
            passed = html.find("<", start + 1, end) if kind == "text" else -1
            self._add(kind, name, attributes, html[start : end if passed < 0 else passed])
            if passed >= 0:
                self._add("other", "", {}, html[passed:end])

    def _add(self, kind: str, name: str, attributes: Any, written: str) -> None:
        if written:
            self.found.append(_Token(kind, name, dict(attributes), written))

    def _begin(self, kind: str, name: str = "", attributes: Any = ()) -> None:
        self._begun.append((kind, name, attributes, self._place()))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._begin("empty" if tag in _VOID else "open", tag, attrs)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._begin("empty", tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._begin("empty" if tag in _VOID else "close", tag)

    def handle_data(self, data: str) -> None:
        self._begin("text")

    def handle_comment(self, data: str) -> None:
        self._begin("comment")

    def handle_decl(self, decl: str) -> None:
        self._begin("other")

    def handle_pi(self, data: str) -> None:
        self._begin("other")

    def unknown_decl(self, data: str) -> None:
        self._begin("other")


class _Open(NamedTuple):
    """An element whose closing tag has not been read yet.

    Attributes:
        name: the name of its tag.
        number: index of its opening tag in :attr:`_Events.found`.
        nested: how many inline elements are nested in each other here, this one included. The
            count starts from 0 in every block-level element, and again after MOST_NESTED.
    """

    name: str
    number: int
    nested: int


class _Events:
    """A document as a sequence of texts, tags and untranslated parts, built in one traversal of its
    pieces, ``tokens``.

    Attributes:
        found: tuples (kind, text or markup as written, number of the element). The kind is text,
            open, close, or, for what is not translated, unit (within a sentence) or block. The
            number of an element is the index of its opening tag here; -1 for other kinds.
        apart: numbers of the elements whose tags separate texts: they stand around or between
            sentences, not within one, or are not closed.
    """

    def __init__(self, tokens: List[_Token]) -> None:
        self.found: List[Tuple[str, str, int]] = []
        self.apart: Set[int] = set()
        self._open: List[_Open] = []
        # How many elements of each name are open.
        self._names: Dict[str, int] = {}
        # The name of the element that is being kept untranslated, how many of this name are open
        # in it, and what has been read of it.
        self._keeper, self._depth = "", 0
        self._kept: List[str] = []
        for token in tokens:
            if self._keeper:
                self._keep(token)
            elif token.kind == "text":
                self._add("text", token.written)
            elif token.kind == "close":
                self._close(token)
            elif token.kind in ("open", "empty") and _untouched(token):
                self._keeper = token.name
                self._keep(token)
            elif token.kind == "open":
                self._enter(token)
            else:
                self._add_whole(token.written, token.kind == "comment" or token.name in _INLINE)
        if self._keeper:
            self._end_kept()
        self._leave(0)

    def _add(self, kind: str, written: str, number: int = -1) -> None:
        self.found.append((kind, written, number))

    def _add_whole(self, written: str, inline: bool) -> None:
        """Adds an untranslated tag, or an untranslated element with its content, to :attr:`found`:
        as a unit if it is ``inline``, else as a block, which ends the text before it."""
        if not inline:
            self._split()
        self._add("unit" if inline else "block", written)

    def _split(self) -> None:
        """Adds all open elements to :attr:`apart`, because a text ends within them."""
        for one in reversed(self._open):
            # Those around this one have been added with it.
            if one.number in self.apart:
                break
            self.apart.add(one.number)

    def _enter(self, token: _Token) -> None:
        number, inline = len(self.found), token.name in _INLINE
        nested = self._open[-1].nested if self._open else 0
        if not inline or nested == MOST_NESTED:
            self._split()
            self.apart.add(number)
        self._add("open", token.written, number)
        nested = (nested + 1) % (MOST_NESTED + 1) if inline else 0
        self._open.append(_Open(token.name, number, nested))
        self._names[token.name] = self._names.get(token.name, 0) + 1

    def _close(self, token: _Token) -> None:
        if not self._names.get(token.name):
            self._add_whole(token.written, False)
            return
        place = next(
            place
            for place in reversed(range(len(self._open)))
            if self._open[place].name == token.name
        )
        self._leave(place + 1)
        number = self._open[place].number
        if token.name in _PLACES and number == len(self.found) - 1:
            self._add_whole(self.found.pop()[1] + token.written, True)
        else:
            self._add("close", token.written, number)
        self._pop()

    def _leave(self, depth: int) -> None:
        """Ends all open elements except the ``depth`` outermost, as their closing tags are missing;
        adds all that were open to :attr:`apart`."""
        while len(self._open) > depth:
            self._split()
            self._pop()

    def _pop(self) -> None:
        self._names[self._open.pop().name] -= 1

    def _keep(self, token: _Token) -> None:
        self._kept.append(token.written)
        if token.name == self._keeper:
            self._depth += (token.kind == "open") - (token.kind == "close")
        if not self._depth:
            self._end_kept()

    def _end_kept(self) -> None:
        self._add_whole("".join(self._kept), self._keeper in _INLINE)
        self._keeper, self._depth = "", 0
        self._kept.clear()


def _untouched(token: _Token) -> bool:
    """Whether the element that the tag ``token`` opens stays untranslated: because of its name,
    ``translate="no"`` or class ``notranslate``."""
    return (
        token.name in _KEPT
        or token.attributes.get("translate") == "no"
        or "notranslate" in (token.attributes.get("class") or "").split()
    )
