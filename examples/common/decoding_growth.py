"""How the native runtime's time grows with sentences, vocabularies and batches.

    OMP_NUM_THREADS=1 python examples/common/decoding_growth.py --out folder

Untrained models of one size write as many words as they read, on one thread with int8 weights.
Prints a table for each curve: milliseconds a sentence, and the exponent p by which they grow from
the last value but one (time ~ x^p). --out writes them, growth.json, {curve: {system: {value:
milliseconds}}}, and a picture, growth.svg.
"""

import argparse
import json
import logging
import math
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

from decoding_systems import NATIVE
from untrained_models import RECIPES, build_models, random_sentences

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.engine import Engine

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


def engines(arch: str, vocabulary: int, longest: int, seed: int) -> Dict[str, Engine]:
    """The models of all systems, converted."""
    built = build_models(arch, vocabulary, seed, longest=4 * longest)
    words = built["dictionary"]
    return {
        name: Engine(*convert(built[name], words, words, weights="int8"))
        for name in {model for model, _ in SYSTEMS.values()}
    }


def milliseconds(
    engine: Engine, own: Dict[str, Any], rows: Sequence[List[List[int]]], length: int, repeats: int
) -> float:
    """A sentence's, the least of some repeats: what others do on the machine only adds."""
    limits = {} if "dag_decode_strategy" in own else {"min_len": length}
    options = DecodingOptions(
        max_len_b=length, scores=False, batch_size=len(rows[0]), **{"beam": 1, **limits, **own}
    )
    taken = []
    for _ in range(repeats + 1):  # the first fills buffers
        start = time.perf_counter()
        for row in rows:
            engine.decode(row, options)
        taken.append(time.perf_counter() - start)
    return min(taken[1:]) / sum(map(len, rows)) * 1000


def measure(given: argparse.Namespace) -> Dict[str, Dict[str, Dict[int, float]]]:
    """All curves."""
    longest, usual = max(*CURVES["source tokens"], LENGTH), RECIPES[given.arch][4]
    found: Dict[str, Dict[str, Dict[int, float]]] = {}
    models: Dict[int, Dict[str, Engine]] = {}
    for curve, values in CURVES.items():
        found[curve] = {name: {} for name in SYSTEMS}
        for value in values:
            length = value if curve == "source tokens" else LENGTH
            size = value if curve == "sentences in a batch" else 1
            vocabulary = value if curve == "words of the vocabulary" else usual
            if vocabulary not in models:
                models = {vocabulary: engines(given.arch, vocabulary, longest, given.seed)}
            batches = max(1, TOKENS // (length * size))
            rows = [
                batch["net_input"]["src_tokens"].tolist()
                for batch in random_sentences(batches, length, vocabulary, given.seed, size)
            ]
            for name, (model, own) in SYSTEMS.items():
                found[curve][name][value] = milliseconds(
                    models[vocabulary][model], own, rows, length, given.repeats
                )
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


def main(arguments: Any = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="multi30k", choices=RECIPES, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="growth.json and growth.svg")
    given = parser.parse_args(arguments)
    if given.repeats < 1:
        parser.error(f"--repeats {given.repeats}: give 1 or more")
    logging.disable(logging.WARNING)
    found = measure(given)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "growth.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(found, given.out / "growth.svg")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
