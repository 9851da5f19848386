"""Messages: values of unknown origin in them, and the last one of a command.

The standard library only, as everything that is imported before torch and fairseq are. The start-up
line loads this package without the one around it, so what it shares with the others is read by its
path.
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
    """Ends a command that cannot do what its options say: one line, exit status 2."""
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(2)
