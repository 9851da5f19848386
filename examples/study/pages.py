"""Fills the pages of results: tables from the published figures, and the picture.

    python examples/study/pages.py

A page is written by hand but for what stands between two markers, each on a line of its own:

    <!-- NAME:begin -->
    <!-- NAME:end -->

NAME is a table of ``tables.toml``, ``claims``, ``quality-claims`` or ``speed-claims`` (those that
claims.toml calls main), ``count-of-claims``, a table of gpu.py, or
``ENTRY/FILE.md``, the table that an analysis wrote. A table has ``columns`` and either ``rows``,
whose cells are text with places of figures (see figures.py) in braces, two of them with ``÷`` for
their quotient and with ``−`` for their difference, or ``systems``: label, place of the system and,
where it is compared, the label of the other one. Its ``quality`` gives labels other places, of
their BLEU and chrF.

Sentences that depend on figures are a table with ``lines``. Each is a list of alternatives, of
which the first counts whose condition ``when`` holds and whose figures were measured; where there
is none, the line is left out. ``values`` names places. ``from`` takes a text of gpu.py.
"""

import argparse
import os
import re
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import gpu
from figures import ENDS, HERE, Figure, Figures, evaluate

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

REPOSITORY = HERE.parents[1]
RESULTS = "RESULTS.md"
PAGES = (
    REPOSITORY / RESULTS,
    HERE / RESULTS,
    HERE / "more_text.md",
    HERE / "claims.md",
    REPOSITORY / "README.md",
    REPOSITORY / "docs" / "choosing.md",
    REPOSITORY / "docs" / "guides" / "decoding.md",
    REPOSITORY / "docs" / "guides" / "engines.md",
    REPOSITORY / "docs" / "guides" / "gpu_speed.md",
    REPOSITORY / "docs" / "guides" / "papers_size.md",
    REPOSITORY / "examples" / "serve" / "README.md",
)
MARKER = re.compile(r"<!-- ([\w./-]+):(begin|end) -->")
PLACE = re.compile(r"\{([^{}]+?)(?::([+,]?\.?\d*[fd]?))?\}")
# Header and format of what a benchmark measured.
QUANTITIES = {
    "bleu": ("BLEU", ".1f"), "chrf": ("chrF", ".1f"), "length_ratio": ("length ratio", ".3f"),
    "identical": ("identical", ",d"), "ms": ("ms, batch size", ".2f"),
    "sentences": ("sentences/s, batch size", ".0f"), "calls": ("decoder calls, batch size", ".1f"),
    "times": ("× CTranslate2, batch size", ".2f"), "seed": ("seed", ".1f"),
    "mean": ("mean", ".1f"),
}  # fmt: skip


def read_toml(path: Path) -> Dict[str, Any]:
    """A TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    right = [
        all(re.match(r"[\d+−–]|$", row[column]) for row in rows) for column in range(len(header))
    ]
    lines = [list(header), ["---:" if own else "---" for own in right], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def without_range(value: Figure) -> Figure:
    """A figure as pages show it: a range in brackets stays with the data."""
    return value.partition(" (")[0] if isinstance(value, str) else value


def filled(text: str, figures: Figures, names: Optional[Mapping[str, str]] = None) -> str:
    """A text with figures for their places, which may have names."""

    def shown(match: re.Match) -> str:
        place, *other = ((names or {}).get(own, own) for own in re.split(" [÷−] ", match[1]))
        if " − " in match[1]:
            return difference(place, other[0], figures)
        value = without_range(figures.value(place))
        if other:
            value = float(value) / float(without_range(figures.value(other[0])))
        return value if isinstance(value, str) else format(value, match[2] or "")

    return PLACE.sub(shown, text)


def cell(text: str, figures: Figures) -> str:
    """A cell with its figures, a dash where a GPU's run has none."""
    try:
        return filled(text, figures)
    except gpu.NotMeasured:
        return gpu.DASH


