"""What finished entries measured, from their own folders or from the file in which they are
published.

Folders of entries are large and stay on the machine that made them. ``outcomes.jsonl`` beside the
matrix has one line of JSON for each finished entry, with all that tables, analyses and claims show
of it: the pages can be made again without training anything, and a new entry stands beside the
published ones. Entries are told apart by their identity, so that a published outcome is never taken
for that of changed options.
"""

import json
import re
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from matrix import Entry
from store import Store

# What tables show of a benchmark's scores.
QUALITY = ("bleu", "bleu_signature", "chrf", "chrf_signature", "length_ratio")
UPDATES_OF_EPOCH = re.compile(r"epoch \d+: +\d+ / (\d+) .*num_updates=")


@dataclass
class Outcome:
    """A finished entry.

    Attributes:
        identity, name: of the entry, the name when it was published.
        seconds, cpu_seconds, starts: all attempts together.
        processor, cores, threads, commit, begin: of the last one; threads 0 where it was not
        recorded.
        epochs: of a training, passes over its data.
        systems: of a benchmark, see :func:`reduced`.
        values: figures of its JSON files that claims name, ``FILE.json:key.key``.
        texts: its Markdown files that pages show, by name.
        p: paired bootstrap of its systems, ``SYSTEM against IDENTITY/SYSTEM``.
    """

    identity: str
    name: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    starts: int = 0
    processor: str = ""
    cores: int = 0
    threads: int = 0
    commit: str = ""
    begin: str = ""
    epochs: Optional[float] = None
    systems: List[Dict[str, Any]] = field(default_factory=list)
    values: Dict[str, float] = field(default_factory=dict)
    texts: Dict[str, str] = field(default_factory=dict)
    p: Dict[str, float] = field(default_factory=dict)


def speed_ratio(found: Mapping[str, Any], base: Mapping[str, Any], size: str) -> float:
    """How many times as fast as ``base``, of the same run: the median of the ratios within its
    repeats, as the benchmark's own tables."""
    ours, theirs = (one["timings"][size]["seconds"] for one in (found, base))
    return statistics.median(sum(their) / sum(our) for our, their in zip(ours, theirs))


def speed(timings: Mapping[str, Any]) -> Dict[str, Any]:
    """Medians over the repeats of a system at one batch size, as measured by fairseq-hrt benchmark:
    ``ms`` a batch, ``sentences`` a second; and ``calls`` of the decoder a batch, None where they
    were not counted."""
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
        reference: the system whose speed counts as 1; if the benchmark has it, ``times`` says
            beside each speed how many times its.
    """
    base = next((system for system in results["systems"] if system["name"] == reference), None)
    systems = []
    for system in results["systems"]:
        speeds = {size: speed(timings) for size, timings in system["timings"].items()}
        if base is not None:
            for size, own in speeds.items():
                own["times"] = {reference: speed_ratio(system, base, size)}
        quality = {key: value for key, value in system["quality"].items() if key in QUALITY}
        systems.append(
            {
                "name": system["name"],
                "quality": quality,
                "identical": system["identical"],
                "speeds": speeds,
            }
        )
    return systems


def measured(entry: Entry, store: Store, reference: str = "") -> Optional[Outcome]:
    """The outcome of an entry as its folder shows it; None until it is finished. Texts, values and
    p are read or computed when somebody asks.

    Raises:
        ValueError: the folder does not hold what a finished entry leaves.
    """
    record = store.record(entry)
    if record.get("state") != "finished":
        return None
    try:
        return _measured(entry, store, record, reference)
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise ValueError(
            f"{entry.name!r} is finished, but what it left in {store.path(entry)} cannot be used"
            f" ({type(error).__name__}: {error}); remove that folder and run it again"
        ) from None


def _measured(entry: Entry, store: Store, record: Mapping[str, Any], reference: str) -> Outcome:
    attempts = record.get("attempts", [])
    last: Mapping[str, Any] = attempts[-1] if attempts else {}
    outcome = Outcome(
        entry.identity,
        entry.name,
        store.seconds(entry),
        sum(attempt.get("cpu_seconds", 0.0) for attempt in attempts),
        len(attempts),
        **{
            key: last[key]
            for key in ("processor", "cores", "threads", "commit", "begin")
            if key in last
        },
    )
    if entry.kind == "train":
        updates = UPDATES_OF_EPOCH.findall(store.log_tail(entry, 2_000_000))
        outcome.epochs = (
            int(entry.fields["options"]["max-update"]) / int(updates[-1]) if updates else None
        )
    elif entry.kind == "benchmark":
        results = json.loads((store.path(entry) / "results.json").read_text(encoding="utf-8"))
        outcome.systems = reduced(results, reference)
    return outcome


class Maybe:
    """A shape that may also be null."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


