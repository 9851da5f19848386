"""How often models prefer the right number of a verb, by its distance from the subject.

Example:

    python examples/corpus/generate.py --out corpus
    python examples/study/agreement_by_distance.py corpus/test.agreement.jsonl --out agreement \\
        --bundle AT=bundles/at --bundle IBDecoder=bundles/bidirectional

As Figure 5 of the paper on IBDecoder: there the pairs are Lingeval97's, here those of the generated
corpus. A pair counts as right if its right translation has the higher probability: the sum over
subwords and the end, as ``fairseq-hrt score --json`` gives them. The table goes to the standard
output and, with a picture and all figures, into --out: agreement.md, .json, .png, .svg.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from analysis import curves, report, table
from matplotlib.figure import Figure

from fairseq_hrt import from_pretrained
from fairseq_hrt.cli.command import add_out_argument, command
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.native.io.escaping import in_markdown

# Smallest distances of the table's columns.
STARTS = (1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Agreement:
    """What one model prefers.

    Attributes:
        name: of the model.
        right: for each distance the number of pairs with the right preference, and of all.
    """

    name: str
    right: Dict[int, Tuple[int, int]]

    def between(self, first: int, end: float) -> Tuple[int, int]:
        """The two numbers for distances from ``first`` to before ``end``."""
        counts = [both for distance, both in self.right.items() if first <= distance < end]
        return sum(one for one, _ in counts), sum(every for _, every in counts)


def compare(name: str, model: Any, pairs: Sequence[Dict[str, Any]]) -> Agreement:
    """Scores both translations of each pair.

    Args:
        model: a loaded bundle.
        pairs: as ``examples/corpus/generate.py`` writes them.
    """
    sources = [pair["source"] for pair in pairs]
    right, wrong = (
        [
            math.fsum(found.positional_scores)
            for found in model.score(sources, [pair[side] for pair in pairs])
        ]
        for side in ("right", "wrong")
    )
    counts: Dict[int, Tuple[int, int]] = {}
    for pair, good, bad in zip(pairs, right, wrong):
        won, every = counts.get(pair["distance"], (0, 0))
        counts[pair["distance"]] = (won + (good > bad), every + 1)
    return Agreement(name, dict(sorted(counts.items())))


def markdown(results: Sequence[Agreement]) -> str:
    """One row a model; shares in percent, and in the last row how many pairs there are."""
    ends = [*STARTS[1:], math.inf]
    titles = [
        f"{first}–{end - 1}" if end - first > 1 else str(first)
        for first, end in zip(STARTS, ends[:-1])
    ]
    columns = [*zip(STARTS, ends), (0, math.inf)]
    rows = []
    for result in results:
        counts = [result.between(*column) for column in columns]
        cells = [f"{100 * won / every:.1f}" if every else "–" for won, every in counts]
        rows.append([in_markdown(result.name), *cells])
    rows.append(["pairs", *(str(results[0].between(*column)[1]) for column in columns)])
    return table(["Model", *titles, f"{STARTS[-1]} or more", "all"], rows)


def draw(results: Sequence[Agreement]) -> Figure:
    """A line a model."""
    shares = {
        result.name: (
            list(result.right),
            [100 * won / every for won, every in result.right.values()],
        )
        for result in results
    }
    return curves(shares, "distance of verb and subject (words)", "right agreement preferred (%)")


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "pairs", type=Path, help="test.agreement.jsonl of examples/corpus/generate.py"
    )
    parser.add_argument(
        "--bundle", action="append", required=True, metavar="NAME=FOLDER", help="repeat for more"
    )
    add_out_argument(parser, "table, figures and picture")
    return parser


def run(options: argparse.Namespace) -> None:
    """Scores the pairs with every bundle and writes the shares.

    Raises:
        ValueError: a bundle without a name, or a file without pairs.
    """
    # Not splitlines: U+2028 is a character of its line.
    lines = options.pairs.read_text(encoding="utf-8").split("\n")
    pairs: List[Dict[str, Any]] = [json.loads(line) for line in lines if line]
    if not pairs:
        raise ValueError(f"{options.pairs} has no pairs")
    named = [text.partition("=") for text in options.bundle]
    for name, _, folder in named:
        if not name or not folder:
            raise ValueError(f"--bundle {name}: give NAME=FOLDER")
    results = [compare(name, from_pretrained(folder), pairs) for name, _, folder in named]
    report(options.out, "agreement", markdown(results), results, draw(results))


main = command(build_parser, run)
