"""Symbols that a model lacks, with models that copy their source."""

import asyncio
import dataclasses
import random
from pathlib import Path

import pytest
from imported_models import WORDS, pieces

from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.bundles.translation import join_pieces
from fairseq_hrt.native.bundles.translator import Translator
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.options.values import UnsupportedOption
from fairseq_hrt.native.server.metrics import Metrics
from fairseq_hrt.native.server.settings import Settings
from fairseq_hrt.native.server.systems import load_served
from fairseq_hrt.native.text.unknown_symbols import Symbol, symbols, with_symbols

FAMILY, TONED, FLAG, KEY = "👨\u200d👩\u200d👧", "👍🏽", "🇪🇸", "1\ufe0f\u20e3"
SYMBOLS = ["😀", "€", "₿", "½", "°", "❤\ufe0f", FAMILY, TONED, FLAG, KEY, "\U0001fae9", "„", "§"]


class Copying:
    """A decoder whose translation is the source, or its words in reverse order."""

    def __init__(self, aligns=True, turned=False, most=200):
        self.aligns, self.turned, self.most = aligns, turned, most

    def identity(self):
        return {"engine": "native"}

    def describe(self):
        return "copies"

    def prepare(self, options, wanted, given):
        asked = wanted.alignments or "print_alignment" in options
        if asked and not self.aligns:
            raise UnsupportedOption("no words are aligned")
        return asked

    def longest(self, prepared):
        return self.most, self.most

    def decode(self, prepared, rows, wanted, watch):
        found = []
        for row in rows:
            assert row[-1] == 2 and 3 not in row[:-1]
            order = [*range(len(row) - 1)]
            order = [*(reversed(order) if self.turned else order), len(row) - 1]
            tokens = [row[place] for place in order]
            one = Hypothesis(tokens, -1.0, [-1.0] * len(row))
            one.alignment = order if prepared else []
            found.append([one])
        return found


class Unsure(Copying):
    """A decoder whose translation consists of <unk>."""

    def decode(self, prepared, rows, wanted, watch):
        found = super().decode(prepared, rows, wanted, watch)
        for (one,) in found:
            one.tokens = [*([3] * (len(one.tokens) - 1)), 2]
        return found


def bundle_of(folder: Path, tokenizer: str, subwords: str, model: Path) -> Bundle:
    codes = None
    known = [*WORDS, *".,!?()", "&apos;", "10", "5"]
    if subwords == "sentencepiece":
        codes, known = model.name, [one for one in pieces(model) if not one.startswith("<")]
        (folder / codes).write_bytes(model.read_bytes())
    elif subwords == "subword-nmt":
        codes = "codes"
        (folder / codes).write_text("#version: 0.2\na b</w>\n")
        letters = sorted(set("".join(WORDS)))
        known = [*letters, *(f"{letter}@@" for letter in letters), *".,!?()"]
    for language in ("en", "de"):
        text = "".join(f"{word} 1\n" for word in dict.fromkeys(known))
        (folder / f"dict.{language}.txt").write_text(text, encoding="utf-8")
    return Bundle(
        folder, "translation_autoregressive", "en", "de", tokenizer, subwords, codes=codes
    )  # fmt: skip


KINDS = [
    ("space", "sentencepiece"), ("moses-punctuation", "sentencepiece"), ("moses", "subword-nmt"),
    ("space", "subword-nmt"), ("moses", "none"), ("space", "none"),
]  # fmt: skip


@pytest.fixture(params=KINDS, ids="-".join)
def bundle(request, tmp_path, sentencepiece_model):
    return bundle_of(tmp_path, *request.param, sentencepiece_model)


def lines_with_symbols(known, seed):
    """Lines of words and symbols: alone, several, at both ends, touching words or not."""
    draw = random.Random(seed)
    yield from SYMBOLS
    for symbol in SYMBOLS:
        word, other = draw.sample(known, 2)
        for line in (
            "{0} {1}", "{1} {0}", "{1}{0}", "{0}{1}", "{1} {0} {2}", "{1}{0} {2}", "{1} {0}{2}",
            "{1}{0}{2}", "{0}{0} {1} {0}", "{1} {0} {0} {2}", "{0} {1} {0} {2} {0}",
        ):  # fmt: skip
            yield line.format(symbol, word, other)
    for _ in range(40):
        line = ""
        for _ in range(draw.randint(1, 9)):
            item = draw.choice([*known, *draw.sample(SYMBOLS, 4)])
            # Two words that touch would be one.
            gap = " " if line[-1:].isalpha() and item.isalpha() else draw.choice(["", " ", " "])
            line += gap + item
        yield line


@pytest.mark.parametrize("aligns", [True, False])
def test_a_copying_model_copies_them(bundle, aligns):
    """At both ends, alone, several, beside words; whether or not the model aligns words."""
    model = Translator(bundle, Copying(aligns))
    known = [word for word in WORDS if word.isalpha() and len(word) > 1]
    lines = [line for seed in range(3) for line in lines_with_symbols(known, seed)]
    exact = 0
    for line in lines:
        found = model.translate(line)
        plain = " ".join(line.split())
        # Each symbol is there, once, in its order.
        assert [found[a:b] for a, b in symbols(found)] == [plain[a:b] for a, b in symbols(plain)]
        exact += found == plain
    # Without alignments a place is estimated by the number of words.
    assert exact == len(lines) if aligns else exact > 0.8 * len(lines)


