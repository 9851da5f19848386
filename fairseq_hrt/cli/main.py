"""The command ``fairseq-hrt``: the tools of this package, one verb each.

Without a verb it reports what this installation is, what is wrong with it, and how to fix it.
``--user-dir`` prints the path for fairseq's ``--user-dir`` and nothing else::

    fairseq-train data --user-dir "$(fairseq-hrt --user-dir)" --task translation_hrt ...

``--options`` explains every option that the package adds to fairseq's commands. The exit status is
1 if something is wrong.
"""

import argparse
import importlib
import keyword
import os
import sys
from types import ModuleType
from typing import Callable, List, Optional, Sequence, Tuple

from ..native import __version__
from .parser import HelpFormatter, Parser, did_you_mean

_PACKAGE = __name__.split(".")[0]
VERBS = {
    "doctor": "report on this installation: versions, repairs, what is registered, what is wrong",
    "translate": "translate raw text with a bundle",
    "score": "score given translations with a bundle",
    "bundle": "pack a trained model into a folder that translates raw text",
    "import": "make a bundle of a model of OPUS-MT, Marian, Firefox, Hugging Face or fairseq",
    "serve": "answer over HTTP, with a page that shows how translations are written",
    "distill": "translate a training set with a teacher, in shards, resumable",
    "average": "average checkpoints of a run",
    "shortlist": "make a lexical table from the training data, for the runtime",
    "export": "write an autoregressive model for CTranslate2",
    "tune": "choose decoding options on the validation set",
    "benchmark": "compare systems: quality and speed on one machine in one run",
    "trace": "follow one sentence through one or several systems, decoder pass by decoder pass",
    "graph": "show the graph that a directed acyclic model writes for a sentence",
    "completion": "print what a shell needs to complete verbs and options",
}
# The verbs of an installation that only translates.
TRANSLATING = ("doctor", "translate", "score", "import", "serve", "completion")
# Options that other tools have as verbs.
SAID_AS_VERBS = {"help": "--help", "version": "--version"}


class LaterParser(argparse.ArgumentParser):
    """Stands in for the parser of a verb: the verb's module, which makes the real parser, is
    imported only if the verb is chosen."""

    def parse_known_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[argparse.Namespace] = None
    ) -> Tuple[argparse.Namespace, List[str]]:
        """Returns a namespace whose ``rest`` holds all arguments behind the verb, unparsed, and an
        empty list of unknown arguments."""
        namespace = argparse.Namespace() if namespace is None else namespace
        namespace.rest = list(args or ())
        return namespace, []


def build_parser(
    verb_parser: Callable[..., argparse.ArgumentParser] = LaterParser,
    *,
    only_translates: bool = False,
) -> argparse.ArgumentParser:
    """Makes the parser of the whole command line.

    Args:
        verb_parser: makes the parser of one verb; called with keyword arguments of
            ``ArgumentParser``, among which ``prog`` ends with the verb's name.
        only_translates: True leaves out the verbs that the translation-only package lacks.
    """
    left_out = [name for name in VERBS if only_translates and name not in TRANSLATING]
    of_fairseq = argparse.SUPPRESS if only_translates else None
    parser = Parser(
        prog="fairseq-hrt",
        description=(
            "Tools of fairseq_hrt. Each verb explains itself: fairseq-hrt help VERB, or fairseq-hrt"
            " VERB --help"
        ),
        epilog=(
            f"The whole plugin, fairseq_hrt, also has: {', '.join(left_out)}." if left_out else None
        ),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"fairseq_hrt {__version__}")
    parser.add_argument(
        "--user-dir",
        action="store_true",
        help=of_fairseq or "print the path for fairseq's --user-dir and stop",
    )
    parser.add_argument(
        "--options",
        action="store_true",
        help=of_fairseq or "explain the options added to fairseq's commands and stop",
    )
    parser.set_defaults(verb="doctor", rest=[])
    verbs = parser.add_subparsers(
        title="verbs", dest="verb", metavar="VERB", parser_class=verb_parser
    )  # type: ignore[call-overload]  # argparse only calls it
    for name, text in VERBS.items():
        if name in left_out:
            continue
        verbs.add_parser(name, help=text, add_help=False)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the verb that the arguments name (default: the process's arguments); returns the exit
    status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] in SAID_AS_VERBS:
        # "help VERB" is "VERB --help"; whatever follows "version" or "help help" is dropped.
        asked = arguments[0] == "help" and not SAID_AS_VERBS.keys() & arguments[1:2]
        rest = arguments[1:] if asked else []
        arguments = [*rest, SAID_AS_VERBS[arguments[0]]]
    verb = next((text for text in arguments if not text.startswith("-")), None)
    known = verb in VERBS
    # Only the list of verbs depends on what is installed, and finding out takes time.
    only_translates = not known and distribution().only_translates()
    parser = build_parser(only_translates=only_translates)
    if verb is not None and not known:
        parser.error(no_such_verb(verb, TRANSLATING if only_translates else tuple(VERBS)))
    if known and verb not in TRANSLATING and distribution().only_translates():
        # Before the verb's options are checked, which would be of no use.
        parser.exit(2, f"error: {distribution().not_installed(None, f'fairseq-hrt {verb}')}\n")
    chosen, handled = parser.parse_args(arguments), sys.exc_info()[1]
    try:
        if chosen.user_dir or chosen.options:
            return explain(parser, options=chosen.options and not chosen.user_dir)
        return (
            importlib.import_module(f".{module_of(chosen.verb or 'doctor')}", __package__).main(
                chosen.rest
            )
            or 0
        )
    except BaseException as error:
        from .reporting import end_by_signal

        # Ctrl-C while PyTorch was being imported; later the verbs report it themselves.
        end_by_signal(parser, error, handled)
        if (
            not isinstance(error, ModuleNotFoundError)
            or (error.name or "").partition(".")[0] == _PACKAGE
        ):
            raise
        command = f"fairseq-hrt {'--options' if chosen.options else chosen.verb}"
        parser.exit(2, f"error: {distribution().not_installed(error.name, command)}\n")


def distribution() -> ModuleType:
    """The module :mod:`.distribution`, imported here because it is rarely needed and takes time to
    import."""
    from . import distribution as found

    return found


def explain(parser: argparse.ArgumentParser, *, options: bool) -> int:
    """Prints the package's folder, for fairseq's ``--user-dir``, or, if ``options`` is true, the
    help of every option that the package adds to fairseq's commands. Returns the exit status 0;
    an error ends the program through ``parser``."""
    from .reporting import reporting, write_output

    with reporting(parser):
        if options:
            from .option_help import option_help

            write_output(option_help() + "\n")
        else:
            write_output(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "\n")
    return 0


def module_of(verb: str) -> str:
    """The name of a verb's module in ``cli``: the verb itself, but ``import_`` for ``import``, a
    keyword of Python."""
    return verb + "_" * keyword.iskeyword(verb)


def no_such_verb(given: str, verbs: Sequence[str]) -> str:
    """The error message for a verb that does not exist, with the verb that was probably meant."""
    meant = did_you_mean(given.lower().replace("_", "-"), [*verbs, *SAID_AS_VERBS])
    return f"there is no verb {given!r}{meant or ';'} there are: {', '.join(verbs)}"
