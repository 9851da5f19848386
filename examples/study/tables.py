"""The tables of a study, from what is finished: what is missing is shown as missing.

Rows are listed in the matrix:

    [[row]]
    table = "main"                    # file of the table
    label = "HRT k=2 (5,1)"
    test = "test-hrt"                 # benchmark with the quality, and the system's name there
    system = "HRT k=2 (5 1)"
    model = "hrt"                     # what was trained
    against = "AT beam 5"             # label of the row that the paired bootstrap compares with
    speed = "speed/native HRT k=2"    # benchmark and system with the speed
    seeds = ["test-hrt-seed2"]        # the same system trained with other seeds
    paper = "27.85 (AT 27.45)"        # what the paper has

    [[table]]                         # what was trained with other seeds, of every row of a table
    that does not say, where it exists: name = "main"
    seeds = ["-seed2"]                # test-hrt-seed2
    [[table]]                         # the same rows for other models:
    name = "main-2"
    like = "main"
    suffix = "-2"                     # test-hrt-2, hrt-2
    seeds = ["-seed2"]                # and test-hrt-2-seed2
"""

import logging
import re
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence

from analyses import analyses_text, read_analyses
from claims import claims_table
from figures import Figures, timing
from matrix import NAME, Entry

logger = logging.getLogger("study")
MISSING = "not run yet"
TUNED = "tuned.md"
RESERVED = ("analyses", "tuned", "trained", "claims", "report")
FIELDS = {"table", "label", "test", "system", "model", "against", "speed", "seeds", "paper"}


@dataclass(frozen=True)
class Row:
    """A row of a table; see the module."""

    table: str
    label: str
    test: str
    system: str
    model: str = ""
    against: str = ""
    speed: str = ""
    seeds: Sequence[str] = ()
    paper: str = ""


def _row(table: Mapping[str, Any]) -> Row:
    unknown = set(table) - FIELDS
    if unknown:
        raise ValueError(
            f"row {table.get('label')!r}: unknown key {sorted(unknown)[0]!r}; give"
            f" {', '.join(sorted(FIELDS))}"
        )
    try:
        row = Row(**table)
    except TypeError as error:
        raise ValueError(f"row {table.get('label')!r}: {error}") from None
    for key, value in table.items():
        if key != "seeds" and not isinstance(value, str):
            raise ValueError(f"row {row.label!r}: {key} = {value!r} is no text")
    if not NAME.fullmatch(row.table) or row.table in RESERVED:
        raise ValueError(
            f"row {row.label!r}: table = {row.table!r}; give a name of letters, digits, ., _ and -,"
            f" none of {', '.join(RESERVED)}"
        )
    return row


def read_rows(raw: Mapping[str, Any]) -> List[Row]:
    """The rows that a parsed matrix lists.

    Raises:
        ValueError: unknown or missing keys, or two rows of one label in a table.
    """
    rows = [_row(table) for table in raw.get("row", [])]
    tests = {entry.get("name") for entry in raw.get("entry", [])}
    for copy in raw.get("copy", []):
        tests |= {name + copy["suffix"] for name in copy["entries"]}
    for table in raw.get("table", []):
        if "like" in table or "suffix" in table:
            rows += _like(table, rows)
        else:
            rows = [_with_seeds(row, table, tests) for row in rows]
    names = [(row.table, row.label) for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"table {name[0]!r} has two rows {name[1]!r}; give each its own label")
    return rows


def _with_seeds(row: Row, table: Mapping[str, Any], tests: Collection[Optional[str]]) -> Row:
    """A row of the ``[[table]]`` with its benchmarks of other seeds, its own or those that are
    entries of the matrix."""
    if row.table != table.get("name") or row.seeds:
        return row
    return replace(
        row, seeds=[row.test + seed for seed in table.get("seeds", []) if row.test + seed in tests]
    )


def _like(table: Mapping[str, Any], rows: Sequence[Row]) -> List[Row]:
    """The rows of a ``[[table]]``; speed is measured of the first models only."""
    try:
        name, origin, suffix = table["name"], table["like"], table["suffix"]
    except KeyError as error:
        raise ValueError(f"[[table]] {table.get('name')!r} has no {error.args[0]!r}") from None
    own = [row for row in rows if row.table == origin]
    if not own:
        raise ValueError(f"[[table]] {name!r}: like={origin!r} is no table; give one that has rows")
    return [
        replace(row, table=name, test=row.test + suffix,
                model=row.model + suffix if row.model else "", speed="",
                seeds=[row.test + suffix + seed for seed in table.get("seeds", [])])
        for row in own
    ]  # fmt: skip


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def number(value: Optional[float], digits: int = 2) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def signed(difference: float) -> str:
    """Two digits and the sign, which nothing has that rounds to zero."""
    text = f"{difference:+.2f}".replace("-", "−")
    return text if text.strip("+−0.") else "0.00"


