"""The HTTP interface: LibreTranslate's words and ours."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.runtime.engine import NumericalError
from fairseq_hrt.native.server.application import create_application
from fairseq_hrt.native.server.settings import Settings
from fairseq_hrt.native.text.given_terms import with_terms
from fairseq_hrt.native.text.word_alignment import Link

# Servers with models of their own.
pytestmark = pytest.mark.slow

ASKED = {"q": "Good morning.", "source": "en", "target": "de"}


@pytest.mark.parametrize("how", ["json", "data", "params"])
def test_the_three_ways_to_ask(client, how):
    response = client.post("/translate", **{how: ASKED})
    assert response.status_code == 200
    assert response.json() == {"translatedText": "dooG .gninrom"}


def test_a_list_is_answered_by_a_list(client):
    answer = client.post("/translate", json={**ASKED, "q": ["one", "", "two three"]}).json()
    assert answer == {"translatedText": ["eno", "", "owt eerht"]}


def test_white_space_and_paragraphs_stay(client):
    text = "  First one.  Second one!\n\n\tThird\u2028fourth. \r\n"
    answer = client.post("/translate", json={**ASKED, "q": text}).json()["translatedText"]
    assert answer == "  tsriF .eno  dnoceS !eno\n\n\tdrihT\u2028.htruof \r\n"


def test_alternatives_are_nested_for_lists(make_client):
    client = make_client(max_alternatives=2)
    single = client.post("/translate", json={**ASKED, "q": "ab", "alternatives": 2}).json()
    assert single == {"translatedText": "ba", "alternatives": ["ba 1", "ba 2"]}
    many = client.post("/translate", json={**ASKED, "q": ["ab", "cd"], "alternatives": 1}).json()
    assert many["alternatives"] == [["ba 1"], ["dc 1"]]
    for none in (0, -1, "-1", None):
        answer = client.post("/translate", json={**ASKED, "alternatives": none}).json()
        assert answer == {"translatedText": "dooG .gninrom"}


def test_auto_says_what_it_found(make_client):
    client = make_client(["a:en-de", "b:de-en"])
    answer = client.post(
        "/translate",
        json={"q": "Ein Mann geht durch den Park und lacht.", "source": "auto", "target": "en"},
    ).json()
    assert (
        answer["detectedLanguage"]["language"] == "de"
        and 90 < answer["detectedLanguage"]["confidence"] <= 100
    )
    answer = client.post(
        "/translate", json={"q": ["The man", "is there"], "source": "auto", "target": "de"}
    ).json()
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "en"]
    assert "detectedLanguage" not in client.post("/translate", json=ASKED).json()
    ranked = client.post("/detect", data={"q": "Der Hund läuft schnell über die Straße."}).json()
    assert ranked[0]["language"] == "de" and ranked == sorted(
        ranked, key=lambda found: -found["confidence"]
    )
    assert client.post("/detect", json={"q": "12 34"}).json()[0]["confidence"] == 0


@pytest.mark.parametrize("fields, language", [
    ({"source": "en", "target": "en"}, None), ({"source": "de", "target": "DE"}, None),
    ({"source": "auto", "target": "de"}, "de"),
])  # fmt: skip
def test_a_text_in_the_target_language_is_given_back(make_client, fields, language):
    """Also one that is only taken for that: single words often are."""
    client = make_client(["a:en-de", "b:de-en"])
    text = "<p>Ein  Haus,\r\ndas &nbsp;dort steht.</p> "
    asked = {"q": text, "format": "html", **fields}
    answer = client.post("/translate", json={**asked, "alternatives": 2}).json()
    detected = answer.pop("detectedLanguage", None)
    assert answer == {"translatedText": asked["q"], "alternatives": []}
    assert (detected or {}).get("language") == language
    many = client.post(
        "/translate", json={**asked, "q": [asked["q"]] * 2, "alternatives": 1}
    ).json()
    assert many["translatedText"] == [asked["q"]] * 2 and many["alternatives"] == [[], []]
    if fields["source"] != "auto":
        answer = client.post("/v1/translate", json={**asked, "format": "text"})
        assert answer.status_code == 400 and "is not available as a target" in answer.text


def test_what_clients_of_libretranslate_send(make_client):
    client = make_client(["a:en-de", "b:de-en"])
    # Its page sends forms in parts, its npm client a field of its own.
    asked = {"q": "one\r\ntwo", "source": "en", "target": "de", "format": "text", "secret": "s"}
    parts = {name: (None, value) for name, value in {**asked, "alternatives": "-1"}.items()}
    assert client.post("/translate", files=parts).json() == {"translatedText": "eno\nowt"}
    answer = client.post("/translate", json={**asked, "apiKey": "", "q": "\U0001f600"})
    assert answer.json() == {"translatedText": "\U0001f600"}
    found = client.post("/detect", json={"q": ["Das Haus ist", "sehr alt und leer"]}).json()
    assert found[0]["language"] == "de"
    for path, message in (
        ("/suggest", "Suggestions are disabled on this server."),
        ("/translate_file", "Files translation are disabled on this server."),
    ):
        answer = client.post(path, files={"file": b"\xff"})
        assert (answer.status_code, answer.json()) == (403, {"error": message})


def test_packed_bodies_are_refused_by_name(client):
    packed = {"content-encoding": "gzip", "content-type": "application/json"}
    answer = client.post("/translate", content=gzip.compress(b"{}"), headers=packed)
    assert (answer.status_code, answer.json()["error"]) == (
        415, "Content-Encoding 'gzip' is not supported: send the body as it is",
    )  # fmt: skip


def test_html_keeps_its_tags(client):
    text = (
        '<p class="x">One <b>two</b>.<br/><script>var a = "b";</script><i translate="no">stay</i> a'
        " &lt; b</p><!-- no -->"
    )
    answer = client.post("/translate", json={**ASKED, "q": text, "format": "html"}).json()[
        "translatedText"
    ]
    assert (
        answer == '<p class="x">enO <b>owt</b>.<br/><script>var a = "b";</script><i'
        ' translate="no">stay</i> a &lt; b</p><!-- no -->'
    )
    answer = client.post(
        "/translate", json={**ASKED, "q": "&gt;b a&lt;", "format": "html", "alternatives": 1}
    ).json()
    assert answer == {"translatedText": "b&gt; &lt;a", "alternatives": ["b&gt; &lt;a 1"]}


def test_what_can_be_asked_about(make_client):
    client = make_client(["a:en-de", "b:en-fr", "c:de-en"])
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/frontend/settings").json()["language"]["target"] == {
        "code": "de",
        "name": "German",
    }
    assert [system["name"] for system in client.get("/v1/systems").json()] == [
        "a:en-de",
        "b:en-fr",
        "c:de-en",
    ]


def test_details(client):
    answer = client.post(
        "/v1/translate", json={**ASKED, "q": "One. Two three.", "alternatives": 1}
    ).json()
    assert answer["system"] == "plain:en-de" and answer["milliseconds"] >= 0
    (found,) = answer["translations"]
    assert found["text"] == ".enO owT .eerht"
    assert found["sentences"][1]["tokens"] == ["owT", ".eerht", "</s>"]
    assert found["sentences"][1]["token_steps"] == [1, 1, 2] and found["sentences"][1]["steps"] == 2
    assert found["sentences"][0]["alternatives"] == [{"text": ".enO 1", "score": -0.5}]
    assert [one["unknown"] for one in found["sentences"]] == [[], []]
    answer = client.post("/v1/translate", json={**ASKED, "q": "One? Two."}).json()
    assert [one["unknown"] for one in answer["translations"][0]["sentences"]] == [["unknown"], []]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({**ASKED, "q": ""}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        ({**ASKED, "target": "zz"}, "zz is not supported"),
        ({**ASKED, "source": "zz\u0000<b>"}, "zz?<b> is not supported"),
        (
            {**ASKED, "source": "de", "target": "en"},
            "English (en) is not available as a target language from German (de)",
        ),
        ({**ASKED, "format": "pdf"}, "pdf format is not supported: use text or html"),
        ({**ASKED, "q": 5}, "Invalid request: q must be a string or a list of strings"),
        ({**ASKED, "q": ["a", 5]}, "Invalid request: q must be a string or a list of strings"),
        ({**ASKED, "q": {"a": "b"}}, "Invalid request: q must be a string or a list of strings"),
        ({**ASKED, "source": ["en"]}, "Invalid request: source must be a string"),
        (
            {**ASKED, "alternatives": "many"},
            "Invalid request: alternatives parameter is not a number",
        ),
        ({**ASKED, "alternatives": 6}, "Invalid request: alternatives parameter must be <= 5"),
        (
            {**ASKED, "q": "x" * 101},
            "Invalid request: request (101) exceeds text limit (100): send fewer characters",
        ),
        (
            {**ASKED, "q": ["x"] * 11},
            "Invalid request: request (11) exceeds text limit (10): send fewer texts",
        ),
    ],
)
def test_what_is_wrong_is_said(make_client, fields, message):
    client = make_client(max_characters=100, max_texts=10)
    response = client.post("/translate", json=fields)
    assert (response.status_code, response.json()) == (400, {"error": message})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "option beam must be an integer from 1 to 16"),
        ({"beam": True}, "option beam must be an integer from 1 to 16"),
        ({"beam": 2.0}, "option beam must be an integer from 1 to 16"),
        ({"lenpen": "1"}, "option lenpen must be a number from 0 to 10"),
        ({"replace_unk": "/etc/passwd"}, "option replace_unk must be true or false"),
        (
            {"user_dir": "/tmp"},
            (
                "option user_dir cannot be chosen here; choose among: beam, nbest, lenpen, min_len,"
                " max_len_a, max_len_b, unnormalized, replace_unk"
            ),
        ),
        (
            {"dag_decode_strategy": "greedy"},
            (
                "option dag_decode_strategy cannot be chosen here; choose among: beam, nbest,"
                " lenpen, min_len, max_len_a, max_len_b, unnormalized, replace_unk"
            ),
        ),
        ([1], "options must be an object"),
    ],
)
def test_options_that_may_not_be_chosen(client, options, message):
    response = client.post("/v1/translate", json={**ASKED, "options": options})
    assert (response.status_code, response.json()) == (
        400,
        {"error": f"Invalid request: {message}"},
    )


def test_options_reach_the_decoder(make_client, translator):
    client = make_client(["plain:en-de", "dag:en-de"])
    given = {"beam": 3, "lenpen": 0.5, "max_len_b": 9, "unnormalized": True}
    assert (
        client.post("/v1/translate", json={**ASKED, "q": "ab", "options": given}).status_code == 200
    )
    assert translator.batches[-1] == (["ab"], {"nbest": 1, **given})
    # Alternatives widen what is too narrow for them, and change nothing else.
    asked = {**ASKED, "q": "ab", "options": {"beam": 2, "lenpen": 0.5}, "alternatives": 3}
    assert client.post("/v1/translate", json=asked).status_code == 200
    assert translator.batches[-1] == (["ab"], {"beam": 4, "nbest": 4, "lenpen": 0.5})
    own = {"dag_decode_strategy": "lookahead", "dag_decode_beta": 0.7}
    assert (
        client.post(
            "/v1/translate", json={**ASKED, "q": "ab", "system": "dag:en-de", "options": own}
        ).status_code
        == 200
    )
    assert translator.batches[-1] == (["ab"], {"nbest": 1, **own})
    described = client.get("/spec").json()["paths"]["/v1/translate"]["post"]["requestBody"][
        "content"
    ]["application/json"]["schema"]
    assert (
        described["properties"]["options"]["properties"]["dag_decode_strategy"]["enum"][0]
        == "greedy"
    )


@pytest.mark.parametrize("score", [float("-inf"), float("nan"), None])
def test_a_score_that_is_no_number_is_left_open(client, translator, monkeypatch, score):
    original = translator.translate

    def translate(*given, **options):
        found = original(*given, **options)
        for one in found:
            one.score = score
            for other in one.alternatives:
                other.score = score
        return found

    monkeypatch.setattr(translator, "translate", translate)
    response = client.post("/v1/translate", json={**ASKED, "q": "ab", "alternatives": 2})
    (sentence,) = response.json()["translations"][0]["sentences"]
    assert response.status_code == 200 and sentence["score"] is None
    assert [other["score"] for other in sentence["alternatives"]] == [None, None]


def test_a_model_that_computes_nan_is_no_fault_of_the_request(
    client, translator, monkeypatch, caplog
):
    def translate(*given, **options):
        raise NumericalError("the model of /secret/path computed NaN")

    monkeypatch.setattr(translator, "translate", translate)
    response = client.post("/v1/translate", json={**ASKED, "q": "ab"})
    assert response.status_code == 500
    assert response.json() == {"error": "this system's model computed NaN: the model is broken"}
    assert "/secret/path computed NaN" in caplog.text and "Traceback" not in caplog.text
    monkeypatch.undo()
    assert client.post("/v1/translate", json={**ASKED, "q": "ab"}).status_code == 200


def test_systems_of_one_bundle_share_its_model(translator, tmp_path):
    """Two ways to decode: each by its own options, those of a request before them."""
    loaded = []

    def load(folder, settings):
        loaded.append(folder)
        return translator

    translator.bundle = Bundle(tmp_path, "translation_hrt", "en", "de", "space", "none")
    systems = (("two", tmp_path), ("three", tmp_path))
    chosen = Settings(
        systems=systems, options=(("three", "hrt_decode_chunk", "3"), ("three", "lenpen", "0.5"))
    )
    with TestClient(create_application(chosen, load)) as client:
        assert loaded == [tmp_path]
        assert [system["options"] for system in client.get("/v1/systems").json()] == [
            {},
            {"hrt_decode_chunk": "3", "lenpen": "0.5"},
        ]
        for name, expected in (("two", {}), ("three", {"hrt_decode_chunk": "3", "lenpen": "0.5"})):
            assert (
                client.post("/v1/translate", json={**ASKED, "q": "ab", "system": name}).status_code
                == 200
            )
            assert translator.batches[-1] == (["ab"], {"nbest": 1, **expected})
        client.post(
            "/v1/translate",
            json={**ASKED, "q": "ab", "system": "three", "options": {"hrt_decode_chunk": "2"}},
        )
        assert translator.batches[-1] == (
            ["ab"],
            {"nbest": 1, "hrt_decode_chunk": "2", "lenpen": "0.5"},
        )


def align(translator):
    """``abc def`` → ``fed cba``, and which word comes from which where that is asked for."""
    turned = translator.translate

    def translate(lines, *, details, print_alignment=None, **decoding):
        found = turned(lines, details=details, print_alignment=print_alignment, **decoding)
        for one in found:
            words = one.text.split()[::-1]
            one.text, one.tokens = " ".join(words), [*words, "</s>"]
            one.alignment = [*reversed(range(len(words))), len(words)] if print_alignment else []
        return found

    translator.translate = translate
    translator.in_words = lambda text: SimpleNamespace(words=text.split())


def test_tags_and_placeholders_move_with_their_words(translator, tmp_path):
    align(translator)
    translator.bundle = Bundle(tmp_path, "translation_autoregressive", "en", "de", "space", "none")
    html = {**ASKED, "q": "ab <b>cd</b> {x} ef", "format": "html"}
    text = {**ASKED, "q": "ab {x} cd"}
    with TestClient(
        create_application(
            Settings(systems=(("a", tmp_path),)), lambda folder, settings: translator
        )
    ) as client:
        assert client.post("/translate", json=html).json() == {
            "translatedText": "fe <b>dc</b> {x} ba"
        }
        assert translator.batches[-1] == (["ab cd ef"], {"nbest": 1, "print_alignment": "hard"})
        # Fields that cost a pass are asked for only where they are needed.
        for fields, expected in (
            (text, "dc }x{ ba"),
            ({**html, "q": "<p>ab cd</p>"}, "<p>dc ba</p>"),
        ):
            assert client.post("/translate", json=fields).json() == {"translatedText": expected}
            assert translator.batches[-1][1]["print_alignment"] is None
        kept = {**text, "keep": "placeholders"}
        assert client.post("/translate", json=kept).json() == {"translatedText": "dc ba {x}"}
        (found,) = client.post("/v1/translate", json=kept).json()["translations"]
        assert found["text"] == "dc ba {x}" and found["sentences"][0]["source"] == "ab cd"
        assert client.post("/translate", json={**text, "keep": "names"}).status_code == 400


def test_glossaries(translator, tmp_path):
    """Of the server, of a request, in marked text; terms that a request has come first."""
    align(translator)
    translator.bundle = Bundle(tmp_path, "translation_autoregressive", "en", "de", "space", "none")
    (tmp_path / "terms.tsv").write_text("ab\tAha\nef\tEff\n")
    chosen = Settings(systems=(("a", tmp_path),), glossaries=(("", tmp_path / "terms.tsv"),))
    reverse = translator.translate

    def translate(lines, *, glossary=None, **options):
        found = reverse(lines, **options)
        for one in found:
            terms = [] if glossary is None else glossary.find(one.source)
            links = [Link(*reversed_span(one.source, term), term.start) for term in terms]
            one.text, one.terms = with_terms(one.source, one.text, links, terms)
        return found

    def reversed_span(text, term):
        return len(text) - term.end, len(text) - term.start

    translator.translate = translate
    with TestClient(create_application(chosen, lambda folder, settings: translator)) as client:
        fields = {**ASKED, "q": "ab cd.\nab ef"}
        (found,) = client.post("/v1/translate", json=fields).json()["translations"]
        assert found["text"] == ".dc Aha\nEff Aha"
        assert found["sentences"][1]["terms"] == [
            {"source": "ef", "text": "Eff", "start": 0, "end": 3},
            {"source": "ab", "text": "Aha", "start": 4, "end": 7},
        ]
        own = {"ab": "Oho", "cd": "C D"}
        html = {**ASKED, "q": "<p>ab <b>cd</b> gh <i>ef</i></p>", "format": "html", "glossary": own}
        assert client.post("/translate", json=html).json() == {
            "translatedText": "<p><i>Eff</i> hg <b>C D</b> Oho</p>"
        }
        form = {**ASKED, "q": "ab cd", "glossary": "ab\tOho"}
        assert client.post("/translate", data=form).json() == {"translatedText": "dc Oho"}
        refused = client.post("/v1/translate", json={**fields, "glossary": {"a": ""}})
        assert refused.status_code == 400
        assert "glossary: a translation is empty: fill it in" in refused.json()["error"]
        assert translator.terms == [["ab", "ef"], ["cd"]]
        # None of their batches is larger than one of sentences.
        many = {f"k{number}": "x" for number in range(70)}
        whole = {**ASKED, "q": " ".join(many), "glossary": many}
        assert client.post("/translate", json=whole).status_code == 200
        assert [len(batch) for batch in translator.terms[2:]] == [32, 32, 6]


def test_languages_with_capitals(make_client):
    """As multilingual models have them; whatever the letters of the request."""
    client = make_client(["one:en_XX-de_DE"])
    for source, target in (("en_XX", "de_DE"), ("en_xx", "DE_de")):
        answer = client.post("/translate", json={"source": source, "target": target, "q": "ab"})
        assert answer.json() == {"translatedText": "ba"}
    assert [language["code"] for language in client.get("/languages").json()] == ["de_DE", "en_XX"]


GERMAN = "Ein Mann geht mit seinem Hund durch den Park und lacht."
FRENCH = "Un homme se promène avec son chien dans le parc et il rit."


@pytest.mark.parametrize("systems, text, target, language", [
    (["a:de_DE-en"], GERMAN, "en", "de_DE"),
    (["a:deu_Latn-eng_Latn"], GERMAN, "eng-latn", "deu_Latn"),
    (["a:eng-deu", "b:fra-deu"], FRENCH, "deu", "fra"),
    (["a:zh_CN-en"], "一个男人带着他的狗走过公园", "EN", "zh_CN"),
    (["a:qq_QQ-en"], "Mtu anatembea na mbwa wake kwenye bustani na anacheka.", "en", "qq_QQ"),
])  # fmt: skip
def test_other_codes_than_of_two_letters_are_detected(make_client, systems, text, target, language):
    client = make_client(systems)
    fields = {"q": text, "source": "auto", "target": target}
    answer = client.post("/translate", json=fields).json()
    assert answer["detectedLanguage"]["language"] == language
    assert answer["translatedText"] != text
    assert (answer["detectedLanguage"]["confidence"] > 50) == (language != "qq_QQ")
    assert client.post("/detect", json={"q": text}).json()[0]["language"] == language


def test_codes_of_libretranslate(make_client):
    client = make_client(["a:en-zh", "b:en-pt_BR", "c:en-zh_Hant", "d:en-pt"])
    for target, system in (
        ("zh-Hans", "a:en-zh"), ("zh", "a:en-zh"), ("pb", "b:en-pt_BR"), ("pt-BR", "b:en-pt_BR"),
        ("zt", "c:en-zh_Hant"), ("zh-Hant", "c:en-zh_Hant"), ("pt", "d:en-pt"),
    ):  # fmt: skip
        fields = {"q": "ab", "source": "en", "target": target}
        assert client.post("/translate", json=fields).json() == {"translatedText": "ba"}
        assert client.post("/v1/translate", json=fields).json()["system"] == system
    refused = client.post("/translate", json={"q": "ab", "source": "en", "target": "pt-PT"})
    assert (refused.status_code, refused.json()) == (400, {"error": "pt-pt is not supported"})


def test_codes_without_country_and_script(make_client):
    client = make_client(["a:eng_Latn-deu_Latn", "b:en_XX-pt_BR"])
    fields = {"q": "ab", "source": "en", "target": "de"}
    assert client.post("/translate", json=fields).json() == {"translatedText": "ba"}
    fields = {"q": "ab", "source": "en_XX", "target": "pt"}
    assert client.post("/translate", json=fields).json() == {"translatedText": "ba"}
    refused = client.post("/translate", json={**fields, "source": "en-GB"})
    assert (refused.status_code, refused.json()) == (400, {"error": "en-gb is not supported"})


def test_a_system_that_finds_one_translation_has_no_alternatives(make_client):
    """LibreTranslate's own route answers with none; ours tells."""
    client = make_client(["dag:en-de"], max_alternatives=2)
    (system,) = client.app.state.server.catalogue.systems
    system.alternatives = False
    fields = {**ASKED, "q": "ab", "alternatives": 2}
    answer = client.post("/v1/translate", json=fields)
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Invalid request: this system finds one translation of a sentence: leave alternatives out"
        " or choose another system",
    )
    assert client.post("/translate", json=fields).json()["alternatives"] == []


