"""COMET's own command is called as it wants to be, and whatever goes wrong is said."""

import stat
import sys

import pytest
from invented_results import make_comparison

from fairseq_hrt.evaluation import comet
from fairseq_hrt.evaluation.comet import check_comet, comet_scores

# Prints what `comet-score --only_system` prints, and keeps what it was given.
PROGRAM = """#!{python}
import json, sys
arguments = sys.argv[1:]
start = arguments.index("--translations") + 1
stop = next(n for n in range(start, len(arguments)) if arguments[n].startswith("--"))
files = arguments[start:stop]
json.dump([arguments, [open(file, encoding="utf-8").read() for file in files]], open({log!r}, "w"))
{body}
"""


def make_program(folder, body):
    path = folder / "comet-score"
    path.write_text(PROGRAM.format(python=sys.executable, log=str(folder / "log.json"), body=body))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def scores(program, model, **translations):
    return comet_scores(["Quelle", "zwei"], ["source", "two"], translations, model, program)


def test_scores_go_to_their_systems(tmp_path):
    body = 'for n, file in enumerate(files): print(f"{file}\\tscore: {[0.8125, -0.25][n]:.4f}")'
    model = tmp_path / "model.ckpt"
    model.touch()
    program = make_program(tmp_path, body)
    check_comet(model, program)
    assert scores(program, model, AT=["a", "b\u2028c"], DAG=["d\ne", ""]) == {
        "AT": 0.8125,
        "DAG": -0.25,
    }
    import json

    arguments, texts = json.loads((tmp_path / "log.json").read_text())
    assert arguments[arguments.index("--model") + 1] == str(model)
    assert texts == ["a\nb\u2028c\n", "d e\n\n"]


@pytest.mark.parametrize(
    "body, message",
    [
        (
            'print("downloading"); sys.exit("no network")',
            "exit status 1; the last line of its output: no network",
        ),
        ('print("hello")', "instead of 2 systems"),
        ('print(f"{files[0]}\\tscore: 0.5")', "instead of 2 systems"),
    ],
)
def test_failures_are_said(tmp_path, body, message):
    with pytest.raises(ValueError, match=message):
        scores(make_program(tmp_path, body), tmp_path / "model.ckpt", AT=["a", "b"], DAG=["c", "d"])


def test_what_is_missing_is_said_before(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        check_comet(tmp_path / "none.ckpt", sys.executable)
    (tmp_path / "model.ckpt").touch()
    with pytest.raises(ValueError, match="no-such-program: no such program"):
        check_comet(tmp_path / "model.ckpt", "no-such-program")


def test_comet_is_written_or_why_not(monkeypatch, tmp_path):
    model = tmp_path / "model.ckpt"
    found, asked = make_comparison(), []
    monkeypatch.setattr(
        comet,
        "comet_scores",
        lambda *given: asked.append(given) or {"AT greedy": 0.5, "HRT k=2 (1,1)": 0.75},
    )
    comet.add_comet(found, ["s", "t"], ["r", "u"], model, "comet-score")
    assert [result.comet for result in found.results] == [
        0.5,
        0.75,
    ] and found.comet == "`model.ckpt`"
    translations = {"AT greedy": ["Ja.", "Nein."], "HRT k=2 (1,1)": ["Ja.", "Nein."]}
    assert asked == [(["s", "t"], ["r", "u"], translations, model, "comet-score")]

    def fail(*given):
        raise ValueError("no memory")

    monkeypatch.setattr(comet, "comet_scores", fail)
    found = make_comparison()
    comet.add_comet(found, [], [], model, "comet-score")
    assert found.comet == "not run (no memory)" and [result.comet for result in found.results] == [
        None,
        None,
    ]
