"""Reports what this installation is, what is wrong with it, and how to fix it; the exit status is 1 if something is wrong."""

import argparse
import sys
from typing import Optional, Sequence

from .parser import verb_parser


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("doctor", __doc__)
    parser.add_argument("--json", action="store_true", help="an object with the sections and the problems instead of text")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the report; returns the exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    from ..compat import doctor
    from .reporting import reporting, write_output

    found = doctor.examine()
    with reporting(parser):
        write_output(f"{found.to_json() if options.json else found}\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
