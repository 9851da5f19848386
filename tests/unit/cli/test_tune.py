"""``fairseq-hrt tune``: results are printed and written, and misuse is refused in one line."""

import json

import pytest
from tuned_systems import StubSystem, prepare

from fairseq_hrt.cli import tune as command


@pytest.fixture
def files(tmp_path, monkeypatch):
    return prepare(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--grid", "lenpen=1"], "lenpen: given in --system and in --grid"),
        ([], "nothing to tune"),
        (["--grid", "beam=1", "--batch-size", "0"], "--batch-size 0"),
        (["--grid", "beam=1", "--references", "missing.txt"], "missing.txt"),
        (["--grid", "beam=1", "--detokenize", "x"], "detokeniser 'x'"),
        (["--grid", "beam=1", "--out", "results"], "missing.pt"),
    ],
)
def test_the_command_refuses_in_one_line(files, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(files)
    with pytest.raises(SystemExit) as stopped:
        command.main(
            [str(files / "data"), "--system", "name=x,path=missing.pt,lenpen=1", *arguments]
        )
    assert stopped.value.code == 2 and named in capsys.readouterr().err.splitlines()[-1]


def test_the_command_writes_its_results(files, capsys):
    arguments = [
        str(files / "data"), "--system", f"name=x,path={files / 'model.pt'}", "--grid",
        "words=3,6", "--out", str(files / "out"),
    ]  # fmt: skip
    command.main(arguments)
    assert "best by BLEU: words=6" in capsys.readouterr().out
    assert json.loads((files / "out/tuned.json").read_text())["best"] == {"words": "6"}
    assert "| 6 | 100.00" in (files / "out/tuned.md").read_text()
    command.main([*arguments, "--print-best", "--metric", "chrf"])
    assert capsys.readouterr().out == "words=6\n" and len(StubSystem.loaded) == 2
