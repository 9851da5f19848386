"""Texts of unknown origin, written so that whoever shows them shows them and does nothing else."""

import json
import re
from typing import Any

from ...compat.display import shown

__all__ = ["code_in_markdown", "in_markdown", "json_in_script", "printable", "shown"]

# Characters that can begin something in Markdown or HTML within a line: markup, tables, mentions,
# mathematics, and bare addresses.
_MARKS = re.compile(r"([\\`*|<>&~$@]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|://|(?<=www)\.)", re.I)
# Signs that are not seen but change how what follows is shown: controls, and those that turn the
# direction of writing.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


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
