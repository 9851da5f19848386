"""Adds what the study has finished to outcomes.jsonl; pages.py makes the tables from there.

    python examples/study/outcomes.py [--study FOLDER]

What is published stands, whatever else is trained with the same options: only entries without an
outcome are added.
"""

import argparse
import json
import os
import re
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from entries import Entry
from figures import HERE, read_outcomes
from matrix import read_matrix
from steps import REPOSITORY, Store, filled, read_record

# The scores of a benchmark that tables show.
QUALITY = ("bleu", "bleu_signature", "chrf", "chrf_signature", "length_ratio")
REFERENCE = "CTranslate2 int8 greedy"
UPDATES_OF_EPOCH = re.compile(r"epoch \d+: +\d+ / (\d+) .*num_updates=")


def speed(timings: Mapping[str, Any]) -> Dict[str, Any]:
    """Medians over the repeats of a system at one batch size: ``ms`` a batch, ``sentences`` a
    second, ``calls`` of the decoder a batch."""
    repeats, count = timings["seconds"], sum(map(len, timings["batches"]))
    calls = timings["decoder_calls"]
    return {
        "ms": 1000 * statistics.median(second for repeat in repeats for second in repeat),
        "sentences": statistics.median(count / sum(repeat) for repeat in repeats),
        "calls": None if calls is None else calls / len(timings["batches"]),
    }


def speed_ratio(found: Mapping[str, Any], base: Mapping[str, Any], size: str) -> float:
    """How many times as fast as ``base``: the median of the ratios within the repeats of one
    run."""
    ours, theirs = (one["timings"][size]["seconds"] for one in (found, base))
    return statistics.median(sum(their) / sum(our) for our, their in zip(ours, theirs))


def reduced(results: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The systems of results.json with the figures that tables show instead of all timings."""
    base = next((own for own in results["systems"] if own["name"] == REFERENCE), None)
    systems = []
    for own in results["systems"]:
        speeds = {size: speed(timings) for size, timings in own["timings"].items()}
        for size, found in speeds.items() if base is not None else ():
            found["times"] = {REFERENCE: speed_ratio(own, base, size)}
        quality = {key: value for key, value in own["quality"].items() if key in QUALITY}
        kept = {"name": own["name"], "quality": quality, "identical": own["identical"]}
        systems.append({**kept, "speeds": speeds})
    return systems


def paired_bootstrap(baseline: List[str], other: List[str], references: List[str]) -> float:
    """p of sacreBLEU's paired bootstrap test, 1,000 samples, for the difference in BLEU."""
    # sacreBLEU counts the samples whose difference is larger than the real one: none where both are
    # the same text.
    if baseline == other:
        return 1.0
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems = [("baseline", baseline), ("other", other)]
    _, scores = PairedTest(
        systems, {"BLEU": BLEU(references=[references])}, None, test_type="bs", n_samples=1000
    )()
    return float(scores["BLEU"][1].p_value)


def compared(entry: Entry, store: Store, names: Sequence[str]) -> Dict[str, float]:
    """p of each system of a benchmark and the one that the matrix compares it with."""
    from fairseq_hrt.evaluation.quality import read_lines

    folders = {parent: store.path(parent) for parent in entry.parents}
    references = read_lines(
        Path(filled(entry.fields["options"]["references"], folders, store.path(entry.name)))
    )
    lines = {}
    for number, name in enumerate(names, start=1):
        (path,) = store.path(entry.name).glob(f"translations_{number}_*.txt")
        lines[name] = path.read_text(encoding="utf-8").split("\n")[:-1]
    return {
        f"{name} against {entry.identity}/{base}": paired_bootstrap(
            lines[base], lines[name], references
        )
        for name, base in entry.against.items()
    }


def outcome_of(entry: Entry, store: Store) -> Dict[str, Any]:
    """What a finished entry measured."""
    folder = store.path(entry.name)
    attempts = read_record(folder)["attempts"]
    outcome: Dict[str, Any] = {"identity": entry.identity, "name": entry.name}
    outcome["starts"] = len(attempts)
    outcome["seconds"] = sum(attempt["seconds"] for attempt in attempts)
    for key in ("processor", "cores", "threads", "commit", "begin"):
        outcome[key] = attempts[-1][key]
    if entry.kind == "train":
        if "gpu" in attempts[-1].get("versions", {}):
            outcome["gpu"] = attempts[-1]["versions"]["gpu"]
        log = (folder / "log").read_text(encoding="utf-8", errors="replace")
        updates, trained = UPDATES_OF_EPOCH.findall(log), entry.fields["options"]["max-update"]
        outcome["epochs"] = trained / int(updates[-1]) if updates else None
    elif entry.kind == "tune":
        outcome["best"] = (folder / "best").read_text(encoding="utf-8").strip()
    elif entry.kind == "benchmark":
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        outcome["systems"] = reduced(results)
        outcome["texts"] = {"table.md": (folder / "table.md").read_text(encoding="utf-8")}
        outcome["p"] = compared(entry, store, [own["name"] for own in outcome["systems"]])
    elif entry.fields.get("result", "").endswith(".md"):
        name = entry.fields["result"]
        outcome["texts"] = {name: (folder / name).read_text(encoding="utf-8")}
    return rounded(outcome)


def rounded(value: Any) -> Any:
    """Numbers with six digits, which is more than any table shows."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    return [rounded(own) for own in value] if isinstance(value, list) else value


def main(arguments: Sequence[str] = ()) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--study", type=Path, default=os.environ.get("STUDY", REPOSITORY / "runs" / "study"),
        help="the study's folder (default: $STUDY, or runs/study)",
    )  # fmt: skip
    parser.add_argument(
        "--outcomes", type=Path, default=HERE / "outcomes.jsonl", help="(default: beside this)"
    )
    options = parser.parse_args(arguments)
    entries = read_matrix()[0].entries
    store = Store(options.study, entries)
    published = read_outcomes(options.outcomes)
    known = {outcome["identity"]: outcome["name"] for outcome in published}
    for name in set(known.values()) & set(entries):
        if entries[name].identity not in known and store.finished(name):
            parser.error(
                f"{name} is published as another entry; remove its line from {options.outcomes} if"
                " it is not meant any more"
            )
    new = [
        outcome_of(entry, store)
        for entry in entries.values()
        if entry.identity not in known and store.finished(entry.name)
    ]
    partial = options.outcomes.with_suffix(".partial")
    # ASCII: no reader takes a character for the end of a line.
    partial.write_text(
        "".join(json.dumps(outcome) + "\n" for outcome in [*published, *new]), encoding="utf-8"
    )
    partial.replace(options.outcomes)
    print(
        f"{len(published) + len(new)} outcomes, of which new:"
        f" {', '.join(outcome['name'] for outcome in new) or 'none'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
