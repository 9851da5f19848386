"""The text on both sides of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.text.moses_rules import MosesRules
from fairseq_hrt.text.pipeline import TextPipeline, TextRecipe, clean


@given(st.text())
def test_clean_lines_have_no_surprises(text):
    found = clean(text)
    assert found == clean(found) and "\n" not in found and "  " not in found and found == found.strip()
    assert "".join(found.split()) == "".join(c for c in "".join(text.split()) if c in found)


def test_control_characters_separate_words():
    assert clean(" a\x00b\tc\u2028d\u200be \r\n") == "a b c d\u200be"
    assert clean("\x07\x1b \n") == "" and clean("😀 é") == "😀 é"


def make_codes(folder):
    path = folder / "codes"
    path.write_text("#version: 0.2\nl l\nH e\nll o</w>\nHe llo</w>\n", encoding="utf-8")
    return path


def test_moses_and_subwords(tmp_path):
    pipeline = TextPipeline(TextRecipe("en", "de", "moses", "subword-nmt", make_codes(tmp_path)))
    assert pipeline.words("Hello, Hell!") == ["Hello", "@@ ,".split()[-1], "He@@", "l@@", "l", "!"] or pipeline.words(
        "Hello, Hell!"
    ) == ["Hello", ",", "He@@", "ll", "!"]
    assert pipeline.words("  \x00 ") == []
    assert pipeline.text('Das ist " gro@@ ß " , ja .') == 'Das ist "groß", ja.'
    assert pipeline.text("") == ""


def test_plain_words():
    pipeline = TextPipeline(TextRecipe("en", "de", "space", "none"))
    assert pipeline.words(" a  b\tc ") == ["a", "b", "c"] and pipeline.text("a b") == "a b"


@pytest.mark.parametrize(
    "values, message",
    [
        (("x", "none", None), "tokenizer 'x'"),
        (("moses", "y", None), "subwords 'y'"),
        (("moses", "subword-nmt", None), "need file of codes"),
        (("moses", "none", "codes"), "take no file of codes"),
    ],
)
def test_unknown_preparation(values, message):
    with pytest.raises(ValueError, match=message):
        TextRecipe("en", "de", *values)


def test_kept_rules_need_no_sacremoses(tmp_path, monkeypatch):
    import sys

    rules = MosesRules.from_sacremoses("en", "de")
    recipe = TextRecipe("en", "de", "moses", "subword-nmt", make_codes(tmp_path))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sacremoses", None)
        pipeline = TextPipeline(recipe, rules)
        assert pipeline.words("Hello, Mr. Hell!") == TextPipeline(recipe, rules).words("Hello,  Mr. Hell!")
        assert pipeline.text('Das ist " gro@@ ß " , ja .') == 'Das ist "groß", ja.'
    with pytest.raises(ValueError, match="the rules of text are for en and de, the dictionaries for de and en"):
        TextPipeline(TextRecipe("de", "en", "moses", "none"), rules)


def test_czech_keeps_the_detokeniser_of_sacremoses():
    pipeline = TextPipeline(TextRecipe("en", "cs", "moses", "none"))
    assert pipeline.text("Ahoj , „ světe “ !") == "Ahoj, „světe“!"


def test_missing_packages_are_named(tmp_path, monkeypatch):
    import sys

    codes = make_codes(tmp_path)
    for module, recipe in (
        ("sacremoses", TextRecipe("en", "de", "moses", "none")),
        ("sentencepiece", TextRecipe("en", "de", "space", "sentencepiece", codes)),
    ):
        with monkeypatch.context() as patch, pytest.raises(ValueError, match="pip install"):
            patch.setitem(sys.modules, module, None)
            TextPipeline(recipe)
