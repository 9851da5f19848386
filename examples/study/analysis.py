"""What the study's analyses share: systems that score references, tables, curves and files."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

from matplotlib.figure import Figure

from fairseq_hrt.evaluation.picture import plain
from fairseq_hrt.evaluation.result_files import picture_files
from fairseq_hrt.evaluation.systems import SystemSpec
from fairseq_hrt.native.io.files import write_text


def scoring(spec: SystemSpec) -> SystemSpec:
    """The specification of the same system, changed to score the reference translations
    (``--score-reference``) instead of translating."""
    # Options of the search have no effect in scoring: as defaults they are ignored, not refused.
    given = frozenset(spec.options)
    return replace(
        spec, options={**spec.options, "score_reference": "true"}, defaults=spec.defaults | given
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of names and, in all columns but the first, numbers."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (header, *rows)]
    return "".join([lines[0], f"|---|{'---:|' * (len(header) - 1)}\n", *lines[1:]])


def curves(
    found: Dict[str, Tuple[Sequence[float], Sequence[float]]], across: str, up: str
) -> Figure:
    """A line for each name."""
    figure = Figure(figsize=(6, 3.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for name, (xs, ys) in found.items():
        axes.plot(xs, ys, marker="o", markersize=3, label=plain(name))
    axes.set(xlabel=across, ylabel=up)
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def report(
    folder: Optional[Path],
    name: str,
    text: str,
    results: Sequence[Any],
    figure: Optional[Figure] = None,
) -> None:
    """Prints what was measured, and writes it into a folder, made if need be: ``name``.md, .json
    and, of a figure, .png and .svg.

    Args:
        folder: None: nothing is written.
        text: for readers.
        results: dataclasses.
    """
    sys.stdout.write(text)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{name}.md", text)
    document = {"command": sys.argv, "results": [asdict(result) for result in results]}
    write_text(folder / f"{name}.json", json.dumps(document, indent=1) + "\n")
    for path in picture_files(folder, name) if figure is not None else ():
        figure.savefig(path)
