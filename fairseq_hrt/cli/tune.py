"""Chooses decoding options on the validation set: decodes it with every setting of a grid and names
the best one.

Example:

    fairseq-hrt tune data-bin --detokenize moses:de --out tuned \\
        --system 'name=DAG,path=dag/checkpoint_best.pt,dag_decode_strategy=joint-viterbi' \\
        --grid dag_decode_length_beta=0.8,1.0,1.2,1.4 --grid dag_decode_upsample_scale=3,4

Every option of fairseq-generate can be in a grid, whatever the family: lenpen, hrt_decode_chunk,
dag_decode_beta, dag_no_repeat_consecutive, ... Several --grid are combined. The table goes to the
standard output; with --out also into tuned.md and tuned.json. A run that was interrupted continues:
--out keeps the scores of each setting, for the same models, sentences, references and options.
Never choose on the test set what is measured on it.
"""

import argparse
import json
import logging
import sys

from ..native.io.files import write_text
from .command import (
    add_data_arguments,
    add_numbers,
    add_out_argument,
    add_reference_arguments,
    add_system_argument,
    command,
    data_arguments,
    recipe_of_bundle,
)
from .parser import require_positive, verb_parser

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("tune", __doc__)
    add_data_arguments(parser, "valid")
    add_system_argument(parser, required=True)
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="OPTION=VALUE,...",
        help="the values of an option; repeat for more options",
    )
    parser.add_argument(
        "--metric",
        choices=("bleu", "chrf"),
        default="bleu",
        help="metric to maximise (default: %(default)s)",
    )
    add_reference_arguments(parser)
    add_numbers(
        parser, ("--batch-size", 64, "sentences at a time"), ("--threads", 1, "threads of PyTorch")
    )
    add_out_argument(parser, "table, JSON and the scores of each setting")
    parser.add_argument(
        "--print-best",
        action="store_true",
        help=(
            "print only the best setting, as OPTION=VALUE,..., which can be appended to a"
            " --system; the table goes to the log"
        ),
    )
    return parser


def run(options: argparse.Namespace) -> None:
    """Decodes with every setting of the grid, prints the scores and writes them to ``--out``.

    Raises:
        ValueError: the system or an option of the grid is invalid, or the number of references is
            not that of the sentences.
    """
    require_positive(options, "batch_size", "threads")
    import torch

    from ..evaluation import quality, tuning
    from ..evaluation.systems import parse_system

    spec, grid = parse_system(options.system), tuning.parse_grid(options.grid)
    torch.set_num_threads(options.threads)
    trials = tuning.tune(
        spec,
        data_arguments(options),
        grid,
        references=quality.read_lines(options.references) if options.references else None,
        detokenize=quality.build_detokenizer(options.detokenize, recipe_of_bundle([spec])),
        batch_size=options.batch_size,
        cache=options.out / "settings" if options.out else None,
    )
    table = tuning.markdown(trials, options.metric)
    if options.print_best:
        logger.info("\n%s", table)
        print(tuning.title(tuning.best_trial(trials, options.metric).options))
    else:
        sys.stdout.write(table)
    if options.out:
        write_text(options.out / "tuned.md", table)
        document = {"command": sys.argv, **tuning.to_json(spec, trials, options.metric)}
        write_text(
            options.out / "tuned.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        )
        logger.info("written to %s", options.out)


main = command(build_parser, run)
