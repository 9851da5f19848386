"""Draws the pictures of the family pages and of ARCHITECTURE.md into this folder.

python docs/draw_methods.py
"""

from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from draw_families import COLOURS, WORDS, text

INK, SOFT, LINE, PAPER = "#1b1f24", "#57606a", "#8c959f", "#ffffff"
GREY, GREEN, BLUE, RED = "#e6e9ed", "#4ac16d", "#365c8d", "#c4473a"
CELL, HEIGHT = 74, 30


def page(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A drawing with its title (for readers who do not see it) and a heading of arrows."""
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse"'
        ' markerWidth="11" markerHeight="11" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"'
        f' fill="{SOFT}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="system-ui, sans-serif" role="img"'
        f' aria-labelledby="title">\n<title id="title">{title}</title>'
    )
    return "\n".join(
        [
            head,
            marker,
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def cell(
    x: float,
    y: float,
    word: str,
    fill: str,
    number: str = "",
    *,
    border: str = "none",
    width: int = CELL - 5,
) -> List[str]:
    """A word in its place; its step, if given, stands in the corner. Letters are white on dark
    colours."""
    light = "#ffffff" if fill in (*COLOURS[3:], BLUE) else "#10131a"
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{HEIGHT}" rx="5" fill="{fill}"'
        f' stroke="{border}" stroke-width="2"/>'
    ]
    middle = x + width / 2 - (5 if number else 0)
    parts.append(text(middle, y + 20, word, 14, fill=light, text_anchor="middle"))
    return parts + (
        [text(x + width - 9, y + 13, number, 10, fill=light, text_anchor="middle")]
        if number
        else []
    )


def arrow(*points: Tuple[float, float], colour: str = SOFT, dashed: bool = False) -> str:
    """A line through the points with a head at its end."""
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"'
        f' marker-end="url(#arrow)"{dash}/>'
    )


def rows_of_steps(
    title: str,
    heading: str,
    rows: Sequence[Tuple[str, Sequence[Tuple[str, str, str]]]],
    legend: Sequence[Tuple[str, str]],
) -> str:
    """One row a step: its name and, for each place of the sentence, word, colour and number (colour
    "" leaves the place empty)."""
    left, top, pitch = 110, 52, 40
    width, height = left + CELL * len(WORDS) + 16, top + pitch * len(rows) + 34
    parts = [text(14, 30, heading, fill=INK, font_weight="bold")]
    for number, (name, cells) in enumerate(rows):
        y = top + pitch * number
        parts.append(text(14, y + 20, name, 14, fill=INK))
        for place, (word, colour, step) in enumerate(cells):
            border = RED if colour == PAPER else "none"
            parts += (
                cell(left + CELL * place, y, word, colour, step, border=border)
                if colour
                else [
                    f'<circle cx="{left + CELL * place + 34}" cy="{y + 15}" r="2.5" fill="{LINE}"/>'
                ]
            )
    x = left
    for colour, meaning in legend:
        border = RED if colour == PAPER else "none"
        parts.append(
            f'<rect x="{x}" y="{height - 25}" width="14" height="14" rx="3" fill="{colour}"'
            f' stroke="{border}" stroke-width="2"/>'
        )
        parts.append(text(x + 20, height - 13, meaning, 12, fill=SOFT))
        x += 40 + round(6.3 * len(meaning))
    return page(width, height, title, parts)


def jacobi() -> str:
    proved = [
        (0, 1, ["Ein", "."]),
        (1, 3, ["im"]),
        (3, 4, ["Mann", "."]),
        (4, 6, ["</s>"]),
        (6, 8, []),
    ]
    rows = []
    for number, (start, end, refused) in enumerate(proved, start=1):
        cells = [(word, GREY, "") for word in WORDS[:start]] + [
            (word, GREEN, "") for word in WORDS[start:end]
        ]
        cells += [(word, PAPER, "") for word in refused]
        rows.append((f"pass {number}", cells + [("", "", "")] * (len(WORDS) - len(cells))))
    return rows_of_steps(
        "Jacobi decoding with a window of three: each pass proves at least one word, often several; refused guesses are tried again",
        "Jacobi, window of 3: a pass checks guesses of the next words all at once",
        rows,
        [(GREY, "proved before"), (GREEN, "proved in this pass"),
         (PAPER, "answer to a wrong guess: the next guess")],
    )  # fmt: skip


def dag() -> str:
    words = ["<s>", "Ein", "Mann", "lächelnder", "Mann", "lächelt", ".", "</s>"]
    links = [
        (0, 1, 1.0),
        (1, 2, 0.6),
        (1, 3, 0.4),
        (3, 4, 1.0),
        (2, 5, 1.0),
        (4, 6, 1.0),
        (5, 6, 1.0),
        (6, 7, 1.0),
    ]
    best = {(0, 1), (1, 2), (2, 5), (5, 6), (6, 7)}
    left, pitch, y = 18, 96, 128
    parts = [
        text(
            left,
            30,
            "DAG: one pass writes a graph; each path through it is a translation",
            fill=INK,
            font_weight="bold",
        )
    ]
    for tail, head, weight in links:
        x0, x1 = left + pitch * tail + 41, left + pitch * head + 41
        chosen = (tail, head) in best
        colour, rise = (GREEN if chosen else LINE), 22 + 24 * (head - tail)
        base, peak = (y, y - rise) if chosen else (y + HEIGHT, y + HEIGHT + rise)
        parts.append(
            f'<path d="M{x0 + 10:g} {base} Q{(x0 + x1) / 2:g} {peak} {x1 - 10:g} {base}"'
            f' fill="none" stroke="{colour}" stroke-width="{1 + 3 * weight:g}"'
            ' marker-end="url(#arrow)"/>'
        )
        if weight < 1.0:
            parts.append(
                text(
                    (x0 + x1) / 2,
                    (base + peak) / 2 + (-3 if chosen else 13),
                    f"{weight:g}",
                    12,
                    fill=SOFT,
                    text_anchor="middle",
                )
            )
    for place, word in enumerate(words):
        chosen = any(place in link for link in best)
        parts += cell(left + pitch * place, y, word, GREEN if chosen else GREY, width=82)
    parts.append(
        text(
            left,
            236,
            "green: the best path, “Ein Mann lächelt .”; below: “Ein lächelnder Mann .”. Numbers:"
            " probabilities of links.",
            12,
            fill=SOFT,
        )
    )
    return page(
        left * 2 + pitch * 7 + 82,
        250,
        "A graph of eight vertices with two translations, and the best path through it",
        parts,
    )


def box(
    x: float,
    y: float,
    width: int,
    name: str,
    lines: Sequence[str],
    fill: str = "#eef4fb",
    height: int = 0,
) -> List[str]:
    """A package or a stage: its name and what it is."""
    height = height or 28 + 17 * len(lines)
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{height}" rx="7" fill="{fill}"'
        f' stroke="{LINE}"/>'
    ]
    parts.append(
        text(x + width / 2, y + 20, name, 14, fill=INK, font_weight="bold", text_anchor="middle")
    )
    return parts + [
        text(x + width / 2, y + 38 + 17 * i, line, 12, fill=SOFT, text_anchor="middle")
        for i, line in enumerate(lines)
    ]


# Rows of both groups of packages: (name, what it is), from the top down.
UPPER = [
    [("cli", "the verbs of fairseq-hrt")],
    [("evaluation", "quality, speed, traces"), ("export", "checkpoints to bundles")],
    [(name, "") for name in ("autoregressive", "hrt", "bidirectional", "dag", "jacobi", "ctc")],
    [("task.py, decoding_task.py", "the base of the families' tasks")],
    [("engine", "cached steps, searches"), ("training", "targets, losses, presets")],
    [("loading", "checkpoints"), ("ops", "dynamic programs"), ("compat", "fairseq repaired")],
]
LOWER = [
    [("server", "HTTP and a page"), ("conversion", "other toolkits' models")],
    [("bundles", "the format, the translator")],
    [("runtime", "the engine in C"), ("text", "raw text to subwords and back")],
    [("decoding", "hypotheses"), ("options, families", "one table each"), ("io", "files")],
]


def group(
    top: float, heading: str, rows: Sequence[Sequence[Tuple[str, str]]], fill: str
) -> Tuple[float, List[str]]:
    """The lower edge of a group, and its parts: a frame around rows of boxes."""
    left, width, gap = 18, 698, 10
    y, parts = top + 36, []
    for row in rows:
        explained, space = any(what for _, what in row), width - gap * (len(row) + 1)
        height = 48 if explained else 34
        # Names alone are as wide as they are long.
        shares = [1 if explained else len(name) + 4 for name, _ in row]
        x = left + gap
        for (name, what), share in zip(row, shares):
            own = space * share // sum(shares)
            lines = [what] if what else []
            parts += box(x, y, own, name, lines, fill if what else "#e8f6ec", height)
            x += own + gap
        y += height + gap
    frame = (
        f'<rect x="{left}" y="{top:g}" width="{width}" height="{y - top:g}" rx="9" fill="none"'
        f' stroke="{LINE}" stroke-width="1.5"/>'
    )
    label = text(left + 12, top + 24, heading, 14, fill=INK, font_weight="bold")
    return y, [frame, label, *parts]


def layers() -> str:
    bottom, parts = group(14, "The plugin: PyTorch and fairseq", UPPER, "#eef4fb")
    top = bottom + 58
    end, lower = group(
        top, "native/: translates without them, and imports nothing above", LOWER, "#fdf6dd"
    )
    parts += [
        *lower,
        arrow((250, bottom), (250, top)),
        text(262, bottom + 34, "imports", 12, fill=SOFT),
        arrow((480, top), (480, bottom), dashed=True),
        text(492, bottom + 34, "plugin.py asks by name", 12, fill=SOFT),
    ]
    title = "The packages in layers; each imports only those below it"
    return page(734, int(end) + 14, title, parts)


PICTURES: Dict[str, Callable[[], str]] = {"dag": dag, "jacobi": jacobi, "layers": layers}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw(), encoding="utf-8")
