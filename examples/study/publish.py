"""Publishes what is finished: outcomes into one file, tables and pictures into the pages that show them.

A page holds what a person writes, and tables between two markers:

    <!-- report:begin -->
    <!-- report:end -->

``report`` is any name of a table, see :func:`tables.make_texts`. Only what stands between markers is replaced.
"""

import logging
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from analyses import Picture, analysis_table, picture_of, read_analyses
from figures import Figures
from outcomes import Outcome, rounded
from tables import TUNED, Row, against, finished_rows, make_texts, read_rows, significance

logger = logging.getLogger("study")
MARKED = re.compile(r"(<!-- (\w+):begin -->\n).*?(<!-- \2:end -->)", re.DOTALL)


def complete(outcome: Outcome, raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures) -> Outcome:
    """An outcome of this store with all that tables, analyses and claims show of it."""
    entry = figures.entry(outcome.name)
    if entry.kind == "tune":
        outcome.texts[TUNED] = figures.text(entry.name, TUNED)
    for analysis in read_analyses(raw, figures):
        if analysis.entry == entry.name:
            outcome.texts[analysis.table] = analysis_table(analysis, figures)
    for claim in claims.get("claim", []):
        for place in claim.get("values", {}).values():
            name, _, rest = place.partition(":")
            if name == entry.name and rest:
                outcome.values[rest] = figures.value(place)
    rows = read_rows(raw)
    labels: Dict[Sequence[str], Row] = {(row.table, row.label): row for row in rows}
    for row in rows:
        other = labels.get((row.table, row.against))
        if row.test == entry.name and other is not None and other is not row:
            p = significance(figures, row, other)
            if p is not None:
                outcome.p[against(row, other)] = p
    return outcome


def all_outcomes(raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures) -> List[Outcome]:
    """What is published and what is finished in this store, in the order of the matrix. What was published stays as it was."""
    outcomes = []
    for name in figures.entries:
        outcome = figures.outcome(name)
        if outcome is not None:
            published = figures.is_published(name)
            outcomes.append(outcome if published else complete(outcome, raw, claims, figures))
            outcome.name = name
    kept = {outcome.identity for outcome in outcomes}
    for identity, outcome in figures.published.items():
        if identity not in kept:
            logger.warning("no entry has the content of %r (%s) any longer: no longer published", outcome.name, identity)
    # As they will be read again, so that pages made now and later are the same.
    return [Outcome(**rounded(asdict(outcome))) for outcome in outcomes]


def new_pictures(raw: Mapping[str, Any], figures: Figures) -> List[Picture]:
    """Pictures of analyses that are finished in this store and not published yet."""
    pictures = []
    for analysis in read_analyses(raw, figures):
        if not figures.is_published(analysis.entry) and figures.outcome(analysis.entry) is not None:
            picture = picture_of(analysis, figures)
            if picture is not None and picture.made.is_file():
                pictures.append(picture)
    return pictures


def page_text(text: str, texts: Mapping[str, str], page: str) -> str:
    """A page with its marked parts replaced by the tables of their names, without what is not finished. Markers of other names are left alone.

    Raises:
        ValueError: no marker of a table.
    """
    names = [name for _, name, _ in MARKED.findall(text) if name in texts]
    if not names:
        raise ValueError(
            f"{page} has no part between <!-- NAME:begin --> and <!-- NAME:end --> with the name of a table ({', '.join(texts)}); "
            "put both where tables belong"
        )

    def fill(match: re.Match) -> str:
        return f"{match[1]}{finished_rows(texts[match[2]]).strip()}\n{match[3]}" if match[2] in names else match[0]

    return MARKED.sub(fill, text)


def filled_pages(
    pages: Sequence[Path], raw: Mapping[str, Any], claims: Mapping[str, Any], figures: Figures
) -> Dict[Path, str]:
    """The text of each page with its marked parts filled.

    Raises:
        ValueError: see :func:`page_text`.
    """
    texts = make_texts(raw, claims, figures, figures.pictures)
    return {page: page_text(page.read_text(encoding="utf-8"), texts, str(page)) for page in pages}
