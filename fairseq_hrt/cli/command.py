"""What several verbs have around their own work: options, log, errors."""

import argparse
import logging
import sys
from typing import Callable, List, Optional, Sequence


def execute(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None], arguments: Optional[Sequence[str]]
) -> None:
    """Parses the arguments and runs the verb; what is wrong with them or their files is one line and exit status 2."""
    options = parser.parse_args(arguments)
    # force: fairseq has set up the log already, when it was imported.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", force=True)
    # fairseq reports every dictionary and data file of every system.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        run(options)
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"error: {error}\n")


def add_data_arguments(parser: argparse._ActionsContainer, subset: str) -> None:
    """The options that choose binarised data, named as fairseq names them; ``subset`` is the default."""
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument("--gen-subset", default=subset, help="its part (default: %(default)s)")
    parser.add_argument("-s", "--source-lang", help="source language (default: from the names of the files)")
    parser.add_argument("-t", "--target-lang", help="target language")


def data_arguments(options: argparse.Namespace) -> List[str]:
    """The options of ``fairseq-generate`` that choose the data."""
    arguments = [options.data, "--gen-subset", options.gen_subset]
    for flag, language in (("--source-lang", options.source_lang), ("--target-lang", options.target_lang)):
        arguments += [flag, language] if language else []
    return arguments


def add_sentence_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose one sentence: of the data, or one's own."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sentence", type=int, default=0, metavar="N", help="number of the sentence (default: %(default)s)")
    which.add_argument("--text", metavar="WORDS", help="a sentence of your own; - reads one line from the standard input")


def given_text(options: argparse.Namespace) -> Optional[str]:
    """The sentence of one's own, if there is one."""
    return sys.stdin.readline() if options.text == "-" else options.text
