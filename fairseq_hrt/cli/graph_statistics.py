"""Says how sharp the graphs of dag_transformer models are, and where their likelihood comes from.

Example:

    fairseq-hrt graph-statistics data-bin --gen-subset valid --out results \\
        --system 'name=DAG,path=dag_nll/checkpoint_last.pt' --system 'name=FA-DAT,path=dag_fuzzy/checkpoint_last.pt'

The table has -log P(a|x) of the best path for the reference, -log P(y|a,x) of the reference on it, and -log P(y|x) over all paths
(FA-DAT, Table 3); the picture shows how passing and token probabilities are distributed (Figure 1). Written into --out:
graph_statistics.md, .json, .png and .svg.
"""

import argparse
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Optional, Sequence

from .command import add_data_arguments, data_arguments, execute

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="fairseq-hrt graph-statistics",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    from ..systems import FairseqSystem, parse_system

    results = []
    for text in options.system:
        spec = parse_system(text)
        logger.info("measuring %s", spec.name)
        scored = FairseqSystem(parse_system(f"{text},score_reference=true"), data_arguments(options))
        results.append(graph_statistics.collect(scored, FairseqSystem(spec, data_arguments(options))))
    table = graph_statistics.markdown(results)
    sys.stdout.write(table)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "graph_statistics.md").write_text(table, encoding="utf-8")
        document = {"command": sys.argv, "results": [asdict(result) for result in results]}
        (options.out / "graph_statistics.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
        graph_statistics.draw(results, [options.out / f"graph_statistics.{kind}" for kind in ("png", "svg")])
        logger.info("written to %s", options.out)


if __name__ == "__main__":
    main()