def test_every_way_to_translate_is_the_same(bundle):
    model = Translator(bundle, Copying())
    lines = [line for line in lines_with_symbols(["red", "man", "dogs"], 5) if "½" not in line]
    single = [model.translate(line) for line in lines]
    assert model.translate(lines) == single
    assert model.translate([model.in_words(line) for line in lines]) == single
    details = model.translate(lines, details=True)
    assert [one.text for one in details] == single and not any(one.alignment for one in details)
    served = [
        join_pieces(line, model.translate(model.prepare(line), details=True)) for line in lines
    ]
    assert [one.text for one in served] == single


def test_the_server_gives_the_same(bundle):
    model = Translator(bundle, Copying())
    system = load_served(
        "copy", bundle.folder, Settings((("copy", bundle.folder),)), Metrics(), lambda *given: model
    )
    try:
        assert system.aligned
        (found,) = asyncio.run(system.batcher.submit(["a 😀 man"]))
        assert found.text == model.translate("a 😀 man") == "a 😀 man"
    finally:
        system.batcher.close()


def test_long_lines_keep_them_in_their_pieces(bundle):
    model = Translator(bundle, Copying(most=5))
    line = "😀 " + " ".join(f"a {symbol} a" for symbol in ["😀", "€", "§"] * 4) + " €"
    assert len(model.prepare(line)) > 2 and model.translate(line) == line


def test_a_language_token_is_no_symbol(tmp_path, sentencepiece_model):
    """Where the dictionary lacks its signs."""
    bundle = bundle_of(tmp_path, "space", "none", sentencepiece_model)
    bundle = dataclasses.replace(bundle, source_prefix=">>deu<<", target_prefix=">>deu<<")
    with open(tmp_path / "dict.en.txt", "a") as file:
        file.write(">>deu<< 1\n>>fra<< 1\n")
    model = Translator(bundle, Copying())
    prepared = model.in_words(" >>fra<< a 😀 man >>")
    assert prepared.words == [">>fra<<", "a", "man"]
    assert [one.text for one in prepared.symbols] == ["😀", ">>"]
    lines = [">>fra<< The man runs. The dog sleeps.", "The man runs. The dog sleeps."]
    firsts = [[one.words[0] for one in model.in_sentences(line)] for line in lines]
    assert firsts == [[">>fra<<"] * 2, [">>deu<<"] * 2]
    assert model.mostly_unknown("zebra") == ["zebra"]
    assert Translator(bundle, Unsure()).translate("a man", replace_unk=True) == "<unk> a man"
    # SentencePiece writes a mark before tokens that are its pieces.
    model = Translator(dataclasses.replace(bundle, source_prefix="▁ >>deu<<"), Copying())
    first, second = model.in_sentences(lines[0])
    assert first.words[:3] == ["▁", ">>fra<<", "The"]
    assert second.words[:3] == ["▁", ">>fra<<", "The"]
    assert second.start == len(first) - 2


def test_scores_are_of_what_was_translated(bundle):
    class Scoring(Copying):
        def score(self, prepared, sources, targets, wanted):
            self.scored = sources, targets
            return [Hypothesis(row, -1.0, [-1.0] * len(row)) for row in targets]

    plain, with_symbols = Scoring(), Scoring()
    Translator(bundle, plain).score(["a man"], ["a man"])
    Translator(bundle, with_symbols).score(["a 😀 man"], ["a man 😀"])
    assert plain.scored == with_symbols.scored


def test_they_move_with_their_words():
    source, found = ["a", "b", "c", "."], Symbol("😀", 2, False, " ", " ")
    assert with_symbols("c b a .", ["c", "b", "a", "."], [2, 1, 0, 3], [found], source) == (
        "c b 😀 a ."
    )
    # Touching the next word alone, it stays before that; at a full stop, before it.
    touching = found._replace(text="$", right="c")
    assert with_symbols("b c a", ["b", "c", "a"], [1, 2, 0], [touching], source) == "b $c a"
    last = Symbol("😀", 3, False, " ", ".")
    assert with_symbols("c b a.", ["c", "b", "a", "."], [2, 1, 0, 3], [last], source) == (
        "c b a 😀."
    )
    # The unit of a number stays with it.
    unit = Symbol("€", 1, False, " ", ".")
    assert with_symbols("5 ok.", ["5", "ok", "."], [0, 0, 1], [unit], ["5", "."]) == "5 ok €."
    assert with_symbols("", [], [], [unit, last], []) == "€ 😀"
    # At the beginning of a line it stays there, unless it touches the first word alone.
    begins = Symbol("$", 0, False, "", "5")
    given = "price is 5", ["price", "is", "5"], [2, 1, 0]
    assert with_symbols(*given, [begins], ["5", "is", "price"]) == "price is $5"
    apart = begins._replace(right=" ")
    assert with_symbols(*given, [apart], ["5", "is", "price"]) == "$ price is 5"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("don’t l`a A-b", []), ("5€", ["€"]), (f"a{FAMILY}{TONED}", [FAMILY, TONED]),
        (FLAG + FLAG, [FLAG, FLAG]), (KEY + "1", [KEY]), ("x² (y)", ["²", "(", ")"]),
        ("é e\u0301 हिन्दी", []), ("\U0001fae9", ["\U0001fae9"]), ("", []), ("7", []),
    ],
)  # fmt: skip
def test_what_counts_as_a_symbol(text, found):
    assert [text[start:end] for start, end in symbols(text)] == found


def test_symbols_that_a_model_has_are_left_to_it(bundle):
    model = Translator(bundle, Copying())
    for line in ("a man", "", "  ", "red dogs"):
        assert model.in_words(line).symbols == [] and model.translate(line) == line.strip()
