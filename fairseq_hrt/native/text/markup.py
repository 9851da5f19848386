"""HTML: text is translated across inline elements; their tags are put back around the translations
of their words."""

from typing import Any, List, Set, Tuple

import bs4
from bs4.dammit import EntitySubstitution
from bs4.element import Comment, NavigableString
from bs4.exceptions import ParserRejectedMarkup

from .passages import Document

# Most "<" behind the last ">".
MOST_OPEN = 100
# Most inline elements within each other; a deeper one is translated as a text of its own.
MOST_NESTED = 20
# Elements whose content is kept untranslated.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))
# Elements within sentences (x, g and ph are XLIFF's). Any other element ends the text before it.
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font g i img ins kbd label mark ph q s samp"
    " small span strike strong sub sup time tt u var wbr x".split()
)

escape = EntitySubstitution.substitute_xml


class UnreadableMarkup(ValueError):
    """HTML that cannot be parsed; the message tells the user what to write instead."""


class MarkedUpText(Document):
    """An HTML fragment.

    Args:
        html: a fragment or a document; Beautiful Soup parses nearly everything.
        aligned: see :class:`Document`.

    Raises:
        UnreadableMarkup: it cannot be parsed.
    """

    def __init__(self, html: str, aligned: bool = False) -> None:
        # For each of them the parser would search the rest of the text for a ">": quadratic time.
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
            # int() refuses more than 4,300 digits.
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


# (kind, text or markup, element): kind is text, open, close, unit (inline) or block.
_Event = Tuple[str, str, Any]


class _Events:
    """A document as a sequence of events, in one traversal.

    Looking up the ancestors of each node would take quadratic time in deeply nested documents.

    Attributes:
        found: the events.
        apart: ids of the elements that do not stand within a sentence, but around or between them.
    """

    def __init__(self, soup: Any) -> None:
        self.found: List[_Event] = []
        self.apart: Set[int] = set()
        # The enclosing elements, and for each the number of nested inline elements.
        self._around: List[Any] = [soup]
        self._nested = [0]
        # The element that is being kept untranslated, and its markup so far.
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
        """Marks a node that ends a sentence, and all elements around it, as ``apart``."""
        self.apart.add(id(node))
        for one in reversed(self._around):
            # The elements around this one have been added with it.
            if id(one) in self.apart:
                break
            self.apart.add(id(one))


def _untouched(element: Any) -> bool:
    """Whether the text inside an element is not translated: because of its name, ``translate="no"``
    or class ``notranslate``."""
    return (
        element.name in _KEPT
        or element.get("translate") == "no"
        or "notranslate" in (element.get("class") or ())
    )


def _is_void(element: Any) -> bool:
    """Whether an element is empty and has no closing tag, such as HTML's ``img`` and XLIFF's
    ``x``."""
    if element.name in ("x", "ph"):
        element.can_be_empty_element = True
    return bool(element.is_empty_element)


def _opening(element: Any) -> str:
    if element.attrs or element.prefix:
        # copy_self() copies the element without its content.
        return str(element.copy_self()).removesuffix(_closing(element))
    return f"<{element.name}/>" if element.is_empty_element else f"<{element.name}>"


def _closing(element: Any) -> str:
    prefix = f"{element.prefix}:" if element.prefix else ""
    return "" if element.is_empty_element else f"</{prefix}{element.name}>"
