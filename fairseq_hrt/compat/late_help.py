"""Lets ``--help`` show the options of the chosen task, model and criterion, and ends a mistaken
option with one line.

fairseq 0.12.2 parses a command line twice: first for ``--task``, ``--arch``, ``--criterion`` and
their like, then with the options of what these name. ``--help`` ends the first parsing, so it never
shows those options. For a mistaken option, argparse prints a usage with every option, a hundred
lines, before its message.
"""

import sys
from typing import Any, NoReturn, Optional, Sequence

from .display import escaped, refuse
from .importing import around

_HELP = ("-h", "--help")
# A list of all architectures would fill a screen.
_LONGEST = 300


def _parse(
    parse: Any, parser: Any, input_args: Optional[Sequence[str]] = None, *rest: Any, **kwargs: Any
) -> Any:
    if "error" not in vars(parser):
        parser.error = _one_line
    given = list(sys.argv[1:] if input_args is None else input_args)
    if any(word in _HELP for word in given):
        _hold_back_help(parser, [word for word in given if word not in _HELP])
    return parse(parser, input_args, *rest, **kwargs)


def _hold_back_help(parser: Any, without_help: Sequence[str]) -> None:
    """Makes the next call of ``parser.parse_known_args`` parse ``without_help``, the command line
    without ``--help``, in place of its own arguments; later calls behave as usual."""
    parse_known = parser.parse_known_args

    def first(args: Any = None, namespace: Any = None) -> Any:
        del parser.parse_known_args
        found, unknown = parse_known(without_help, namespace)
        # fairseq fails if one of these is None, but accepts a namespace without it.
        for name in ("arch", "task"):
            if getattr(found, name, "") is None:
                delattr(found, name)
        return found, unknown

    parser.parse_known_args = first


def _one_line(message: str) -> NoReturn:
    text = escaped(message)
    refuse(f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '…'} (--help explains options)")


REPAIR = around(
    "late-help",
    "--help ends before the options of the task, model and criterion are known",
    {"fairseq.options:parse_args_and_arch": _parse},
)
