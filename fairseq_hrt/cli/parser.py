"""The parser of a verb: help that fits the terminal, errors of one line, and a hint where an option
is misspelt. Standard library only."""

import argparse
import itertools
import shutil
import sys
import textwrap
from typing import Any, Iterable, List, NoReturn, Optional, Sequence

from ..native.options.conditions import did_you_mean as did_you_mean
from ..native.options.conditions import flag

# Longer lines are hard to read, however wide the terminal is.
WIDEST = 100


class HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs to the terminal's width, at most :data:`WIDEST`; indented lines, which are
    commands to copy, stay as they are."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": min(shutil.get_terminal_size().columns, WIDEST), **more})

    def add_usage(
        self,
        usage: Optional[str],
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: Optional[str] = None,
    ) -> None:
        """Adds a usage line with the required options only; the help below it explains all
        options."""
        actions, groups = list(actions), list(groups)
        chosen = [action for group in groups if group.required for action in group._group_actions]
        needed = [one for one in actions if (one.required and one.option_strings) or one in chosen]
        positional = [one for one in actions if not one.option_strings]
        # Stands for all options that are not required.
        others = [argparse.Action([], "options", nargs="?", metavar="OPTIONS")]
        if len(actions) == len(needed) + len(positional):
            others = []
        super().add_usage(usage, [*needed, *others, *positional], groups, prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        runs = itertools.groupby(text.strip().splitlines(), _kind)
        return "\n".join(self._run(kind, list(lines), width, indent) for kind, lines in runs)

    def _run(self, kind: str, lines: List[str], width: int, indent: str) -> str:
        # Neither commands nor long words are broken: they are copied from the help.
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


class Parser(argparse.ArgumentParser):
    """The parser of a verb, or of the whole command line: its errors are one line, with a hint if
    an option is misspelt."""

    _given: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Ends the program with the error ``message`` on one line; if a required option is missing
        and another option is misspelt, the error names the misspelt one instead."""
        if "required" in message:
            message = self._misspelt() or message
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")

    def _misspelt(self) -> str:
        names = [word.partition("=")[0] for word in self._given if word.startswith("--")]
        known = list(self._option_string_actions)
        for name in names:
            meant = did_you_mean(name, known)
            if meant and not any(option.startswith(name) for option in known):
                return f"unrecognized arguments: {name}{meant}"
        return ""

    def parse_args(self, args: Optional[Sequence[str]] = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parses as argparse does, with a hint for misspelt options."""
        self._given = sys.argv[1:] if args is None else list(args)
        found, unknown = self.parse_known_args(self._given, namespace)
        return self._all_known(found, unknown)

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Any = None
    ) -> Any:
        """Parses as argparse does, with a hint for misspelt options."""
        self._given = sys.argv[1:] if args is None else list(args)
        found, unknown = self.parse_known_intermixed_args(self._given, namespace)
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
    """Makes the parser of a verb, still without options; ``description`` is the docstring of the
    verb's module."""
    return Parser(
        prog=f"fairseq-hrt {verb}", description=description, formatter_class=HelpFormatter
    )


def require_positive(options: argparse.Namespace, *names: str) -> None:
    """Checks that the options ``names``, as far as they were given, are at least 1.

    Raises:
        ValueError: one of them is less than 1; the message names it.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{flag(name)} {value} must be at least 1")
