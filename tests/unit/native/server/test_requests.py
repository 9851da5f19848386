"""The contents of a request: read from JSON, forms and queries, and refused by the name of what is
wrong."""

import json
import math
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.server.errors import RequestError
from fairseq_hrt.native.server.interface import describe_interface
from fairseq_hrt.native.server.requests import (
    COMPATIBLE,
    DECODING,
    DETAILED,
    OWN,
    accepts,
    decoding_options,
    in_words,
    parse_fields,
    text_of,
    translation_request,
    unsupported_language,
)
from fairseq_hrt.native.server.settings import Settings

SETTINGS = Settings(
    systems=(("a", Path("x")),), max_characters=10, max_texts=3, max_alternatives=2, max_terms=3
)
FORM = "application/x-www-form-urlencoded"
ASKED = {"q": "a", "source": "en", "target": "de"}


def refusal(call, *arguments):
    with pytest.raises(RequestError) as caught:
        call(*arguments)
    return caught.value.status, caught.value.message


WORDS = st.text(st.sampled_from("aZ0 &=+%;/\\\"'{}[]\n\t\x00é中\u2028😀"), max_size=4)


@settings(max_examples=60)
@given(
    st.dictionaries(WORDS.filter(bool), WORDS | st.lists(WORDS, min_size=2, max_size=3), max_size=4)
)
def test_three_ways_to_say_the_same(fields):
    form = urlencode(fields, doseq=True)
    for body, kind, query in (
        (json.dumps(fields), "application/json", ""),
        (form, FORM, ""),
        ("", "", form),
    ):
        assert parse_fields(body.encode(), kind, query) == fields


def test_content_types():
    assert parse_fields(b' {"a": 1}', "", "a=2&b=3") == {"a": 1, "b": "3"}, "the body comes first"
    assert parse_fields(b"a=1&a=2&a=3", f"{FORM.upper()}; charset=utf-8", "") == {
        "a": ["1", "2", "3"]
    }
    assert parse_fields(b" ", "text/plain", "a=") == {"a": ""}
    assert parse_fields(b'\xef\xbb\xbf{"a": 1}', "application/json", "") == {"a": 1}
    for body, kind, message in (
        (
            b"a",
            "text/plain",
            "Unsupported content type text/plain: send application/json, multipart",
        ),
        (b"a", "x/\u2028y", "Unsupported content type x/?y: send"),
        (b"a=1", "", "No content type: send application/json, multipart/form-data or app"),
        # As curl -d sends it.
        (
            b' {"q": "a"}',
            FORM,
            "JSON was sent as application/x-www-form-urlencoded: add the header",
        ),
    ):
        status, words = refusal(parse_fields, body, kind, "")
        assert status == 415 and words.startswith(message)


def in_parts(*parts, boundary="x"):
    """A form in parts: (headers, content) of each."""
    head = "Content-Disposition: form-data; "
    texts = [f"--{boundary}\r\n{head}{headers}\r\n\r\n{text}\r\n" for headers, text in parts]
    return f"{''.join(texts)}--{boundary}--\r\n".encode()


PARTS = "multipart/form-data; boundary=x"


def test_forms_in_parts():
    body = in_parts(
        ('name="q"', "a\r\n\u4e2d"), ('name="n"\r\nContent-Type: text/plain', "1"), ('name="n"', "")
    )
    assert parse_fields(body, PARTS, "q=b&c=d") == {"q": "a\n\u4e2d", "n": ["1", ""], "c": "d"}
    assert parse_fields(body.replace(b"--x", b"--a b"), 'multipart/form-data; boundary="a b"', "")
    # A file is not a text.
    file = ('name="q"; filename="f"', "y" * 100)
    assert parse_fields(in_parts(file, ('name="a"', "b")), PARTS, "") == {"a": "b"}
    binary = in_parts(file, ('name="a"', "b")).replace(b"y" * 100, bytes(range(256)))
    assert parse_fields(binary, PARTS, "c=d") == {"a": "b", "c": "d"}
    assert parse_fields(b'{"a": 1}', "application/x+json; charset=utf-8", "") == {"a": 1}


