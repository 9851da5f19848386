"""Texts to sentences and back: nothing is lost, and nothing takes more than a moment, whatever is sent."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.server.detection import LanguageDetector
from fairseq_hrt.server.markup import MarkedUpText
from fairseq_hrt.server.segments import split
from fairseq_hrt.server.settings import Settings, parse_option, parse_system
from fairseq_hrt.server.systems import Catalogue

LENGTH = 20000
PIECES = st.sampled_from(
    [" ", "\n", "\t", ".", "? ", "Dr. ", "a", "B", "\u2028", "\r\n", "。", '"', "é", "\x85", "\u3000", "<b>", "1.5"]
)


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=30).map("".join)),
    language=st.sampled_from(["en", "de", "zh", "xx"]),
)
def test_sentences_and_gaps_are_the_text(text, language):
    segments = split(text, language)
    assert segments.join(segments.sentences) == text
    assert all(sentence and sentence == sentence.strip() for sentence in segments.sentences)


# Each of these took minutes in a splitter or parser that looks at everything once for each place.
@pytest.mark.parametrize(
    "text", ["a" + " " * LENGTH + "b", "a." * (LENGTH // 2), '"a. ' * (LENGTH // 4), "a\n" * (LENGTH // 2), "「" * LENGTH]
)
def test_long_texts_of_one_sign(text):
    segments = split(text, "en")
    assert segments.join(segments.sentences) == text


@pytest.mark.parametrize("piece", ["<b>x", "<", "&", "<!--", "<![CDATA[", "<?", "<script>", "<a b=", "</b>"])
def test_long_markup(piece):
    marked = MarkedUpText(piece * (LENGTH // 2 // len(piece)))
    assert isinstance(marked.join([text.upper() for text in marked.texts]), str)


def test_texts_inside_of_what_is_kept_are_kept():
    marked = MarkedUpText(
        '<div translate="no"><p>a<b>b</b></p></div><p>c<span class="x notranslate">d<i>e</i></span></p><pre>f<b>g</b></pre>h'
    )
    assert marked.texts == ["c", "h"]


@pytest.mark.parametrize(("languages", "expected"), [(["en", "de"], "de"), (["en"], "en"), (["xx-YY"], "xx-YY")])
def test_a_language_that_is_not_served_is_found_with_little_confidence(languages, expected):
    (first, *_) = LanguageDetector(languages).detect("Ein Mann geht mit seinem Hund durch den Park und lacht.")
    assert first["language"] == expected
    assert first["confidence"] > 90 if expected == "de" else first["confidence"] < 10


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"time_limit": float("nan")}, "--time-limit nan must be greater than 0"),
        ({"time_limit": float("inf")}, "--time-limit inf"),
        ({"threads": 0}, "--threads 0"),
        ({"batch_wait": -1.0}, "--batch-wait -1.0"),
        ({"max_sentences": 10, "max_queue": 5}, "--max-sentences 10 do not fit"),
        ({"systems": ()}, "at least one bundle"),
        ({"systems": (("a", "x"), ("a", "y"))}, "two systems are called 'a'"),
        ({"options": (("b", "beam", "1"),)}, "--set b:beam: there is no such system; there are: a"),
    ],
)
def test_settings_that_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        Settings(**{"systems": (("a", "x"),), **changed})


def test_settings_reach_the_workers_as_they_are(tmp_path):
    chosen = (parse_option("a:--hrt-decode-chunk=3"), parse_option("a: dag_keep_repeats"))
    settings = Settings(systems=(parse_system(f"a={tmp_path}"),), options=chosen, key_file=tmp_path / "keys", time_limit=1.5)
    assert (
        settings.options_of("a") == {"hrt_decode_chunk": "3", "dag_keep_repeats": "true"} and settings.options_of("b") == {}
    )
    for wrong in ("beam=1", ":beam=1", "a:", "a:=1"):
        with pytest.raises(ValueError, match="write NAME:OPTION=VALUE"):
            parse_option(wrong)
    assert Settings.from_json(settings.to_json()) == settings
    with pytest.raises(ValueError, match="write BUNDLE or NAME=BUNDLE"):
        parse_system("=x")


def test_a_server_without_systems_knows_no_language():
    assert Catalogue(()).languages() == []


def test_the_parser_of_the_verb_loads_nothing_heavy():
    code = (
        "import sys, json; from fairseq_hrt.cli import serve; serve.build_parser();"
        "print(json.dumps([name for name in ('torch', 'fairseq', 'starlette', 'uvicorn', 'numpy') if name in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(output) == []
