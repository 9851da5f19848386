"""Texts of unknown origin, written so that whoever shows them shows them and does nothing else.

The standard library only, and nothing of this package: ``compat/display.py`` reads this file by its
path.
"""

import json
import re
import reprlib
from typing import Any

# Types whose values have no parts.
PLAIN = (int, float, complex, bool, type(None))
_SHOWN = 100
# Characters that can begin something in Markdown or HTML within a line: markup, tables, mentions,
# mathematics, and bare addresses.
_MARKS = re.compile(r"([\\`*|<>&~$@]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|://|(?<=www)\.)", re.I)
# Signs that are not seen but change how what follows is shown: controls, and those that turn the
# direction of writing.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class _Short(reprlib.Repr):
    """The beginning of a value; of an object, whose own text may be endless, only its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, _SHOWN, _SHOWN, _SHOWN

    def repr_instance(self, x: object, level: int) -> str:
        return repr(x) if type(x) in PLAIN or isinstance(x, type) else f"<{type(x).__name__}>"


def shown(value: object) -> str:
    """A value of unknown origin for a message: on one line, without control characters, not longer
    than a line."""
    try:
        text = repr(value[:_SHOWN]) if isinstance(value, (str, bytes)) else _Short().repr(value)
    except Exception:
        # A damaged object cannot even be shown; its kind can.
        text = f"<{type(value).__name__}>"
    text = escaped(text)
    cut = len(text) > _SHOWN + 2 or (isinstance(value, (str, bytes)) and len(value) > _SHOWN)
    return text[: _SHOWN + 2] + "…" if cut else text


def escaped(text: str) -> str:
    """The text with all signs that cannot be printed, ends of lines too, as ``\\x1b`` and the
    like."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def printable(text: str) -> str:
    """A text for a terminal: control characters, which could repaint it, as ``\\x1b`` and the
    like."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def json_in_script(document: Any) -> str:
    """JSON for the inside of an HTML ``<script>``: no ``</script>``, ``<!--`` or ``<script`` can
    stand in it."""
    text = json.dumps(document, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def in_markdown(value: object) -> str:
    """A text within a line or table cell of Markdown: neither links, images, HTML nor further cells
    come of it."""
    text = printable(" ".join(str(value).split()))
    return _MARKS.sub(lambda match: "".join(f"&#{ord(sign)};" for sign in match[1]), text)


def code_in_markdown(value: object) -> str:
    """A text as code within a line of Markdown, outside tables."""
    text = printable(" ".join(str(value).split()))
    if not text:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
