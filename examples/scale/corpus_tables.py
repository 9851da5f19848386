"""Tables and a picture of what corpus_growth.py and large_models.py have measured.

python examples/scale/corpus_tables.py translate.json distill.json --out growth
"""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List

Found = Dict[str, List[Dict[str, Any]]]
# What is measured of each part, beside the first column.
COLUMNS = {
    "translate": ["seconds", "cpu", "MB"],
    "distill": ["seconds", "cpu", "cpu of translating", "MB", "MB of fairseq-preprocess"],
    "shortlist": ["seconds", "cpu", "MB"],
    "shortlist of 64,000 words": ["seconds", "cpu", "MB"],
    "bundle": ["seconds", "cpu", "MB"],
    "average": ["seconds", "cpu", "MB"],
}
# Parts whose memory is watched while they run.
VERBS = ("translate", "distill")


def tables(found: Found) -> List[Dict[str, Any]]:
    """One for each part; its course and how it continues have tables of their own."""
    made = []
    for part, columns in COLUMNS.items():
        rows = found.get(part, [])
        if rows:
            size = next(iter(rows[0]))
            of_rows = [[row[name] for name in (size, *columns)] for row in rows]
            made.append({"title": part, "columns": [size, *columns], "rows": of_rows})
    tenths = [f"{part} %" for part in range(10, 101, 10)]
    for verb in VERBS:
        rows = found.get(verb, [])
        for title, name in (("processor seconds", "cpu at tenths"), ("MB", "MB at tenths")):
            if rows:
                made.append(
                    {
                        "title": f"{verb}: {title} when so much is translated",
                        "columns": ["lines", *tenths],
                        "rows": [[row["lines"], *row[name]] for row in rows],
                    }
                )
    killed = [
        [verb, row["lines"], one["killed at"], one["seconds"], one["cpu"], row["same bytes"]]
        for verb in VERBS
        for row in found.get(verb, [])
        for one in row["continued"]
    ]
    if killed:
        columns = ["verb", "lines", "killed at", "seconds", "cpu", "same bytes"]
        title = "kill -9, started again: until new lines are written"
        made.append({"title": title, "columns": columns, "rows": killed})
    return made


def draw(found: Found, path: Path) -> None:
    """Processor time by lines, memory on the way, and time until a killed run writes new lines."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "corpora", "font.size": 9})
    figure, (time, memory, again) = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for verb in (*VERBS, "shortlist"):
        rows = found.get(verb, [])
        lines = [row["lines"] for row in rows]
        time.loglog(lines, [row["cpu"] for row in rows], "o-", markersize=3, label=verb)
    for verb in VERBS:
        for row in found.get(verb, [])[-1:]:
            done = [row["lines"] * part / 10 for part in range(1, 11)]
            memory.plot(done, row["MB at tenths"], "o-", markersize=3, label=verb)
        killed = [one for row in found.get(verb, []) for one in row["continued"]]
        killed.sort(key=lambda one: one["killed at"])
        places = [one["killed at"] for one in killed]
        again.semilogx(places, [one["cpu"] for one in killed], "o-", markersize=3, label=verb)
    for panel, below, beside in (
        (time, "lines", "processor seconds"),
        (memory, "lines that are translated", "MB"),
        (
            again,
            "lines that were translated when it was killed",
            "processor seconds until new ones",
        ),
    ):
        panel.set(xlabel=below, ylabel=beside)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    memory.set_ylim(bottom=0)
    again.set_ylim(bottom=0)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: Any = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured", type=Path, nargs="+", help="--out of the other two")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="corpora.json and corpora.svg"
    )
    given = parser.parse_args(arguments)
    found: Found = {}
    for path in given.measured:
        for part, rows in json.loads(path.read_bytes()).items():
            found.setdefault(part, []).extend(rows)
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"tables": tables(found)}, indent=1)
    (given.out / "corpora.json").write_text(text + "\n")
    draw(found, given.out / "corpora.svg")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
