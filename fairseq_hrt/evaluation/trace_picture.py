"""Draws the trace of a sentence: a picture of words × decoder passes with its dependency graph, and
an HTML page with a slider through the passes."""

import html
from pathlib import Path
from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Patch

from ..native.io.escaping import json_in_script
from .picture import plain
from .sentence_trace import FIXED, RIGHT, STATES, WRONG, Trace

# open, wrong, right, fixed, settled: told apart by colour-blind readers and in grey.
_COLOURS = ("#f2f2f2", "#6a3d9a", "#fdd49e", "#f1a340", "#80b1a8")


def draw(found: Trace, paths: Sequence[Path]) -> None:
    """Draws a grid with a row for each decoder pass and a column for each word; above it, arcs join
    successive words that the same pass made final.

    Args:
        found: the trace of one sentence.
        paths: files to write, in the formats that their suffixes name.
    """
    columns, rows = len(found.tokens), len(found.passes)
    figure = Figure(
        figsize=(max(5.0, 0.75 * columns + 1.5), 2.8 + 0.42 * rows), dpi=150, layout="constrained"
    )
    above, grid = figure.subplots(2, 1, height_ratios=[1.3, 0.42 * rows + 0.6], sharex=True)
    _draw_arcs(above, found)
    cells = [[cell.state for cell in row] for row in found.passes]
    grid.imshow(cells, cmap=ListedColormap(_COLOURS), vmin=0, vmax=len(_COLOURS) - 1, aspect="auto")
    for y, row in enumerate(found.passes):
        for x, cell in enumerate(row):
            if cell.probability is not None and cell.state in (WRONG, RIGHT, FIXED):
                colour = "white" if cell.state == WRONG else "black"
                grid.text(
                    x,
                    y,
                    f"{cell.probability:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=colour,
                )
    grid.set_xticks(
        range(columns),
        [plain(token) for token in found.tokens],
        rotation=45,
        ha="right",
        fontsize=8,
    )
    grid.set_yticks(range(rows), [str(number + 1) for number in range(rows)], fontsize=8)
    grid.set_ylabel("decoder pass")
    for edge in range(columns + 1):
        grid.axvline(edge - 0.5, color="white", linewidth=1)
    for edge in range(rows + 1):
        grid.axhline(edge - 0.5, color="white", linewidth=1)
    grid.spines[:].set_visible(False)
    used = sorted({cell.state for row in found.passes for cell in row})
    handles = [Patch(color=_COLOURS[state], label=STATES[state]) for state in used]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
    )
    figure.suptitle(f"{plain(found.name)}: {columns} tokens in {rows} passes", fontsize=10)
    for path in paths:
        figure.savefig(path)


def _draw_arcs(axes: Axes, found: Trace) -> None:
    """Draws the tokens as dots, and an arc from each token to the next one that the same decoder
    pass made final."""
    farthest = max([end - start for start, end in found.arcs] or [1])
    for start, end in found.arcs:
        middle, width = (start + end) / 2, end - start
        axes.add_patch(
            Arc(
                (middle, 0),
                width,
                2 * width / farthest,
                theta1=0,
                theta2=180,
                color=_COLOURS[FIXED],
                linewidth=1.6,
            )
        )
    axes.scatter(range(len(found.tokens)), [0] * len(found.tokens), s=14, color="#444444", zorder=3)
    axes.set_ylim(-0.12, 1.15)
    axes.axis("off")


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Decoding, step by step</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 2rem; color: #222; }}
h2 {{ font-size: 1rem; margin: 1.6rem 0 .3rem; }}
.word {{ display: inline-block; min-width: 1.2rem; margin: .15rem; padding: .25rem .5rem;
  border-radius: .3rem; text-align: center; }}
.word small {{ display: block; font-size: .65rem; opacity: .75; min-height: .8rem; }}
.s0 {{ background: {0}; color: #999; }} .s1 {{ background: {1}; color: #fff; }}
.s2 {{ background: {2}; }}
.s3 {{ background: {3}; }} .s4 {{ background: {4}; }}
label {{ display: block; position: sticky; top: 0; background: #fff; padding: .5rem 0; }}
input {{ width: 60%; vertical-align: middle; }}
</style></head><body>
<h1>Decoding, step by step</h1>
<p>{5}</p>
<label>decoder pass <input id="step" type="range" min="1" max="{6}" value="1">
<output id="number">1</output></label>
<p>{7}</p>
<div id="traces"></div>
<script type="application/json" id="data">{8}</script>
<script>
const traces = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("step"), place = document.getElementById("traces");
function show() {{
  const step = Number(slider.value);
  document.getElementById("number").textContent = step;
  place.replaceChildren(...traces.map(trace => {{
    const block = document.createElement("section"), title = document.createElement("h2");
    const row = trace.passes[Math.min(step, trace.passes.length) - 1];
    const pass = Math.min(step, trace.passes.length);
    title.textContent = `${{trace.name}}: pass ${{pass}} of ${{trace.passes.length}}`;
    block.append(title);
    row.forEach(cell => {{
      const word = document.createElement("span"), figure = document.createElement("small");
      word.className = `word s${{cell.state}}`;
      word.textContent = cell.token || "·";
      word.title = trace.states[cell.state];
      figure.textContent = cell.probability === null ? "" : cell.probability.toFixed(2);
      word.append(figure);
      block.append(word);
    }});
    return block;
  }}));
}}
slider.addEventListener("input", show);
show();
</script></body></html>
"""


def page(traces: Sequence[Trace]) -> str:
    """A self-contained HTML page that shows how one or several systems decoded the same sentence,
    with a slider through the decoder passes."""
    data = json_in_script([found.to_json() for found in traces])
    keys = "".join(
        f'<span class="word s{state}">{name}</span>' for state, name in enumerate(STATES)
    )
    longest = max(len(found.passes) for found in traces)
    return _PAGE.format(*_COLOURS, html.escape(traces[0].source), longest, keys, data)
