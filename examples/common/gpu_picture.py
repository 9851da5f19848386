"""The picture of gpu_speed.py: milliseconds a sentence by system and batch size."""

from pathlib import Path
from typing import Any, Dict, List

from fairseq_hrt.evaluation.result_files import drawing

# Okabe and Ito's colours, told apart by colour-blind readers too; a mark for each way.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKS = {"captured": "o", "eager": "x", "stock": "D"}


def draw(document: Dict[str, Any], path: Path) -> None:
    """Draws the rows of decoding of the first size; the suffix names the format, e.g. .svg.

    Raises:
        ValueError: no such row has a time, or matplotlib is not installed.
    """
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    rows = timed_rows(document)
    systems = list(dict.fromkeys(row["system"] for row in rows))
    batches = sorted({row["batch"] for row in rows})
    colours = dict(zip(batches, COLOURS * len(batches)))
    figure = Figure(figsize=(8, 1.5 + 0.28 * len(systems)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for row in rows:
        axes.plot(
            row["ms_a_sentence"],
            len(systems) - 1 - systems.index(row["system"]),
            MARKS[row["way"]],
            color=colours[row["batch"]],
            markersize=5,
        )
    axes.set_xscale("log")
    axes.set_yticks(range(len(systems)), systems[::-1], fontsize=8)
    axes.set_xlabel("milliseconds a sentence")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    entries = [
        Line2D([], [], color=colours[batch], marker="s", linestyle="", label=f"batch size {batch}")
        for batch in batches
    ]
    entries += [
        Line2D([], [], color="0.3", marker=mark, linestyle="", label=way)
        for way, mark in MARKS.items()
        if any(row["way"] == way for row in rows)
    ]
    figure.legend(handles=entries, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    settings, environment = document["settings"], document["environment"]
    title = f"{environment.get('gpu', environment['cpu'])}, {rows[0]['layers']} layers"
    figure.suptitle(f"{title}, {settings['precision']}", fontsize=9, color="0.3")
    figure.savefig(path)


def timed_rows(document: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The rows of decoding that have a time, of the size that was measured first.

    Raises:
        ValueError: there is none.
    """
    rows = [row for row in document["rows"] if row["part"] == "decoding" and "ms" in row]
    if not rows:
        raise ValueError("--picture: nothing to draw, since no row of decoding has a time")
    return [row for row in rows if row["layers"] == rows[0]["layers"]]
