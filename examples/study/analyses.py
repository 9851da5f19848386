"""What the analyses of a study found, beside the papers' own figures: tables and pictures that
scripts have made, under one title each.

Listed in the matrix:

    [[analysis]]
    entry = "masking"
    title = "How much of a translation Mask-Predict must see (HRT, section 3, Figure 2)"
    paper = "one pass with 70 % masked is as good as ten iterations from nothing"
    table = "masking.md"               # in the entry's folder; of a benchmark (table.md) without
    its list of systems picture = "masking.png"            # optional, like paper and note
    note = "one pass each"             # ours
"""

import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional

from figures import Figures

logger = logging.getLogger("study")
# The systems are in the matrix; the list has the paths of one machine.
SYSTEMS = re.compile(r"^Decoding:\n\n(?:\* .*\n)+\n?", re.MULTILINE)


@dataclass(frozen=True)
class Analysis:
    """An analysis; see the module."""

    entry: str
    title: str
    table: str
    paper: str = ""
    note: str = ""
    picture: str = ""


def read_analyses(raw: Mapping[str, Any], figures: Figures) -> List[Analysis]:
    """The analyses that a parsed matrix lists.

    Raises:
        ValueError: an unknown entry, unknown or missing keys.
    """
    analyses = []
    listed = raw.get("analysis", [])
    if not isinstance(listed, list):
        raise ValueError("[analysis] is one table; give a list of them, each under [[analysis]]")
    for table in listed:
        try:
            analysis = Analysis(**table)
        except TypeError as error:
            raise ValueError(f"[[analysis]] {table.get('title')!r}: {error}") from None
        for key, value in table.items():
            if not isinstance(value, str):
                raise ValueError(f"[[analysis]] {analysis.title!r}: {key} = {value!r} is no text")
        figures.entry(analysis.entry)
        for name in (analysis.table, *filter(None, [analysis.picture])):
            if name in ("", "..") or name != Path(name).name:
                raise ValueError(
                    f"[[analysis]] {analysis.title!r}: {name!r} is no file in the entry's folder"
                )
        analyses.append(analysis)
    return analyses


def analysis_table(analysis: Analysis, figures: Figures) -> Optional[str]:
    """The table of a finished analysis, without what only its own machine knows."""
    text = figures.text(analysis.entry, analysis.table)
    return None if text is None else SYSTEMS.sub("", text).strip()


class Picture(NamedTuple):
    """The picture of an analysis: where it was made, and its name beside the tables."""

    made: Path
    name: str


def picture_of(analysis: Analysis, figures: Figures) -> Optional[Picture]:
    """The picture of a finished analysis, if it has one. A published one keeps the name that its
    entry had then."""
    outcome = figures.outcome(analysis.entry)
    if not analysis.picture or outcome is None:
        return None
    name = f"{outcome.name}-{analysis.picture}"
    if name != Path(name).name:
        raise ValueError(
            f"the published outcome {outcome.identity} has the name {outcome.name!r}, which is none"
            " of an entry"
        )
    if figures.is_published(analysis.entry):
        return Picture(figures.pictures / name, name)
    return Picture(figures.folder(analysis.entry) / analysis.picture, name)


def analyses_text(analyses: List[Analysis], figures: Figures, folder: Path) -> str:
    """The tables of what is finished under their titles, the titles of the rest; copies the
    pictures into ``folder``."""
    parts, missing = [], []
    for analysis in analyses:
        text = analysis_table(analysis, figures)
        if text is None:
            missing.append(f"- {analysis.title}: `{analysis.entry}`")
            continue
        about = [f"Entry `{analysis.entry}`."]
        if analysis.paper:
            about.append(f"The paper: {analysis.paper}.")
        if analysis.note:
            about.append(f"Here: {analysis.note}.")
        parts += [f"### {analysis.title}", " ".join(about), text]
        picture = picture_of(analysis, figures)
        if picture is not None:
            if picture.made.is_file():
                if picture.made != folder / picture.name:
                    shutil.copyfile(picture.made, folder / picture.name)
                parts.append(f"![{analysis.title}]({picture.name})")
            else:
                logger.warning(
                    "there is no picture %s of %r: left out", picture.made, analysis.entry
                )
    if missing:
        parts.append("Not run yet:\n\n" + "\n".join(missing))
    return "\n\n".join(parts) + "\n"
