"""What every verb does around its own work: options, log, errors."""

import argparse
import logging
import sys
from typing import Callable, Optional, Sequence


def execute(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None], arguments: Optional[Sequence[str]]
) -> None:
    """Parses the arguments and runs the verb; what is wrong with them or their files is one line and exit status 2."""
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    # fairseq reports every dictionary and data file of every system.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        run(options)
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"error: {error}\n")