# What a line may hold. ``line``: text without a line break; a list or {"*": ...}: any number of
# such; a trailing ?: may be missing.
SHAPE = {
    "identity": "line", "name": "line", "seconds?": "number", "cpu_seconds?": "number",
    "starts?": "number", "processor?": "line", "cores?": "number", "threads?": "number",
    "commit?": "line", "begin?": "line", "epochs?": Maybe("number"), "systems?": [{
        "name": "line",
        "quality": {"bleu": "number", "bleu_signature?": "line", "chrf?": "number",
                    "chrf_signature?": "line", "length_ratio?": "number"},
        "identical?": Maybe("number"),
        "speeds?": {"*": {"ms?": "number", "sentences?": "number", "calls?": Maybe("number"),
                          "times?": {"*": "number"}}},
    }],
    "values?": {"*": "number"}, "texts?": {"*": "text"}, "p?": {"*": "number"},
}  # fmt: skip


FITS: Dict[str, Callable[[Any], bool]] = {
    "number": lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool) and -1e15 < value < 1e15
    ),
    "line": lambda value: isinstance(value, str) and len(value.splitlines()) <= 1,
    "text": lambda value: isinstance(value, str),
}
MEANT = {"number": "a finite number", "line": "one line of text", "text": "text"}


def check(value: Any, shape: Any, key: str = "") -> None:
    """Raises ValueError, with the key, for a value that has not the shape; see :data:`SHAPE`."""
    if isinstance(shape, Maybe):
        if value is not None:
            check(value, shape.shape, key)
    elif isinstance(shape, str):
        if not FITS[shape](value):
            raise ValueError(f"{key} is {str(value)[:40]!r}, but must be {MEANT[shape]}")
    elif not isinstance(value, type(shape)):
        kind = "a list" if isinstance(shape, list) else "a table of names and values"
        raise ValueError(f"{key or 'it'} is {str(value)[:40]!r}, but must be {kind}")
    elif isinstance(shape, list):
        for number, own in enumerate(value):
            check(own, shape[0], f"{key}.{number}")
    elif "*" in shape:
        for name, own in value.items():
            check(own, shape["*"], f"{key}.{name}")
    else:
        _check_record(value, shape, f"{key}." if key else "")


def _check_record(value: Mapping[str, Any], shape: Mapping[str, Any], before: str) -> None:
    shapes = {name.removesuffix("?"): own for name, own in shape.items()}
    for name in value:
        if name not in shapes:
            raise ValueError(f"unknown key {before + name!r}; give {', '.join(shapes)}")
    for name in shape:
        if name.removesuffix("?") in value:
            check(value[name.removesuffix("?")], shape[name], before + name.removesuffix("?"))
        elif not name.endswith("?"):
            raise ValueError(f"{before}{name} is missing")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no finite number")


def read_outcomes(path: Path) -> Dict[str, Outcome]:
    """Published outcomes by identity.

    Raises:
        ValueError: a line that is no outcome, or the second of an entry.
        OSError: the file cannot be read.
    """
    found: Dict[str, Outcome] = {}
    lines: Dict[str, int] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line.decode("utf-8"), parse_constant=_refuse)
            check(content, SHAPE)
            outcome = Outcome(**content)
        except (RecursionError, ValueError) as error:
            raise ValueError(
                f"{path}, line {number} is no outcome of an entry: {error}; take the line from"
                " where it was published"
            ) from None
        if outcome.identity in found:
            raise ValueError(
                f"{path}, lines {lines[outcome.identity]} and {number} are of one entry,"
                f" {outcome.name!r} ({outcome.identity}); keep one"
            )
        found[outcome.identity], lines[outcome.identity] = outcome, number
    return found


def rounded(value: Any) -> Any:
    """Numbers with six digits, which is more than any table shows."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    return [rounded(own) for own in value] if isinstance(value, list) else value


def lines_of(outcomes: Iterable[Outcome]) -> str:
    """Outcomes as they are written: one a line, in their order, without what is empty.

    Raises:
        ValueError: for what could not be read again.
    """
    contents = [
        {key: value for key, value in asdict(outcome).items() if value} for outcome in outcomes
    ]
    for content in contents:
        try:
            check(content, SHAPE)
        except ValueError as error:
            raise ValueError(
                f"the outcome of {content.get('name')!r} cannot be published: {error}"
            ) from None
    # ASCII: no reader takes a character for the end of a line.
    return "".join(json.dumps(content) + "\n" for content in contents)