@pytest.mark.parametrize("kind, body, message", [
    ("multipart/form-data", in_parts(('name="q"', "a")), "is not multipart"),
    (PARTS, in_parts(('name="q"', "a"))[:-6], "its end is missing"), (PARTS, b"q=a", "not multipart"),
    (PARTS, b"", "its end is missing"), (PARTS, in_parts(("", "a")), "is not multipart"),
    (PARTS, in_parts(*[('name="q"', "a")] * 1001), "more than"),
    (PARTS, in_parts(*[('name="q"; filename="f"', "a")] * 1001), "more than"),
    (PARTS, in_parts(('name="q"\r\nContent-Transfer-Encoding: base64', "/w==")), "not UTF-8"),
    (PARTS, in_parts(('name="q"\r\n' + "a: b\r\n" * 100, "a")), "is not multipart"),
    ("multipart/form-data; boundary=" + "y" * 10**5, b"a", "is not multipart"),
])  # fmt: skip
def test_forms_in_parts_that_are_none(kind, body, message, caplog):
    status, words = refusal(parse_fields, body, kind, "")
    assert status == 400 and message in words and not caplog.records


@given(st.binary(max_size=60), st.integers(0, 60))
def test_whatever_is_sent_as_a_form_in_parts(noise, place):
    body = in_parts(('name="q"', "a"), ('name="r"; filename="s"', "b"))
    try:
        parse_fields(body[:place] + noise + body[place:], PARTS, "")
    except RequestError as error:
        assert error.status == 400


@pytest.mark.parametrize("body, kind, query, message", [
    (b"\xff", "application/json", "", "not UTF-8"), (b"{", "application/json", "", "not JSON"),
    (b"[" * 100_000, "application/json", "", "not JSON"),
    (b'{"a": Infinity}', "application/json", "", "not JSON"),
    (b"[]", "application/json", "", "a JSON object"), (b"a=%ff", FORM, "", "not UTF-8"),
    (b"", "", "&".join(f"a{n}=1" for n in range(1001)), "more than"),
])  # fmt: skip
def test_bodies_that_cannot_be_read(body, kind, query, message):
    status, words = refusal(parse_fields, body, kind, query)
    assert status == 400 and words.startswith("Invalid request: ") and message in words


def test_a_checked_request():
    found = translation_request(
        {**ASKED, "source": " EN ", "alternatives": "2", "system": "x", "graph": True},
        SETTINGS,
        detailed=True,
    )
    assert (found.texts, found.single, found.source, found.target, found.format) == (
        ("a",),
        True,
        "en",
        "de",
        "text",
    )
    assert (found.alternatives, found.system, found.graph) == (
        2,
        "x",
        True,
    )
    many = translation_request(
        {**ASKED, "q": ["a\ud800", ""], "format": "html", "alternatives": ""}, SETTINGS
    )
    assert (many.texts, many.single, many.format, many.alternatives) == (
        ("a\ufffd", ""),
        False,
        "html",
        0,
    )
    assert [
        translation_request({**ASKED, "keep": keep}, SETTINGS).keep for keep in ("", "placeholders")
    ] == [False, True]
    for terms in ({"a b": "x"}, "a b\tx", "a b\tx\n"):
        found = translation_request({**ASKED, "glossary": terms}, SETTINGS).glossary
        assert found.terms == {"a b": "x"}
    for nothing in (None, "", {}):
        assert translation_request({**ASKED, "glossary": nothing}, SETTINGS).glossary is None


@pytest.mark.parametrize("fields, message", [
    ({"q": None}, "missing q"), ({"q": []}, "missing q"),
    ({"q": 5}, "q must be a string or a list"),
    ({"q": ["a", None]}, "q must be a string or a list"),
    ({"q": ["a"] * 4}, "request (4) exceeds text limit (3)"),
    ({"q": ["a" * 6, "b" * 5]}, "request (11) exceeds text limit (10)"),
    ({"source": ""}, "missing source"), ({"target": 1}, "target must be a string"),
    ({"format": "x\n<y>"}, "x?<y> format"), ({"format": [1]}, "[1] format"),
    ({"alternatives": "-1"}, "alternatives"), ({"alternatives": True}, "alternatives"),
    ({"alternatives": 1.5}, "alternatives"), ({"alternatives": 3}, "must be <= 2"),
    ({"keep": "names"}, "keep names is not supported; it may be placeholders"),
    ({"keep": [1]}, "keep [1] is"), ({"keep": None}, "keep null"),
    ({"alternatives": "1234567"}, "alternatives"), ({"system": 3}, "system must be"),
    ({"graph": "yes"}, "graph must be"),
    ({"glossary": ["a"]}, "glossary must be an object of terms and their translations"),
    ({"glossary": {"a": 1}}, "glossary: translation 1 is not a string"),
    ({"glossary": dict.fromkeys("abcd", "x")}, "glossary (4) exceeds term limit (3)"),
    ({"glossary": "a\tx\n" * 4}, "glossary (5) exceeds term limit (3)"),
    ({"glossary": "a\tx\n\nb x"}, "glossary, line 3: 'b x' is not a term, a tab and its"),
    ({"glossary": "a\tx\na\ty"}, "glossary, line 2: 'a' has the translation 'x' in line 1"),
    ({"formt": "html"}, "unknown field formt; did you mean format?"),
    ({"\u202ex": None}, "unknown field ?x; there are: q, source, target, format, alternatives"),
])  # fmt: skip
def test_fields_that_are_refused_by_name(fields, message):
    status, words = refusal(
        lambda *given: translation_request(*given, detailed=True), {**ASKED, **fields}, SETTINGS
    )
    assert status == 400 and message in words


