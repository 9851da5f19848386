"""Escapes text for error messages, and ends a command with an error of one line.

Imports only the standard library, since it is imported before torch and fairseq. :mod:`.startup`
loads ``compat`` without its parent package; therefore ``native/io/escaping.py`` is loaded from its
path instead of imported by name.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ..native.io.escaping import PLAIN as PLAIN
    from ..native.io.escaping import escaped as escaped
    from ..native.io.escaping import shown as shown
else:
    _spec = spec_from_file_location(
        f"{__package__}.escaping", Path(__file__).parents[1] / "native" / "io" / "escaping.py"
    )
    _escaping = module_from_spec(_spec)
    _spec.loader.exec_module(_escaping)
    PLAIN, escaped, shown = _escaping.PLAIN, _escaping.escaped, _escaping.shown


def refuse(message: str) -> NoReturn:
    """Ends a command with an error message of one line and exit status 2."""
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(2)
