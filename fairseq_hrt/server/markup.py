"""HTML: the text between the tags is translated, the tags stay."""

from typing import Any, List, Sequence

# What is inside is no text for readers.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))


class MarkedUpText:
    """An HTML fragment as the pieces of text that it holds.

    Args:
        html: a fragment or a document; Beautiful Soup parses whatever it is.
    """

    def __init__(self, html: str) -> None:
        import bs4
        from bs4.element import NavigableString

        self._soup = bs4.BeautifulSoup(html, "html.parser")
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
        """The fragment with its texts replaced; what is put in is escaped."""
        for node, translation in zip(self._nodes, translations):
            node.replace_with(translation)
        return self._soup.decode(formatter="minimal")


def _untouched(element: Any) -> bool:
    """Whether texts inside of an element are not translated: by its name, or by HTML's ``translate="no"``."""
    return element.name in _KEPT or element.get("translate") == "no" or "notranslate" in (element.get("class") or ())