def test_graphs(make_client, translator):
    asked = []

    def graphs(lines, *, batch_size, **options):
        asked.append((list(lines), options))
        return [[{"translation": line}] if line != "none" else [] for line in lines]

    translator.graphs = graphs
    client = make_client(["dag:en-de", "plain:en-de"])
    assert [system["graph"] for system in client.get("/v1/systems").json()] == [True, False]
    fields = {**ASKED, "q": "One. none\nTwo.", "graph": True, "options": {"dag_keep_repeats": True}}
    (found,) = client.post("/v1/translate", json=fields).json()["translations"]
    assert [sentence["graph"] for sentence in found["sentences"]] == [
        {"translation": "One."},
        None,
        {"translation": "Two."},
    ]
    assert sorted(line for lines, _ in asked for line in lines) == ["One.", "Two.", "none"]
    assert all(options == {"dag_keep_repeats": True} for _, options in asked)
    (found,) = client.post("/v1/translate", json={**fields, "graph": False}).json()["translations"]
    assert "graph" not in found["sentences"][0]
    for wrong, message in (
        ({"graph": 1}, "graph must be true or false"),
        (
            {"system": "plain:en-de", "options": {}},
            "this system writes no graph: leave graph out or choose another system",
        ),
    ):
        response = client.post("/v1/translate", json={**fields, **wrong})
        assert (response.status_code, response.json()["error"]) == (
            400,
            f"Invalid request: {message}",
        )

    def refuse(lines, **options):
        raise ValueError("no such thing in /some/folder")

    translator.graphs = refuse
    response = client.post("/v1/translate", json=fields)
    assert response.status_code == 400 and "folder" not in response.text


