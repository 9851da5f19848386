"""Systems of a server: loaded, described, and chosen by languages and names."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_hrt.native.bundles import pretrained
from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.bundles.translation import PreparedLine, Translation
from fairseq_hrt.native.runtime.engine import UnsupportedOption
from fairseq_hrt.native.server import systems
from fairseq_hrt.native.server.catalogue import Catalogue, language_name
from fairseq_hrt.native.server.errors import RequestError
from fairseq_hrt.native.server.metrics import Metrics
from fairseq_hrt.native.server.requests import TranslationRequest
from fairseq_hrt.native.server.settings import Settings
from fairseq_hrt.native.server.systems import (
    ServedSystem,
    alternatives_options,
    load_served,
    load_translator,
    require_room,
)


def test_a_server_without_systems_knows_no_language():
    assert Catalogue(()).languages() == []


def served(name, source, target, task="translation_hrt", alternatives=True):
    return ServedSystem(
        name,
        Bundle(Path("unused"), task, source, target, "space", "none"),
        None,
        None,
        alternatives,
    )


def asked(target, system=None):
    return TranslationRequest(("a",), True, "auto", target, system=system)


def test_a_request_finds_its_system():
    catalogue = Catalogue(
        [
            served("a", "en", "de"),
            served("b", "en", "de"),
            served("c", "de", "en"),
            served("d", "en", "qq"),
        ]
    )
    assert catalogue.codes == ["en", "de", "qq"], "languages to translate from come first"
    assert catalogue.languages()[1:] == [
        {"code": "en", "name": "English", "targets": ["de", "en", "qq"]},
        {"code": "qq", "name": "qq", "targets": ["qq"]},
    ]  # fmt: skip
    many = Catalogue([served("e", "eng_Latn", "zho_Hans"), served("f", "eng_Latn", "zho_Hant")])
    assert [one["name"] for one in many.languages()] == [
        "English", "Chinese (zho_Hans)", "Chinese (zho_Hant)",
    ]  # fmt: skip
    assert (
        catalogue.choose(asked("de"), "en").name == "a"
        and catalogue.choose(asked("de", "b"), "en").name == "b"
    )
    for request, source, message in (
        (asked("xx"), "en", "xx is not supported"),
        (asked("de"), "yy", "yy is not supported"),
        (asked("qq"), "de", "qq (qq) is not available as a target language from German (de)"),
        (
            asked("de", "c"),
            "en",
            "Invalid request: system 'c' does not translate from en to de; these do: a, b",
        ),
    ):
        with pytest.raises(RequestError) as caught:
            catalogue.choose(request, source)
        assert (caught.value.status, caught.value.message) == (400, message)


def test_a_language_that_is_detected():
    catalogue = Catalogue(
        [served("a", "en", "de"), served("b", "de", "en"), served("c", "fr_FR", "en")]
    )
    ranked = [{"language": code, "confidence": 90.0} for code in ("de", "en", "fr_FR")]

    def found(ranked, target, itself):
        return catalogue.detected(ranked, target, itself=itself)["language"]

    # LibreTranslate gives a text in the target language back; a translation can only have another.
    assert found(ranked, "de", True) == "de" and found(ranked, "de", False) == "en"
    assert found(ranked[1:], "en", True) == "en" and found(ranked[1:], "en", False) == "fr_FR"
    assert found(ranked[:1], "fr_fr", True) == "de", "refused by its name"
    for other, language in ((4.0, "de"), (3.0, "en")):
        unsure = [{"language": "en", "confidence": 35.0}, {"language": "de", "confidence": other}]
        assert found(unsure, "en", True) == language
    nothing = [{"language": "en", "confidence": 0.0}]
    assert found(nothing, "en", False) == "de" and found(nothing, "de", False) == "en"
    assert found(nothing, "en", True) == "en", "no other is likely"
    nothing.append({"language": "fr_FR", "confidence": 0.0})
    assert found(nothing, "en", True) == "fr_FR"
    assert found(nothing, "xx", True) == "en"
    assert catalogue.gives_back("DE", "de") and catalogue.gives_back("fr_fr", "FR_FR")
    assert not catalogue.gives_back("de", "en") and not catalogue.gives_back("xx", "xx")
    assert not Catalogue([served("a", "en", "en")]).gives_back("en", "en"), "such as summaries"


TASKS = (
    "translation",
    "translation_autoregressive",
    "translation_hrt",
    "translation_bidirectional",
    "translation_dag",
    "translation_ctc",
)


def test_options_for_several_hypotheses():
    found = {task: alternatives_options(served("a", "en", "de", task), 6, {}) for task in TASKS}
    assert found["translation_hrt"] == {"beam": 6, "nbest": 6, "hrt_nat_beam": 6}
    assert found["translation_dag"] == {"beam": 6, "nbest": 6, "dag_decode_strategy": "beam"}
    for task in TASKS[:2] + ("translation_bidirectional", "translation_ctc"):
        assert found[task] == {"beam": 6, "nbest": 6}
    assert alternatives_options(served("a", "en", "de", alternatives=False), 3, {"lenpen": 1}) == {
        "lenpen": 1
    }
    assert language_name("fi") == "Finnish" and language_name("tlh") == "tlh"


@pytest.mark.parametrize(
    "bundled, own, asked, expected",
    [
        ({}, {}, {}, (5, 5)), ({"beam": "7"}, {}, {}, (7, 7)),
        ({"beam": "7"}, {"beam": "2"}, {}, (3, 3)), ({"beam": "7"}, {}, {"beam": 4}, (4, 4)),
        ({"beam": "1"}, {}, {}, (3, 3)), ({"beam": "7", "hrt_nat_beam": "1"}, {}, {}, (7, 3)),
        ({"hrt_nat_beam": "5"}, {}, {"beam": 3}, (3, 3)),
        ({"beam": "5"}, {"hrt_nat_beam": "4"}, {}, (5, 4)),
    ],
)  # fmt: skip
def test_alternatives_never_narrow_a_beam(bundled, own, asked, expected):
    """Whoever asks for two more translations gets the best one of the beam that is searched without
    them."""
    system = served("a", "en", "de", "translation_hrt")
    system.bundle.options.update(bundled)
    system.options.update(own)
    found = alternatives_options(system, 3, {"lenpen": 0.6, **asked})
    assert found == {"lenpen": 0.6, "beam": expected[0], "nbest": 3, "hrt_nat_beam": expected[1]}


@pytest.mark.parametrize(
    "chosen",
    [{"hrt_decode_chunk": "1"}, {"hrt_decode_chunk": "auto", "hrt_chunk_table": "9:1,inf:1"}],
)
def test_word_by_word_no_second_stage_completes_alternatives(chosen):
    system = served("a", "en", "de", "translation_hrt")
    system.options.update(chosen)
    assert alternatives_options(system, 3, {}) == {"beam": 5, "nbest": 3}


def test_other_choices_of_a_request_stay():
    system = served("a", "en", "de", "translation_dag")
    asked = {"dag_decode_strategy": "lookahead", "nbest": 7, "beam": 4}
    assert alternatives_options(system, 3, asked) == {
        "dag_decode_strategy": "lookahead",
        "nbest": 7,
        "beam": 7,
    }


class Greedy:
    """A translator that gives one hypothesis."""

    def __init__(self, task):
        self.bundle, self.calls = Bundle(Path("unused"), task, "en", "de", "space", "none"), []

    def identity(self):
        return {"engine": "native"}

    def describe(self):
        return "the native engine: int8 weights"

    def prepare(self, line):
        return [line]

    def translate(self, lines, *, details, **options):
        self.calls.append(options)
        if options.get("nbest", 1) > 1:
            raise ValueError("one only")
        return [SimpleNamespace(text=line.upper()) for line in lines]


@pytest.mark.parametrize("task, tried", [("translation_hrt", True), ("translation_jacobi", False)])
def test_loading_tries_what_a_system_can_do(task, tried, caplog):
    caplog.set_level(logging.INFO)
    translator, metrics = Greedy(task), Metrics()
    settings = Settings(
        systems=(("x", Path("folder")),), options=(("x", "lenpen", "0.5"),), max_batch=7
    )
    system = load_served("x", Path("folder"), settings, metrics, lambda folder, given: translator)
    try:
        assert "x: en to de, ready (the native engine: int8 weights)" in caplog.text
        assert translator.calls[0] == {"lenpen": "0.5"}, "so that the first request does not wait"
        assert translator.calls[1:] == [
            *[{"lenpen": "0.5", "beam": 5, "nbest": 2, "hrt_nat_beam": 5}] * tried,
            {"lenpen": "0.5", "print_alignment": "hard"},
        ]  # fmt: skip
        assert not system.aligned, "it took the option and returned no alignment"
        assert system.describe() == {
            "name": "x", "source": "en", "target": "de", "task": task, "engine": "native",
            "alternatives": False, "graph": False, "options": {"lenpen": "0.5"}, "examples": [],
        }  # fmt: skip
        assert b'fairseq_hrt_waiting_sentences{system="x"} 0.0' in metrics.exposition()[0]
        asyncio.run(system.batcher.submit(["b"]))
        assert translator.calls[-1]["cancelled"] == system.batcher.given_up, (
            "so that it ends with its requests"
        )
    finally:
        system.batcher.close()


@pytest.mark.parametrize("aligned", [True, False])
def test_loading_tries_whether_a_system_aligns_words(aligned):
    class Aligning(Greedy):
        def translate(self, lines, *, details, **options):
            if "print_alignment" in options and not aligned:
                raise ValueError("the words of this model are not aligned")
            return [Translation(line, line, tokens=["a"], alignment=[0]) for line in lines]

    settings = Settings(systems=(("x", Path("folder")),))
    system = load_served(
        "x", Path("folder"), settings, Metrics(), lambda *_: Aligning("translation_jacobi")
    )
    system.batcher.close()
    assert system.aligned == aligned


class InPieces(Greedy):
    """Translates no more than two words at once."""

    def prepare(self, line):
        return PreparedLine.pieces(line, SimpleNamespace(words=str.split, prefix_length=0), 2)

    def translate(self, lines, *, details, **options):
        words = [getattr(line, "words", line) for line in lines]
        return [
            Translation(" ".join(own).upper(), "whole", tokens=list(own), score=-1.0 * len(own))
            for own in words
        ]

    def graphs(self, lines, **options):
        return [[f"graph of {' '.join(line.words)}"] for line in lines]


def test_a_long_sentence_is_translated_in_pieces():
    translator, settings = InPieces("translation_dag"), Settings(systems=(("x", Path("folder")),))
    batcher = load_served(
        "x", Path("folder"), settings, Metrics(), lambda folder, given: translator
    ).batcher

    async def run():
        return await asyncio.gather(
            batcher.submit(["a b c", "", "d"]), batcher.submit(["a b c"], graph=True)
        )

    try:
        translations, graphs = asyncio.run(run())
    finally:
        batcher.close(5)
    assert [(one.text, one.tokens, one.score) for one in translations] == [
        ("A B C", ["a", "b", "c"], -1.5), ("", [], 0.0), ("D", ["d"], -1.0),
    ]  # fmt: skip
    assert graphs == [["graph of a b", "graph of c"]]


@pytest.mark.parametrize(
    "engine, device, runtime, fails, expected",
    [
        ("auto", None, "runtime.safetensors", None, ["native"]),
        ("auto", "cpu", "runtime.safetensors", None, ["native"]),
        ("auto", "cuda:1", "runtime.safetensors", None, ["torch"]),
        ("auto", None, None, None, ["torch"]), ("native", None, None, None, ["native"]),
        ("torch", None, "runtime.safetensors", None, ["torch"]),
        ("auto", None, "runtime.safetensors", UnsupportedOption("--sampling"), ["native", "torch"]),
    ],
)  # fmt: skip
def test_the_engine_is_decided_once(monkeypatch, caplog, engine, device, runtime, fails, expected):
    tried = []

    def from_pretrained(folder, *, engine, threads, use_shortlist, device):
        tried.append(engine)
        assert not use_shortlist and device == settings.device
        if engine == "native" and fails:
            raise fails
        return engine, threads

    monkeypatch.setattr(pretrained, "from_pretrained", from_pretrained)
    bundle = SimpleNamespace(runtime=runtime, models=["model.pt"])
    monkeypatch.setattr(systems, "load_bundle", lambda folder, *, for_runtime: bundle)
    caplog.set_level(logging.WARNING)
    settings = Settings(systems=(("x", Path("folder")),), engine=engine, device=device, threads=3)
    assert load_translator(Path("folder"), settings) == (expected[-1], 3) and tried == expected
    assert ("PyTorch takes over" in caplog.text) == bool(fails)
    if fails:
        # There is no checkpoint that it could take over.
        bundle.models = []
        with pytest.raises(UnsupportedOption, match="--sampling"):
            load_translator(Path("folder"), settings)


def test_a_shortlist_is_not_given_up_for_pytorch(monkeypatch):
    def from_pretrained(folder, *, engine, threads, use_shortlist, device):
        assert (engine, use_shortlist, device) == ("native", True, None)
        raise UnsupportedOption("no shortlist in folder")

    monkeypatch.setattr(pretrained, "from_pretrained", from_pretrained)
    bundle = SimpleNamespace(runtime="runtime.safetensors", models=["model.pt"])
    monkeypatch.setattr(systems, "load_bundle", lambda folder, *, for_runtime: bundle)
    settings = Settings(systems=(("x", Path("folder")),), shortlist=True)
    with pytest.raises(UnsupportedOption, match="no shortlist in folder"):
        load_translator(Path("folder"), settings)


def test_what_is_not_installed_is_named(monkeypatch):
    def from_pretrained(folder, **given):
        raise ImportError("no module", name="torch")

    monkeypatch.setattr(pretrained, "from_pretrained", from_pretrained)
    with pytest.raises(
        ValueError,
        match="folder needs PyTorch and fairseq, and torch is not installed.*--runtime int8",
    ):
        load_translator(Path("folder"), Settings(systems=(("x", Path("folder")),), engine="torch"))


class Copying(Greedy):
    def translate(self, lines, *, details, **options):
        self.calls.append(options)
        return [self.copy(line, int(options.get("nbest", 1))) for line in lines]

    def copy(self, line, hypotheses=1):
        others = [self.copy(line) for _ in range(hypotheses - 1)]
        return Translation(line, line, ["a"], 0.0, [0.0], 1, [1], [0], others)


def test_a_request_holds_what_its_answer_has_and_buffers_stay_as_large_as_usual():
    translator, settings = Copying("translation"), Settings(systems=(("x", Path("folder")),))
    translator.bundle.options["max_len_b"] = "100"
    system = load_served("x", Path("folder"), settings, Metrics(), lambda folder, given: translator)
    try:
        for options, size, tokens in (
            ({}, 32, []), ({"nbest": 3}, 32, []), ({"beam": 1}, 32, []), ({"beam": 10}, 16, []),
            ({"beam": 16, "max_len_b": 512}, 1, []), ({"max_len_a": 1.0}, 8, []),
            ({"nbest": 2, "print_alignment": "hard"}, 32, ["a"]),
        ):  # fmt: skip
            (found,) = system.batcher._decode(["b"], options)
            assert translator.calls[-1]["batch_size"] == size
            assert (found.tokens, found.token_steps, found.positional_scores) == (["a"], [1], [])
            for other in found.alternatives:
                assert (other.text, other.tokens, other.positional_scores) == ("b", tokens, [])
    finally:
        system.batcher.close()


@pytest.mark.parametrize("sentences, options, message", [
    (1024, {}, None), (1024, {"nbest": 6}, None), (384, {"nbest": 16}, None),
    (1024, {"max_len_b": 512}, None), (1024, {"max_len_b": 512, "nbest": 2}, None),
    (385, {"nbest": 16}, r"385 sentences with 16 translations each exceed .* \(6144 translations"),
    (1000, {"nbest": 16, "max_len_b": 512}, "16 translations each, 2.6 times as long as usual exceed"),
    (1024, {"max_len_a": 4, "nbest": 3}, "3 translations each, 6.1 times as long"),
])  # fmt: skip
def test_how_much_a_request_may_hold(sentences, options, message):
    settings = Settings(systems=(("x", Path("folder")),))
    system = served("x", "en", "de", "translation")
    if message is None:
        require_room(system, sentences, options, settings)
        return
    with pytest.raises(RequestError, match=message) as caught:
        require_room(system, sentences, options, settings)
    assert caught.value.status == 400


def test_terms_of_a_request_are_counted():
    settings, system = Settings(systems=(("x", Path("folder")),)), served("x", "en", "de")
    require_room(system, 384, {"nbest": 15}, settings, 384)
    for sentences, terms in ((384, 385), (1, 4097)):
        with pytest.raises(RequestError, match=f"each, and {terms} terms of a glossary, exceed"):
            require_room(system, sentences, {"nbest": 15}, settings, terms)


def test_options_of_a_system_do_not_stand_in_the_way_of_a_request():
    """Nor do those that are added for several hypotheses."""
    translator, settings = (
        Greedy("translation_hrt"),
        Settings(
            systems=(("x", Path("folder")),),
            options=(("x", "hrt_decode_chunk", "auto"), ("x", "hrt_chunk_table", "9:1,inf:2")),
        ),
    )
    translator.bundle.options["beam"] = "3"
    system = load_served("x", Path("folder"), settings, Metrics(), lambda folder, given: translator)
    try:
        for asked, expected in (
            # The translator sets the table aside, which is not given,
            ({"hrt_decode_chunk": "3"}, ("3", "9:1,inf:2")),
            ({}, ("auto", "9:1,inf:2")),
            # and refuses one that a request asks for in vain.
            ({"hrt_decode_chunk": "3", "hrt_chunk_table": "8:1,inf:2"}, ("3", "8:1,inf:2")),
        ):
            system.batcher._decode(["a"], asked)
            call = translator.calls[-1]
            assert (call["hrt_decode_chunk"], call["hrt_chunk_table"]) == expected
            assert call["given"] == asked.keys()
    finally:
        system.batcher.close()
    assert alternatives_options(served("a", "en", "de"), 2, {"hrt_decode_chunk": "1"}) == {
        "hrt_decode_chunk": "1", "beam": 5, "nbest": 2,
    }  # fmt: skip
