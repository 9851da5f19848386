"""``fairseq-hrt trace``: one sentence through several systems, printed and written."""

import json

import pytest

from fairseq_hrt.cli import trace as verb
from fairseq_hrt.evaluation import comparison, sentence_trace, systems, trace_picture
from fairseq_hrt.evaluation.sentence_trace import FIXED, OPEN, SETTLED, Cell, Trace


class Watched:
    """A system of three sentences; a batch tells where it comes from."""

    def __init__(self, spec, data):
        self.name, self.data, self.subset, self.dataset = spec.name, data, "valid", range(3)

    def collate(self, numbers):
        return {"numbers": numbers}

    def collate_text(self, lines):
        return {"lines": lines}


def two_passes(system, sample, source):
    rows = [[Cell(FIXED, "a", 0.5), Cell(OPEN)], [Cell(SETTLED, "a"), Cell(FIXED, "</s>", 1.0)]]
    return Trace(
        system.name, f"{source} {sample} {' '.join(system.data)}", ["a", "</s>"], rows, [1, 2]
    )


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(systems, "load_watched", Watched)
    monkeypatch.setattr(sentence_trace, "trace", two_passes)
    monkeypatch.setattr(comparison, "source_text", lambda system, number: f"sentence {number}")

    def call(*arguments):
        status = 0
        try:
            verb.main(["data", *map(str, arguments)])
        except SystemExit as end:
            status = end.code
        out, error = capsys.readouterr()
        return status, out, error

    return call


AB = ["--system", "name=A,path=a.pt", "--system", "name=</B>,path=b.pt"]


def test_every_system_follows_the_same_sentence(run):
    status, shown, _ = run(*AB, "--sentence", "2", "--gen-subset", "valid")
    legend, first, second = shown.rstrip("\n").split("\n\n")
    assert status == 0 and legend.startswith("· open") and "\x1b" not in shown
    for name, part in (("A", first), ("</B>", second)):
        assert part.splitlines() == [
            f"{name}: 2 tokens in 2 passes",
            "  source  sentence 2 {'numbers': [2]} data --gen-subset valid", "       1  ●a ·",
            "       2  a ●</s>",
        ]  # fmt: skip
    assert "source  a b {'lines': [' a b ']}" in run(*AB, "--text", " a b ")[1]


def test_a_text_is_of_no_subset(run):
    status, shown, error = run(*AB, "--text", "a", "--gen-subset", "valid")
    assert (status, shown) == (2, "") and error == (
        "error: --gen-subset valid: --text is translated instead of a sentence of the data; leave"
        " one of the two out\n"
    )


@pytest.mark.parametrize("number", [3, -1])
def test_there_is_no_such_sentence(run, number):
    status, shown, error = run(*AB, "--sentence", number)
    assert (
        status == 2
        and shown == ""
        and error == f"error: --sentence {number}: valid has the sentences 0 to 2\n"
    )


def test_what_is_written(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        trace_picture,
        "draw",
        lambda found, paths: drawn.append((found.name, [path.name for path in paths])),
    )
    status, _, error = run(*AB, "--out", tmp_path / "new" / "out")
    folder = tmp_path / "new" / "out"
    assert status == 0 and error.endswith(f"written to {folder}\n")
    first, second = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    assert (first["name"], second["name"]) == ("A", "</B>") and first["passes"][0][0][
        "probability"
    ] == 0.5
    assert "<!DOCTYPE html>" in (folder / "trace.html").read_text(encoding="utf-8")
    assert drawn == [
        ("A", ["trace_1_A.png", "trace_1_A.svg"]),
        ("</B>", ["trace_2_B.png", "trace_2_B.svg"]),
    ]


def test_in_colour_where_it_is_wanted(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32m●a\x1b[0m" in run(*AB)[1]
