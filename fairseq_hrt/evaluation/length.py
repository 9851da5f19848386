"""Evaluates quality and time by the length of the source sentence."""

import statistics
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..native.io.escaping import in_markdown
from .comparison import Comparison
from .quality import bleu_metric


@dataclass(frozen=True)
class LengthBin:
    """The sentences whose source has ``low`` to ``high`` tokens, both included (``high`` None: any
    number from ``low`` on), and their results.

    Attributes:
        sentences: their indices in the test set.
        bleu: sacreBLEU by the name of the system.
        length_ratios: number of words in the translations divided by that in the references, by the
            name of the system.
        milliseconds: median time of a sentence at batch size 1, by the name of the system; empty if
            none of the sentences was timed.
    """

    low: int
    high: Optional[int]
    sentences: List[int]
    bleu: Dict[str, float]
    milliseconds: Dict[str, float]
    length_ratios: Dict[str, float]

    @property
    def title(self) -> str:
        """The range of lengths as text: ``1–10``, or ``31–`` without an upper end."""
        return f"{self.low}–{'' if self.high is None else self.high}"


def read_limits(text: str) -> List[int]:
    """Reads the upper limits of length bins, e.g. ``10,20,30``. Each bin includes its limit; a last
    bin is for all longer sentences.

    Raises:
        ValueError: the text is not a list of increasing positive numbers.
    """
    try:
        limits = [int(limit) for limit in text.split(",")]
    except ValueError:
        limits = []
    if not limits or limits[0] < 1 or sorted(set(limits)) != limits:
        raise ValueError(
            f"--length-bins {text!r}: give increasing numbers separated by commas, e.g. 10,20,30"
        )
    return limits


def by_length(
    comparison: Comparison, lengths: Sequence[int], references: Sequence[str], limits: Sequence[int]
) -> List[LengthBin]:
    """Evaluates a comparison separately for each range of source lengths; ranges without sentences
    are left out.

    Args:
        comparison: the results of systems that translated the same test set.
        lengths: the number of source tokens of each sentence, without ``</s>``.
        references: the detokenised reference of each sentence.
        limits: the upper limits of the ranges, ascending, see :func:`read_limits`.
    """
    members: List[List[int]] = [[] for _ in range(len(limits) + 1)]
    for sentence, length in enumerate(lengths):
        members[bisect_left(limits, length)].append(sentence)
    found = []
    for low, high, sentences in zip([0, *limits], [*limits, None], members):
        if not sentences:
            continue
        metric = bleu_metric(comparison.language)
        wanted = [references[number] for number in sentences]
        scores = {
            result.name: metric.corpus_score(
                [result.hypotheses[number] for number in sentences], [wanted]
            )
            for result in comparison.results
        }
        ratios = {name: own.sys_len / max(own.ref_len, 1) for name, own in scores.items()}
        bleu = {name: own.score for name, own in scores.items()}
        times = _milliseconds(comparison, sentences)
        found.append(LengthBin(low + 1, high, sentences, bleu, times, ratios))
    return found


def _milliseconds(comparison: Comparison, sentences: Sequence[int]) -> Dict[str, float]:
    """Each system's median time in milliseconds over those of ``sentences`` that were timed at
    batch size 1, where a sentence's time is its median over the repeats; systems without such times
    are left out."""
    wanted, found = set(sentences), {}
    for result in comparison.results:
        timing = result.timings.get(1)
        if timing is None:
            continue
        each = zip(timing.batches, zip(*timing.seconds))
        times = [
            1000 * statistics.median(seconds) for (sentence,), seconds in each if sentence in wanted
        ]
        if times:
            found[result.name] = statistics.median(times)
    return found


def markdown_by_length(comparison: Comparison, bins: Sequence[LengthBin]) -> str:
    """A Markdown table with BLEU, length ratio and time in milliseconds: a row for each system, a
    column for each bin."""
    header = ["System", *(f"{own.title} ({len(own.sentences)})" for own in bins)]
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * len(bins) + "|"]
    for result in comparison.results:
        cells = []
        for own in bins:
            time = own.milliseconds.get(result.name)
            cell = f"{own.bleu[result.name]:.2f} ({own.length_ratios[result.name]:.2f})"
            cells.append(cell + ("" if time is None else f" / {time:.1f} ms"))
        lines.append("| " + " | ".join([in_markdown(result.name), *cells]) + " |")
    title = (
        "BLEU (length ratio) and median time of a sentence at batch size 1, by source tokens"
        " (sentences):"
    )
    return title + "\n\n" + "\n".join(lines) + "\n"


def draw_by_length(
    comparison: Comparison, bins: Sequence[LengthBin], paths: Sequence[Path]
) -> None:
    """Draws two panels with a line for each system, BLEU and milliseconds per sentence over the
    bins, into ``paths``, whose suffixes name the formats."""
    from matplotlib.figure import Figure

    from .picture import plain

    figure = Figure(figsize=(9, 4.5), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2)
    places = range(len(bins))
    for number, result in enumerate(comparison.results):
        # No two of up to 24 systems look the same.
        look = dict(
            color=f"C{number % 8}",
            linestyle=("-", "--", ":")[number // 8 % 3],
            marker="osv"[number // 8 % 3],
        )
        panels[0].plot(
            places,
            [own.bleu[result.name] for own in bins],
            markersize=4,
            label=plain(result.name),
            **look,
        )
        times = [own.milliseconds.get(result.name, float("nan")) for own in bins]
        panels[1].plot(places, times, markersize=4, **look)
    for axes, name in zip(panels, ("sacreBLEU", "ms a sentence (batch size 1)")):
        axes.set_xticks(list(places), [own.title for own in bins])
        axes.set_xlabel("source tokens")
        axes.set_ylabel(name)
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    for path in paths:
        figure.savefig(path)
