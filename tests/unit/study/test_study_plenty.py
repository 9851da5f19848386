"""examples/study/plenty.py: captions, mixed corpora and samples as data, and the better of two
models."""

import json
import sys
from pathlib import Path

import plenty
import pytest

pytestmark = pytest.mark.usefixtures("forked")
PAIRS = {"en": "a dog runs .\ntwo women sit .\n", "de": "ein hund läuft .\nzwei frauen sitzen .\n"}


@pytest.fixture
def forked(forks, monkeypatch):
    """Its programs are forks of a process with their imports behind it."""

    def run(line, check, stdout=None):
        program, *arguments = (
            line[1:] if line[0] == sys.executable else [Path(line[0]).name, *line[1:]]
        )
        if program.endswith(".py"):
            program, arguments = "python", [program, *arguments]
        finished = forks.run(program, arguments)
        assert check and finished.returncode == 0, finished.stderr
        if stdout:
            stdout.write(finished.stdout.encode())

    monkeypatch.setattr(plenty.subprocess, "run", run)


@pytest.fixture
def data(tmp_path):
    """As examples/multi30k/prepare.sh leaves it."""
    folder = tmp_path / "en-de"
    (folder / "bpe").mkdir(parents=True)
    (folder / "data-bin").mkdir()
    (folder / "bpe" / "codes").write_text("#version: 0.2\nd o\n")
    words = sorted(set(" ".join(PAIRS.values()).split()))
    for language, text in PAIRS.items():
        (folder / "bpe" / f"train.{language}").write_text(text)
        (folder / "data-bin" / f"dict.{language}.txt").write_text(
            "".join(f"{word} 1\n" for word in words)
        )
        (folder / "data-bin" / f"valid.en-de.{language}.bin").write_text(f"valid {language}")
        (folder / "data-bin" / f"train.en-de.{language}.bin").write_text("old")
    return folder


def test_raw_pairs_stand_beside_translations(data, tmp_path):
    translated, out = tmp_path / "translated", tmp_path / "out"
    for folder in (translated, out):
        folder.mkdir()
    (translated / "train.en").write_text("two dog .\n")
    (translated / "train.de").write_text("zwei hund .\n")
    assert (
        plenty.main(
            ["mix", str(data), "--translated", str(translated), "--raw", "2", "--out", str(out)]
        )
        == 0
    )
    assert (out / "train.en").read_text() == "two dog .\n" + 2 * PAIRS["en"]
    assert (out / "train.de").read_text() == "zwei hund .\n" + 2 * PAIRS["de"]
    assert (out / "data-bin" / "train.en-de.en.idx").stat().st_size > 0
    assert (out / "data-bin" / "train.en-de.en.bin").read_bytes() != b"old"
    assert (out / "data-bin" / "valid.en-de.de.bin").read_text() == "valid de"
    assert (out / "data-bin" / "dict.de.txt").read_text() == (
        data / "data-bin" / "dict.de.txt"
    ).read_text()


def test_captions_become_sources(data, tmp_path, monkeypatch, capsys):
    captions, out = tmp_path / "captions.en", tmp_path / "out"
    captions.write_text("Two women sit.\nA dog runs.\n")
    out.mkdir()
    monkeypatch.setenv("PLENTY", str(captions))
    command = ["text", str(data), "--out", str(out), "--lines"]
    with pytest.raises(SystemExit):
        plenty.main([*command, "3"])
    assert "has 2 lines instead of 3" in capsys.readouterr().err and not (out / "data-bin").exists()
    assert plenty.main([*command, "2"]) == 0
    assert (out / "words.en").read_text() == "Two women sit .\nA dog runs .\n"
    assert (out / "data-bin" / "train.en-de.en.idx").stat().st_size == (
        out / "data-bin" / "train.en-de.de.idx"
    ).stat().st_size
    monkeypatch.setenv("PLENTY", str(tmp_path / "none"))
    with pytest.raises(SystemExit):
        plenty.main([*command, "2"])
    assert "none names no file" in capsys.readouterr().err


def test_a_sample_is_spread_over_new_pairs(data, tmp_path, capsys):
    out, pairs = tmp_path / "out", tmp_path / "pairs"
    out.mkdir()
    known, *_ = PAIRS["en"].split("\n")
    for language, texts in {"en": ["a", "dog", known, "two", "sit"], "de": "abcde"}.items():
        pairs.with_suffix(f".{language}").write_text("\n".join([*texts, ""]))
    command = ["take", str(data), "--of", str(pairs), "--out", str(out), "--lines"]
    assert plenty.main([*command, "2"]) == 0
    assert (out / "train.en").read_text() == "a\ntwo\n"
    assert (out / "train.de").read_text() == "a\nd\n"
    assert (out / "data-bin" / "train.en-de.en.idx").exists()
    for lines in ("5", "0"):
        with pytest.raises(SystemExit):
            plenty.main([*command, lines])
        assert "5 and 5 lines, 4 of them new pairs; give the same number of both, and --lines" in (
            capsys.readouterr().err
        )
    pairs.with_suffix(".de").write_text("a\n")
    with pytest.raises(SystemExit):
        plenty.main([*command, "1"])
    assert "have 5 and 1 lines" in capsys.readouterr().err


def test_the_better_model_is_chosen(tmp_path):
    found = []
    for name, scores in (("a", [30.0, 31.0]), ("b", [32.0, 29.0])):
        (tmp_path / f"{name}.pt").write_text(name)
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"settings": [{"bleu": score} for score in scores]})
        )
        found += [str(tmp_path / f"{name}.pt"), str(tmp_path / f"{name}.json")]
    assert plenty.main(["choose", *found, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "model.pt").read_text() == "b"
