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


def layers() -> str:
    families, warm, plain = "#e8f6ec", "#fdf6dd", "#eef4fb"
    parts = [
        text(
            18,
            30,
            "Packages and their imports: an arrow points to what is imported",
            fill=INK,
            font_weight="bold",
        )
    ]
    parts += box(170, 50, 360, "cli", ["verbs of fairseq-hrt: parse, call, print"], plain)
    parts += box(
        170, 124, 360, "evaluation", ["quality, speed, tables, pictures, traces, tuning"], plain
    )
    parts += box(
        170,
        198,
        360,
        "systems",
        ["fairseq's decoders, the runtime, CTranslate2: one interface"],
        plain,
    )
    parts += box(170, 272, 202, "bundles", ["format, translator, export"], plain)
    parts += box(390, 272, 140, "text", ["raw text ↔ subwords"], plain)
    parts.append(arrow((372, 294), (388, 294)))
    parts += box(18, 198, 126, "server", ["HTTP, the page"], plain)
    parts += [arrow((170, 82), (81, 82), (81, 196)), arrow((110, 243), (168, 286))]
    for place, name in enumerate(["autoregressive", "hrt", "bidirectional", "dag", "jacobi"]):
        parts += box(18 + 134 * place, 366, 126, name, [], families, 34)
    parts += box(170, 434, 360, "task.py, decoding_task.py", ["base of the families' tasks"], plain)
    parts += box(
        358, 508, 172, "training", ["two targets, losses,", "presets, random draws"], plain
    )
    parts += box(170, 508, 172, "engine", ["PyTorch: cached steps", "and searches"], plain)
    parts += box(170, 599, 172, "runtime", ["native engine in C,", "NumPy only"], warm)
    parts += box(358, 599, 172, "ops", ["dynamic programs,", "PyTorch only"], plain)
    parts += box(170, 690, 172, "decoding", ["hypotheses, rescoring;", "options, families"], plain)
    parts += box(18, 508, 126, "loading", ["checkpoints of", "unknown origin"], plain)
    parts += box(18, 599, 126, "compat", ["fairseq 0.12.2 on", "today's Python"], warm)
    for y0, y1 in ((95, 122), (169, 196), (243, 270)):
        parts.append(arrow((350, y0), (350, y1)))
    parts += [
        arrow((350, 317), (350, 364), dashed=True),
        text(360, 346, "through fairseq's registries", 12, fill=SOFT),
    ]
    parts += [arrow((81 + 134 * place, 400), (270 + 40 * place, 432)) for place in range(5)]
    parts += [
        arrow((256, 479), (256, 506)),
        arrow((444, 479), (444, 506)),
        arrow((256, 570), (256, 597)),
        arrow((444, 570), (444, 597)),
        arrow((256, 661), (256, 688)),
        arrow((168, 540), (146, 540)),
        arrow((81, 570), (81, 597)),
    ]
    title = (
        "Layers: cli, evaluation and server, systems, bundles, text, families, their task, engine,"
        " training, loading, ops, runtime, "
    )
    return page(734, 768, title + "decoding, compat", parts)


PICTURES: Dict[str, Callable[[], str]] = {"dag": dag, "jacobi": jacobi, "layers": layers}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw(), encoding="utf-8")
