"""What a loaded bundle does with text, whichever engine decodes."""

import asyncio
import re
import threading
from types import SimpleNamespace

import pytest
from native_bundles import LINES, loaded
from tiny_models import SIZES, write_bundle

import fairseq_hrt
from fairseq_hrt.cli.output_lines import by_sentence
from fairseq_hrt.native.bundles import bundle
from fairseq_hrt.native.bundles.decoder import Wanted
from fairseq_hrt.native.bundles.hypothesis_texts import terms_in
from fairseq_hrt.native.bundles.translation import PreparedLine, join_pieces
from fairseq_hrt.native.bundles.translator import Translator
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.options.values import UnsupportedOption
from fairseq_hrt.native.runtime.engine import Cancelled
from fairseq_hrt.native.text.given_terms import without_terms
from fairseq_hrt.native.text.glossary import Glossary

# The bundles of both engines take their time.
EITHER = pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("native", "torch")],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("bundle") / "plain", "autoregressive").folder


@pytest.fixture(scope="module")
def model(folder):
    return fairseq_hrt.from_pretrained(folder, device="cpu")


def test_a_byte_order_mark_changes_nothing(model):
    assert model.translate("\ufeffa b") == model.translate("a b")


def test_scoring_prepares_its_text_once(folder, monkeypatch):
    model, made = fairseq_hrt.from_pretrained(folder, device="cpu"), []
    original = bundle.TextPipeline
    monkeypatch.setattr(
        bundle, "TextPipeline", lambda *given: made.append(given[0]) or original(*given)
    )
    model.score(["a b"] * 20, ["A B"] * 20)
    model.score(["a"], ["A"])
    assert [(recipe.source_lang, recipe.target_lang) for recipe in made] == [("en", "de")]


def test_pairs_with_an_empty_line_have_no_score(model):
    found = model.score(["a b", "", "a", "a b c"], ["A", "A", " ", "A B"])
    assert [one.score is None for one in found] == [False, True, True, False]
    assert [(one.source, one.text) for one in found] == [
        ("a b", "A"),
        ("", "A"),
        ("a", " "),
        ("a b c", "A B"),
    ]
    assert found[3].score == pytest.approx(model.score(["a b c"], ["A B"])[0].score, abs=1e-5)


def test_lines_are_cut_where_the_model_ends(tmp_path):
    sizes = [*SIZES, "--max-source-positions=6", "--max-target-positions=30"]
    model = fairseq_hrt.from_pretrained(
        write_bundle(tmp_path / "short", "autoregressive", sizes=sizes).folder, device="cpu"
    )
    assert [len(piece) for piece in model.prepare("a b c d e")] == [5]
    pieces = model.prepare("a b c d e f g")
    assert model.pieces(["a b c d e f g", ""]) == [[4, 5, 6, 7, 8, 2], [9, 10, 2]]
    assert [piece.start for piece in pieces] == [0, 5]
    # A call may ask for shorter ones.
    (whole,) = model.translate(["a b c d e"], details=True, max_source_positions=4, max_len_b=3)
    parts = model.translate(["a b c", "d e"], details=True, max_source_positions=4, max_len_b=3)
    assert (
        whole.text == " ".join(one.text for one in parts) and len(model.prepare("a b c d e")) == 1
    )
    # Each piece's unknown words are replaced by its own.
    assert re.fullmatch(
        "a( a)* b( b)*",
        model.translate("a a a a a b b", unkpen=-1000, replace_unk=True, max_len_b=4),
    )
    model.score(["a b c d e"], ["A"])
    with pytest.raises(
        ValueError, match="the source of pair 1 has 7 subwords with </s>, the model takes 6"
    ):
        model.score(["a", "a b c d e f"], ["A", "A"])


@EITHER
def test_prepared_lines_are_translated_like_raw_ones(bundles, engine, monkeypatch):
    model = loaded(bundles / "autoregressive", engine)
    lines = [*LINES, " ".join(["zebra a"] * 300), " \t"]
    options = [{}, {"beam": 2, "nbest": 2}, {"replace_unk": True, "unkpen": -100, "max_len_b": 5}]
    expected = [model.translate(lines, details=True, **chosen) for chosen in options]
    prepared = [model.prepare(line) for line in lines]
    assert [len(pieces) for pieces in prepared][-2:] == [3, 1] and all(prepared)
    # Nothing is prepared a second time.
    monkeypatch.setattr(model.pipeline, "words", None)
    for chosen, wanted in zip(options, expected):
        found = iter(
            model.translate(
                [piece for pieces in prepared for piece in pieces], details=True, **chosen
            )
        )
        translated = [[next(found) for _ in pieces] for pieces in prepared]
        assert [join_pieces(line, pieces) for line, pieces in zip(lines, translated)] == wanted


TERMS = {"a b": "Ach", "c": "See", "zebra": "Zebra", "J": "never"}
WITH_TERMS = ["a b c d", "c a  b a b", "zebra a", "e f", "", "j", "d c", " ".join(["a b"] * 60)]


