"""Draws quality against speed, and speed against batch size."""

from itertools import product
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from .comparison import Comparison
from .speed import Spread

# Left, bottom, right, top in pixels.
Box = Tuple[float, float, float, float]

# Where a label may stand, in points from its mark: close before far, beside before above.
_OFFSETS = sorted(
    ((x, y) for x, y in product((-150, -80, -40, 8, 40), range(-72, 73, 9)) if (x, y) != (0, 0)),
    key=lambda offset: abs(offset[1]) + 0.3 * abs(offset[0] - 8),
)
# Okabe and Ito's colours, told apart by colour-blind readers too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))


def plain(text: str) -> str:
    """Escapes ``$`` in a text, since matplotlib takes it for the beginning of a formula."""
    return text.replace("$", r"\$")


def draw(comparison: Comparison, batch_size: int, paths: Sequence[Path]) -> None:
    """Draws a point for each system: BLEU (ROUGE-L where it was computed) against source words per
    second at ``batch_size``.

    Systems with the same task have the same colour. The grey line, the Pareto frontier, joins
    the systems that no other system beats in both speed and quality. The scale at the top is the
    speed relative to the first reference system, if there is one.

    Args:
        comparison: the results.
        batch_size: one of the batch sizes that were measured.
        paths: files to write, in the formats that their suffixes name (.png, .svg).
    """
    speeds = [
        result.timings[batch_size].words_per_second(comparison.source_words)
        for result in comparison.results
    ]
    figure, canvas, axes = _canvas()
    colours = _colours(comparison)
    # For summaries ROUGE-L is the figure of merit.
    rouge = [result.quality.rouge for result in comparison.results]
    scores = [
        own["ROUGE-L"] if own else result.quality.bleu
        for own, result in zip(rouge, comparison.results)
    ]
    for result, speed, score in zip(comparison.results, speeds, scores):
        error = [[speed.median - speed.low], [speed.high - speed.median]]
        axes.errorbar(
            speed.median,
            score,
            xerr=error,
            fmt="o",
            color=colours[result.name],
            capsize=2,
            linewidth=1,
        )
    best = frontier([(speed.median, score) for speed, score in zip(speeds, scores)])
    axes.plot(*zip(*best), color="0.7", linewidth=1, zorder=1)
    axes.set_xlabel(f"source words per second (batch size {batch_size})")
    axes.set_ylabel("ROUGE-L" if any(rouge) else "sacreBLEU")
    axes.margins(0.15, 0.15)
    if comparison.references:
        unit = (
            comparison.timing(comparison.references[0], batch_size)
            .words_per_second(comparison.source_words)
            .median
        )

        def relative(speed: Any) -> Any:
            return speed / unit

        def absolute(ratio: Any) -> Any:
            return ratio * unit

        ratio = axes.secondary_xaxis("top", functions=(relative, absolute))
        ratio.set_xlabel(f"relative to {comparison.references[0]}")
    else:
        axes.spines["top"].set_visible(False)
    title = (
        "quality against speed; bars: minimum and maximum of the repeats; grey line: not beaten in"
        " both"
    )
    figure.suptitle(title, fontsize=9, color="0.3")
    _label(axes, canvas, speeds, scores, [result.name for result in comparison.results])
    for path in paths:
        figure.savefig(path)


