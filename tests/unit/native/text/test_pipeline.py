"""The text on both sides of a model."""

import pytest
from fairseq.tokenizer import tokenize_line
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt import apply_bpe

from fairseq_hrt.native.text.moses_rules import MosesRules
from fairseq_hrt.native.text.pipeline import TextPipeline, one_line, subword_units
from fairseq_hrt.native.text.recipe import TextRecipe


def trained(line, codes, language="en"):
    """The subwords that training reads of a line of raw text: sacremoses, subword-nmt, fairseq."""
    line = line.removeprefix("\ufeff").replace("\n", " ").replace("\r", " ")
    words = MosesTokenizer(lang=language).tokenize(
        MosesPunctNormalizer(lang=language).normalize(line), escape=False, return_str=True
    )
    with open(codes, encoding="utf-8") as file:
        return tokenize_line(apply_bpe.BPE(file).process_line(words))


ODD = [
    "10\u00a0000 Euro, 5\u00a0%, Bonjour\u00a0!", "a\ufeffb", "bell\x07here", "it\x92s a\x85b",
    "a\u2028b\x0cb\x1fb", "a\u200bb\u3000c", "\u00ab\u00a0Salut\u00a0\u00bb", "\u00a0", "nº\u00a05",
    "a\x00b\tc", "x\ry", "soft\u00adhyphen", "\ufeffHello",
]  # fmt: skip


@pytest.mark.parametrize("line", ODD)
def test_odd_signs_are_prepared_as_in_training(tmp_path, line):
    codes = make_codes(tmp_path)
    pipeline = TextPipeline(TextRecipe("en", "de", "moses", "subword-nmt", codes))
    assert pipeline.words(line) == trained(line, codes)


@settings(max_examples=60, deadline=None)
@given(
    st.text(
        st.one_of(st.sampled_from("Hello ,.'\u00a0\u2028\x85\x07-"), st.characters()), max_size=20
    )
)
def test_any_line_is_prepared_as_in_training(codes, line):
    pipeline = TextPipeline(TextRecipe("en", "de", "moses", "subword-nmt", codes))
    found = pipeline.words(line)
    assert found == trained(one_line(line), codes) or (
        found == [] and not line.strip().isprintable()
    )


@given(st.text())
def test_a_line_stays_one(line):
    found = one_line(line)
    assert len(found) >= len(line) - 1 and not {"\n", "\r"}.intersection(found)
    found.encode("utf-8")


def test_words_without_subwords_are_those_of_fairseq():
    pipeline = TextPipeline(TextRecipe("en", "de", "space", "none"))
    for line in ODD:
        assert pipeline.words(line) == tokenize_line(line.removeprefix("\ufeff"))
    assert pipeline.words("\x07\x1b \n") == [] and pipeline.words("a\ud800b") == ["a", "b"]


def test_subwords_split_at_spaces_as_apply_bpe_does(tmp_path):
    codes = make_codes(tmp_path)
    pipeline = TextPipeline(TextRecipe("en", "de", "space", "subword-nmt", codes))
    with open(codes, encoding="utf-8") as file:
        reference = apply_bpe.BPE(file)
    for line in ("Hello\u00a0Hell", "a\u3000b c", " He\x85llo  x "):
        assert pipeline.words(line) == tokenize_line(reference.process_line(line))


