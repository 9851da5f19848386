"""Decoding options on the command line: common ones as flags, all others as ``--set OPTION=VALUE``.

Options with a flag of their own are those that a request to the server may also choose
(:mod:`..native.options.schema`). All values are checked before PyTorch is loaded.
"""

import argparse
from typing import Container, Dict, Sequence

from ..native.options.conditions import did_you_mean, flag
from ..native.options.misplaced import DECODING, MISPLACED
from ..native.options.schema import CALLER, ENGINES
from ..native.options.values import KINDS, SCHEMA, check_value

COMMON = tuple(name for name, option in SCHEMA.items() if option.request is not None)


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each option in :data:`COMMON`, and ``--set``."""
    group = parser.add_argument_group(
        "decoding options",
        "How the model decodes, instead of the bundle's own choice. All other options of"
        " fairseq-generate and of the model's task: --set.",
    )
    for name in COMMON:
        kind = KINDS[name][0]
        if kind is bool:
            group.add_argument(
                flag(name), action="store_const", const="true", help=SCHEMA[name].help
            )
            continue
        metavar = {int: "N", float: "X"}.get(kind, "HOW")
        group.add_argument(flag(name), metavar=metavar, help=SCHEMA[name].help)
    add_set_argument(group, "any other option; repeatable")


def add_engine_arguments(parser: argparse._ActionsContainer, *, threads: bool = True) -> None:
    """Adds ``--engine``, whose value ``runtime`` is an earlier name of ``native``; ``--device``;
    and ``--threads``, unless ``threads`` is False."""
    parser.add_argument(
        "--engine",
        choices=(*ENGINES, "runtime"),
        default="auto",
        metavar="{auto,torch,native}",
        help=(
            "native: the C engine, for bundles made with --runtime; torch: PyTorch; auto: native"
            " where it can (default)"
        ),
    )
    parser.add_argument(
        "--device",
        help=(
            "cpu, cuda or cuda:N: where PyTorch computes (default: a GPU if there is one); with"
            " cuda, auto takes PyTorch"
        ),
    )
    if threads:
        parser.add_argument(
            "--threads", type=int, help="threads of the engine (default: its own choice)"
        )


def add_shortlist_argument(parser: argparse._ActionsContainer) -> None:
    """Adds ``--shortlist``."""
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="choose among the likely words of the bundle's shortlist only",
    )


def add_set_argument(
    parser: argparse._ActionsContainer, said: str = "decoding option; repeatable"
) -> None:
    """Adds ``--set``, whose values :func:`read_settings` reads; ``said`` is its help."""
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help=said)


def given_settings(options: argparse.Namespace) -> Dict[str, str]:
    """The decoding options that were given by flags or ``--set``, as unparsed texts by name.

    Raises:
        ValueError: an option does not exist, is given twice or has a value that is not permitted.
    """
    found = read_settings(options.set)
    for name in COMMON:
        value = getattr(options, name)
        if value is None:
            continue
        if name in found:
            raise ValueError(
                f"{flag(name)} {value} and --set {name}={found[name]}: give one of them"
            )
        check_value(name, value)
        found[name] = value
    return found


def read_settings(pairs: Sequence[str], more: Container[str] = ()) -> Dict[str, str]:
    """Splits the values of ``--set``: ``["beam=5"]`` becomes ``{"beam": "5"}``. ``more``: names
    that are permitted besides those of decoding options.

    Raises:
        ValueError: an entry lacks ``=``; or its option is given twice, has a value that is not
            permitted, does not exist, or is not one of decoding.
    """
    settings: Dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair}: give OPTION=VALUE, e.g. --set beam=5")
        name, value = name.strip().lstrip("-").replace("-", "_"), value.strip()
        if name in MISPLACED and name not in more:
            instead = MISPLACED[name][0]
            raise ValueError(
                f"--set {name}={value} is not an option of decoding: "
                + (f"give {instead}" if instead else "leave it out")
            )
        if name in SCHEMA and SCHEMA[name].origin != CALLER:
            # "false" leaves out any option, not only a switch.
            if value != "false":
                check_value(name, value)
        elif name not in more:
            _require_known(name, pair)
        if name in settings:
            raise ValueError(
                f"--set {name}={settings[name]} and --set {name}={value}: give one of them"
            )
        settings[name] = value
    return settings


def _require_known(name: str, pair: str) -> None:
    if name not in DECODING:
        elsewhere = [one for one, (instead, _) in MISPLACED.items() if instead]
        meant = did_you_mean(name, [*sorted(DECODING), *elsewhere])
        listed = "translate --help lists the common ones"
        raise ValueError(
            f"--set {pair}: there is no such option of decoding{meant or f'; fairseq-hrt {listed}'}"
        )
