"""How the native runtime's time grows with sentences, vocabularies and batches.

    OMP_NUM_THREADS=1 python examples/measure/decoding_growth.py --out folder

Untrained models of one size write as many words as they read, on one thread with int8 weights.
Prints a table for each curve: milliseconds a sentence, and the exponent p by which they grow from
the last value but one (time ~ x^p). --out writes them, growth.json, {curve: {system: {value:
milliseconds}}}, and a picture, growth.svg.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any, Dict, List

from decoding_systems import NATIVE, native_engines, native_row
from number_options import require
from timed_rows import Clock
from untrained_models import RECIPES, build_models, random_sentences

from fairseq_hrt.cli.command import add_numbers, add_out_argument, command
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.speed import measure

SYSTEMS: Dict[str, Any] = {
    "Transformer": NATIVE["native AT"],
    "Transformer, beam 5": NATIVE["native AT beam 5"],
    "hrt k = 2": NATIVE["native HRT k=2"],
    "bidirectional, 2 words": NATIVE["native IB+SA(2)"],
    "dag, greedy": NATIVE["native DAG"],
    "dag, lookahead": ("DAG", {"dag_decode_strategy": "lookahead"}),
    "dag, joint-Viterbi": ("DAG", {"dag_decode_strategy": "joint-viterbi"}),
}
LENGTH = 27
# Values, and what they are of.
CURVES = {
    "source tokens": [5, 10, 20, 40, 80, 160, 320, 640],
    "words of the vocabulary": [2000, 4000, 8000, 16000, 32000, 64000],
    "sentences in a batch": [1, 2, 4, 8, 16, 32, 64, 128, 256],
}
# A measurement takes about so many source tokens.
TOKENS = 1500


def measure_curves(given: argparse.Namespace) -> Dict[str, Dict[str, Dict[int, float]]]:
    """Of each curve, by system, milliseconds a sentence: the least of the repeats, for what others
    do on the machine only adds."""
    longest, usual = max(*CURVES["source tokens"], LENGTH), RECIPES[given.arch][4]
    found: Dict[str, Dict[str, Dict[int, float]]] = {}
    models: Dict[int, Dict[str, Any]] = {}
    for curve, values in CURVES.items():
        found[curve] = {name: {} for name in SYSTEMS}
        for value in values:
            length = value if curve == "source tokens" else LENGTH
            size = value if curve == "sentences in a batch" else 1
            words = value if curve == "words of the vocabulary" else usual
            if words not in models:
                built = build_models(given.arch, words, given.seed, longest=4 * longest)
                models = {words: native_engines(built, [model for model, _ in SYSTEMS.values()])}
            count = max(1, TOKENS // (length * size))
            batches = random_sentences(count, length, words, given.seed, size)
            rows = [
                native_row(name, models[words][model], own, length, batches, Clock())
                for name, (model, own) in SYSTEMS.items()
            ]
            timings = measure(rows, [[one] for one in range(count)], repeats=given.repeats)
            for name, timing in timings.items():
                least = min(map(sum, timing.seconds))
                found[curve][name][value] = 1000 * least / (count * size)
        print("\n".join(table(curve, found[curve])) + "\n", flush=True)
    return found


def table(curve: str, found: Dict[str, Dict[int, float]]) -> List[str]:
    """The lines of a curve's table."""
    values = CURVES[curve]
    lines = [
        f"| ms a sentence, by {curve} | {' | '.join(map(str, values))} | p |",
        "|---|" + "---:|" * (len(values) + 1),
    ]
    for name, times in found.items():
        last, before = values[-1], values[-2]
        power = math.log(times[last] / times[before]) / math.log(last / before)
        shown = " | ".join(f"{times[value]:.3g}" for value in values)
        lines.append(f"| {name} | {shown} | {power:.1f} |")
    return lines


def draw(found: Dict[str, Dict[str, Dict[int, float]]], path: Path) -> None:
    """A panel a curve, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot, ticker

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9})
    figure, panels = pyplot.subplots(1, len(found), figsize=(12, 3.8), layout="constrained")
    for panel, (curve, systems) in zip(panels, found.items()):
        for name, times in systems.items():
            panel.loglog(list(times), list(times.values()), marker="o", markersize=3, label=name)
        values = CURVES[curve]
        panel.set_xticks(values[::2], [f"{value:,}" for value in values[::2]], minor=False)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        panel.minorticks_off()
        panel.set(xlabel=curve)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("milliseconds a sentence")
    panels[0].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--arch", default="multi30k", choices=RECIPES, help="(%(default)s)")
    add_numbers(parser, ("--repeats", 3, "of each batch"), ("--seed", 1, "of weights and words"))
    add_out_argument(parser, "growth.json and growth.svg")
    return parser


def run(given: argparse.Namespace) -> None:
    """Measures, prints, writes and draws.

    Raises:
        ValueError: --repeats is less than 1, or the runtime is not built.
        OSError: --out cannot be made.
    """
    require(given, 1, "repeats")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    found = measure_curves(given)
    if given.out:
        (given.out / "growth.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(found, given.out / "growth.svg")


main = command(build_parser, run, progress=False)