def make_codes(folder):
    path = folder / "codes"
    path.write_text("#version: 0.2\nl l\nH e\nll o</w>\nHe llo</w>\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    return make_codes(tmp_path_factory.mktemp("codes"))


def test_moses_and_subwords(tmp_path):
    pipeline = TextPipeline(TextRecipe("en", "de", "moses", "subword-nmt", make_codes(tmp_path)))
    assert pipeline.words("Hello, Hell!") == [
        "Hello",
        "@@ ,".split()[-1],
        "He@@",
        "l@@",
        "l",
        "!",
    ] or pipeline.words("Hello, Hell!") == ["Hello", ",", "He@@", "ll", "!"]
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
        (("moses+x", "none", None), "moses has no variant 'x'"),
        (("space+escape", "none", None), "space has no variant 'escape'; it has lower"),
        (("moses+jieba", "none", None), "jieba has no effect on en and de"),
        (("space:en", "none", None), "space has no rules of a language"),
        (("Moses escape", "none", None), "tokenizer 'Moses escape'"),
        (("moses", "y", None), "subwords 'y'"),
        (("moses", "subword-nmt", None), "need a file of codes"),
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
        assert pipeline.words("Hello, Mr. Hell!") == TextPipeline(recipe, rules).words(
            "Hello,  Mr. Hell!"
        )
        assert pipeline.text('Das ist " gro@@ ß " , ja .') == 'Das ist "groß", ja.'
    with pytest.raises(
        ValueError,
        match="rules of text are for en and de, the bundle's text preparation for de and en",
    ):
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


def train_sentencepiece(folder, name, **options):
    sentencepiece = pytest.importorskip("sentencepiece")
    (folder / "text").write_text(
        "\n".join(
            f"{first} {second} man" for first in ("red", "blue", "old") for second in "abcdef"
        )
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / name),
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return folder / f"{name}.model"


def test_each_language_has_its_own_pieces_and_bytes_become_letters(tmp_path):
    source = train_sentencepiece(tmp_path, "s", vocab_size=30)
    target = train_sentencepiece(tmp_path, "t", vocab_size=300, byte_fallback=True)
    recipe = TextRecipe("en", "de", "space", "sentencepiece", source, target)
    pipeline, other = TextPipeline(recipe), TextPipeline(recipe.reversed())
    assert pipeline.words("red man") != other.words("red man") or len(other.words("ß")) > len(
        pipeline.words("ß")
    )
    assert (
        other.words("ß")[-2:] == ["<0xC3>", "<0x9F>"]
        and pipeline.text("▁red <0xC3> <0x9F> ▁man") == "redß man"
    )
    assert recipe.reversed().reversed() == recipe and recipe.reversed().codes == target
    alone = TextRecipe("en", "de", "space", "sentencepiece", source)
    assert alone.reversed().codes == source and alone.reversed().target_codes is None


def test_unknown_words_are_written_as_such(tmp_path):
    """As by fairseq; SentencePiece alone writes ⁇ and more spaces."""
    model = train_sentencepiece(tmp_path, "s", vocab_size=30)
    pipeline = TextPipeline(TextRecipe("en", "de", "space", "sentencepiece", model))
    assert pipeline.text("▁red ▁ <unk> ▁man") == "red <unk> man"
    assert pipeline.text("<unk>") == "<unk>" and pipeline.text("▁re<unk>") == "re<unk>"


def test_language_tokens_lead_sources_and_are_not_written():
    recipe = TextRecipe("en", "de", "space", "none", source_prefix=">>deu<<", target_prefix="de_DE")
    pipeline = TextPipeline(recipe, known={">>deu<<", ">>fra<<"})
    assert pipeline.words("a b") == [">>deu<<", "a", "b"]
    for line in (
        ">>fra<<a b",
        ">>fra<< a b",
        " >>fra<< a b",
        "\u200b>>fra<< a b",
        "\ufeff>>fra<<a b",
    ):
        assert pipeline.words(line) == [">>fra<<", "a", "b"]
    # Tokens that the model lacks are text, as all are where no words are given.
    assert pipeline.words(">>spa<< a") == [">>deu<<", ">>spa<<", "a"]
    assert TextPipeline(recipe).words(">>fra<< a") == [">>deu<<", ">>fra<<", "a"]
    assert TextPipeline(recipe.reversed()).words(">>fra<< a") == ["de_DE", ">>fra<<", "a"]
    assert pipeline.words(" \x00") == [] and pipeline.prefix_length == 1
    for first in ("de_DE", "__fr__", "zho_Hans", ">>fra<<"):
        assert pipeline.text(f"{first} a b") == "a b"
    assert pipeline.text("a_b __fr__ b") == "a_b __fr__ b" and pipeline.text("de_DE") == ""
    assert TextPipeline(recipe.reversed()).words("a") == ["de_DE", "a"]
    plain = TextPipeline(TextRecipe("en", "de", "space", "none"))
    assert (
        plain.text("de_DE a") == "de_DE a"
        and plain.words(">>fra<< a") == [">>fra<<", "a"]
        and plain.prefix_length == 0
    )


def test_a_language_token_may_follow_a_mark(tmp_path):
    """As where Marian trains SentencePiece with tokens as user-defined symbols: the same subwords
    as that model makes of the token and the line."""
    model = train_sentencepiece(
        tmp_path, "s", vocab_size=40, user_defined_symbols=[">>deu<<", ">>fra<<"]
    )
    recipe = TextRecipe("en", "de", "space", "sentencepiece", model, source_prefix="▁ >>deu<<")
    pipeline = TextPipeline(recipe, known={">>deu<<", ">>fra<<"})
    assert pipeline.unknown_token(">>spa<< a") == ">>spa<<"
    whole, _ = subword_units(recipe)
    assert pipeline.words("red man") == whole(">>deu<< red man")
    assert pipeline.words(">>fra<< red man") == whole(">>fra<< red man")
    assert pipeline.words(">>fra<<red man") == whole(">>fra<< red man")
    assert pipeline.words("red man")[:2] == ["▁", ">>deu<<"] and pipeline.prefix_length == 2


def test_punctuation_alone_is_normalised():
    assert TextPipeline(TextRecipe("en", "de", "moses-punctuation", "none")).words(
        "„a“ , don’t"
    ) == ['"a"', ",", "don't"]
