"""Publishes what is finished: outcomes into one file, tables and pictures into the pages that show
them.

A page holds what a person writes, and tables between two markers, each on a line of its own:

    <!-- report:begin -->
    <!-- report:end -->

``report`` is any name of a table, see :func:`tables.make_texts`. Only what stands between markers
is replaced.
"""

import fcntl
import logging
import os
import re
import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Sequence

from analyses import Picture, analysis_table, picture_of, read_analyses
from figures import Figures
from outcomes import Outcome, rounded
from tables import TUNED, Row, against, finished_rows, make_texts, read_rows, significance

logger = logging.getLogger("study")
MARKER = re.compile(r"<!-- ([\w.-]+):(begin|end) -->")


def complete(
    outcome: Outcome, raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures
) -> Outcome:
    """An outcome with all that tables, analyses and claims show of it and that this store has; what
    it had already stays."""
    names = {name for name, entry in figures.entries.items() if entry.identity == outcome.identity}
    for name in names:
        if figures.entry(name).kind == "tune":
            _add(outcome.texts, TUNED, figures.text(name, TUNED))
    for analysis in read_analyses(raw, figures):
        if analysis.entry in names:
            _add(outcome.texts, analysis.table, analysis_table(analysis, figures))
    for place in (
        place for claim in claims.get("claim", []) for place in claim.get("values", {}).values()
    ):
        name, _, rest = place.partition(":")
        if rest and name in names:
            _add(outcome.values, rest, figures.value(place))
    _add_comparisons(outcome, read_rows(raw), names, figures)
    return outcome


def _add_comparisons(
    outcome: Outcome, rows: Sequence[Row], names: Collection[str], figures: Figures
) -> None:
    """Adds p of the rows that show the systems of an outcome."""
    labels = {(row.table, row.label): row for row in rows}
    for row in rows:
        other = labels.get((row.table, row.against))
        if row.test in names and other is not None and other is not row:
            key = against(figures, row, other)
            if key not in outcome.p:
                _add(outcome.p, key, significance(figures, row, other))


def _add(known: Dict[str, Any], key: str, value: Any) -> None:
    """Adds what is neither missing nor known."""
    if value is not None:
        known.setdefault(key, value)


def comparable(figures: Figures) -> Figures:
    """The figures of this store where it has the measurement that was published, or one that was
    not published yet; the published ones of the rest.

    A second run of the same options is another measurement: what is new here is not compared with a
    published one by its translations.
    """
    entries = list(figures.entries.values())
    local = Figures(entries, figures.store, {}, figures.reference)
    different = {
        entry.identity: figures.published[entry.identity]
        for entry in entries
        if entry.identity in figures.published
        and not same_measurement(figures.published[entry.identity], local.outcome(entry.name))
    }
    return Figures(entries, figures.store, different, figures.reference, figures.pictures)


def same_measurement(published: Outcome, found: Optional[Outcome]) -> bool:
    """Whether an outcome is the one that was published, and not another run of the same options."""
    if found is None:
        return False
    own, other = (rounded(asdict(outcome)) for outcome in (published, found))
    return all(own[key] == other[key] for key in ("seconds", "begin", "systems"))


def all_outcomes(
    raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures
) -> List[Outcome]:
    """What is published and what is finished in this store, in the order of the matrix, then
    published outcomes of entries that it no longer has.

    What was published stays as it was. What it lacks (of a new claim or analysis, or compared with
    something that was finished later) is added where this store has the same measurement.
    """
    own = comparable(figures)
    outcomes: Dict[str, Outcome] = {}
    for name, entry in figures.entries.items():
        outcome = figures.outcome(name)
        if outcome is not None and entry.identity not in outcomes:
            outcomes[entry.identity] = (
                outcome if own.is_published(name) else complete(outcome, raw, claims, own)
            )
    for identity, outcome in figures.published.items():
        if identity not in outcomes:
            logger.warning(
                "no entry of the matrix has the content of %r (%s) any longer; its outcome is kept",
                outcome.name,
                identity,
            )
            outcomes[identity] = outcome
    # As they will be read again, so that pages made now and later are the same.
    return [Outcome(**rounded(asdict(outcome))) for outcome in outcomes.values()]