@EITHER
def test_terms_get_their_given_translations(bundles, engine):
    """In every family, whether it aligns words or not; lines without terms stay as they are."""
    # PyTorch is slower; the families left out there differ in the search alone.
    families = ["autoregressive", "ctc", "dag"]
    if engine == "native":
        families += ["hrt", "bidirectional", "jacobi"]
    for family in families:
        model = loaded(bundles / family, engine)
        plain = model.translate(WITH_TERMS, details=True, max_len_b=8)
        found = model.translate(WITH_TERMS, details=True, max_len_b=8, glossary=TERMS)
        for line, before, one in zip(WITH_TERMS, plain, found):
            wanted = [TERMS[name] for name in re.findall("a +b|c|zebra", line) if name in TERMS]
            wanted += ["Ach"] * line.count("a  b")
            assert sorted(term.text for term in one.terms) == sorted(wanted), (family, line)
            for term in one.terms:
                assert one.text[term.start : term.end] == term.text
                assert line[term.origin :].startswith(term.source)
            assert without_terms(one.text, one.terms).split() == before.text.split()
            assert one.tokens == before.tokens
            if not wanted:
                assert one == before
        again = model.translate_async(WITH_TERMS, max_len_b=8, glossary=TERMS)
        assert asyncio.run(again) == [one.text for one in found]
    given = fairseq_hrt.from_pretrained(
        bundles / family, device="cpu", engine=engine, glossary=TERMS
    )
    assert given.translate(WITH_TERMS, max_len_b=8) == [one.text for one in found]


def test_terms_are_translated_alone_as_usual_whatever_a_call_asks_for(folder, monkeypatch):
    """Many terms with a wide beam or long translations would take long."""
    model = fairseq_hrt.from_pretrained(folder, device="cpu", max_len_b=4, nbest=2, beam=2)
    decode, asked = model.decoder.decode, []

    def counted(prepared, rows, wanted, watch):
        found = decode(prepared, rows, wanted, watch)
        asked.append([len(rows), len(found[0]) if found else 0])
        return found

    monkeypatch.setattr(model.decoder, "decode", counted)
    glossary = Glossary({"a b": "Ach", "c": "See"})
    assert model.new_terms(["c a  b c", "d"], glossary) == ["a  b", "c"]
    model.prepare_terms(["c", "a  b"])
    assert model.new_terms(["c a  b", "a b"], glossary) == ["a b"]
    model.translate(["c a b", "d"], glossary=glossary, beam=4, nbest=4, min_len=3, max_len_b=9)
    assert asked == [[2, 1], [1, 1], [2, 4]]
    # Nothing is decoded for terms whose translations are kept.
    model.translate(["c a b", "d"], glossary=glossary)
    assert asked[3:] == [[2, 2]]


def test_a_cut_through_a_word_makes_no_terms():
    line = PreparedLine("start art st", ["st@@", "art", "art", "st"])
    pieces = PreparedLine.pieces(line, SimpleNamespace(prefix_length=0), 1)
    terms = Glossary({"art": "Kunst", "st": "Sankt"})
    found = [[term.translation for term in terms_in(piece, terms)] for piece in pieces]
    assert found == [[], [], ["Kunst"], ["Sankt"]]


def test_places_in_the_sentences_of_a_line_count_from_its_beginning(model):
    pytest.importorskip("sentencex")
    long = " ".join(["a b"] * 150)
    line = f"  a b\nc d  \n {long}\n\n a e "
    terms = {"a": "Ach", "c": "See"}
    options = {"max_len_b": 5, "unkpen": -100, "replace_unk": True}
    (found,) = by_sentence(model, [line], {"details": True, "batch_size": 4, **options})
    expected, start = [], 0
    for sentence in ("a b", "c d", long, "a e"):
        alone = model.translate(sentence, details=True, **options)
        expected += [place + start for place in alone.alignment]
        start += len(sentence.split())
    assert found.source == line and found.alignment == expected
    (found,) = by_sentence(model, [line], {"details": True, "batch_size": 4, "glossary": terms})
    places = [place for place, sign in enumerate(line) if sign in terms]
    assert sorted(term.origin for term in found.terms) == places
    assert all(line[term.origin] == term.source for term in found.terms)
    # The only sentence of its line, with its other hypotheses.
    (found,) = by_sentence(
        model, ["  a"], {"details": True, "glossary": terms, "nbest": 2, "beam": 2}
    )
    for one in (found, *found.alternatives):
        assert (one.source, one.terms[0].origin) == ("  a", 2)
    assert len(found.alternatives) == 1


@EITHER
def test_graphs_of_prepared_lines(bundles, engine):
    model = loaded(bundles / "dag", engine)
    prepared = [piece for line in ("a b c", "", "j") for piece in model.prepare(line)]
    assert model.graphs(prepared) == model.graphs(["a b c", "", "j"])
    assert model.graphs("a b c") == model.graphs(["a b c"])[0]
    for lines in ([b"a"], [None], b"a"):
        with pytest.raises(TypeError, match="line 0 is .*: give strings"):
            model.graphs(lines)


