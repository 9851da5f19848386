"""Finds the parts of a text that are not translated: placeholders, addresses, tags."""

import re
from typing import Iterator, Tuple

from .word_alignment import UNSPACED

# Letters that directly follow an address in running text: of scripts without spaces between words,
# full-width ones, and Korean, whose particles are joined to words.
_JOINED = f"{UNSPACED}\u1100-\u11ff\uac00-\ud7af\uff10-\uff65"
_LETTER = rf"[^\W{_JOINED}]"
# A URL does not end in signs, which belong to the sentence, and holds only whole pairs of brackets.
# Joined letters are part of it if they begin a component, as in /wiki/中国.
_INSIDE = r"\s<>\"“”„«»…—\u3000-\u303f\uff00-\uffef()\[\]{}"
_PLAIN = rf"[^{_INSIDE}{_JOINED}'’.,!?;:]"
_BRACKETS = "|".join(
    rf"{opening}[^{_INSIDE}]*{closing}"
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]"), (r"\{{1,2}", r"\}{1,2}"))
)
_URL = (
    rf"(?:{_PLAIN}|{_BRACKETS}|(?<=[/=?#&_-])[{_JOINED}]+(?:\.[{_JOINED}]+)*"
    rf"|['’.,!?;:)\]}}]+(?={_PLAIN}|{_BRACKETS}))+"
)
# URLs; e-mail addresses; tags; {{ name }}, {name}, ${name}; %s, %1$s, %(name)s. Repetitions are
# bounded, or begin where only one match can begin, so that the search takes linear time.
_PLACEHOLDER = re.compile(
    rf"""(?:(?:https?|ftp)://|(?<!{_LETTER})www\.){_URL}"""
    rf"""|(?<!{_LETTER})(?<![.+-])(?:{_LETTER}|[.+-]){{1,64}}"""
    rf"""@(?:{_LETTER}|-){{1,63}}(?:\.(?:{_LETTER}|-){{1,63}}){{1,8}}"""
    r"""|</?[A-Za-z][\w:-]{0,50}(?:\s[\w:-]{1,50}=(?:"[^"<>]{0,200}"|'[^'<>]{0,200}'))*\s?/?>"""
    r"""|\{\{[^{}]{1,100}\}\}|\$?\{[^{}\s]{0,100}\}"""
    r"""|%(?:\(\w{1,100}\)|\d{1,3}\$)?[-+#0]{0,4}\d{0,3}(?:\.\d{1,3})?l{0,2}[sdifuxXeEgGc@]"""
    rf"""(?!{_LETTER})"""
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