def new_pictures(raw: Mapping[str, Any], figures: Figures) -> List[Picture]:
    """Pictures of analyses in this store that are not published yet."""
    own = comparable(figures)
    pictures = []
    for analysis in read_analyses(raw, own):
        published, made = picture_of(analysis, figures), picture_of(analysis, own)
        if (
            published is None
            or made is None
            or own.is_published(analysis.entry)
            or not made.made.is_file()
        ):
            continue
        if not figures.is_published(analysis.entry) or not published.made.exists():
            pictures.append(Picture(made.made, published.name))
    return pictures


def marked_parts(lines: Sequence[str], page: str) -> Dict[str, Sequence[int]]:
    """First and last line (both markers) of each marked part of a page, by name.

    Raises:
        ValueError: a marker without its other one, a name that is marked twice, one part in
            another.
    """
    parts: Dict[str, Sequence[int]] = {}
    open_name, begin = "", 0
    for number, line in enumerate(lines):
        match = MARKER.fullmatch(line.strip())
        if match is None:
            if MARKER.search(line):
                raise ValueError(
                    f"{page}, line {number + 1}: {line.strip()[:60]!r}; give each marker a line of"
                    " its own"
                )
            continue
        name, which = match.groups()
        expected = (open_name, "end") if open_name else (name, "begin")
        if (name, which) != expected or name in parts:
            wanted = (
                f"the end of {open_name!r}, begun in line {begin + 1}, comes first"
                if open_name
                else "nothing such is begun"
            )
            reason = f"{name!r} is marked twice" if name in parts else wanted
            raise ValueError(f"{page}, line {number + 1}: {line.strip()}: {reason}")
        if which == "begin":
            open_name, begin = name, number
        else:
            parts[name], open_name = (begin, number), ""
    if open_name:
        raise ValueError(
            f"{page}, line {begin + 1}: {open_name!r} is begun and never ended; add <!--"
            f" {open_name}:end -->"
        )
    return parts


def page_text(text: str, texts: Mapping[str, str], page: str) -> str:
    """A page with its marked parts replaced by the tables of their names, without what is not
    finished. Markers of other names are left alone.

    Raises:
        ValueError: no marker of a table; see also :func:`marked_parts`.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    parts = marked_parts(lines, page)
    names = [name for name in parts if name in texts]
    if not names:
        raise ValueError(
            f"{page} has no part between <!-- NAME:begin --> and <!-- NAME:end --> with the name of"
            f" a table ({', '.join(texts)}); put both where tables belong"
        )
    for name in sorted(names, key=lambda own: parts[own][0], reverse=True):
        first, last = parts[name]
        # What a text says is shown, never taken for a marker.
        filled = finished_rows(texts[name]).strip().replace("<!--", "&lt;!--")
        lines[first + 1 : last] = filled.split("\n")
    return end.join(lines)


def filled_pages(
    pages: Sequence[Path], raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures
) -> Dict[Path, bytes]:
    """The content of each page with its marked parts filled.

    Raises:
        ValueError: see :func:`page_text`.
    """
    with tempfile.TemporaryDirectory() as pictures:
        texts = make_texts(raw, claims, figures, Path(pictures))
    filled = {}
    for page in pages:
        try:
            text = page.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{page} is no text in UTF-8: {error}") from None
        filled[page.resolve()] = page_text(text, texts, str(page)).encode()
    return filled


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Replaces files, each as a whole, after all of them have been written beside the old ones.

    Raises:
        OSError: a file cannot be written; none is changed then.
    """
    partial: Dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            partial[path] = Path(name)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                partial[path].chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
            except OSError as error:
                raise OSError(
                    error.errno, f"cannot write {path}: {error.strerror}; nothing is changed"
                ) from None
        for path in list(partial):
            partial.pop(path).replace(path)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Waits until no other process publishes into a folder."""
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
