"""Estimates the mutual information that models writing several words a step ignore.

Example:

    fairseq-hrt mutual-information data-bin --gen-subset valid --out results \\
        --baseline 'name=interleaved,path=interleaved/checkpoint_best.pt' \\
        --system 'name=IBDecoder,path=ib/checkpoint_best.pt' \\
        --system 'name=IB+SA(2),path=ib_sa/checkpoint_best.pt'

The baseline writes one word a step in the same order: --bidirectional-directions 2 --bidirectional-block 1 for models of
two directions, an ordinary Transformer for one direction. The systems are compared on the reference translations. The table
goes to the standard output and, with a picture and all figures, into --out: mutual_information.md, .json, .png, .svg.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence

from .command import add_data_arguments, data_arguments, execute, write_results
from .parser import verb_parser

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("mutual-information", __doc__)
    add_data_arguments(parser, "valid")
    parser.add_argument("--baseline", required=True, metavar="name=...,path=...", help="one word a step, same order")
    parser.add_argument(
        "--system", action="append", required=True, metavar="name=...,path=...", help="repeat for each parallel model"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the bootstrap (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for table, figures and picture")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    execute(build_parser(), run, arguments)


def run(options: argparse.Namespace) -> None:
    """Scores the references with every model and writes the estimates.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    from ..evaluation import mutual_information
    from ..systems import FairseqSystem, parse_system, scoring

    scores = {}
    for text in [options.baseline, *options.system]:
        spec = scoring(parse_system(text))
        logger.info("scoring with %s", spec.name)
        if spec.name in scores:
            raise ValueError(f"two models are called {spec.name!r}: give each a name of its own")
        scores[spec.name] = mutual_information.score_references(FairseqSystem(spec, data_arguments(options)))
    baseline, *systems = scores
    results = [mutual_information.estimate(name, scores[name], scores[baseline], seed=options.seed) for name in systems]
    table = mutual_information.markdown(results)
    sys.stdout.write(table)
    if options.out:
        write_results(options.out, "mutual_information", table, results, mutual_information.draw)


if __name__ == "__main__":
    main()
