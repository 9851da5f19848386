"""Shows the graph that a dag_transformer writes for a sentence: JSON, GraphViz and a picture.

Example:

    fairseq-hrt graph data-bin --system name=DAG,path=dag/checkpoint_last.pt --out graph
    echo 'ein hund läuft' | fairseq-hrt graph data-bin --text - --out graph \\
        --system name=DAG,path=dag/checkpoint_last.pt
    fairseq-hrt graph bundle --text 'Ein Hund läuft.' --out graph

A bundle in the place of the data is its own system unless --system names another, and takes raw
text; --set cpu=true keeps it off a GPU. Written into --out: graph.json (all vertices with their
passing probabilities and best tokens, all links), graph.dot, graph.png and graph.svg.
"""

import argparse
import json
import logging
import sys
from dataclasses import replace

from ..native.io.escaping import printable
from ..native.io.files import write_text
from ..native.io.progress import Doing
from .command import (
    add_data_arguments,
    add_numbers,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
)
from .one_sentence import SUBSET, add_sentence_arguments, given_systems, given_text
from .parser import verb_parser
from .settings import add_set_argument
from .trace import sentence

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("graph", __doc__)
    add_data_arguments(parser, SUBSET)
    add_system_argument(parser)
    add_set_argument(parser, "decoding option of a bundle without --system; repeatable")
    add_sentence_arguments(parser)
    add_numbers(parser, ("--least", 0.05, "least probability shown in the pictures"))
    add_out_argument(parser, "the results", required=True)
    return parser


def run(options: argparse.Namespace) -> None:
    """Decodes the sentence and writes its graph.

    Raises:
        ValueError: the model is not one that writes a graph, or the data have no sentence number
            ``--sentence``.
    """
    from ..evaluation.result_files import drawing, picture_files
    from ..evaluation.systems import FairseqSystem
    from ..native.families import GRAPH_MODELS

    spec, text = given_systems(options)[0], given_text(options)
    if spec.engine not in ("auto", "torch"):
        raise ValueError(
            f"{spec.subject}: engine={spec.engine}: only PyTorch's engine can describe graphs;"
            " leave engine= out"
        )
    spec = replace(spec, engine="torch")
    with Doing(f"loading {printable(spec.name)}"):
        system = FairseqSystem(spec, data_arguments(options))
    if not hasattr(system.generator, "describe_graphs"):
        raise ValueError(
            f"system {system.name!r} (task {system.task_name}) writes no graph: give a"
            f" {GRAPH_MODELS}"
        )
    sample, _ = sentence(system, options.sentence, text)
    document = system.generator.describe_graphs(system.models, sample)[0]
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_text(options.out / "graph.json", text + "\n")
    write_text(options.out / "graph.dot", system.generator.graph_dot(document, least=options.least))
    with drawing():
        from ..evaluation.graph_picture import draw_graph
    draw_graph(document, picture_files(options.out, "graph"), least=options.least)
    sys.stdout.write(document["translation"] + "\n")
    logger.info("written to %s", options.out)


main = command(build_parser, run)
