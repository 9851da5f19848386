"""Moses' rules as sacremoses applies them, whatever the line holds."""

import functools
import gzip
import itertools
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from fairseq_hrt.native.text.moses import (
    WITHOUT_DETOKENIZER,
    Detokenizer,
    Normalizer,
    Tokenizer,
    escape,
    unescape,
)
from fairseq_hrt.native.text.moses_rules import MosesRules

# sacremoses takes seconds to compile the classes of Chinese; Japanese has these and few more.
LANGUAGES = (
    *("en", "de", "fr", "it", "ga", "fi", "es", "cs", "ru", "el", "sv", "ta", "xx"),
    *(pytest.param(language, marks=pytest.mark.slow) for language in ("zh", "ko")),
)
PIECES = [
    *"abcdeXYZ  ''''..,,\"\"((%))0129-:;!?`$€«»„“”‘’´…–— ", " ", "s", "'s ", "n't ", "d'", "l'",
    "@-@", " @-@ ", "No. ", "Mr. ", "z.B. ", "...", "DOTMULTI", "²", "½", "٣", " % ", "中", "文",
    "가", "ก", "़", "्", "ß", "É", "\u00a0", "º", "cm", "nº", " „", "“ ", "S. 5", "e.g. ", "'tis ",
    "5,3", ",5", "Ⅷ", "\u2029", "\x00", "\t", "\u200b", "\ue000", "😀", "¿", "[", "]", "}", "\\",
    "'ll ", "''", "&apos;", "&amp;", "&lt;b&gt;", "&#91;", "&bar;", "a-b-c",
    ",\u00a0", "nº\u00a0", "\u00a0%", "\u00a0ºC", "\u00a0cm", "5\u00a03", "\u00a0:", "a--b", ") :", '."',
]  # fmt: skip


def fuzzed_lines(count, seed):
    generator = random.Random(seed)

    def sign():
        if generator.random() < 0.85:
            return generator.choice(PIECES)
        return chr(
            generator.choice(
                [
                    generator.randrange(32, 592),
                    generator.randrange(32, 0xD800),
                    generator.randrange(0xE000, 0x110000),
                ]
            )
        )

    return ["".join(sign() for _ in range(generator.randrange(1, 50))) for _ in range(count)]


@functools.cache
class Reference:
    """sacremoses for one language, on either side of the model."""

    def __init__(self, language):
        self.normalize = MosesPunctNormalizer(lang=language).normalize
        self.tokenizer, self.detokenizer = (
            MosesTokenizer(lang=language),
            MosesDetokenizer(lang=language),
        )
        # The same sets, made once instead of for every prefix.
        alpha, lower = set(self.tokenizer.IsAlpha), set(self.tokenizer.IsLower)
        self.tokenizer.isanyalpha = lambda text: not alpha.isdisjoint(text)
        self.tokenizer.islower = lambda text: lower.issuperset(text)

    def tokenize(self, text, **options):
        return self.tokenizer.tokenize(text, **{"escape": False, "return_str": True, **options})

    def detokenize(self, text, *, unescape=False):
        return self.detokenizer.detokenize(text.split(), unescape=unescape)


@functools.cache
def rules_of(language):
    return MosesRules.from_sacremoses(language, language)


def compare(language, lines):
    reference, rules = Reference(language), rules_of(language)
    normalize, tokenize = Normalizer(language), Tokenizer(rules)
    aggressive = Tokenizer(rules, aggressive=True)
    detokenize = None if language in WITHOUT_DETOKENIZER else Detokenizer(rules)
    for line in lines:
        normalized = normalize(line)
        assert normalized == reference.normalize(line), line
        tokens = tokenize(normalized)
        assert tokens == reference.tokenize(normalized), normalized
        escaped = reference.tokenize(line, aggressive_dash_splits=True, escape=True)
        assert escape(aggressive(line)) == escaped, line
        if detokenize is not None:
            for text in (tokens, normalized):
                assert detokenize(text) == reference.detokenize(text), text
            for text in (escaped, line):
                assert detokenize(unescape(text)) == reference.detokenize(text, unescape=True), text


@pytest.mark.parametrize("language", LANGUAGES)
def test_fuzzed_lines(language):
    # sacremoses takes a quarter of a second for a line of Chinese or Japanese.
    count = 300 if language in ("en", "de", "fr") else 6 if language == "zh" else 60
    compare(language, fuzzed_lines(count, seed=language))


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_real_text(language):
    """Multi30k, all of it, where FAIRSEQ_HRT_MULTI30K names its folder."""
    folder = os.environ.get("FAIRSEQ_HRT_MULTI30K")
    if not folder:
        pytest.skip("FAIRSEQ_HRT_MULTI30K names no folder")
    for split in ("train", "val", "test_2016_flickr"):
        with gzip.open(Path(folder) / f"{split}.{language}.gz", "rt", encoding="utf-8") as file:
            compare(language, file.read().split("\n")[:-1])


@pytest.fixture(scope="module")
def english():
    return Reference("en"), Normalizer("en"), Tokenizer(rules_of("en"))


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("a5Z ',.\"sé½中-"), max_size=12))
def test_every_order_of_few_signs(english, text):
    reference, normalize, tokenize = english
    assert normalize(text) == reference.normalize(text)
    assert tokenize(text) == reference.tokenize(text)


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from('.…"< a,»\u00a0'), max_size=14), st.sampled_from(["de", "es", "fr"]))
def test_full_stops_and_quotation_marks(text, language):
    assert Normalizer(language)(text) == Reference(language).normalize(text)


@pytest.mark.parametrize("text", ["…" * 20000, '"' + "…" * 20000, "." * 60000 + '" x'])
def test_many_full_stops(text):
    """Tried from each of them, the pattern took minutes."""
    assert len(Normalizer("de")(text)) >= 60000


@pytest.mark.parametrize("signs", ["a5, ", "a5' ", "sA.' "])
def test_every_short_text_of_few_signs(english, signs):
    reference, _, tokenize = english
    for text in (
        "".join(chosen) for length in range(5) for chosen in itertools.product(signs, repeat=length)
    ):
        assert tokenize(text) == reference.tokenize(text), text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["DOT", "MULTI", "D", "OT", ".", "..", " ", "a"]), max_size=12).map(
        "".join
    )
)
def test_texts_that_hold_the_marker_of_full_stops(english, text):
    reference, _, tokenize = english
    assert tokenize(text) == reference.tokenize(text)


def test_many_beginnings_of_the_marker_of_full_stops(english):
    """Tried from each of them, the pattern took minutes."""
    text = "DOT" * 300_000 + " DOTMULTI"
    assert english[2](text) == "DOT" * 300_000 + " ."


@pytest.mark.parametrize(
    "signs",
    [
        ".",
        "'",
        ",",
        "-",
        "5,",
        "a'",
        "a.",
        " .'",
        '"',
        "(",
        ") ",
        "\u00a0",
        "\u3000",
        "a",
        "5",
        "DOT",
        "@-@ ",
    ],
)
@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_runs_of_one_sign(language, signs):
    """A rule that is tried again from each sign would take minutes."""
    rules = rules_of(language)
    text = signs * (50_000 // len(signs)) + " DOTMULTI x"
    assert Detokenizer(rules)(Tokenizer(rules)(Normalizer(language)(text))).endswith("x")
