"""Escapes values of unknown origin for terminals, HTML and Markdown, where they might act as
control codes or markup.

Imports only the standard library: ``compat/display.py`` loads this file by its path.
"""

import json
import re
import reprlib
from typing import Any

# Types whose repr() is short and safe.
PLAIN = (int, float, complex, bool, type(None))
_SHOWN = 100
# Characters with a meaning in Markdown or HTML within a line: markup, tables, mentions, formulas,
# bare addresses.
_MARKS = re.compile(r"([\\`*|<>&~$@]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|://|(?<=www)\.)", re.I)
# Invisible characters that change how a terminal shows what follows: control characters, line
# separators, changes of the writing direction, lone surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class _Short(reprlib.Repr):
    """Makes the beginning of a value's repr(). For objects of unknown types, whose repr() may be
    endless, it gives only the type's name, e.g. ``<Model>``."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, _SHOWN, _SHOWN, _SHOWN

    def repr_instance(self, x: object, level: int) -> str:
        return repr(x) if type(x) in PLAIN or isinstance(x, type) else f"<{type(x).__name__}>"


def shown(value: object) -> str:
    """Makes a value of unknown origin fit for an error message: one short line without control
    characters."""
    try:
        text = repr(value[:_SHOWN]) if isinstance(value, (str, bytes)) else _Short().repr(value)
    except Exception:
        # The repr() of a damaged object may raise an error: show its type.
        text = f"<{type(value).__name__}>"
    text = escaped(text)
    cut = len(text) > _SHOWN + 2 or (isinstance(value, (str, bytes)) and len(value) > _SHOWN)
    return text[: _SHOWN + 2] + "…" if cut else text


def escaped(text: str) -> str:
    """Escapes all unprintable characters, line breaks included, in the form ``\\x1b``."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def printable(text: str) -> str:
    """Escapes control characters, which could manipulate a terminal, in the form ``\\x1b``."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def json_in_script(document: Any) -> str:
    """Writes a document as JSON for the inside of an HTML ``<script>`` element: ``<``, ``>`` and
    ``&`` are escaped, so that it cannot contain ``</script>``."""
    text = json.dumps(document, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def in_markdown(value: object) -> str:
    """Escapes a text for a line or table cell of Markdown, so that it makes no links, images, HTML
    or further cells."""
    text = printable(" ".join(str(value).split()))
    return _MARKS.sub(lambda match: "".join(f"&#{ord(sign)};" for sign in match[1]), text)


def code_in_markdown(value: object) -> str:
    """Writes a text as inline code of Markdown, for use outside tables."""
    text = printable(" ".join(str(value).split()))
    if not text:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
