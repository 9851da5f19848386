"""Makes a lexical table from the training data: which target words a source word may lead to (IBM
Model 1).

Example:

    fairseq-hrt shortlist data-bin --output lex.txt
    fairseq-hrt bundle at/checkpoint_best.pt --data data-bin --codes codes --output bundle \\
        --runtime int8 --shortlist lex.txt
    fairseq-hrt translate bundle --shortlist < input.txt

The table has Marian's format, a target word, a source word and a probability a line, so that other
tools can use it too. With a shortlist the runtime computes the output layer for the likely words
only; what it costs in quality should be measured.
"""

import argparse
import logging
from pathlib import Path

from ..native.io.progress import Doing
from .command import add_data_arguments, add_numbers, command, data_arguments
from .parser import verb_parser

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("shortlist", __doc__)
    add_data_arguments(parser, "train")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="file for the table"
    )
    add_numbers(
        parser,
        ("--iterations", 5, "iterations of EM"),
        ("--best", 100, "most targets of a source word"),
        ("--least", 1e-4, "least probability of a target"),
        ("--sentences", 1_000_000, "at most this many sentences, from the first on"),
    )
    return parser


def run(options: argparse.Namespace) -> None:
    """Trains IBM Model 1 on the data and writes its table.

    Raises:
        ValueError: a number is out of range, or the data have no target side.
    """
    if min(options.iterations, options.best, options.sentences) < 1 or not 0 <= options.least < 1:
        raise ValueError(
            f"--iterations {options.iterations}, --best {options.best}, --sentences"
            f" {options.sentences}, --least {options.least}: the first three must be"
            " at least 1, --least at least 0 and less than 1"
        )
    from fairseq import tasks

    from ..engine.models import generation_config
    from ..export.lexical_table import Sentences, train, write_lex
    from ..native.bundles.shortlist import BEST

    config = generation_config(
        [*data_arguments(options), "--path", "none", "--task", "translation"], "the data"
    )
    task = tasks.setup_task(config.task)
    task.load_dataset(options.gen_subset)
    dataset = task.dataset(options.gen_subset)
    if dataset.tgt is None:
        raise ValueError(
            f"{options.data}: {options.gen_subset} has no target side; give a"
            " --gen-subset with translations"
        )
    numbers = range(min(len(dataset), options.sentences))
    special = task.source_dictionary.nspecial
    # Special symbols, <unk> among them, are candidates anyway.
    with Doing("reading the sentences"):
        sides = [
            Sentences(row[row >= special] for row in (side[number].numpy() for number in numbers))
            for side in (dataset.src, dataset.tgt)
        ]
    logger.info("%d pairs of sentences", len(numbers))
    table = train(*sides, iterations=options.iterations)
    words = (task.source_dictionary.symbols, task.target_dictionary.symbols)
    with Doing("writing the table"):
        count = write_lex(options.output, table, *words, best=options.best, least=options.least)
    if options.best > BEST:
        logger.info("fairseq-hrt bundle will keep the likeliest %d targets of a source word", BEST)
    logger.info(
        "%d pairs of words, the likeliest %d written to %s",
        len(table.sources),
        count,
        options.output,
    )


main = command(build_parser, run)