def quality_places(table: Mapping[str, Any]) -> Dict[str, str]:
    """The place of each system's quality, by its label.

    Raises:
        ValueError: two systems have one label, or ``quality`` names a label that none has.
    """
    places = {label: place for label, place, *_ in table["systems"]}
    others = table.get("quality", {})
    if len(places) < len(table["systems"]):
        raise ValueError(
            "two systems of a table have one label:"
            f" {', '.join(label for label, *_ in table['systems'])}"
        )
    if not set(others) <= set(places):
        raise ValueError(f"quality names {sorted(set(others) - set(places))}, of {list(places)}")
    return {**places, **others}


def system_table(table: Mapping[str, Any], figures: Figures) -> str:
    """A table of systems; see the module. ``difference`` is that of BLEU to the other system, ``p``
    its paired bootstrap where one was made."""
    judged = quality_places(table)
    header, rows = ["System"], [[label] for label in judged]
    for column in table["columns"]:
        quantity, _, size = column.partition("@")
        title, shape = QUANTITIES.get(quantity, (quantity, ""))
        header.append(f"{title} {size}".strip())
        for row, (_, place, *against) in zip(rows, table["systems"]):
            own, other = judged[row[0]], judged[against[0]] if against else ""
            if quantity == "difference":
                row.append(difference(f"{own}/bleu", f"{other}/bleu", figures) if other else "")
            elif quantity == "p":
                row.append(significance(own, other, figures) if other else "")
            else:
                where = own if quantity in ("bleu", "chrf") else place
                row.append(measured(figures, where, column, shape))
    return markdown(header, rows)


def measured(figures: Figures, place: str, column: str, shape: str) -> str:
    """A figure of a system, or a dash where its speed was not measured. Of a system with several
    seeds, ``seed@2`` is the BLEU of the second and ``mean`` that of all."""
    quantity, _, size = column.partition("@")
    if quantity == "seed":
        place = place.replace("*", ENDS[int(size) - 1])
    if quantity in ("seed", "mean"):
        quantity, size, column = "bleu", "", "bleu"
    if size and figures.system(place)["speeds"].get(size, {}).get(quantity) is None:
        return "–"
    return format(figures.value(f"{place}/{column}"), shape)


def difference(place: str, other: str, figures: Figures) -> str:
    """The figure of ``place`` less that of ``other``, with its sign."""
    found = float(figures.value(place)) - float(figures.value(other))
    # No negative zero.
    return f"{round(found, 1) + 0.0:+.1f}".replace("-", "−")


def significance(place: str, other: str, figures: Figures) -> str:
    """p of two systems that were compared on one machine; nothing otherwise."""
    (name, _, system), (base, _, other_system) = place.partition("/"), other.partition("/")
    pair = f"{system} against {figures.outcome(base)['identity']}/{other_system}"
    p = figures.outcome(name).get("p", {}).get(pair)
    return "" if p is None else f"{p:.3f}"


def alternative(
    line: Sequence[Mapping[str, str]], names: Mapping[str, str], figures: Figures
) -> str:
    """The first of several sentences that holds, nothing where none does."""
    for own in line:
        used = re.findall(r"[a-z]\w*", own.get("when", ""))
        try:
            values = {name: figures.value(names[name]) for name in used if name in names}
            if "when" in own and not evaluate(own["when"], values):
                continue
            if "from" in own:
                return own.get("text", "") + gpu.TEXTS[own["from"]](figures.gpu)
            return filled(own["text"], figures, names)
        except gpu.NotMeasured:
            continue
    return ""


def lines_text(table: Mapping[str, Any], figures: Figures) -> str:
    """Items of a list, or a paragraph, wrapped."""
    found = [alternative(line, table.get("values", {}), figures) for line in table["lines"]]
    blocks: List[str] = []
    for text in filter(None, found):
        if text.startswith("- ") or not blocks or blocks[-1].startswith("- "):
            blocks.append(text)
        else:
            blocks[-1] += f" {text}"
    return "\n".join(
        textwrap.fill(
            text, 100, subsequent_indent="  " if text.startswith("- ") else "",
            break_long_words=False, break_on_hyphens=False,
        )
        for text in blocks
    )  # fmt: skip


