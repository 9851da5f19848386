"""What finished entries measured, from their own folders or from the file in which they are published.

Folders of entries are large and stay on the machine that made them. ``outcomes.jsonl`` beside the matrix has one line of JSON for each finished
entry, with all that tables, analyses and claims show of it: the pages can be made again without training anything, and a new entry stands
beside the published ones. Entries are told apart by their identity, so that a published outcome is never taken for that of changed options.
"""

import json
import re
import statistics
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional

from matrix import Entry
from store import Store

UPDATES_OF_EPOCH = re.compile(r"epoch \d+: +\d+ / (\d+) .*num_updates=")


@dataclass
class Outcome:
    """A finished entry.

    Attributes:
        identity, name: of the entry.
        seconds, cpu_seconds, starts: all attempts together.
        processor, cores, commit, begin: of the last one.
        epochs: of a training, passes over its data.
        systems: of a benchmark, see :func:`reduced`.
        values: figures of its JSON files that claims name, ``FILE.json:key.key``.
        texts: its Markdown files that pages show, by name.
        p: paired bootstrap of its systems, ``SYSTEM against ENTRY/SYSTEM``.
    """

    identity: str
    name: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    starts: int = 0
    processor: str = ""
    cores: int = 0
    commit: str = ""
    begin: str = ""
    epochs: Optional[float] = None
    systems: List[Dict[str, Any]] = field(default_factory=list)
    values: Dict[str, float] = field(default_factory=dict)
    texts: Dict[str, str] = field(default_factory=dict)
    p: Dict[str, float] = field(default_factory=dict)


def speed_ratio(found: Mapping[str, Any], base: Mapping[str, Any], size: str) -> float:
    """How many times as fast as ``base``, of the same run: the median of the ratios within its repeats, as the benchmark's own tables."""
    ours, theirs = (one["timings"][size]["seconds"] for one in (found, base))
    return statistics.median(sum(their) / sum(our) for our, their in zip(ours, theirs))


def speed(timings: Mapping[str, Any]) -> Dict[str, Optional[float]]:
    """Medians over the repeats of a system at one batch size, as measured by fairseq-hrt benchmark: ``ms`` a batch, ``sentences`` a second; and
    ``calls`` of the decoder a batch, None where they were not counted."""
    repeats = timings["seconds"]
    count = sum(len(batch) for batch in timings["batches"])
    calls = timings["decoder_calls"]
    return {
        "ms": 1000 * statistics.median(second for repeat in repeats for second in repeat),
        "sentences": statistics.median(count / sum(repeat) for repeat in repeats),
        "calls": None if calls is None else calls / len(timings["batches"]),
    }


def reduced(results: Mapping[str, Any], reference: str) -> List[Dict[str, Any]]:
    """The systems of results.json with the figures that tables show instead of all timings.

    Args:
        results: what fairseq-hrt benchmark has written.
        reference: the system whose speed counts as 1; if the benchmark has it, ``times_reference`` stands beside each speed.
    """
    base = next((system for system in results["systems"] if system["name"] == reference), None)
    systems = []
    for system in results["systems"]:
        speeds = {size: speed(timings) for size, timings in system["timings"].items()}
        if base is not None:
            for size, own in speeds.items():
                own["times_reference"] = speed_ratio(system, base, size)
        kept = {key: system[key] for key in ("name", "quality", "identical")}
        systems.append({**kept, "speeds": speeds})
    return systems


def measured(entry: Entry, store: Store, reference: str = "") -> Optional[Outcome]:
    """The outcome of an entry as its folder shows it; None until it is finished. Texts, values and p are read or computed when somebody asks."""
    record = store.record(entry)
    if record.get("state") != "finished":
        return None
    attempts = record.get("attempts", [])
    last: Mapping[str, Any] = attempts[-1] if attempts else {}
    outcome = Outcome(
        entry.identity,
        entry.name,
        store.seconds(entry),
        sum(attempt.get("cpu_seconds", 0.0) for attempt in attempts),
        len(attempts),
        **{key: last[key] for key in ("processor", "cores", "commit", "begin") if key in last},
    )
    if entry.kind == "train":
        updates = UPDATES_OF_EPOCH.findall(store.log_tail(entry, 2_000_000))
        outcome.epochs = int(entry.fields["options"]["max-update"]) / int(updates[-1]) if updates else None
    elif entry.kind == "benchmark":
        results = json.loads((store.path(entry) / "results.json").read_text(encoding="utf-8"))
        outcome.systems = reduced(results, reference)
    return outcome


def read_outcomes(path: Path) -> Dict[str, Outcome]:
    """Published outcomes by identity.

    Raises:
        ValueError: a line that is no outcome.
        OSError: the file cannot be read.
    """
    found = {}
    known = {own.name for own in fields(Outcome)}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            content = json.loads(line)
            unknown = sorted(set(content) - known)
            if unknown:
                raise ValueError(f"unknown key {unknown[0]!r}")
            outcome = Outcome(**content)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number} is no outcome of an entry: {error}") from None
        found[outcome.identity] = outcome
    return found


def rounded(value: Any) -> Any:
    """Numbers with six digits, which is more than any table shows."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    return [rounded(own) for own in value] if isinstance(value, list) else value


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Writes outcomes, one a line, in their order; a reader sees the file whole or not at all."""
    lines = []
    for outcome in outcomes:
        content = {key: value for key, value in asdict(outcome).items() if value}
        lines.append(json.dumps(content, ensure_ascii=False) + "\n")
    partial = path.with_name(path.name + ".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(path)
