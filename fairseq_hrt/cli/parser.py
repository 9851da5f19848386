"""The parser of a verb: help that fits the terminal, and a hint where an option is misspelt.
Standard library only."""

import argparse
import difflib
import itertools
import shutil
import textwrap
from typing import Any, List, Optional, Sequence

# Longer lines are hard to read, however wide the terminal is.
WIDEST = 100


class HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs to the terminal's width, at most :data:`WIDEST`; indented lines are commands
    and stay as they are."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": min(shutil.get_terminal_size().columns, WIDEST), **more})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        runs = itertools.groupby(text.strip().splitlines(), _kind)
        return "\n".join(self._run(kind, list(lines), width, indent) for kind, lines in runs)

    def _run(self, kind: str, lines: List[str], width: int, indent: str) -> str:
        # A line break within a command, or in a long word, would make something else of it.
        words = " ".join(" ".join(lines).split())
        filled = textwrap.fill(
            words,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return filled if kind == "text" else "\n".join(lines)


def _kind(line: str) -> str:
    return ("command" if line.startswith("    ") else "text") if line.strip() else "gap"


class VerbParser(argparse.ArgumentParser):
    """See :func:`verb_parser`."""

    def parse_args(self, args: Optional[Sequence[str]] = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse does, with a hint for misspelt options."""
        found, unknown = self.parse_known_args(args, namespace)
        return self._all_known(found, unknown)

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Any = None
    ) -> Any:
        """As argparse does, with a hint for misspelt options."""
        found, unknown = self.parse_known_intermixed_args(args, namespace)
        return self._all_known(found, unknown)

    def _all_known(self, found: argparse.Namespace, unknown: List[str]) -> argparse.Namespace:
        if unknown:
            first = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
            self.error(
                "unrecognized arguments:"
                f" {' '.join(unknown)}{did_you_mean(first, list(self._option_string_actions))}"
            )
        return found


def verb_parser(verb: str, description: Optional[str]) -> argparse.ArgumentParser:
    """The parser of a verb, which shows its module's text."""
    return VerbParser(
        prog=f"fairseq-hrt {verb}", description=description, formatter_class=HelpFormatter
    )


def require_positive(options: argparse.Namespace, *names: str) -> None:
    """Checks numbers that were given.

    Raises:
        ValueError: one of them is less than 1.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least 1")


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """What follows a message about a name that does not exist: the one that was probably meant, or
    nothing."""
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