def paired_bootstrap(
    baseline: List[str], other: List[str], references: List[str], samples: int = 1000
) -> float:
    """p of sacreBLEU's paired bootstrap test for the difference in BLEU."""
    # sacreBLEU counts the samples whose difference is larger than the real one: none where both are
    # the same text.
    if baseline == other:
        return 1.0
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems = [("baseline", baseline), ("other", other)]
    _, scores = PairedTest(
        systems, {"BLEU": BLEU(references=[references])}, None, test_type="bs", n_samples=samples
    )()
    return float(scores["BLEU"][1].p_value)


def significance(figures: Figures, row: Row, other: Row) -> Optional[float]:
    """p of the difference between the systems of two rows: published, or computed from their
    translations; None where only one of both is published, because translations are not."""
    outcome = figures.outcome(row.test)
    if outcome is not None and figures.is_published(row.test):
        return outcome.p.get(against(figures, row, other))
    baseline = figures.translations(other.test, other.system)
    own = figures.translations(row.test, row.system)
    if baseline is None or own is None:
        return None
    return paired_bootstrap(baseline, own, references_of(figures, row.test))


def against(figures: Figures, row: Row, other: Row) -> str:
    """How an outcome names the comparison of two rows: by identity, so that it is not taken for
    that with another model of the same name."""
    return f"{row.system} against {figures.entry(other.test).identity}/{other.system}"


def references_of(figures: Figures, test: str) -> List[str]:
    """The reference lines that a benchmark used."""
    from steps import filled

    from fairseq_hrt.evaluation.quality import read_lines

    entry = figures.entry(test)
    folders = {name: figures.folder(name) for name in entry.parents}
    return read_lines(
        Path(filled(entry.fields["options"]["references"], folders, figures.folder(test)))
    )


