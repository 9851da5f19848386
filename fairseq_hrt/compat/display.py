"""Messages: values of unknown origin in them, and the last one of a command.

The standard library only, as everything that is imported before torch and fairseq are.
"""

import reprlib
import sys
from typing import NoReturn

# Types whose values have no parts.
PLAIN = (int, float, complex, bool, type(None))
_SHOWN = 100


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


def refuse(message: str) -> NoReturn:
    """Ends a command that cannot do what its options say: one line, exit status 2."""
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(2)