def judged(claim: Mapping[str, Any], figures: Figures) -> Tuple[str, str]:
    """The verdict of a claim, and what was found."""
    try:
        values = {name: figures.value(place) for name, place in claim.get("values", {}).items()}
    except gpu.NotMeasured:
        return "not run yet", claim.get("missing", "Not measured.")
    return verdict(claim, values), claim["found"].format(**values)


def verdict(claim: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Whether a claim was reproduced: yes, partly, no, or not run yet."""
    if "verdict" in claim:
        return str(claim["verdict"])
    for word in ("yes", "partly"):
        if word in claim and evaluate(claim[word], values):
            return word
    return "no"


def claims_table(claims: Sequence[Mapping[str, Any]], figures: Figures, main: Optional[str]) -> str:
    """A row for each of the main claims about ``quality`` or ``speed``, for the repository's page
    of results, or of those that are not main, for the study's page of claims."""
    rows: List[List[str]] = []
    for claim in claims:
        if claim.get("main") != main:
            continue
        word, found = judged(claim, figures)
        link = claim["see"]
        # Anchors are those of the study's page of results.
        link = f"{RESULTS}{link}" if link.startswith("#") else link
        if main is None:
            found = found.replace("(#students-from-more-text)", "(more_text.md)")
        else:
            link = os.path.normpath(f"examples/study/{link}")
        own = (claim["says"], claim["place"], claim.get("theirs", ""))
        rows.append([*own, f"[{word}]({link})", found])
    about = f"Claim about {main}" if main else "Claim"
    return markdown([about, "from", "the paper has", "holds here", "what we found"], rows)


def count_of_claims(claims: Sequence[Mapping[str, Any]], figures: Figures) -> str:
    """How many claims were reproduced."""
    counts = dict.fromkeys(("yes", "partly", "no", "not run yet"), 0)
    for claim in claims:
        counts[judged(claim, figures)[0]] += 1
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"All {len(claims)} claims: {said}."


def table_text(name: str, tables: Mapping[str, Any], figures: Figures) -> str:
    """The text for a marker.

    Raises:
        ValueError: there is no table of this name, or a figure of it is missing.
    """
    kind, _, about = name.rpartition("-")
    if about == "claims":
        claims = read_toml(HERE / "claims.toml")["claim"]
        if kind == "count-of":
            return count_of_claims(claims, figures)
        return claims_table(claims, figures, kind or None)
    if name in gpu.TABLES:
        return markdown(*gpu.TABLES[name](figures.gpu))
    if name in tables:
        table = tables[name]
        if "lines" in table:
            return lines_text(table, figures)
        if "systems" in table:
            return system_table(table, figures)
        return markdown(
            table["columns"], [[cell(own, figures) for own in row] for row in table["rows"]]
        )
    entry, _, file = name.partition("/")
    text = figures.outcome(entry).get("texts", {}).get(file)
    if text is None:
        raise ValueError(f"tables.toml has no table {name!r}, and no analysis published it")
    return text.strip()


def page_text(text: str, figures: Figures) -> str:
    """A page with tables between its markers.

    Raises:
        ValueError: markers are not in pairs; see also :func:`table_text`.
    """
    tables = read_toml(HERE / "tables.toml")
    lines: List[str] = []
    name = ""
    for line in text.split("\n"):
        match = MARKER.fullmatch(line)
        if match and ((match[2] == "begin") == bool(name) or name not in ("", match[1])):
            raise ValueError(f"{line}: markers come in pairs, begin and end, of one name")
        if match and not name:
            name = match[1]
            lines += [line, table_text(name, tables, figures)]
        elif match:
            name = ""
        if not name:
            lines.append(line)
    if name:
        raise ValueError(f"<!-- {name}:begin --> has no end")
    return "\n".join(lines)


def draw(path: Path, name: str, figures: Figures) -> None:
    """BLEU against speed, of the systems of the table ``name``; a line joins those that no other
    beats in both."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.transforms import Bbox

    # Text as text: small, and searched and read aloud.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "study", "font.size": 9})
    drawing, axes = pyplot.subplots(figsize=(7, 4.2))
    table = read_toml(HERE / "tables.toml")[name]
    judged = quality_places(table)
    points = []
    for label, place, *_ in table["systems"]:
        speed, bleu = f"{place}/sentences@1", f"{judged[label]}/bleu"
        points.append((float(figures.value(speed)), float(figures.value(bleu)), label))
    beaten = [own for own in points if any(one[0] > own[0] and one[1] > own[1] for one in points)]
    best = sorted(set(points) - set(beaten))
    axes.plot([own[0] for own in best], [own[1] for own in best], color="0.75", zorder=0)
    limit = 1.07 * max(own[0] for own in points)
    axes.set(xlabel="sentences per second, batch size 1", ylabel="BLEU", xlim=(0, limit))
    axes.margins(y=0.1)
    for speed, bleu, label in points:
        form, colour = ("s", "C1") if label.startswith("CTranslate2") else ("o", "C0")
        axes.plot(speed, bleu, form, color=colour)
    axes.spines[["top", "right"]].set_visible(False)
    # Before the places of labels are known.
    axes.autoscale_view()
    drawing.tight_layout()
    # Points, and the line in steps of the length of a word.
    covered = [own[:2] for own in points] + [
        (one[0] + part * (other[0] - one[0]), one[1] + part * (other[1] - one[1]))
        for one, other in zip(best, best[1:])
        for part in (0.2, 0.4, 0.6, 0.8)
    ]
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in axes.transData.transform(covered)]
    for speed, bleu, label in points:
        # Where it covers least of what is there, and all of it can be seen.
        found = []
        for place, side in product((4, -11), ("left", "right")):
            shift = (6 if side == "left" else -6, place)
            text = axes.annotate(label, (speed, bleu), shift, textcoords="offset points", ha=side)
            box = text.get_window_extent()
            outside = box.x0 < axes.bbox.x0 or box.x1 > drawing.bbox.x1
            found.append((outside, sum(box.overlaps(other) for other in taken), text, box))
        *_, box = best_place = min(found, key=lambda own: own[:2])
        taken.append(box)
        for own in found:
            if own is not best_place:
                own[2].remove()
    drawing.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)


def draw_gpu(path: Path, run: gpu.GpuRun) -> None:
    """Milliseconds a sentence on a GPU: a line for each system, a colour for each batch size, with
    CUDA graphs and without them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "study", "font.size": 9})
    systems = [(label, name) for label, name in gpu.SYSTEMS if run.best(name, 1)[0] is not None]
    drawing, axes = pyplot.subplots(figsize=(7, 1.6 + 0.24 * len(systems)), layout="constrained")
    colours = dict(zip(gpu.DRAWN, ("C0", "C1", "C2")))
    for place, (_, name) in enumerate(systems):
        for batch, colour in colours.items():
            for way in (gpu.CAPTURED, gpu.EAGER, gpu.STOCK):
                try:
                    row = run.row("decoding", name, way=way, batch=batch, **run.size(name))
                except gpu.NotMeasured:
                    continue
                hollow = {} if way == gpu.CAPTURED else {"markerfacecolor": "white"}
                mark = "s" if way == gpu.STOCK else "o"
                axes.plot(row["ms_a_sentence"], place, mark, color=colour, **hollow)
    axes.set_yticks(range(len(systems)), [label for label, _ in systems])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="milliseconds a sentence")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    marks = {"with CUDA graphs": ("o", "0.4"), "without them": ("o", "white"),
             "other programs": ("s", "white")}  # fmt: skip
    legend = [(f"batch size {batch}", colour, "o", colour) for batch, colour in colours.items()]
    legend += [(label, "0.4", mark, inside) for label, (mark, inside) in marks.items()]
    entries = [
        Line2D([], [], color=colour, marker=mark, markerfacecolor=inside, linestyle="", label=label)
        for label, colour, mark, inside in legend
    ]
    drawing.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False)
    drawing.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)


def main(arguments: Sequence[str] = ()) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    figures = Figures()
    try:
        pages = {page: page_text(page.read_text(encoding="utf-8"), figures) for page in PAGES}
    except ValueError as error:
        parser.error(str(error))
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    draw(HERE / "quality_speed.svg", "quality", figures)
    draw(HERE / "plenty_speed.svg", "plenty-speed", figures)
    draw_gpu(HERE / "gpu_speed.svg", figures.gpu)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
