"""Draws families.svg, the picture of the README: which family writes which word of a sentence in
which step.

python docs/draw_families.py > docs/families.svg
"""

from html import escape

WORDS = ["Ein", "Mann", "im", "blauen", "Hemd", "lächelt", ".", "</s>"]
# For each system the step in which each word is written (0: never), and what is to be said of it.
SYSTEMS = [
    ("Transformer", [1, 2, 3, 4, 5, 6, 7, 8], "one word a step"),
    ("hrt", [5, 1, 5, 2, 5, 3, 5, 4], "every second word, then all between"),
    ("bidirectional", [1, 2, 3, 4, 3, 2, 1, 4], "from both ends at once"),
    ("dag", [1, 1, 1, 1, 1, 1, 1, 1], "a graph of translations, then its best path"),
    ("ctc", [1, 1, 1, 1, 1, 1, 1, 0], "words and blanks at more positions, at once"),
]
# Sequential and distinguishable without colour vision (each is also numbered); letters on them are
# dark or white.
COLOURS = ["#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154"]
LEFT, TOP, WIDTH, HEIGHT, ROW = 150, 56, 74, 30, 54


def text(x: float, y: float, content: str, size: int = 15, **attributes: str) -> str:
    """A line of text; attributes with dashes are given with underscores."""
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{more}>{escape(content)}</text>'


def picture() -> str:
    """The drawing as SVG."""
    width, height = LEFT + WIDTH * len(WORDS) + 100, TOP + ROW * len(SYSTEMS) + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="system-ui, sans-serif" role="img"'
            ' aria-labelledby="title">'
        ),
        (
            '<title id="title">In which step each word of a sentence is written: 8 steps word by'
            " word, 5 with hrt, 4 from both ends, 1 with a graph or with blanks</title>"
        ),
        f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>',
        text(
            LEFT, 30, "The step in which each word is written", fill="#1b1f24", font_weight="bold"
        ),
        text(width - 90, 30, "steps", fill="#1b1f24", font_weight="bold"),
    ]
    for row, (name, steps, remark) in enumerate(SYSTEMS):
        y = TOP + ROW * row
        parts.append(text(14, y + 20, name, fill="#1b1f24", font_weight="bold"))
        for place, (word, step) in enumerate(zip(WORDS, steps)):
            if not step:
                continue
            x, dark = LEFT + WIDTH * place, step > 3
            parts.append(
                f'<rect x="{x}" y="{y}" width="{WIDTH - 5}" height="{HEIGHT}" rx="5"'
                f' fill="{COLOURS[step - 1]}"/>'
            )
            letters = {"fill": "#ffffff" if dark else "#10131a", "text_anchor": "middle"}
            parts.append(text(x + (WIDTH - 5) / 2 - 5, y + 20, word, 14, **letters))
            parts.append(text(x + WIDTH - 14, y + 13, str(step), 10, **letters))
        parts.append(text(LEFT, y + 45, remark, 12, fill="#57606a"))
        parts.append(
            text(width - 78, y + 21, str(max(steps)), 18, fill="#1b1f24", font_weight="bold")
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    print(picture(), end="")
