"""examples/common/bleu_of_log.py: the metric that a recipe prints is sacreBLEU's own figure."""

import re

import pytest
import sacrebleu

HYPOTHESES = ["das ist ein Test , nicht wahr ?", "der Hund ist groß .", "das Haus"]
TARGETS = ["das ist ein Test , nicht wahr ?", "der große Hund bellt .", "das <<unk>> Haus"]
RAW = ["Das ist ein Test, nicht wahr?", "der große Hund bellt.", "das „rote“ Haus"]
DETOKENISED = ["das ist ein Test, nicht wahr?", "der Hund ist groß.", "das Haus"]


@pytest.fixture
def log(tmp_path):
    """Out of order, with what else fairseq-generate writes, and with a second translation."""
    lines = ["2026-01-01 00:00:00 | INFO | fairseq_cli.generate | {'a': 1}"]
    for number in (2, 0, 1):
        lines += [
            f"S-{number}\tthis is the source",
            f"T-{number}\t{TARGETS[number]}",
            f"H-{number}\t-0.5\t{HYPOTHESES[number]}",
            f"D-{number}\t-0.5\t{HYPOTHESES[number]}",
            f"P-{number}\t-0.1 -0.2",
            f"H-{number}\t-0.9\tsomething else",
        ]
    (tmp_path / "test.log").write_text("\n".join(lines) + "\nGenerate test: BLEU4 = 1.00\n")
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in RAW))
    return tmp_path / "test.log"


@pytest.fixture
def shown(load_example, log, capsys):
    def run(*options):
        load_example("common/bleu_of_log.py").main([str(log), *map(str, options)])
        return capsys.readouterr().out

    return run


def test_words_as_they_were_prepared(shown):
    bleu = sacrebleu.corpus_bleu(HYPOTHESES, [TARGETS], tokenize="none", force=True).score
    line = shown()
    assert f"BLEU {bleu:.2f} (tokenised, 3 sentences, the log's references): " in line
    assert "|tok:none|" in line and bleu > 40


def test_detokenised_text_and_raw_references(shown, log):
    line = shown("--detokenize", "moses:de", "--references", log.with_name("test.de"))
    bleu = sacrebleu.corpus_bleu(DETOKENISED, [RAW]).score
    assert f"BLEU {bleu:.2f} (detokenised, 3 sentences, {log.with_name('test.de')}): " in line
    assert "|tok:13a|" in line and "nrefs:1|case:mixed|eff:no" in line
    # Those of the log differ: they are what was prepared.
    other = shown("--detokenize", "moses:de")
    assert other.split()[1] != line.split()[1] and "the log's references" in other


def test_chinese_counts_its_characters(shown):
    assert "|tok:zh|" in shown("--detokenize", "moses:zh")


@pytest.mark.parametrize("lines, options, message", [
    (2, ["--detokenize", "none"], "translations of 3 sentences and .* has 2 lines"),
    (3, [], "raw text needs --detokenize"),
    (3, ["--detokenize", "none"], "leave --quiet out"),
])  # fmt: skip
def test_what_is_refused(load_example, log, capsys, lines, options, message):
    references = log.with_name("test.de")
    references.write_text("a\n" * lines)
    if "quiet" in message:
        log.write_text("Generate test: BLEU4 = 1.00\n")
    with pytest.raises(SystemExit):
        load_example("common/bleu_of_log.py").main(
            [str(log), *options, "--references", str(references)]
        )
    assert re.search(message, capsys.readouterr().err)
