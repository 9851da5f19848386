"""Quality and speed by the length of the source, from finished comparisons (HRT, Figure 5;
IBDecoder, Figure 3; FA-DAT, Table 5).

    python examples/study/by_length.py comparison --sources bpe/test.en --references raw/test.de.gz
    --limits 8,12,16 \
        --slow 'HRT C_d=1' --fast 'HRT k=2 (1 1)' --out folder
    python examples/study/by_length.py comparison_dag comparison_fuzzy --sources bpe/test.de
    --references raw/test.de.gz --out folder

The comparisons are what fairseq-hrt benchmark wrote for one test set. Sentences of equal length are
not split. The ratio of two systems (--slow and --fast, from the first comparison, with batch size 1
among its sizes) is taken over the same sentences within each repeat. Tokens of the references as
--sources group by their length instead. Writes by_length.md, by_length.json (``bleu``: {system:
{group: BLEU}}; ``groups``: {group: sentences}; with a ratio ``ratio``: {group: ratio}, ``short``
and ``long``: the first and the last) and, with a ratio, by_length.png.
"""

import argparse
import json
import statistics
import sys
from bisect import bisect_left
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import sacrebleu
from tables import markdown

from fairseq_hrt.evaluation.quality import read_lines


def groups_of(lengths: Sequence[int], limits: Sequence[int]) -> List[List[int]]:
    """Numbers of the sentences by group: up to the first limit, up to the second, …, longer."""
    groups: List[List[int]] = [[] for _ in range(len(limits) + 1)]
    for number, length in enumerate(lengths):
        groups[bisect_left(limits, length)].append(number)
    return groups


def bleu_of(lines: Sequence[str], references: Sequence[str], group: Sequence[int]) -> float:
    """BLEU of some of the sentences."""
    return sacrebleu.corpus_bleu(
        [lines[number] for number in group], [[references[number] for number in group]]
    ).score


def seconds_by_sentence(system: Dict[str, Any]) -> List[Dict[int, float]]:
    """Of each repeat, the time of each sentence that was decoded alone.

    Raises:
        ValueError: batch size 1 was not measured.
    """
    timings = system["timings"].get("1")
    if timings is None:
        raise ValueError(
            f"{system['name']!r} was not timed at batch size 1; give --batch-sizes 1 to the"
            " benchmark"
        )
    return [
        dict(zip((batch[0] for batch in timings["batches"]), repeat))
        for repeat in timings["seconds"]
    ]


def ratio(
    slow: List[Dict[int, float]], fast: List[Dict[int, float]], group: Sequence[int]
) -> Optional[float]:
    """How many times as fast, median over the repeats; None if no sentence of the group was
    timed."""
    timed = [number for number in group if number in slow[0] and number in fast[0]]
    if not timed:
        return None
    return statistics.median(
        sum(a[number] for number in timed) / sum(b[number] for number in timed)
        for a, b in zip(slow, fast)
    )


def draw(path: Path, titles: Sequence[str], ratios: Sequence[Optional[float]], label: str) -> None:
    """A bar a group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3), layout="constrained")
    axes.bar(list(titles), [value or 0.0 for value in ratios])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("tokens")
    axes.set_ylabel(label)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def read_comparisons(folders: Sequence[Path]) -> Dict[str, Dict[str, Any]]:
    """The systems of all comparisons by name, with their translations as ``lines``.

    Raises:
        ValueError: two comparisons have a system of one name with other translations.
    """
    systems: Dict[str, Dict[str, Any]] = {}
    for folder in folders:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        for number, system in enumerate(results["systems"], start=1):
            (path,) = folder.glob(f"translations_{number}_*.txt")
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            name = system["name"]
            if name in systems and systems[name]["lines"] != lines:
                raise ValueError(
                    f"{folder} has another system {name!r} than the comparison before; give one of"
                    " the two"
                )
            systems.setdefault(name, {**system, "lines": lines})
    return systems


def ratios_of(
    systems: Dict[str, Dict[str, Any]], options: argparse.Namespace, groups: Sequence[Sequence[int]]
) -> List[Optional[float]]:
    """Of each group how many times as fast the one system is.

    Raises:
        ValueError: a system was not measured, or no sentence was timed.
    """
    for name in (options.slow, options.fast):
        if name not in systems:
            raise ValueError(f"no system {name!r}; give one of {', '.join(systems)}")
    slow, fast = (seconds_by_sentence(systems[name]) for name in (options.slow, options.fast))
    found = [ratio(slow, fast, group) for group in groups]
    if all(value is None for value in found):
        raise ValueError("no sentence was timed")
    return found


def run(options: argparse.Namespace) -> None:
    """Raises ValueError for a system that was not measured, or sources of another test set."""
    systems = read_comparisons(options.comparison)
    lengths = [len(line.split()) for line in read_lines(options.sources)]
    references = read_lines(options.references)
    if len(lengths) != len(references):
        raise ValueError(
            f"{len(lengths)} sources but {len(references)} references: they must belong to one"
            " test set"
        )
    for name, system in systems.items():
        if len(system["lines"]) != len(references):
            raise ValueError(
                f"{name} has {len(system['lines'])} translations of {len(references)} references:"
                " give those of its test set"
            )
    limits = [int(limit) for limit in options.limits.split(",")]
    titles = [f"{low + 1}–{high}" for low, high in zip([0, *limits], limits)] + [
        f"{limits[-1] + 1}–"
    ]
    kept = {title: group for title, group in zip(titles, groups_of(lengths, limits)) if group}
    bleu = {
        name: {title: bleu_of(system["lines"], references, group) for title, group in kept.items()}
        for name, system in systems.items()
    }
    rows = [[name, *(f"{score:.2f}" for score in scores.values())] for name, scores in bleu.items()]
    document: Dict[str, Any] = {
        "bleu": bleu,
        "groups": {title: len(group) for title, group in kept.items()},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    if options.fast:
        ratios = ratios_of(systems, options, list(kept.values()))
        label = f"{options.fast}: × {options.slow}"
        rows.append(
            [label, *("not timed" if value is None else f"{value:.2f}" for value in ratios)]
        )
        timed = [value for value in ratios if value is not None]
        document.update(ratio=dict(zip(kept, ratios)), short=timed[0], long=timed[-1])
        draw(options.out / "by_length.png", list(kept), ratios, label)
    header = [
        "BLEU by tokens (sentences)",
        *(f"{title} ({len(group)})" for title, group in kept.items()),
    ]
    (options.out / "by_length.md").write_text(markdown(header, rows) + "\n", encoding="utf-8")
    # Last: who finds it finds everything.
    (options.out / "by_length.json").write_text(
        json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "comparison", type=Path, nargs="+", help="folder written by fairseq-hrt benchmark"
    )
    parser.add_argument(
        "--sources", type=Path, required=True, help="tokens of the sources, one sentence a line"
    )
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument(
        "--limits", default="8,12,16", help="longest sources of the groups (default: %(default)s)"
    )
    parser.add_argument("--slow", metavar="NAME", help="system whose speed counts as 1")
    parser.add_argument("--fast", metavar="NAME", help="system that is compared with it")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    if bool(options.slow) != bool(options.fast):
        parser.error("--slow and --fast belong together; give both or none")
    try:
        run(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
