"""Scores, valid translations, detokenisation."""

import gzip
import sys

import pytest
import sacrebleu

from fairseq_hrt.evaluation.quality import (
    build_detokenizer,
    evaluate,
    read_lines,
    read_valid_translations,
    rouge_scores,
    valid_share,
)

TEXT = ["Der Hund läuft heute durch den Park.", "Eine Frau liest am Abend ein Buch."]


def test_bleu_of_a_language_has_the_tokenizer_that_sacrebleu_takes_for_it(monkeypatch):
    """A sentence without spaces is one word for 13a."""
    texts = ["一个人骑自行车。"], ["一个人骑车。"]
    by_signs, by_words = (evaluate(*texts, language=language) for language in ("zh", "de"))
    assert "|tok:zh|" in by_signs.bleu_signature and "|tok:13a|" in by_words.bleu_signature
    assert by_signs.bleu == sacrebleu.BLEU(tokenize="zh").corpus_score(texts[0], [texts[1]]).score
    assert by_signs.bleu > 20 > by_words.bleu
    assert evaluate(*texts) == by_words
    # As where the package is not installed.
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ValueError, match=r"BLEU for language ja: .*pip install sacrebleu\[ja\]"):
        evaluate(*texts, language="ja")


def test_perfect_translations_score_100():
    quality = evaluate(TEXT, TEXT, [{text} for text in TEXT])
    assert quality.bleu == pytest.approx(100)
    assert quality.chrf == pytest.approx(100)
    assert quality.valid_share == 1
    assert "tok:13a" in quality.bleu_signature and "version:" in quality.bleu_signature


def test_the_length_ratio_is_that_of_sacrebleu():
    """Its tokens: «Park.» are two."""
    assert evaluate(TEXT, TEXT).length_ratio == 1
    assert evaluate(["Der Hund läuft.", TEXT[1]], TEXT).length_ratio == pytest.approx(12 / 16)


def test_share_of_valid_translations_counts_any_valid_one():
    assert valid_share(["a b", "c ", "d"], [{"x", "a b"}, {"c"}, {"e"}]) == pytest.approx(2 / 3)


def test_without_valid_translations_there_is_no_share():
    assert evaluate(TEXT, TEXT).valid_share is None


def test_different_numbers_of_sentences_are_refused():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        evaluate(TEXT, TEXT[:1])
    with pytest.raises(ValueError, match="sets of valid translations"):
        evaluate(TEXT, TEXT, [set()])


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("one\u2028still one\r\ntwo\n".encode()))
    assert read_lines(path) == ["one\u2028still one", "two"]
    # Known by its content, whatever its name.
    assert read_lines(path.rename(tmp_path / "text")) == ["one\u2028still one", "two"]


def test_damaged_text_is_named(tmp_path):
    path = tmp_path / "text.gz"
    data = gzip.compress(b"word\n" * 999)
    for damaged in (data[: len(data) // 2], data[:15] + b"\xff\xff" + data[17:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="text.gz: damaged gzip data"):
            read_lines(path)
    path.write_bytes(b"one\n\xff\n")
    with pytest.raises(ValueError, match="text.gz, line 2 is not UTF-8"):
        read_lines(path)


def test_valid_translations_are_read(tmp_path):
    path = tmp_path / "valid.jsonl"
    path.write_text(
        '{"source": "s", "translations": ["a", "b "]}\n{"source": "t", "translations": []}\n'
    )
    assert read_valid_translations(path) == [{"a", "b"}, set()]


@pytest.mark.parametrize("line", ["not json", '{"source": "s"}', "[]"])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "valid.jsonl"
    path.write_text('{"translations": []}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        read_valid_translations(path)


def test_detokenizers():
    assert build_detokenizer("none")("a , b") == "a , b"
    assert (
        build_detokenizer("moses:de")("Ja , der Hund , der bellt .") == "Ja, der Hund, der bellt."
    )
    with pytest.raises(ValueError, match="moses:LANGUAGE"):
        build_detokenizer("sentencepiece")


def test_rouge():
    pytest.importorskip("rouge_score")
    scores = rouge_scores(["the cat sat on the mat", "x"], ["the cat lay on the mat", "y"])
    assert scores == pytest.approx(
        {"ROUGE-1": 100 * 5 / 6 / 2, "ROUGE-2": 100 * 3 / 5 / 2, "ROUGE-L": 100 * 5 / 6 / 2}
    )
    assert evaluate(["a b"], ["a b"]).rouge is None
    assert evaluate(["a b"], ["a b"], rouge=True).rouge["ROUGE-L"] == pytest.approx(100)


def test_rouge_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(ValueError, match="pip install rouge-score"):
        rouge_scores(["a"], ["a"])
