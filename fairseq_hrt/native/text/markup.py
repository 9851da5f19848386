"""HTML: text is translated across inline elements, whose tags are put back where their words
are."""

from typing import Any, List, Set, Tuple

import bs4
from bs4.dammit import EntitySubstitution
from bs4.element import Comment, NavigableString
from bs4.exceptions import ParserRejectedMarkup

from .passages import Document

# "<" behind the last ">".
MOST_OPEN = 100
# Inline elements within each other; what is nested deeper is translated text by text.
MOST_NESTED = 20
# What is inside is not text for readers.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))
# Elements that stand in the middle of sentences; x, g and ph are those of XLIFF. Any other one ends
# the text before it.
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font g i img ins kbd label mark ph q s samp"
    " small span strike strong sub sup time tt u var wbr x".split()
)

escape = EntitySubstitution.substitute_xml


class UnreadableMarkup(ValueError):
    """HTML that cannot be parsed; the message tells what to write instead."""


class MarkedUpText(Document):
    """An HTML fragment.

    Args:
        html: a fragment or a document; Beautiful Soup parses nearly whatever it is.
        aligned: see :class:`Document`.

    Raises:
        UnreadableMarkup: it cannot be parsed.
    """

    def __init__(self, html: str, aligned: bool = False) -> None:
        # The parser would look for the end of a tag at each of them anew, up to the end of the
        # text.
        left_open = html.count("<", html.rfind(">") + 1)
        if left_open > MOST_OPEN:
            raise UnreadableMarkup(
                f'format html: {left_open} "<" without a ">" after it; write "&lt;" where it'
                " is text"
            )
        try:
            soup = bs4.BeautifulSoup(html, "html.parser")
        except ParserRejectedMarkup:
            raise UnreadableMarkup(
                'format html: "<![" does not begin a declaration here; write "&lt;![" where it'
                " is text"
            ) from None
        except ValueError:
            # Python makes no number of more than 4,300 digits.
            raise UnreadableMarkup(
                'format html: a character reference ("&#…;") has too many digits'
            ) from None
        super().__init__(escape, aligned)
        events = _Events(soup)
        for kind, written, element in events.found:
            if kind == "text":
                self.add(written)
            elif not aligned or kind == "block" or id(element) in events.apart:
                self.end(written)
            elif kind == "open":
                self.passage.open(written)
            elif kind == "close":
                self.passage.close(written)
            else:
                self.passage.unit(written)
        self.end()


# (what it is, how it is written or for "text" what it is, the element).
_Event = Tuple[str, str, Any]


class _Events:
    """A document from its beginning to its end.

    Asking each node for all its ancestors would take quadratic time where elements are nested
    deeply.

    Attributes:
        found: what it consists of.
        apart: the ids of the elements that do not stand within a sentence.
    """

    def __init__(self, soup: Any) -> None:
        self.found: List[_Event] = []
        self.apart: Set[int] = set()
        # The elements around, and how many inline ones are nested there.
        self._around: List[Any] = [soup]
        self._nested = [0]
        # The element that is kept as it is, and what is written of it so far.
        self._keeper: Any = None
        self._kept: List[str] = []
        for node in soup.descendants:
            while self._around[-1] is not node.parent:
                self._leave()
            if isinstance(node, bs4.Tag):
                self._enter(node)
            elif self._keeper is not None:
                self._kept.append(node.output_ready())
            # Comments, doctypes and the like are subclasses.
            elif type(node) is not NavigableString:
                self._add_kept(node.output_ready(), isinstance(node, Comment), node)
            elif node:
                self.found.append(("text", str(node), node))
        while len(self._around) > 1:
            self._leave()

    def _enter(self, element: Any) -> None:
        inline = element.name in _INLINE
        if self._keeper is None and (_untouched(element) or _is_void(element)):
            self._keeper = element
        if self._keeper is not None:
            self._kept.append(_opening(element))
        else:
            if not inline or self._nested[-1] == MOST_NESTED:
                self._split(element)
            self.found.append(("open", _opening(element), element))
        self._around.append(element)
        self._nested.append((self._nested[-1] + 1) % (MOST_NESTED + 1) if inline else 0)

    def _leave(self) -> None:
        element = self._around.pop()
        self._nested.pop()
        if self._keeper is None:
            self.found.append(("close", _closing(element), element))
            return
        self._kept.append(_closing(element))
        if element is self._keeper:
            self._add_kept("".join(self._kept), element.name in _INLINE, element)
            self._keeper = None
            self._kept.clear()

    def _add_kept(self, written: str, inline: bool, node: Any) -> None:
        if not inline:
            self._split(node)
        self.found.append(("unit" if inline else "block", written, node))

    def _split(self, node: Any) -> None:
        """Lets neither a node nor the elements around it stand within a sentence, for it ends
        one."""
        self.apart.add(id(node))
        for one in reversed(self._around):
            # Those around this one are there already.
            if id(one) in self.apart:
                break
            self.apart.add(id(one))


def _untouched(element: Any) -> bool:
    """Whether texts inside of an element are not translated: by its name, or by HTML's
    ``translate="no"``."""
    return (
        element.name in _KEPT
        or element.get("translate") == "no"
        or "notranslate" in (element.get("class") or ())
    )


def _is_void(element: Any) -> bool:
    """Whether an element holds nothing and is closed where it is opened, as HTML's ``img`` and
    XLIFF's ``x``."""
    if element.name in ("x", "ph"):
        element.can_be_empty_element = True
    return bool(element.is_empty_element)


def _opening(element: Any) -> str:
    if element.attrs or element.prefix:
        # Of the copy nothing else is there to be written.
        return str(element.copy_self()).removesuffix(_closing(element))
    return f"<{element.name}/>" if element.is_empty_element else f"<{element.name}>"


def _closing(element: Any) -> str:
    prefix = f"{element.prefix}:" if element.prefix else ""
    return "" if element.is_empty_element else f"</{prefix}{element.name}>"
