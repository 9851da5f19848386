"""HTML: text is translated across inline elements, whose tags are put back where their words are."""

from typing import Any, List, Set, Tuple

import bs4
from bs4.dammit import EntitySubstitution
from bs4.element import Comment, NavigableString
from bs4.exceptions import ParserRejectedMarkup

from .errors import invalid
from .passages import Document

# "<" behind the last ">".
MOST_OPEN = 100
# Inline elements within each other; what is nested deeper is translated text by text.
MOST_NESTED = 20
# What is inside is no text for readers.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))
# Elements that stand in the middle of sentences; x, g and ph are those of XLIFF. Any other one ends the text before it.
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font g i img ins kbd label mark ph q s samp small span strike strong sub sup "
    "time tt u var wbr x".split()
)

escape = EntitySubstitution.substitute_xml


class MarkedUpText(Document):
    """An HTML fragment.

    Args:
        html: a fragment or a document; Beautiful Soup parses nearly whatever it is.
        aligned: see :class:`Document`.

    Raises:
        RequestError: it cannot be parsed.
    """

    def __init__(self, html: str, aligned: bool = False) -> None:
        # The parser would look for the end of a tag at each of them anew, up to the end of the text.
        left_open = html.count("<", html.rfind(">") + 1)
        if left_open > MOST_OPEN:
            raise invalid(f'format html: there are {left_open} "<" that no ">" follows; write "&lt;" where it is text')
        try:
            soup = bs4.BeautifulSoup(html, "html.parser")
        except ParserRejectedMarkup:
            raise invalid(
                'format html: a declaration that begins with "<![" is none; write "&lt;![" where it is text'
            ) from None
        except ValueError:
            # Python makes no number of more than 4,300 digits.
            raise invalid('format html: a character reference ("&#…;") has too many digits') from None
        super().__init__(escape, aligned)
        events, apart = _events(soup)
        for kind, written, element in events:
            if kind == "text":
                self.add(written)
            elif not aligned or kind == "block" or id(element) in apart:
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


def _events(soup: Any) -> Tuple[List[_Event], Set[int]]:
    """A document from its beginning to its end, and the ids of the elements of which a part alone stands in a sentence.

    Asking each node for all its ancestors would take quadratic time where elements are nested deeply.
    """
    events: List[_Event] = []
    apart: Set[int] = set()
    # The elements around, and how many inline ones are nested there.
    around: List[Any] = [soup]
    nested = [0]
    # What is written of the element that is kept as it is.
    kept: List[str] = []
    keeper: Any = None

    def split(element: Any) -> None:
        """Lets neither an element nor those around it be part of a sentence, for it ends one."""
        apart.add(id(element))
        for one in reversed(around):
            # Those around this one are there already.
            if id(one) in apart:
                break
            apart.add(id(one))

    def leave() -> None:
        nonlocal keeper
        element = around.pop()
        nested.pop()
        if keeper is None:
            events.append(("close", _closing(element), element))
            return
        kept.append(_closing(element))
        if element is keeper:
            keep("".join(kept), element.name in _INLINE, element)
            keeper = None
            kept.clear()

    def keep(written: str, inline: bool, element: Any) -> None:
        if not inline:
            split(element)
        events.append(("unit" if inline else "block", written, element))

    for node in soup.descendants:
        while around[-1] is not node.parent:
            leave()
        if isinstance(node, bs4.Tag):
            if keeper is None and (_untouched(node) or _is_void(node)):
                keeper = node
            inline = node.name in _INLINE
            if keeper is None:
                if not inline or nested[-1] == MOST_NESTED:
                    split(node)
                events.append(("open", _opening(node), node))
            else:
                kept.append(_opening(node))
            around.append(node)
            nested.append((nested[-1] + 1) % (MOST_NESTED + 1) if inline else 0)
        elif keeper is not None:
            kept.append(node.output_ready())
        # Comments, doctypes and the like are subclasses.
        elif type(node) is NavigableString:
            if node:
                events.append(("text", str(node), node))
        else:
            keep(node.output_ready(), isinstance(node, Comment), node)
    while len(around) > 1:
        leave()
    return events, apart


def _untouched(element: Any) -> bool:
    """Whether texts inside of an element are not translated: by its name, or by HTML's ``translate="no"``."""
    return element.name in _KEPT or element.get("translate") == "no" or "notranslate" in (element.get("class") or ())


def _is_void(element: Any) -> bool:
    """Whether an element holds nothing and is closed where it is opened, as HTML's ``img`` and XLIFF's ``x``."""
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

