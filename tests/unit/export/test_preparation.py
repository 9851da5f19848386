"""The text preparation of a bundle is that of its training data, found out or refused."""

import functools
import io
import itertools
import logging
from types import SimpleNamespace
from unittest import mock

import pytest
from fairseq.data import Dictionary, indexed_dataset
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt import apply_bpe, learn_bpe

from fairseq_hrt.export.checkpoint_bundle import warn_if_unlike_references
from fairseq_hrt.export.preparation import find_recipe
from fairseq_hrt.native.text.moses_rules import MosesRules
from fairseq_hrt.native.text.pipeline import TextPipeline

OWNERS = ("The man's", "A well-known doctor's", "My friend's", "Mr. Smith's")
THINGS = ("old-fashioned car", 'book "Idea"', "house (no. 5)", "plan & view")
ENDS = ("is 50% off.", "costs 1,000 euros!", 'was called "new".', "isn't here; it's there.")
ENGLISH = [" ".join(parts) for parts in itertools.product(OWNERS, THINGS, ENDS)]
FRENCH = [
    line.replace("The man's", "L'homme a dit:").replace("is", "n'est-ce pas") for line in ENGLISH
]


@functools.cache
def moses(language, *, normalised=True, aggressive=False, escape=False, lower=False):
    """What sacremoses itself makes of a text."""
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)

    @functools.cache
    def prepared(line):
        line = normalizer.normalize(line) if normalised else line
        line = tokenizer.tokenize(
            line, aggressive_dash_splits=aggressive, escape=escape, return_str=True
        )
        return line.lower() if lower else line

    return prepared


def learn(path, lines, symbols=60):
    with open(path, "w", encoding="utf-8") as file:
        learn_bpe.learn_bpe(io.StringIO("\n".join(lines)), file, symbols)
    with open(path, encoding="utf-8") as file:
        return apply_bpe.BPE(file).process_line


def binarised(folder, sides, subset="valid"):
    """The data folder of lines of subwords, by language."""
    languages, dictionary = "-".join(sides), Dictionary()
    for line in itertools.chain(*sides.values()):
        dictionary.encode_line(line)
    dictionary.finalize()
    folder.mkdir(exist_ok=True)
    for language, lines in sides.items():
        dictionary.save(str(folder / f"dict.{language}.txt"))
        prefix = str(folder / f"{subset}.{languages}.{language}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", len(dictionary))
        for line in lines:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=False).long())
        builder.finalize(f"{prefix}.idx")
    return folder


def prepared(folder, texts, prepare, symbols=60):
    """(data, codes, subwords by language) of texts by language."""
    words = {language: list(map(prepare[language], lines)) for language, lines in texts.items()}
    segment = learn(folder / "codes", [*itertools.chain(*words.values())], symbols)
    subwords = {language: list(map(segment, lines)) for language, lines in words.items()}
    return binarised(folder / "data", subwords), folder / "codes", subwords


def warnings(caplog):
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


def both(**options):
    return {language: moses(language, **options) for language in ("en", "fr")}


TEXTS = {"en": ENGLISH, "fr": FRENCH}


@pytest.mark.parametrize("name, options", [
    ("moses", {}),
    ("moses+escape", dict(escape=True)),
    ("moses+aggressive", dict(aggressive=True)),
    # fairseq's own --tokenizer moses
    ("moses+unnormalised+aggressive+escape", dict(normalised=False, aggressive=True, escape=True)),
    # its recipe for IWSLT14
    ("moses+unnormalised+escape+lower", dict(normalised=False, escape=True, lower=True)),
])  # fmt: skip
@pytest.mark.parametrize("given", [False, True])
def test_variants_of_moses_are_recognised_and_prepare_text_as_it_was(
    tmp_path, name, options, given, caplog
):
    data, codes, subwords = prepared(tmp_path, TEXTS, both(**options))
    sources = ENGLISH if given else None
    recipe, fit = find_recipe(data, ("en", "fr"), codes=codes, sources=sources)
    assert recipe.tokenizer == name and recipe.subwords == "subword-nmt"
    assert fit.shares[0] == 1 if given else fit.share > 0.7
    assert not warnings(caplog) or fit.share < 0.9
    forth, back = TextPipeline(recipe), TextPipeline(recipe.reversed())
    assert [forth.words(line) for line in ENGLISH] == [line.split() for line in subwords["en"]]
    assert [back.words(line) for line in FRENCH] == [line.split() for line in subwords["fr"]]
    restored = [forth.text(line) for line in subwords["fr"]]
    assert not any("&apos;" in text or "@-@" in text or "@@" in text for text in restored)


