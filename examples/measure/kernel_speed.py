"""How fast the runtime's products are on this machine, beside what memory can deliver.

    python examples/measure/kernel_speed.py [--isa avx2] [--shapes 2048x512 32000x512]
    [--rows 1 4 14 28] [--float32] [--json FILE]

For each shape (outputs x inputs) and number of rows: the time of one product of rows that are
quantised already (quantising them is a column of its own), multiply-accumulates a second, and
weight bytes read a second. `best` is the choice of an output without storing any. Medians of
interleaved repeats and, behind the bar, the same of the fastest repeats: where they differ much the
machine was busy. One thread. Weights that fit into a cache stay there, as in a decoder that repeats
its layers.
"""

import argparse
import ctypes as C
import functools
import json
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
from kernel_operations import FLOAT32, INT8, Input, Operations

from fairseq_hrt.runtime.library import instruction_sets


def measure(calls: Dict[str, Callable[[], Any]], repeats: int) -> Dict[str, Tuple[float, float]]:
    """Seconds of one call of each, in turn: (median, lowest). A repeat lasts about 1 ms."""
    counts, found = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        counts[name] = max(1, int(0.001 / (time.perf_counter() - start)))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            found[name].append((time.perf_counter() - start) / counts[name])
    return {name: (statistics.median(times), min(times)) for name, times in found.items()}


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--isa", nargs="*", default=[""], help="instruction sets (default: the best one)"
    )
    parser.add_argument(
        "--shapes",
        nargs="*",
        default=["2048x512", "32000x512", "2752x128"],
        help="outputs x inputs",
    )
    parser.add_argument("--rows", nargs="*", type=int, default=[1, 4, 14, 28])
    parser.add_argument("--repeats", type=int, default=101)
    parser.add_argument("--float32", action="store_true", help="float32 weights instead of int8")
    parser.add_argument("--json", help="also write the figures to this file")
    given = parser.parse_args()
    kind = FLOAT32 if given.float32 else INT8
    random = np.random.default_rng(1)
    print(f"this machine: {', '.join(instruction_sets().usable)}")
    lines: List[Dict[str, Any]] = []
    for name in given.isa:
        ops = Operations(name)
        print(f"\n{ops.name}, {'float32' if given.float32 else 'int8'}")
        print(
            f"{'outputs x inputs':>17} {'rows':>5} {'product us':>11} {'GMAC/s':>8} {'GB/s':>7}"
            f" {'best us':>9} {'quantise us':>12} | {'GMAC/s':>8} {'GB/s':>7}"
        )
        for shape in given.shapes:
            outputs, inputs = map(int, shape.split("x"))
            weights = random.integers(-127, 128, (outputs, inputs)).astype(np.int8)
            scales = np.full(outputs, 1e-3, np.float32)
            matrix = (
                ops.pack(weights.astype(np.float32)) if given.float32 else ops.pack(weights, scales)
            )
            for rows in given.rows:
                x = random.standard_normal((rows, inputs)).astype(np.float32)
                prepared, again = ops.prepare(x, kind), Input()
                buffer = ops.buffer(ops.library.fh_input_size(kind, rows, inputs))
                out, tokens = np.empty((rows, outputs), np.float32), np.empty(rows, np.int32)
                table, m, p, a = ops.table, C.byref(matrix), C.byref(prepared), C.byref(again)
                goal, to, frm, chosen = (
                    out.ctypes.data,
                    buffer.ctypes.data,
                    x.ctypes.data,
                    tokens.ctypes.data,
                )
                times = measure(
                    {
                        "nothing": lambda: table.logsumexp(frm, 1),  # noqa: B023 - called at once
                        "product": lambda: table.product(m, p, goal, outputs, 0, None, 0),  # noqa: B023
                        "best": lambda: table.best(m, p, None, chosen, None, None),  # noqa: B023
                        "quantise": functools.partial(
                            table.prepare, a, to, kind, frm, inputs, rows, inputs, 0
                        ),
                    },
                    given.repeats,
                )
                figures = [
                    [
                        max(times[part][i] - times["nothing"][i], 1e-9)
                        for part in ("product", "best", "quantise")
                    ]
                    for i in (0, 1)
                ]
                size = weights.size * (4 if given.float32 else 1)
                (product, best, quantise), (fastest, _, _) = figures
                rates = [
                    (rows * weights.size / seconds / 1e9, size / seconds / 1e9)
                    for seconds in (product, fastest)
                ]
                print(
                    f"{shape:>17} {rows:5} {1e6 * product:11.2f} {rates[0][0]:8.1f}"
                    f" {rates[0][1]:7.1f} {1e6 * best:9.2f} {1e6 * quantise:12.2f} |"
                    f" {rates[1][0]:8.1f} {rates[1][1]:7.1f}",
                    flush=True,
                )
                lines.append(
                    {
                        "isa": ops.name,
                        "outputs": outputs,
                        "inputs": inputs,
                        "rows": rows,
                        "product": product,
                        "fastest": fastest,
                        "best": best,
                        "quantise": quantise,
                    }
                )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(lines, file, indent=1)


if __name__ == "__main__":
    main()
