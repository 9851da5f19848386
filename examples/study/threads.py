"""Speed against the number of threads: one comparison for each (Jacobi, Figure 3).

    python examples/study/threads.py data-bin --threads 1,2 --base 'AT greedy' --out folder \
        --system 'name=AT greedy,path=at/model.pt,task=translation_autoregressive,beam=1' --system
        'name=PGJ b=3,…' -- --source-lang en …

What follows ``--`` goes to fairseq-hrt benchmark. Writes threads.md, threads.json ({threads:
{system: × base with the same threads}}) and threads.png; the comparisons are in folders of their
own and are not made again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from outcomes import speed
from tables import markdown


def measure(options: argparse.Namespace, threads: int) -> Dict[str, float]:
    """Sentences a second of each system at batch size 1; subprocess.CalledProcessError if the
    benchmark fails."""
    folder = options.out / f"threads_{threads}"
    if not (folder / "results.json").exists():
        systems = [argument for system in options.system for argument in ("--system", system)]
        command = [
            sys.executable,
            "-m",
            "fairseq_hrt",
            "benchmark",
            options.data,
            *systems,
            *options.rest,
        ]
        subprocess.run(
            [*command, "--batch-sizes", "1", "--threads", str(threads), "--out", str(folder)],
            check=True,
            stdout=sys.stderr,
        )
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {
        system["name"]: speed(system["timings"]["1"])["sentences"] for system in results["systems"]
    }


def draw(path: Path, found: Dict[int, Dict[str, float]]) -> None:
    """A line a system."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
    for name in next(iter(found.values())):
        axes.plot(list(found), [ratios[name] for ratios in found.values()], marker="o", label=name)
    axes.set_xlabel("threads")
    axes.set_ylabel("relative speed")
    axes.set_xticks(list(found))
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--threads", default="1,2", help="(default: %(default)s)")
    parser.add_argument(
        "--system", action="append", required=True, help="as for fairseq-hrt benchmark"
    )
    parser.add_argument(
        "--base", required=True, metavar="NAME", help="system whose speed counts as 1"
    )
    parser.add_argument("--out", type=Path, required=True)
    given: List[str] = list(sys.argv[1:] if arguments is None else arguments)
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    options.rest = given[cut + 1 :]
    try:
        counts = [int(count) for count in options.threads.split(",")]
    except ValueError:
        parser.error(f"--threads {options.threads!r}: give numbers separated by commas, e.g. 1,2,4")
    speeds = {count: measure(options, count) for count in counts}
    if options.base not in speeds[counts[0]]:
        parser.error(
            f"--base {options.base!r} is no system; give one of {', '.join(speeds[counts[0]])}"
        )
    ratios = {
        count: {name: speed / own[options.base] for name, speed in own.items()}
        for count, own in speeds.items()
    }
    names = list(speeds[counts[0]])
    rows = [
        [name, *(f"{speeds[count][name]:.1f} ({ratios[count][name]:.2f})" for count in counts)]
        for name in names
    ]
    header = [
        f"Sentences/s (× {options.base})",
        *(f"{count} thread{'s' if count > 1 else ''}" for count in counts),
    ]
    (options.out / "threads.md").write_text(markdown(header, rows) + "\n", encoding="utf-8")
    draw(options.out / "threads.png", ratios)
    # Last: who finds it finds everything.
    (options.out / "threads.json").write_text(json.dumps(ratios, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