def frontier(points: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """The Pareto-optimal (speed, quality) pairs among ``points``, fastest first."""
    kept: List[Tuple[float, float]] = []
    for speed, score in sorted(points, reverse=True):
        if not kept or score > kept[-1][1]:
            kept.append((speed, score))
    return kept


def draw_throughput(comparison: Comparison, paths: Sequence[Path]) -> None:
    """Draws source words per second against the batch size into ``paths``: a line for each system,
    with the system's name at its right end."""
    figure, _, axes = _canvas()
    colours, sizes = _colours(comparison), comparison.settings.batch_sizes
    ends = []
    seen: Dict[str, int] = {}
    for result in comparison.results:
        # Systems of one task share a colour: the dashes tell them apart.
        task = result.signature["task"]
        style = _DASHES[seen.setdefault(task, 0) % len(_DASHES)]
        seen[task] += 1
        speeds = [result.timings[size].words_per_second(comparison.source_words) for size in sizes]
        medians = [speed.median for speed in speeds]
        bars = [
            [speed.median - speed.low for speed in speeds],
            [speed.high - speed.median for speed in speeds],
        ]
        line: Dict[str, Any] = dict(
            marker="o",
            markersize=3,
            capsize=2,
            linewidth=1,
            linestyle=style,
            color=colours[result.name],
        )
        axes.errorbar(sizes, medians, yerr=bars, **line)
        ends.append((medians[-1], result.name))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel("batch size")
    axes.set_ylabel("source words per second")
    axes.spines["top"].set_visible(False)
    low, high = (axes.transData.transform((1, limit))[1] for limit in axes.get_ylim())
    ends.sort()
    wanted = [(axes.transData.transform((1, median))[1] - low) / (high - low) for median, _ in ends]
    line = {"arrowstyle": "-", "color": "0.8", "linewidth": 0.5, "relpos": (0, 0.5), "shrinkB": 0}
    for (median, name), place in zip(ends, apart(wanted, 0.035)):
        axes.annotate(
            plain(name), (sizes[-1], median), xytext=(1.04, place), textcoords="axes fraction",
            fontsize=7, color=colours[name], verticalalignment="center", annotation_clip=False,
            arrowprops=line,
        )  # fmt: skip
    figure.suptitle("throughput; bars: minimum and maximum of the repeats", fontsize=9, color="0.3")
    for path in paths:
        figure.savefig(path)


def apart(wanted: Sequence[float], distance: float) -> List[float]:
    """The places ``wanted``, between 0 and 1 in ascending order, shifted until adjacent ones are at
    least ``distance`` apart; spread evenly if there is no room for that."""
    distance = min(distance, 1 / max(len(wanted) - 1, 1))
    places: List[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + distance if places else 0.0))
    limit = 1.0
    for number in reversed(range(len(places))):
        places[number] = min(places[number], limit)
        limit = places[number] - distance
    return places


def _canvas() -> Tuple[Figure, FigureCanvasAgg, Axes]:
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines["right"].set_visible(False)
    return figure, canvas, axes


def _colours(comparison: Comparison) -> Dict[str, str]:
    """A colour for each system, by its name; systems with the same task share one."""
    tasks = list(dict.fromkeys(result.signature["task"] for result in comparison.results))
    return {
        result.name: _COLOURS[tasks.index(result.signature["task"]) % len(_COLOURS)]
        for result in comparison.results
    }


def _label(
    axes: Axes,
    canvas: FigureCanvasAgg,
    spreads: Sequence[Spread],
    scores: Sequence[float],
    names: Sequence[str],
) -> None:
    """Writes each system's name at the nearest free place beside its point (``spreads``:
    horizontal, ``scores``: vertical), with a thin line to the point; where no place is free, at the
    one with the least overlap."""
    # The layout is computed when the figure is drawn; before that no position on it is known.
    canvas.draw()
    renderer = canvas.get_renderer()
    half = 5 * renderer.points_to_pixels(1)
    taken: List[Box] = []
    for spread, score in zip(spreads, scores):
        (left, y), (x, _), (right, _) = axes.transData.transform(
            [(spread.low, score), (spread.median, score), (spread.high, score)]
        )
        taken += [(x - half, y - half, x + half, y + half), (left, y - 2, right, y + 2)]
    frame = axes.get_window_extent(renderer)
    for spread, score, name in zip(spreads, scores, names):
        best: Tuple[float, Tuple[int, int], Box] = (float("inf"), _OFFSETS[0], (0.0, 0.0, 0.0, 0.0))
        for offset in _OFFSETS:
            label = _annotate(axes, name, (spread.median, score), offset)
            label.update_positions(renderer)
            # The text's own box: the annotation's extent would include the line to the point.
            box = Text.get_window_extent(label, renderer)
            corners = (box.x0 - 2, box.y0 - 2, box.x1 + 2, box.y1 + 2)
            cost = sum(overlap(corners, other) for other in taken) + 100 * _outside(
                corners, frame.extents
            )
            label.remove()
            if cost < best[0]:
                best = (cost, offset, corners)
            if cost == 0:
                break
        _annotate(axes, name, (spread.median, score), best[1])
        taken.append(best[2])


def _annotate(
    axes: Axes, name: str, point: Tuple[float, float], offset: Tuple[int, int]
) -> Annotation:
    line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4}
    return axes.annotate(
        name,
        point,
        xytext=offset,
        textcoords="offset points",
        fontsize=8,
        verticalalignment="center",
        arrowprops=line,
    )


def _outside(box: Box, frame: Sequence[float]) -> float:
    """How many pixels ``box`` sticks out of ``frame`` (left, bottom, right, top), summed over the
    four sides."""
    beyond = (frame[0] - box[0], frame[1] - box[1], box[2] - frame[2], box[3] - frame[3])
    return sum(max(0.0, length) for length in beyond)


def overlap(first: Box, second: Box) -> float:
    """The area in square pixels that two boxes have in common."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(0.0, width) * max(0.0, height)
