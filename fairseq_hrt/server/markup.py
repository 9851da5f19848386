"""HTML: the text between the tags is translated, the tags stay."""

from typing import List, Sequence

# What is inside is no text for readers.
_KEPT = frozenset(("script", "style", "code", "pre", "textarea", "template", "noscript"))


class MarkedUpText:
    """An HTML fragment as the pieces of text that it holds.

    Args:
        html: a fragment or a document; Beautiful Soup parses whatever it is.
    """

    def __init__(self, html: str) -> None:
        import bs4

        self._soup = bs4.BeautifulSoup(html, "html.parser")
        self._nodes = [
            node
            for node in self._soup.find_all(string=True)
            # Comments, doctypes and the like are subclasses.
            if type(node) is bs4.NavigableString and node.strip() and not _untouched(node)
        ]
        # The pieces of text, in the order of the document.
        self.texts: List[str] = [str(node) for node in self._nodes]

    def join(self, translations: Sequence[str]) -> str:
        """The fragment with its texts replaced; what is put in is escaped."""
        for node, translation in zip(self._nodes, translations):
            node.replace_with(translation)
        return self._soup.decode(formatter="minimal")


def _untouched(node) -> bool:
    """Whether a text stands inside of what is not translated, by its element or by HTML's ``translate="no"``."""
    for parent in node.parents:
        if parent.name in _KEPT or parent.get("translate") == "no" or "notranslate" in (parent.get("class") or ()):
            return True
    return False