class MainTable:
    """Quality, significance, speed and budget of rows that belong together.

    Args:
        rows: of one table.
        figures: of the study.
    """

    def __init__(self, rows: Sequence[Row], figures: Figures) -> None:
        self.rows, self.figures = rows, figures
        self.by_label = {row.label: row for row in rows}
        self.signatures: Dict[str, None] = {}

    def quality(self, row: Row) -> List[str]:
        found = self.figures.system(row.test, row.system)
        if found is None:
            return [MISSING, "", "", ""]
        quality = found["quality"]
        if "bleu_signature" in quality:
            self.signatures[
                f"BLEU `{quality['bleu_signature']}`, chrF `{quality.get('chrf_signature')}`"
            ] = None
        return [
            f"{quality['bleu']:.2f}",
            self.difference(row, quality["bleu"]),
            number(quality.get("chrf")),
            number(quality.get("length_ratio"), 3),
        ]

    def mean(self, row: Row) -> str:
        """Mean and standard deviation of BLEU over the seeds that are finished, and each of them:
        ``38.51 ± 0.14 (38.61, 38.41)``."""
        if not row.seeds:
            return ""
        found = [self.figures.system(test, row.system) for test in (row.test, *row.seeds)]
        scores = [own["quality"]["bleu"] for own in found if own is not None]
        if len(scores) < 2:
            return MISSING
        each = ", ".join(
            MISSING if own is None else f"{own['quality']['bleu']:.2f}" for own in found
        )
        return f"{statistics.mean(scores):.2f} ± {statistics.stdev(scores):.2f} ({each})"

    def difference(self, row: Row, bleu: float) -> str:
        """``−0.35 (p = 0.021)`` against the row's teacher, if both are measured on one test set."""
        other = self.by_label.get(row.against)
        if other is None or other is row:
            return ""
        base = self.figures.system(other.test, other.system)
        if base is None:
            return MISSING
        p = significance(self.figures, row, other)
        difference = signed(bleu - base["quality"]["bleu"])
        return difference if p is None else f"{difference} (p = {p:.3f})"

    def speed(self, row: Row) -> List[str]:
        """Milliseconds a sentence alone, sentences a second in batches of 32, and both as
        ratios."""
        if not row.speed:
            return ["", "", ""]
        name, _, system = row.speed.partition("/")
        found = self.figures.system(name, system)
        if found is None:
            return [MISSING, "", ""]
        cells = [f"{timing(found, 'ms', '1'):.2f}", f"{timing(found, 'sentences', '32'):.0f}"]
        ratios = [
            found["speeds"][size].get("times", {}).get(self.figures.reference)
            for size in ("1", "32")
        ]
        return [*cells, "" if None in ratios else " / ".join(f"{ratio:.2f}" for ratio in ratios)]

    def budget(self, row: Row) -> List[str]:
        if not row.model:
            return ["", ""]
        return [
            number(self.figures.epochs(row.model), 1),
            number(self.figures.minutes(row.model), 0),
        ]

    def processors(self) -> List[str]:
        """Where the rows were measured, and where their other seeds and their speed were if it is
        another machine."""
        machines: Dict[str, List[str]] = {}
        seeds: Dict[str, List[str]] = {}
        speeds: Dict[str, List[str]] = {}
        for row in self.rows:
            own = self._processor(row.test)
            if own:
                machines.setdefault(own, []).append(row.label)
            for other in sorted({self._processor(test) for test in row.seeds} - {own, ""}):
                seeds.setdefault(other, []).append(row.label)
            timed = self._processor(row.speed.partition("/")[0]) if row.speed else ""
            if timed not in (own, ""):
                speeds.setdefault(timed, []).append(row.label)
        if not machines:
            return []
        parts = [
            f"on {machine}: {' · '.join(labels)}" for machine, labels in list(machines.items())[1:]
        ]
        parts += [f"a seed on {machine}: {' · '.join(labels)}" for machine, labels in seeds.items()]
        parts += [f"speed on {machine}: {' · '.join(labels)}" for machine, labels in speeds.items()]
        compared = " Times of different machines do not compare." if parts else ""
        return [f"Machine: {'; '.join([next(iter(machines)), *parts])}.{compared}"]

    def _processor(self, test: str) -> str:
        outcome = self.figures.outcome(test)
        return "" if outcome is None else outcome.processor

    def text(self) -> str:
        header = ["System", "BLEU", "against", "chrF", "length ratio", "BLEU, mean of seeds",
                  "ms, batch 1", "sentences/s, batch 32",
                  f"× {self.figures.reference} (batch 1 / 32)", "epochs", "minutes",
                  "paper"]  # fmt: skip
        lines = [
            [
                row.label,
                *self.quality(row),
                self.mean(row),
                *self.speed(row),
                *self.budget(row),
                row.paper,
            ]
            for row in self.rows
        ]
        notes = [
            (
                "Epochs: passes over the training data; minutes: wall time of training, on a"
                " machine that did other work at the same time; both with those of the models it"
                " was started from. Against, the difference from: for a student its teacher (greedy"
                " beside greedy, beam beside beam); for a teacher's greedy search its beam; for a"
                " variant the model without the change. p: paired bootstrap, 1,000 samples,"
                " sacreBLEU."
            ),
            *self.signatures,
            *self.processors(),
        ]
        return markdown(header, lines) + "\n\n" + "  \n".join(notes) + "\n"


def tuned_table(entries: Sequence[Entry], figures: Figures) -> str:
    """Every choice that was made on the validation set, with all that it was made from."""
    lines, missing = [], []
    for entry in entries:
        if entry.kind != "tune":
            continue
        system = entry.fields["system"].split(",")[0].removeprefix("name=")
        text = figures.text(entry.name, TUNED)
        if text is None:
            missing.append(entry.name)
            continue
        lines.append(f"**{entry.name}** ({system})\n\n{text.strip()}")
    if missing:
        lines.append(f"{MISSING}: {', '.join(missing)}")
    return "\n\n".join(lines) + "\n"