@EITHER
def test_a_line_is_prepared_while_others_are_translated(bundles, engine):
    model = fairseq_hrt.from_pretrained(
        bundles / "autoregressive", device="cpu", engine=engine, threads=1
    )
    prepared = []

    def progress(*done):
        # Within the call, and by another thread.
        other = threading.Thread(
            target=lambda: prepared.append(model.prepare("a b c")), daemon=True
        )
        other.start()
        other.join(60)
        assert prepared, "it waits for the call"

    model.translate(["a b"], progress=progress)
    assert [piece.words for piece in prepared[0]] == [["a", "b", "c"]]


@EITHER
def test_translations_that_nobody_wants_any_more(bundles, engine):
    for family in ("autoregressive", "dag"):
        model, asked = (
            fairseq_hrt.from_pretrained(bundles / family, engine=engine, device="cpu", threads=1),
            [],
        )

        def cancelled():
            asked.append(1)  # noqa: B023
            return True

        lines = [" ".join("abcdefghij" * 5)] * 4000
        for translate in [model.translate] + [model.graphs] * (family == "dag"):
            with pytest.raises(Cancelled):
                translate(lines, cancelled=cancelled)
            assert asked.count(1) == 1
            asked.clear()
        assert model.translate("a b", cancelled=lambda: False) == model.translate("a b")


class Refusing:
    """A decoder that leaves some options to another one."""

    def __init__(self, *refused):
        self.refused, self.asked = refused, []

    def prepare(self, options, wanted, given):
        self.asked.append((dict(options), wanted, given))
        for name in self.refused:
            if name in options:
                raise UnsupportedOption(f"--{name}")
        return options

    def describe(self):
        return f"an engine without {self.refused[0]}"

    def longest(self, prepared):
        return 30, 40

    def decode(self, prepared, rows, wanted, watch):
        return [[Hypothesis([*row[:-1], 2], -1.0, [-1.0] * len(row), steps=1)] for row in rows]


def test_another_decoder_takes_over(folder, caplog):
    first, second, made = Refusing("temperature"), Refusing("sampling"), []

    def fallback():
        made.append(1)
        return second

    model = Translator(bundle.load_bundle(folder), first, fallback=fallback)
    assert first.asked[-1][2] == frozenset() and model.translate("a b") == "A B" and made == []
    assert model.describe() == "an engine without temperature"
    assert [model.translate("a b", temperature=1) for _ in range(2)] == ["A B"] * 2
    assert made == [1] and caplog.text.count("--temperature (PyTorch takes over)") == 1
    assert second.asked[-1][0]["temperature"] == "1" and second.asked[-1][2] == {"temperature"}
    # Named is the one that decoded last.
    assert model.describe() == "an engine without sampling"
    assert model.translate("a b") and model.describe() == "an engine without temperature"
    with pytest.raises(UnsupportedOption, match="--sampling"):
        model.translate("a b", temperature=1, sampling=1)
    with pytest.raises(UnsupportedOption, match="--temperature"):
        Translator(bundle.load_bundle(folder), first, temperature=1)
    alone = Translator(bundle.load_bundle(folder), first)
    with pytest.raises(UnsupportedOption, match="--temperature"):
        alone.translate("a b", temperature=1)


def test_a_decoder_is_told_what_is_wanted(folder):
    decoder = Refusing()
    model = Translator(bundle.load_bundle(folder), decoder, replace_unk=True, lenpen=2)
    options, wanted, given = decoder.asked[-1]
    assert wanted.alignments and given == {"replace_unk", "lenpen"} and "replace_unk" not in options
    assert (options["lenpen"], options["unkpen"]) == ("2", "0")
    model.translate(["a"], batch_size=3, replace_unk=False)
    options, wanted, given = decoder.asked[-1]
    assert wanted == Wanted(3, scores=False) and options["unkpen"] == "inf"
    assert model.translate(["a"], details=True)[0].score == -1.0 and decoder.asked[-1][1].scores


@pytest.mark.parametrize("name, instead", [
    ("engine", "give it to from_pretrained"), ("threads", "give it to from_pretrained"),
    ("max_tokens", "give batch_size to the call"), ("batch-size", "give batch_size to the call"),
    ("weights", "leave it out"), ("source_lang", "leave it out"), ("quiet", "leave it out"),
])  # fmt: skip
def test_what_is_no_option_of_decoding(folder, name, instead):
    """What would have no effect, or have another engine take over."""
    model, message = Translator(bundle.load_bundle(folder), Refusing()), f"^{name}=x .*: {instead}$"
    for call in (model.translate, model.graphs, lambda line, **own: model.score([""], [""], **own)):
        with pytest.raises(ValueError, match=message):
            call("a b", **{name: "x"})
    with pytest.raises(ValueError, match=message):
        Translator(bundle.load_bundle(folder), Refusing(), **{name: "x"})


@pytest.mark.parametrize(
    "lines, kind", [([None], "NoneType"), (["a", b"b"], "bytes"), ([["a"]], "list")]
)
def test_what_is_not_a_line(model, lines, kind):
    message = rf"line {len(lines) - 1} is .* of the type {kind}: give strings \(str\)"
    with pytest.raises(TypeError, match=message):
        model.translate(lines)
    with pytest.raises(TypeError, match=message):
        model.score(lines, ["A"] * len(lines))
