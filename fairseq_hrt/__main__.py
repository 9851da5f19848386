"""``fairseq-hrt``, also ``python -m fairseq_hrt``: the tools of this package, one verb each.

Without a verb it reports what this installation is, what is wrong with it, and how to fix it. ``--user-dir`` prints the path for
fairseq's ``--user-dir`` and nothing else::

    fairseq-train data --user-dir "$(fairseq-hrt --user-dir)" --task translation_hrt ...

``--options`` explains every option that the package adds to fairseq's commands. The exit status is 1 if something is wrong.
"""

import argparse
import difflib
import importlib
import os
import sys
from typing import Optional, Sequence

from . import __version__

VERBS = {
    "doctor": "report on this installation: versions, repairs, what is registered, what is wrong",
    "translate": "translate raw text with a bundle",
    "bundle": "pack a trained model into a folder that translates raw text",
    "serve": "answer over HTTP, with a page that shows how translations are written",
    "distill": "translate a training set with a teacher, in shards, resumable",
    "average": "average checkpoints of a run",
    "shortlist": "make a lexical table from the training data, for the runtime",
    "export": "write an autoregressive model for CTranslate2",
    "tune": "choose decoding options on the validation set",
    "benchmark": "compare systems: quality and speed on one machine in one run",
    "trace": "follow one sentence through one or several systems, decoder pass by decoder pass",
    "graph": "show the graph that a directed acyclic model writes for a sentence",
    "graph-statistics": "how sharp the graphs of directed acyclic models are",
    "mutual-information": "what models ignore that write several words a step",
    "ops-speed": "measure the dynamic programs of directed acyclic graphs",
}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs a verb; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    verbs = "\n".join(f"  {name:20}{text}" for name, text in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="fairseq-hrt",
        description="Tools of fairseq_hrt. Each verb explains itself: fairseq-hrt VERB --help",
        epilog=f"verbs:\n{verbs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", nargs="?", default="doctor", metavar="VERB", help="see below (default: doctor)")
    parser.add_argument("--version", action="version", version=f"fairseq_hrt {__version__}")
    parser.add_argument("--user-dir", action="store_true", help="print the path for fairseq's --user-dir and stop")
    parser.add_argument("--options", action="store_true", help="explain the options added to fairseq's commands and stop")
    # What follows the verb is the verb's own.
    place = next((number for number, text in enumerate(arguments) if not text.startswith("-")), len(arguments) - 1)
    chosen = parser.parse_args(arguments[: place + 1])
    rest = arguments[place + 1 :]
    if chosen.user_dir:
        print(os.path.dirname(os.path.abspath(__file__)))
        return 0
    if chosen.options:
        from .cli.option_help import option_help

        print(option_help())
        return 0
    if chosen.verb not in VERBS:
        parser.error(no_such_verb(chosen.verb))
    if chosen.verb != "doctor":
        try:
            return importlib.import_module(f".cli.{chosen.verb.replace('-', '_')}", __package__).main(rest) or 0
        except KeyboardInterrupt:
            # While PyTorch was being imported; the verbs themselves report it.
            sys.stderr.write("interrupted\n")
            return 130
    own = argparse.ArgumentParser(
        prog="fairseq-hrt doctor",
        description="Reports what this installation is, what is wrong with it, and how to fix it; exit status 1 if something is wrong.",
    )
    own.add_argument("--json", action="store_true", help="an object with the sections and the problems instead of text")
    return report(as_json=own.parse_args(rest).json)


def no_such_verb(given: str) -> str:
    """The message for a verb that does not exist, with the one that was probably meant."""
    close = difflib.get_close_matches(given.lower().replace("_", "-"), VERBS, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no verb {given!r}; {meant}there are: {', '.join(VERBS)}"


def report(*, as_json: bool = False) -> int:
    """Prints the doctor's report; returns the exit status."""
    from .compat import doctor

    found = doctor.examine()
    try:
        print(found.to_json() if as_json else found, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
