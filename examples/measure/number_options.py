"""Options that take numbers."""

import argparse
from typing import Callable, List


def numbers(low: int) -> Callable[[str], List[int]]:
    """The type of an option: integers separated by commas, each once."""

    def read(text: str) -> List[int]:
        try:
            found = list(dict.fromkeys(map(int, text.split(","))))
        except ValueError:
            found = []
        if not found or min(found) < low:
            raise argparse.ArgumentTypeError(
                f"{text!r}: give integers separated by commas, each at least {low}"
            )
        return found

    return read


def require(given: argparse.Namespace, low: int, *names: str) -> None:
    """Raises ValueError for an option that is given a smaller number."""
    for name in names:
        value = getattr(given, name.replace("-", "_"))
        if value is not None and value < low:
            raise ValueError(f"--{name} {value} must be at least {low}")
