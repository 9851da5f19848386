"""Prints what a shell needs to complete the verbs of fairseq-hrt and their options.

Example:

    fairseq-hrt completion bash > ~/.local/share/bash-completion/completions/fairseq-hrt
    fairseq-hrt completion zsh > ~/.zfunc/_fairseq-hrt
    fairseq-hrt completion fish > ~/.config/fish/completions/fairseq-hrt.fish

Needs shtab, the extra ``completion``.
"""

import argparse
import importlib
from typing import Any

from .command import command
from .distribution import install_command, only_translates
from .parser import verb_parser

SHELLS = ("bash", "zsh", "tcsh", "fish")


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("completion", __doc__)
    parser.add_argument(
        "shell", choices=SHELLS, metavar=f"{{{','.join(SHELLS)}}}", help="the shell"
    )
    return parser


def run(options: argparse.Namespace) -> None:
    """Prints the completion script for the shell that is named.

    Raises:
        ValueError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise ValueError(f"shtab is not installed: {install_command('completion')}") from None
    print(shtab.complete(whole_parser(), shell=options.shell))


def whole_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line, with the options of every verb filled in, as shtab
    needs it."""
    from .main import build_parser as build
    from .main import module_of

    def verb_parser(*, prog: str, **rest: Any) -> argparse.ArgumentParser:
        verb = module_of(prog.rpartition(" ")[2])
        own = importlib.import_module(f".{verb}", __package__).build_parser()
        return argparse.ArgumentParser(prog=prog, parents=[own], add_help=False)

    return build(verb_parser, only_translates=only_translates())


main = command(build_parser, run)
