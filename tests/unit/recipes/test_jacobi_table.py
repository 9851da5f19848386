"""examples/jacobi: the table of decoding algorithms, with tiny models of random weights."""

import json
import re
import shlex
from pathlib import Path

import pytest
from imported_models import hugging_face_folder, sentencepiece_model

from fairseq_hrt.native.conversion import Wishes, import_model

__all__ = ["hugging_face_folder", "sentencepiece_model"]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LINES = ["a man in red shirt", "", "two dogs play with ball on green grass near water"]


@pytest.fixture
def table(load_example):
    return load_example("jacobi/table.py")


@pytest.fixture
def texts(tmp_path):
    for name in ("source", "reference"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES))
    return [str(tmp_path / "source"), str(tmp_path / "reference")]


def test_models_of_two_kinds_in_both_engines(table, hugging_face_folder, texts, tmp_path, capsys):
    """A folder that is imported first, and a bundle without a model for the native engine."""
    bundle = tmp_path / "bundle"
    import_model(hugging_face_folder("marian").path, bundle)
    mbart = str(hugging_face_folder("mbart").path)
    tests = [["Opus", str(bundle), *texts], ["MBart50", mbart, *texts, "en", "fr"]]
    words = ["--out", str(tmp_path / "out"), "--speed-lines", "2", "--repeats", "1"]
    words += ["--set", "max_len_a=0", "--set", "max_len_b=6", "--set", "jacobi_known_length=true"]
    table.main([*words, *(word for test in tests for word in ("--test", *test))])
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "out/table.md").read_text() and "`nrefs:1" in shown
    lines = shown.splitlines()
    assert lines[0] == "| model, engine | algorithm | en-de | en-fr |"
    names = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in lines[2:-5]]
    ours = ["Greedy autoregressive", "Beam search (5)", "Frontier (ours)"]
    groups = {
        "Opus, PyTorch": table.ALGORITHMS,
        "MBart50, PyTorch": table.ALGORITHMS,
        "MBart50, native": ours,
    }
    assert names == [(group, name) for group, own in groups.items() for name in own]
    assert lines[-3:] == [
        "With `--set max_len_a=0`.",
        "With `--set max_len_b=6`.",
        "With `--set jacobi_known_length=true`: PJ, PGJ (b=5), PGJ (b=3) alone.",
    ]
    assert lines[2].count("–") == 1 and lines[2].count(" / 1.00× / 1.00×") == 1
    found = json.loads((tmp_path / "out/table.json").read_text())
    assert found["command"].startswith("python examples/jacobi/table.py --out") and found["machine"]
    for row in found["rows"]:
        # Greedy search, whoever guesses: one pass a word at most.
        if row["algorithm"] != "Beam search (5)":
            assert row["as_greedy"] == row["sentences"] == 3 and row["step_ratio"] >= 1
        assert row["steps"] > 0 and row["milliseconds"] > 0
    passes = {(row["engine"], row["algorithm"]): row["steps"] for row in found["rows"][7:]}
    for algorithm in ours[:2]:
        assert passes["torch", algorithm] == passes["native", algorithm]


def refused(table, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        table.main([str(word) for word in words])
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_what_is_refused(table, hugging_face_folder, texts, tmp_path, capsys):
    folder, out = hugging_face_folder("marian").path, ["--out", tmp_path / "out"]
    bundle = import_model(folder, tmp_path / "bundle", Wishes()).folder
    short = tmp_path / "short"
    short.write_text("one\n")
    for words, message in (
        (["--test", "Opus", folder], "give NAME MODEL SOURCES REFERENCES"),
        (["--test", "Opus", folder, texts[0], short], "has 3 lines and"),
        (["--test", "Opus", tmp_path / "none", *texts], "none"),
        (["--test", "Opus", bundle, *texts, "en", "de"], "is a bundle, which has its languages"),
        (["--engines", "native", "--test", "Opus", bundle, *texts], "none of the bundles has"),
        (["--repeats", "0", "--test", "Opus", bundle, *texts], "--repeats 0: give 1 or more"),
        (["--set", "beem=2", "--test", "Opus", bundle, *texts], "no such option"),
        *(
            (
                [*engines, "--set", setting, "--test", "Opus", bundle, *texts],
                f"--set {setting}: no algorithm of {shown} has this option",
            )
            for engines, setting, shown in (
                ([], "beam=2", "torch and native"),
                ([], "jacobi_mode=pj", "torch and native"),
                ([], "dag_decode_beta=2", "torch and native"),
                ([], "task=translation", "torch and native"),
                (["--engines", "native"], "jacobi_known_length=true", "native"),
            )
        ),
    ):
        assert message in refused(table, [*out, *words], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings, rows", [
    ({"jacobi_window": "4", "max_len_b": "9"}, {"Frontier (ours)"}),
    ({"jacobi_draft": "hrt", "jacobi_draft_path": "a.pt"}, {"Frontier (ours)"}),
    ({"jacobi_known_length": "true"}, {"PJ", "PGJ (b=5)", "PGJ (b=3)"}),
    ({"lenpen": "0.6"}, set()),
])  # fmt: skip
def test_settings_go_to_the_rows_that_have_them(table, settings, rows):
    for name in table.ALGORITHMS:
        everywhere = {key: value for key, value in settings.items() if "jacobi" not in key}
        assert table.own_settings(name, settings) == (settings if name in rows else everywhere)


def test_the_command_of_the_page(table):
    page = (EXAMPLES / "jacobi/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```bash\n(.*?)```", page, re.S)
    program, script, *words = shlex.split(block.replace("\\\n", " "))
    given = table.build_parser().parse_args(words)
    assert (program, script) == ("python", "examples/jacobi/table.py")
    assert [len(test) for test in given.test] == [4, 4, 6, 6]
