"""Says how sharp the graphs of dag_transformer models are, and where their likelihood comes from.

Example:

    fairseq-hrt graph-statistics data-bin --gen-subset valid --out results \\
        --system 'name=DAG,path=dag_nll/checkpoint_last.pt' \\
        --system 'name=FA-DAT,path=dag_fuzzy/checkpoint_last.pt'

The first table has -log P(a|x) of the best path for the reference, -log P(y|a,x) of the reference on it, and -log P(y|x) over all
paths; the second one the same of the model's translation and its path, repeated words kept (FA-DAT, Table 3). The picture shows how
passing and token probabilities are distributed (Figure 1). Written into --out: graph_statistics.md, .json, .png and .svg.
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
    parser = verb_parser("graph-statistics", __doc__)
    add_data_arguments(parser, "valid")
    parser.add_argument(
        "--system", action="append", required=True, metavar="name=...,path=...", help="repeat for each model"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for table, figures and picture")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    execute(build_parser(), run, arguments)


def run(options: argparse.Namespace) -> None:
    """Measures every model and writes the results.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    from ..evaluation import graph_statistics
    from ..systems import FairseqSystem, parse_system, scoring

    results = []
    for text in options.system:
        spec = parse_system(text)
        logger.info("measuring %s", spec.name)
        scored = FairseqSystem(scoring(spec), data_arguments(options))
        results.append(graph_statistics.collect(scored, FairseqSystem(spec, data_arguments(options))))
    table = graph_statistics.markdown(results)
    sys.stdout.write(table)
    if options.out:
        write_results(options.out, "graph_statistics", table, results, graph_statistics.draw)


if __name__ == "__main__":
    main()
