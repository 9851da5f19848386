"""Draws the graph that a dag_transformer writes for a sentence (``fairseq-hrt graph``)."""

from pathlib import Path
from typing import Any, Dict, List, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from .picture import plain

_PATH, _OTHER = "#c1272d", "#3a6ea5"


def draw_graph(document: Dict[str, Any], paths: Sequence[Path], *, least: float = 0.05) -> None:
    """Draws a graph of translations, as the generator of the dag family describes it.

    Vertices are drawn from left to right; their size shows the probability that a path passes them,
    their labels list the most probable tokens. Links are arcs, the stronger the more probable; the
    chosen path is red.

    Args:
        document: the graph as plain data, with the entries ``vertices``, ``links`` and
            ``translation`` (``describe_graphs`` of the generator).
        paths: files to write, in the formats that their suffixes name.
        least: vertices and links with a lower probability are left out, unless they are on the
            chosen path.
    """
    shown: List[Dict[str, Any]] = [
        v for v in document["vertices"] if v["chosen"] or v["passing"] >= least
    ]
    places = {vertex["vertex"]: place for place, vertex in enumerate(shown)}
    figure = Figure(figsize=(max(6.0, 0.85 * len(shown)), 5.2), dpi=150)
    axes = figure.add_subplot()
    for link in document["links"]:
        if (
            link["from"] in places
            and link["to"] in places
            and (link["chosen"] or link["probability"] >= least)
        ):
            start, end = places[link["from"]], places[link["to"]]
            # Far links run in higher arcs; the path below, so that it stays visible.
            bend = (0.35 if link["chosen"] else -0.35) if end - start > 1 else 0.0
            axes.add_patch(
                FancyArrowPatch(
                    (start, 0), (end, 0), connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>",
                    mutation_scale=9, shrinkA=9, shrinkB=9,
                    linewidth=0.6 + 2.6 * link["probability"],
                    color=_PATH if link["chosen"] else _OTHER,
                    alpha=1.0 if link["chosen"] else 0.25 + 0.6 * link["probability"],
                )
            )  # fmt: skip
    steps = [(link, places[link["to"]] - places[link["from"]]) for link in document["links"]
             if link["from"] in places and link["to"] in places]  # fmt: skip
    reach = max([far for _, far in steps] or [1])
    height = 0.2 * max([far for link, far in steps if link["chosen"]] or [1]) + 0.7
    for vertex in shown:
        place, colour = places[vertex["vertex"]], _PATH if vertex["chosen"] else _OTHER
        axes.scatter(
            [place], [0], s=60 + 260 * vertex["passing"], color=colour, zorder=3, edgecolor="white"
        )
        small: Dict[str, Any] = dict(ha="center", fontsize=7)
        axes.text(place, 0, str(vertex["vertex"]), va="center", color="white", zorder=4, **small)
        words = "\n".join(
            f"{plain(token['token'])}  {token['probability']:.2f}"
            for token in vertex["tokens"][:3]
            if token["probability"] >= 0.01
        )
        slanted: Dict[str, Any] = dict(ha="right", va="top", rotation=55, rotation_mode="anchor")
        axes.text(place, -height - 0.15, words, fontsize=8, color=colour, **slanted)
        axes.text(
            place, -height + 0.05, f"{vertex['passing']:.2f}", va="bottom", color="grey", **small
        )
    axes.set_xlim(-1.2, len(shown) - 0.2)
    axes.set_ylim(-height - 2.6, 0.22 * reach + 0.8)
    axes.set_title(plain(document["translation"]), fontsize=10)
    axes.text(-1.1, -height + 0.05, "passed", ha="right", va="bottom", fontsize=7, color="grey")
    axes.axis("off")
    figure.tight_layout()
    for path in paths:
        figure.savefig(path)