def trained_table(entries: Sequence[Entry], figures: Figures) -> str:
    """Every model: state, budget, wall time and CPU time (of starts whose driver lived to see their
    end), machine, commit."""
    header = [
        "Model",
        "state",
        "updates",
        "epochs",
        "minutes",
        "CPU minutes",
        "starts",
        "processor",
        "commit",
        "identity",
    ]
    lines, missing = [], []
    for entry in entries:
        if entry.kind != "train":
            continue
        outcome, record = figures.outcome(entry.name), figures.store.record(entry)
        if outcome is None and not record:
            missing.append(entry.name)
            continue
        updates = str(entry.fields["options"].get("max-update", ""))
        if outcome is None:
            lines.append(
                [entry.name, record.get("state", "missing"), updates, *[""] * 6, entry.identity]
            )
            continue
        threads = f", {outcome.threads} threads" if outcome.threads > 1 else ""
        lines.append([
            entry.name, "finished", updates, number(figures.epochs(entry.name), 1),
            f"{outcome.seconds / 60:.0f}", f"{outcome.cpu_seconds / 60:.0f}", str(outcome.starts),
            f"{outcome.processor}, {outcome.cores} cores{threads}", shortened(outcome.commit),
            entry.identity,
        ])  # fmt: skip
    changed = (
        "\nCommit +: the last start found files of the repository changed since that commit.\n"
    )
    return (
        markdown(header, lines)
        + "\n"
        + (changed if any("+" in line[-2] for line in lines) else "")
        + (f"\n{MISSING}: {', '.join(missing)}\n" if missing else "")
    )


def shortened(commit: str) -> str:
    """Enough of a commit to find it; a plus sign, which says that files were changed since, is
    kept."""
    return commit[:10] + ("+" if commit.endswith("+") else "")


def begun(table: str, rows: Sequence[Row], figures: Figures) -> bool:
    """Whether a table has anything to show yet; one that has no rows of the matrix always has."""
    own = [row for row in rows if row.table == table]
    return not own or any(figures.system(row.test, row.system) is not None for row in own)


def finished_rows(text: str) -> str:
    """Tables without the rows that have no figure yet and the columns that nobody has; the rows are
    listed below their table."""
    lines: List[str] = []
    table: List[str] = []
    for line in [*text.split("\n"), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        lines += _finished(table)
        table = []
        lines.append(line)
    return "\n".join(lines[:-1])


def _finished(table: List[str]) -> List[str]:
    """The lines of one table; what is none, of two columns at least, stays as it is."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in table
    ]
    if len(cells) < 2 or len(cells[0]) < 2 or any(len(row) != len(cells[0]) for row in cells):
        return table
    header, rule, *rows = cells
    without = [row for row in rows if row[1] == MISSING or f"**{MISSING}**" in row]
    rows = [row for row in rows if row not in without]
    # A claim is told apart from another paper's by its place, and says what it waits for.
    missing = [
        f"{row[0].rstrip('.')} ({row[1]}): {row[-1]}" if row[1] != MISSING else row[0]
        for row in without
    ]
    kept = [
        column
        for column in range(len(header))
        if any(row[column] not in ("", MISSING) for row in rows) or not rows
    ]
    lines = [
        "| " + " | ".join(row[column] for column in kept) + " |" for row in (header, rule, *rows)
    ]
    return lines + (
        ["", f"{MISSING.capitalize()}:", "", *(f"- {name}" for name in missing)] if missing else []
    )


def report(texts: Mapping[str, str], titles: Mapping[str, str], names: Sequence[str]) -> str:
    """What is finished of the tables ``names``, below each other under their titles: what can be
    published."""
    return "\n".join(
        f"## {titles.get(name, name)}\n\n{finished_rows(texts[name])}" for name in names
    )


def make_texts(
    raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures, pictures: Path
) -> Dict[str, str]:
    """All tables of a study by name, ``report`` with those that can be published last.

    Args:
        raw: the parsed matrix, with its rows.
        claims: the parsed file of claims.
        figures: of the study.
        pictures: folder to copy pictures into.
    """
    rows = read_rows(raw)
    analyses = read_analyses(raw, figures)
    entries = list(figures.entries.values())
    texts: Dict[str, str] = {}
    for table in dict.fromkeys(row.table for row in rows):
        chosen = [row for row in rows if row.table == table]
        texts[table] = MainTable(chosen, figures).text()
    if analyses:
        texts["analyses"] = analyses_text(analyses, figures, pictures)
    texts["tuned"] = tuned_table(entries, figures)
    texts["trained"] = trained_table(entries, figures)
    shown = [name for name in texts if begun(name, rows, figures)]
    texts["claims"] = claims_table(claims, figures)
    texts["report"] = report(texts, raw.get("titles", {}), shown)
    return texts


def write_tables(
    raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures, folder: Path
) -> List[Path]:
    """Writes all tables of a study, see :func:`make_texts`.

    Returns:
        the files that were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in make_texts(raw, claims, figures, folder).items():
        path = folder / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def reference_system(raw: Mapping[str, Any]) -> str:
    """The system of a matrix whose speed counts as 1."""
    return str(raw.get("reference_speed", "")).partition("/")[2]