@pytest.mark.parametrize("language, package, name, text", [
    ("zh", "jieba", "moses+jieba", "我们骑自行车去公园，天气很好。"),
    ("zh_CN", "jieba", "moses+jieba", "我们骑自行车去公园，天气很好。"),
    ("zh", None, "moses+characters", "我们骑自行车去公园，天气很好。"),
    ("ja", "MeCab", "moses+mecab", "私たちは自転車で公園に行きます。"),
])  # fmt: skip
def test_languages_without_spaces(tmp_path, language, package, name, text, load_example, caplog):
    if package:
        pytest.importorskip(package)
    # Of these languages' rules only the characters are read, not the expressions of sacremoses,
    # which take seconds to compile.
    with mock.patch("sacremoses.tokenize.re", SimpleNamespace(compile=lambda pattern: pattern)):
        MosesRules.from_sacremoses(language, "en")
    tokenize = load_example("common/tokenize_text.py").tokenize
    lines = [text[number % 6 :] + text[: number // 6] for number in range(60)]
    texts = {language: lines, "en": ENGLISH[:60]}
    prepare = {one: lambda line, one=one: next(tokenize(iter([line]), one, name)) for one in texts}
    data, codes, subwords = prepared(tmp_path, texts, prepare, symbols=20)
    for languages in ((language, "en"), ("en", language)):
        recipe, _ = find_recipe(data, languages, codes=codes)
        assert recipe.tokenizer.split("+")[1:] == name.split("+")[1:]
        source = languages[0]
        lines = [TextPipeline(recipe).words(line) for line in texts[source]]
        assert lines == [line.split() for line in subwords[source]]
    assert TextPipeline(recipe).text(subwords[language][0]).replace(" ", "") == text
    assert "segment raw lines" not in caplog.text


def test_names_that_are_no_languages_take_the_rules_of_one(tmp_path):
    prepare = {"src": moses("en"), "tgt": moses("en")}
    data, codes, subwords = prepared(tmp_path, {"src": ENGLISH, "tgt": ENGLISH[::-1]}, prepare)
    recipe, fit = find_recipe(data, ("src", "tgt"), codes=codes)
    assert recipe.tokenizer == "moses:en" and fit.share > 0.7
    lines = [line.split() for line in subwords["src"]]
    assert [TextPipeline(recipe).words(line) for line in ENGLISH] == lines
    assert recipe.reversed().tokenization.languages == ("en", "en")


def test_text_that_was_not_tokenised_is_left_as_it_is(tmp_path, caplog):
    data, codes, _ = prepared(tmp_path, TEXTS, {"en": str, "fr": str})
    recipe, fit = find_recipe(data, ("en", "fr"), codes=codes)
    assert (recipe.tokenizer, fit.share) == ("space", 1.0) and not warnings(caplog)


@pytest.mark.parametrize("tokenised", [False, True])
def test_pieces_of_raw_and_of_tokenised_text(tmp_path, tokenised):
    sentencepiece = pytest.importorskip("sentencepiece")
    words = {
        language: [moses(language)(line) if tokenised else line for line in lines]
        for language, lines in TEXTS.items()
    }
    with open(tmp_path / "model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain(*words.values()), model_writer=file, minloglevel=2,
            vocab_size=120, hard_vocab_limit=False,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model"))
    pieces = {
        language: [" ".join(model.encode(line, out_type=str)) for line in lines]
        for language, lines in words.items()
    }
    data = binarised(tmp_path / "data", pieces)
    recipe, _ = find_recipe(data, ("en", "fr"), codes=tmp_path / "model")
    assert recipe.subwords == "sentencepiece"
    assert recipe.tokenizer == ("moses" if tokenised else "space")
    lines = [TextPipeline(recipe).words(line) for line in ENGLISH]
    assert lines == [line.split() for line in pieces["en"]]


@pytest.fixture(scope="module")
def escaped(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("escaped"), TEXTS, both(aggressive=True, escape=True))


def test_another_preparation_is_refused(escaped, tmp_path):
    data, codes, _ = escaped
    with pytest.raises(ValueError, match=r"moses, subword-nmt gives back 0 %.*\+escape gives back"):
        find_recipe(data, ("en", "fr"), codes=codes, tokenizer="moses")
    learn(tmp_path / "other", ["zebra yak qwerty zebra"] * 9, 9)
    with pytest.raises(ValueError, match="give the --codes and the --tokenizer of the training"):
        find_recipe(data, ("en", "fr"), codes=tmp_path / "other")
    with pytest.raises(ValueError, match=r"--sources: 1 raw lines, but .* 64 sentences"):
        find_recipe(data, ("en", "fr"), codes=codes, sources=["a"])


def test_other_dictionaries_are_refused(escaped, tmp_path):
    _, codes, subwords = escaped
    permuted, smaller = (binarised(tmp_path / name, subwords) for name in ("permuted", "smaller"))
    for language in ("en", "fr"):
        path = permuted / f"dict.{language}.txt"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines[::-1]) + "\n")
        (smaller / path.name).write_text("\n".join(lines[:9]) + "\n")
    with pytest.raises(ValueError, match="give the --codes"):
        find_recipe(permuted, ("en", "fr"), codes=codes)
    with pytest.raises(ValueError, match="the dictionary with which the sentences were"):
        find_recipe(smaller, ("en", "fr"), codes=codes)


def test_a_worse_preparation_is_warned_about(tmp_path, caplog):
    data, codes, _ = prepared(tmp_path, TEXTS, both(normalised=False))
    recipe, _ = find_recipe(data, ("en", "fr"), codes=codes, tokenizer="moses")
    assert recipe.tokenizer == "moses" and "moses+unnormalised, subword-nmt gives" in caplog.text
    caplog.clear()
    recipe, _ = find_recipe(data, ("en", "fr"), codes=codes, tokenizer="space")
    assert recipe.tokenizer == "space" and "moses+unnormalised, subword-nmt gives" in caplog.text


def test_without_a_validation_set_the_dictionaries_decide(escaped, tmp_path, caplog):
    data, codes, _ = escaped
    for language in ("en", "fr"):
        name = f"dict.{language}.txt"
        (tmp_path / name).write_text((data / name).read_text())
    recipe, fit = find_recipe(tmp_path, ("en", "fr"), codes=codes)
    assert (recipe.tokenizer, fit) == ("moses+aggressive+escape", None)
    assert "could not be checked" in caplog.text
    with pytest.raises(ValueError, match="subwords 'subword-nmt' need a file of codes"):
        find_recipe(tmp_path, ("en", "fr"))
    for language in ("en", "fr"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\nb 1\n")
    recipe, _ = find_recipe(tmp_path, ("en", "fr"), tokenizer="space")
    assert (recipe.tokenizer, recipe.subwords) == ("space", "none")


@pytest.mark.parametrize("right", [True, False])
def test_translations_are_compared_with_their_references(escaped, caplog, right):
    data, codes, _ = escaped
    recipe, _ = find_recipe(data, ("en", "fr"), codes=codes)
    words = Dictionary.load(str(data / "dict.en.txt"))
    answers = dict(zip(ENGLISH, FRENCH))
    pipelines = TextPipeline(recipe), TextPipeline(recipe.reversed())
    translator = SimpleNamespace(
        bundle=SimpleNamespace(
            source_lang="en", target_lang="fr",
            pipeline=lambda: pipelines[0], target_pipeline=lambda: pipelines[1],
        ),
        source=SimpleNamespace(words=words.symbols),
        target=SimpleNamespace(words=words.symbols),
        translate=lambda lines, progress: [
            answers.get(one, one) if right else "xyz" for one in lines
        ],
    )  # fmt: skip
    warn_if_unlike_references(translator, data)
    assert bool(warnings(caplog)) is not right
    assert right or "resemble their references" in caplog.text


def test_both_sides_are_found_whatever_the_order_of_the_languages(escaped):
    data, codes, _ = escaped
    assert find_recipe(data, ("fr", "en"), codes=codes)[0].tokenizer == "moses+aggressive+escape"


RAW = [
    f"{word} talks about {other} again {'?' if not number else ''}".strip() + "!" * (number % 2)
    for number, (word, other) in enumerate(
        itertools.product(
            ("Anna", "Paul", "Julia", "Otto", "Emma", "Ida"), ("red cars", "it", "us", "big dogs")
        )
    )
]


@pytest.mark.parametrize("subwords", ["subword-nmt", "sentencepiece"])
def test_raw_text_with_few_marks_is_not_tokenised(tmp_path, subwords, caplog):
    """Most sentences come back from Moses as well; those with a mark at a word do not."""
    texts = {"en": RAW, "fr": RAW}
    if subwords == "subword-nmt":
        data, codes, _ = prepared(tmp_path, texts, {"en": str, "fr": str})
    else:
        data, codes = in_pieces(tmp_path, texts)
    recipe, fit = find_recipe(data, ("en", "fr"), codes=codes)
    assert (recipe.tokenizer, recipe.subwords, fit.share) == ("space", subwords, 1.0)
    assert not warnings(caplog)


def in_pieces(folder, words):
    """(data, model) of texts in pieces of SentencePiece."""
    sentencepiece = pytest.importorskip("sentencepiece")
    with open(folder / "model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain(*words.values()), model_writer=file, minloglevel=2,
            vocab_size=120, hard_vocab_limit=False,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "model"))
    pieces = {
        language: [" ".join(model.encode(line, out_type=str)) for line in lines]
        for language, lines in words.items()
    }
    return binarised(folder / "data", pieces), folder / "model"


def test_each_language_has_its_own_pieces(tmp_path):
    """OPUS-MT's models, and data with two codes of BPE: with the source's alone the targets do not
    come back."""
    sides = {}
    for language, lines in TEXTS.items():
        (tmp_path / language).mkdir()
        found = in_pieces(tmp_path / language, {language: lines})
        sides[language] = (lines, found[1])
    sentencepiece = pytest.importorskip("sentencepiece")
    data = binarised(tmp_path / "data", {
        language: [" ".join(pieces) for pieces in
                   sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(
                       lines, out_type=str)]
        for language, (lines, model) in sides.items()})  # fmt: skip
    (_, codes), (_, target_codes) = sides.values()
    recipe, fit = find_recipe(data, ("en", "fr"), codes=codes, target_codes=target_codes)
    assert (recipe.codes, recipe.target_codes, fit.shares) == (codes, target_codes, (1.0, 1.0))
    with pytest.raises(ValueError, match="100 % of the source and . % of the target"):
        find_recipe(data, ("en", "fr"), codes=codes)
    with pytest.raises(
        ValueError, match=r"--target-codes .*: give the source language's codes, too \(--codes\)"
    ):
        find_recipe(data, ("en", "fr"), subwords="none", target_codes=target_codes)


def test_pieces_of_escaped_text(tmp_path):
    prepare = both(escape=True, aggressive=True)
    words = {language: list(map(prepare[language], lines)) for language, lines in TEXTS.items()}
    data, model = in_pieces(tmp_path, words)
    recipe, fit = find_recipe(data, ("en", "fr"), codes=model)
    assert recipe.tokenizer == "moses+aggressive+escape" and fit.share > 0.7


def test_lower_case_is_not_that_of_cased_text(tmp_path):
    data, codes, _ = prepared(tmp_path, TEXTS, both())
    with pytest.raises(ValueError, match=r"moses\+lower, subword-nmt gives back 0 % of the source"):
        find_recipe(data, ("en", "fr"), codes=codes, tokenizer="moses+lower")


@pytest.mark.parametrize("change, doubt", [
    (lambda line: line, None),
    (lambda line: f"<2de> {moses('en')(line)}", "64 of 64 sources begin with '<2de>': if that is"),
    (lambda line: "".join(sign for sign in line if sign.isalnum() or sign == " "),
     "the sources have no punctuation"),
    (str.upper, "the sources are in upper case"),
    (lambda line: f". {line} ,", "have punctuation marks on their own"),
])  # fmt: skip
def test_what_the_round_trip_cannot_show_is_said(tmp_path, change, doubt, caplog):
    data, codes, _ = prepared(tmp_path, TEXTS, {"en": change, "fr": str}, symbols=90)
    find_recipe(data, ("en", "fr"), codes=codes, tokenizer="space")
    assert doubt is None or doubt in caplog.text
    assert bool(warnings(caplog)) is (doubt is not None)


# Words of each script: subjects, verbs, objects.
THAI = ("ฉัน เด็ก แม่ ครู", "กิน ซื้อ ชอบ เห็น", "ข้าว ปลา ผลไม้ ขนม")
BURMESE = ("ကလေး ဆရာ မိခင် သူငယ်ချင်း", "ထမင်း ငါး သစ်သီး မုန့်", "စားသည် ဝယ်သည် ကြိုက်သည် မြင်သည်")
GEORGIAN = ("ბიჭი გოგო დედა მამა", "ყიდულობს ხედავს აკეთებს იღებს", "პურს თევზს ხილს NATO-ს")
PLAIN = ("she he it we", "buys sees likes wants", "bread fish fruit tea")


def clauses(words, *, space=" "):
    return [space.join(parts) + "." for parts in itertools.product(*map(str.split, words))]


TAGS, SMALL, APART = "sources begin with", "sources begin in lower case", "segment raw lines"


@pytest.mark.parametrize("lines, doubts", [
    ([f"{('2de', '2fr')[number % 2]} {line}" for number, line in enumerate(ENGLISH)], [TAGS]),
    ([f"{('de', 'fr', 'it')[number % 3]} {line}" for number, line in enumerate(ENGLISH)], [TAGS]),
    # A language token has letters of both cases, its sentences do not.
    ([f"deu_Latn {line}" for line in clauses(PLAIN)], [TAGS]),
    ([f"2de {line}" if number % 4 else line for number, line in enumerate(ENGLISH)], []),
    ([f"@user{number} {line}" for number, line in enumerate(ENGLISH)], []),
    ([line[0].lower() + line[1:] for line in ENGLISH], [SMALL]),
    ([f"2de {line[0].lower()}{line[1:]}" for line in ENGLISH], [TAGS, SMALL]),
    (clauses(PLAIN), []), (clauses(GEORGIAN), []),
    (clauses(THAI), [APART]), (clauses(BURMESE), [APART]),
    # Spaces between phrases
    ([f"{one[:-1]} {line}." for one, line in itertools.product(clauses(THAI, space="")[:8], [
        "ฉันซื้อข้าวที่ตลาดทุกวัน", "แม่ชอบทำอาหารให้เด็กกิน"] * 4)], []),
])  # fmt: skip
def test_steps_that_always_come_back_are_doubted(lines, doubts, tmp_path, caplog):
    data, codes, _ = prepared(
        tmp_path, {"en": lines, "fr": FRENCH}, {"en": str, "fr": str}, symbols=1
    )
    find_recipe(data, ("en", "fr"), codes=codes, tokenizer="space")
    told = [next((one for one in (TAGS, SMALL, APART) if one in text), text)
            for text in (one.getMessage() for one in warnings(caplog))]  # fmt: skip
    assert told == doubts
    caplog.clear()
    find_recipe(data, ("en", "fr"), codes=codes, tokenizer="space", sources=lines)
    assert not any(one in caplog.text for one in (TAGS, SMALL, APART))


def test_an_empty_validation_set_leaves_the_test_set(escaped, tmp_path):
    import shutil

    data, codes, subwords = escaped
    folder = binarised(tmp_path / "data", subwords, subset="test")
    for language in ("en", "fr"):
        for kind in ("bin", "idx"):
            name = f"en-fr.{language}.{kind}"
            shutil.copyfile(data / f"valid.{name}", folder / f"valid.{name}")
        (folder / f"valid.en-fr.{language}.bin").write_bytes(b"")
    assert find_recipe(folder, ("en", "fr"), codes=codes)[1].share > 0.7
