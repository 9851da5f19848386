"""How probable models find translations that they learnt from, and translations of other sentences.

Example:

    python examples/study/fit.py --learnt seen/data-bin --unseen other/data-bin --out results \\
        --system 'name=AT,path=at/checkpoint_best.pt' \\
        --system 'name=HRT,path=hrt/checkpoint_best.pt,hrt_decode_chunk=2'

Tells apart why a model translates worse than another one. If it finds both kinds less probable, it
has not learnt what it was shown: its size, its training or its independent words do not allow it.
If only the others are less probable, it needs more text.

A figure is -log P(y | x) in nats a subword, ``</s>`` included; over all paths for graphs. A pair
that some graph is too short for is left out for all models. The table goes to the standard output
and, with a picture and all figures, into --out: fit.md, .json, .png, .svg.
"""

import argparse
import logging
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from fairseq_hrt.cli.command import (
    add_language_arguments,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
    report,
)
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.escaping import in_markdown
from fairseq_hrt.systems import FairseqSystem, System, parse_system, scoring

logger = logging.getLogger(__name__)

Scored = List[Tuple[float, int]]


@dataclass(frozen=True)
class Fit:
    """Of one model.

    Attributes:
        name: of the system.
        learnt, unseen: nats a subword of translations that it learnt from, and of others.
        pairs: how many of both kinds count.
        without: how many of both kinds were left out.
    """

    name: str
    learnt: float
    unseen: float
    pairs: Tuple[int, int]
    without: Tuple[int, int]


def score(system: System) -> Scored:
    """The log-likelihood of each reference and its length in subwords, by a system that scores."""
    found: Dict[int, Tuple[float, int]] = {}
    for start in range(0, len(system.dataset), 64):
        sample = system.collate(range(start, min(start + 64, len(system.dataset))))
        for sentence, (own, *_) in zip(sample["id"].tolist(), system.decode(sample)):
            # Of a graph, each subword's score belongs to the best path alone.
            total = own.get("log_likelihood", own["positional_scores"].sum().item())
            found[sentence] = float(total), len(own["tokens"])
    return [found[sentence] for sentence in range(len(found))]


def compare(names: Sequence[str], learnt: Sequence[Scored], unseen: Sequence[Scored]) -> List[Fit]:
    """The fit of each model; the lists have one entry a model.

    Raises:
        ValueError: the models did not score the same pairs, or no pair can be written by all.
    """
    columns = []
    for kind in (learnt, unseen):
        if len({tuple(length for _, length in own) for own in kind}) != 1:
            raise ValueError(f"{', '.join(names)} did not score the same subwords")
        possible = [all(math.isfinite(total) for total, _ in pair) for pair in zip(*kind)]
        if not any(possible):
            raise ValueError("some graph is too short for every pair; raise its upsample scale")
        kept = [[pair for pair, count in zip(own, possible) if count] for own in kind]
        means = [
            -math.fsum(total for total, _ in own) / sum(length for _, length in own) for own in kept
        ]
        columns.append((means, sum(possible), len(possible) - sum(possible)))
    (seen, some, absent), (other, more, missing) = columns
    return [
        Fit(name, own, new, (some, more), (absent, missing))
        for name, own, new in zip(names, seen, other)
    ]


def markdown(results: Sequence[Fit]) -> str:
    """One row a model."""
    lines = ["| Model | learnt | others | difference |", "|---|---:|---:|---:|"]
    lines += [
        f"| {in_markdown(result.name)} | {result.learnt:.3f} | {result.unseen:.3f} |"
        f" {result.unseen - result.learnt:.3f} |"
        for result in results
    ]
    first = results[0]
    note = (
        f"Nats a subword; {first.pairs[0]} learnt pairs and {first.pairs[1]} others,"
        f" {sum(first.without)} left out."
    )
    return "\n".join([*lines, "", note, ""])


def draw(results: Sequence[Fit]) -> Any:
    """Two bars a model."""
    from matplotlib.figure import Figure

    from fairseq_hrt.evaluation.picture import plain

    figure = Figure(figsize=(6, 0.8 + 0.6 * len(results)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    places = range(len(results))
    for shift, kind, colour in ((-0.2, "learnt", "#56B4E9"), (0.2, "unseen", "#E69F00")):
        values = [getattr(result, kind) for result in results]
        label = {"learnt": "learnt", "unseen": "others"}[kind]
        axes.barh(
            [place + shift for place in places], values, height=0.38, color=colour, label=label
        )
    axes.set_yticks(list(places), [plain(result.name) for result in results])
    axes.invert_yaxis()
    axes.set_xlabel("−log P (nats a subword)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--learnt", required=True, metavar="DATA", help="binarised pairs that the models learnt"
    )
    parser.add_argument(
        "--unseen", required=True, metavar="DATA", help="pairs that none of them has seen"
    )
    parser.add_argument(
        "--gen-subset", default="train", help="subset of both (default: %(default)s)"
    )
    add_language_arguments(parser)
    add_system_argument(parser, "repeat for each model", action="append", required=True)
    add_out_argument(parser, "table, figures and picture")
    return parser


def run(options: argparse.Namespace) -> None:
    """Scores both kinds of pairs with every model and writes the figures.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    specs = [scoring(parse_system(text)) for text in options.system]
    kinds = []
    for folder in (options.learnt, options.unseen):
        logger.info("scoring %s", folder)
        data = data_arguments(argparse.Namespace(**{**vars(options), "data": folder}))
        kinds.append([score(FairseqSystem(spec, data)) for spec in specs])
    results = compare([spec.name for spec in specs], *kinds)
    report(options.out, "fit", markdown(results), results, draw)


main = command(build_parser, run)

if __name__ == "__main__":
    main()
