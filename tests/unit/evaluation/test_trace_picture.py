"""Traces as pictures and as a page: what is drawn is what was traced."""

import json
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from fairseq_hrt.evaluation import trace_picture
from fairseq_hrt.evaluation.sentence_trace import (
    FIXED,
    OPEN,
    RIGHT,
    SETTLED,
    STATES,
    WRONG,
    Cell,
    Trace,
)
from fairseq_hrt.evaluation.trace_picture import draw, page

ROWS = [[Cell(FIXED, "a", 0.5), Cell(WRONG, "b", 0.25), Cell(FIXED, "c", 0.75), Cell(OPEN)],
        [Cell(SETTLED, "a"), Cell(FIXED, "d", 0.125), Cell(SETTLED, "c"),
         Cell(RIGHT, "</s>", 0.0)]]  # fmt: skip
TRACE = Trace(
    "costs $\\frac{$", "the </script> source", ["a", "$d$", "c", "</s>"], ROWS, [1, 2, 1, 2]
)


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn."""
    found = []

    class Kept(Figure):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            found.append(self)

    monkeypatch.setattr(trace_picture, "Figure", Kept)
    return found


def test_cells_arcs_and_labels(figures, tmp_path):
    draw(TRACE, [tmp_path / "t.svg"])
    assert (tmp_path / "t.svg").read_text().lstrip().startswith("<?xml")
    above, grid = figures[0].axes
    # Both pairs of one pass are two apart; an arc's width is what it spans.
    assert [(arc.center, arc.width) for arc in above.patches] == [((1.0, 0), 2), ((2.0, 0), 2)]
    assert grid.images[0].get_array().tolist() == [[cell.state for cell in row] for row in ROWS]
    texts = {text.get_position(): text.get_text() for text in grid.texts}
    assert texts == {(0, 0): "0.50", (1, 0): "0.25", (2, 0): "0.75", (1, 1): "0.12", (3, 1): "0.00"}
    assert [label.get_text() for label in grid.get_xticklabels()] == ["a", r"\$d\$", "c", "</s>"]
    assert [label.get_text() for label in grid.get_yticklabels()] == ["1", "2"]
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == list(STATES)


def test_the_legend_explains_what_there_is(figures, tmp_path):
    draw(Trace("x", "s", ["</s>"], [[Cell(FIXED, "</s>", 1.0)]], [1]), [tmp_path / "t.png"])
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == ["fixed now"]
    assert not figures[0].axes[0].patches and (tmp_path / "t.png").read_bytes().startswith(
        b"\x89PNG"
    )


class Page(HTMLParser):
    """Texts of the elements, by their tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.attributes = [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.attributes.setdefault(tag, []).append(dict(attributes))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


def test_the_page_holds_every_trace_and_asks_for_nothing():
    longer = Trace(
        "other",
        "the </script> source",
        ["</s>"],
        [[Cell(OPEN)]] * 4 + [[Cell(FIXED, "</s>", 1.0)]],
        [5],
    )
    text = page([TRACE, longer])
    found = Page(text)
    scripts = [data for tag, data in found.texts if tag == "script"]
    assert len(scripts) == 2 and json.loads(scripts[0]) == [TRACE.to_json(), longer.to_json()]
    # The source is shown as it is, the slider goes through the most passes, and every state is
    # explained.
    assert ("p", "the </script> source") in found.texts and found.attributes["input"][0][
        "max"
    ] == "5"
    assert [(f"word s{number}", name) for number, name in enumerate(STATES)] == [
        (one["class"], data)
        for one, (tag, data) in zip(
            found.attributes["span"], (t for t in found.texts if t[0] == "span")
        )
    ]
    assert (
        not {"link", "img", "iframe"} & set(found.attributes)
        and "src=" not in text
        and "http" not in text
    )
    assert "{{" not in text and "}}" not in text