def test_which_interface_has_which_fields():
    # All that LibreTranslate's clients may send.
    asked = {**ASKED, "format": "text", "alternatives": 1, "api_key": "k", "secret": "s"}
    assert translation_request(asked, SETTINGS) == translation_request(
        asked, SETTINGS, detailed=True
    )
    assert text_of(asked, SETTINGS) == "a"
    for name in ("options", "graph"):
        _, words = refusal(translation_request, {**ASKED, name: None}, SETTINGS)
        assert words.startswith(f"Invalid request: {name} is a field of /v1/translate: send")
        translation_request({**ASKED, name: False}, SETTINGS, detailed=True)
    # LibreTranslate ignores what it does not know, such as the field of its npm client.
    for name in ("apiKey", "formt", "\u202ex"):
        assert translation_request({**ASKED, name: ""}, SETTINGS).texts == ("a",)
        assert text_of({"q": "a", name: ""}, SETTINGS) == "a"
    assert translation_request({**ASKED, "alternatives": "-1"}, SETTINGS).alternatives == 0


def test_all_fields_that_are_described_are_accepted():
    paths = describe_interface(SETTINGS)["paths"]
    for path, more in (("/translate", False), ("/v1/translate", True)):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        fields = set(content["schema"]["properties"])
        known = {*COMPATIBLE, *OWN, *(DETAILED if more else ())}
        assert fields == known - {"secret"}


def test_one_text_to_detect():
    assert text_of({"q": "a\udfff"}, SETTINGS) == "a\ufffd"
    assert text_of({"q": ["a", "b"]}, SETTINGS) == "a\nb"
    for query, message in (
        (None, "missing q"),
        ("", "missing q"),
        ([], "missing q"),
        (["a", 1], "q must be a string or a list"),
        (["a"] * 4, "text limit (3)"),
        ("a" * 11, "text limit (10)"),
    ):
        status, words = refusal(text_of, {"q": query}, SETTINGS)
        assert status == 400 and message in words


def test_options_belong_to_tasks():
    assert (
        decoding_options({}, "translation")
        == decoding_options({"options": None}, "translation")
        == {}
    )
    assert decoding_options({"options": {"lenpen": 1, "beam": 2}}, "translation") == {
        "beam": 2,
        "lenpen": 1,
    }
    own = [name for name in DECODING if name.startswith(("hrt_", "bidirectional_", "dag_"))]
    for name in own:
        task, choice = f"translation_{name.split('_')[0]}", DECODING[name]
        assert choice["description"] == f"of systems with the task {task}"
        value = {"boolean": True, "string": choice.get("enum", "")[:1]}.get(choice["type"], 1)
        value = value[0] if isinstance(value, list) else value
        assert decoding_options({"options": {name: value}}, task) == {name: value}
        status, message = refusal(decoding_options, {"options": {name: value}}, "translation")
        assert (
            status == 400
            and f"option {name} cannot be chosen here" in message
            and f", {name}" not in message
        )


COUNT, SHARE = ({"type": kind, "minimum": 1, "maximum": 3} for kind in ("integer", "number"))


@pytest.mark.parametrize("choice, good, bad, text", [
    (COUNT, [1, 3], [0, 4, 2.0, "2", True, None, math.nan], "an integer from 1 to 3"),
    (SHARE, [1, 3, 1.5], [0.9, math.nan, math.inf, "1", True], "a number from 1 to 3"),
    ({"type": "boolean"}, [True, False], [0, 1, "true", None], "true or false"),
    ({"type": "string", "enum": ["a", "b"]}, ["a", "b"], ["c", "", 1, ["a"], True], "one of a, b"),
])  # fmt: skip
def test_choices(choice, good, bad, text):
    assert all(accepts(choice, value) for value in good)
    assert not any(accepts(choice, value) for value in bad)
    assert in_words(choice) == text


def test_what_a_message_repeats_is_short_and_in_one_line():
    error = unsupported_language("x\n\x1b\x85\u2028\u202e\u2066\u00e9" + "y" * 100)
    assert error.message == "x??????\u00e9" + "y" * 32 + " is not supported"
