"""Reports what this installation is, what is wrong with it, and how to fix it; the exit status is 1 if something is wrong."""

import argparse
import os
import sys
from typing import Optional, Sequence


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="fairseq-hrt doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="an object with the sections and the problems instead of text")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the report; returns the exit status."""
    options = build_parser().parse_args(arguments)
    from ..compat import doctor

    found = doctor.examine()
    try:
        print(found.to_json() if options.json else found, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