@pytest.mark.parametrize("said, told", [
    ("--nbest 5 with --beam 3: --nbest must lie between 1 and --beam", True),
    ("--min-len 2: lower it or raise --max-len-a/--max-len-b", True),
    ("/models/secret holds no shortlist", False), ("secret holds no shortlist", False),
    ("cannot read 'secret/a.pt'", False), ("C:\\secret: no", False),
])  # fmt: skip
def test_why_options_are_refused(make_client, translator, monkeypatch, said, told):
    """Unless that names a file."""

    def refuse(lines, **options):
        raise ValueError(said)

    client = make_client()
    monkeypatch.setattr(translator, "translate", refuse)
    (system,) = client.app.state.server.catalogue.systems
    monkeypatch.setattr(system, "bundle", replace(system.bundle, folder=Path("secret")))
    error = client.post("/translate", json=ASKED).json()["error"]
    refused = "Invalid request: this system refuses these options: "
    assert error == refused + (said if told else "leave some of them out")


@pytest.mark.parametrize(
    "content", [b"{", b"[1]", b"\xff\xfe", b'{"q": NaN}', b"[" * 100000, b'{"q": "\\ud800"']
)
def test_bodies_that_are_no_json(client, content):
    response = client.post(
        "/translate", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400 and response.json()["error"].startswith("Invalid request")


def test_half_a_surrogate_pair_is_replaced(client):
    response = client.post(
        "/translate",
        content=b'{"q": "a\\ud800b", "source": "en", "target": "de"}',
        headers={"content-type": "application/json"},
    )
    assert response.json() == {"translatedText": "b\ufffda"}


def test_sentences_are_counted(make_client):
    client = make_client(max_sentences=3)
    assert (
        client.post("/translate", json={**ASKED, "q": ["One. Two.", "Three."]}).status_code == 200
    )
    response = client.post("/translate", json={**ASKED, "q": ["One. Two.", "Three. Four."]})
    assert (response.status_code, response.json()) == (
        400,
        {"error": "Invalid request: request (4) exceeds sentence limit (3): send fewer sentences"},
    )


def test_systems_say_what_they_are(client):
    assert client.get("/v1/systems").json() == [
        {
            "name": "plain:en-de",
            "source": "en",
            "target": "de",
            "task": "translation_autoregressive",
            "engine": "torch",
            "alternatives": True,
            "graph": False,
            "options": {},
            "examples": [],
        },
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
FIELD = st.sampled_from(
    ["q", "source", "target", "format", "alternatives", "api_key", "system", "options", "graph"]
)
VALUE = (
    JSON
    | st.sampled_from(["en", "de", "auto", "html", "text", "<b>x</b>"])
    | st.dictionaries(st.text(max_size=5), JSON, max_size=2)
)


@settings(
    max_examples=60,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(
    fields=st.dictionaries(FIELD, VALUE),
    route=st.sampled_from(["/translate", "/v1/translate", "/detect"]),
)
def test_whatever_is_asked_is_answered(client, fields, route):
    response = client.post(
        route, content=json.dumps(fields), headers={"content-type": "application/json"}
    )
    assert response.status_code in (200, 400)
    assert response.status_code == 200 or set(response.json()) == {"error"}
