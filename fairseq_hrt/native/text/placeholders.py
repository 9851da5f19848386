"""Finds the parts of a text that are not translated: placeholders, addresses, tags."""

import re
from typing import Iterator, Tuple

# URLs; e-mail addresses; tags; {{ name }}, {name}, ${name}; %s, %1$s, %(name)s. Repetitions are
# bounded, or begin where only one match can begin, so that the search takes linear time.
_PLACEHOLDER = re.compile(
    r"""(?:(?:https?|ftp)://|\bwww\.)[^\s<>"]*[^\s<>"'.,;:!?)\]}]"""
    r"""|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"""
    r"""|</?[A-Za-z][\w:-]{0,50}(?:\s[\w:-]{1,50}=(?:"[^"<>]{0,200}"|'[^'<>]{0,200}'))*\s?/?>"""
    r"""|\{\{[^{}]{1,100}\}\}|\$?\{[^{}\s]{0,100}\}"""
    r"""|%(?:\(\w{1,100}\)|\d{1,3}\$)?[-+#0]{0,4}\d{0,3}(?:\.\d{1,3})?l{0,2}[sdifuxXeEgGc@](?!\w)"""
)


def placeholders(text: str) -> Iterator[Tuple[int, int]]:
    """Yields the span (start, end) of each placeholder in a text."""
    return (found.span() for found in _PLACEHOLDER.finditer(text))


def without_placeholders(text: str) -> Iterator[Tuple[str, bool]]:
    """Splits a text at its placeholders; yields (piece, whether the piece is a placeholder)."""
    place = 0
    for start, end in placeholders(text):
        if place < start:
            yield text[place:start], False
        yield text[start:end], True
        place = end
    if place < len(text):
        yield text[place:], False
