"""HTML: the text between the tags is translated, the tags stay."""

from typing import Any, Dict, List, Sequence

import bs4
from bs4.dammit import EntitySubstitution
from bs4.element import NavigableString
from bs4.exceptions import ParserRejectedMarkup
from bs4.formatter import HTMLFormatter

from .errors import invalid

# "<" behind the last ">".
MOST_OPEN = 100
# What is inside is no text for readers.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))


class _Translated(HTMLFormatter):
    """Beautiful Soup's formatter "minimal", which writes pieces of text as their translations.

    To put others in their places takes quadratic time: each is looked for among all of its parent's.

    Args:
        translations: by the number (``id``) of the piece.
    """

    def __init__(self, translations: Dict[int, str]) -> None:
        super().__init__(entity_substitution=EntitySubstitution.substitute_xml)
        self._translations = translations

    def substitute(self, ns: str) -> str:
        """The text, or its translation, escaped."""
        return super().substitute(self._translations.get(id(ns), ns))


class MarkedUpText:
    """An HTML fragment as the pieces of text that it holds.

    Args:
        html: a fragment or a document; Beautiful Soup parses nearly whatever it is.

    Raises:
        RequestError: it does not.
    """

    def __init__(self, html: str) -> None:
        # The parser would look for the end of a tag at each of them anew, up to the end of the text.
        left_open = html.count("<", html.rfind(">") + 1)
        if left_open > MOST_OPEN:
            raise invalid(f'format html: there are {left_open} "<" that no ">" follows; write "&lt;" where it is text')
        try:
            self._soup = bs4.BeautifulSoup(html, "html.parser")
        except ParserRejectedMarkup:
            raise invalid(
                'format html: a declaration that begins with "<![" is none; write "&lt;![" where it is text'
            ) from None
        except ValueError:
            # Python makes no number of more than 4,300 digits.
            raise invalid('format html: a character reference ("&#…;") has too many digits') from None
        self._nodes: List[Any] = []
        untouched = set()
        # In the order of the document: an element comes before what is inside. Asking each text for all its ancestors would take
        # quadratic time where elements are nested deeply.
        for node in self._soup.descendants:
            inside = id(node.parent) in untouched
            if isinstance(node, bs4.Tag):
                if inside or _untouched(node):
                    untouched.add(id(node))
            # Comments, doctypes and the like are subclasses.
            elif type(node) is NavigableString and not inside and node.strip():
                self._nodes.append(node)
        # The pieces of text, in the order of the document.
        self.texts: List[str] = [str(node) for node in self._nodes]

    def join(self, translations: Sequence[str]) -> str:
        """The fragment with its texts replaced, now and by other ones the next time; what is put in is escaped."""
        translated = dict(zip(map(id, self._nodes), translations))
        return self._soup.decode(formatter=_Translated(translated))


def _untouched(element: Any) -> bool:
    """Whether texts inside of an element are not translated: by its name, or by HTML's ``translate="no"``."""
    return element.name in _KEPT or element.get("translate") == "no" or "notranslate" in (element.get("class") or ())
