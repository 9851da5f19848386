"""A text of a request on its way: cut into sentences, put together from their translations."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fairseq_hrt.native.text.texts import DecodedText


def translated(decoded):
    """Each sentence in capital letters, with one alternative for those of more than one word."""
    others = {True: [SimpleNamespace(text="other")], False: []}
    return [
        SimpleNamespace(text=one.upper(), alternatives=others[" " in one])
        for one in decoded.sentences
    ]


def test_plain_text():
    decoded = DecodedText(" One two. Three!\n\nfour", "text", "en")
    assert decoded.sentences == ["One two.", "Three!", "four"]
    decoded.translations = translated(decoded)
    assert decoded.text() == " ONE TWO. THREE!\n\nFOUR"
    # A sentence that has no second translation keeps its best one.
    assert decoded.text(1) == " other THREE!\n\nFOUR" and decoded.text(2) == decoded.text()


def test_html():
    decoded = DecodedText(
        "<p>One two. Three!</p> <i>four</i><b>five</b><code>no</code>", "html", "en"
    )
    assert decoded.sentences == ["One two.", "Three!", "four", "five"]
    decoded.translations = translated(decoded)
    # Each rank anew: putting one together leaves the others alone.
    for _ in range(2):
        assert decoded.text() == "<p>ONE TWO. THREE!</p> <i>FOUR</i><b>FIVE</b><code>no</code>"
        assert decoded.text(1) == "<p>other THREE!</p> <i>FOUR</i><b>FIVE</b><code>no</code>"


def aligned(decoded, change=reversed):
    """Each sentence with its words turned round, and their alignment."""
    found = []
    for sentence in decoded.sentences:
        words = sentence.split()
        places = [*change(range(len(words)))]
        tokens = [words[place] for place in places]
        found.append(
            SimpleNamespace(
                text=" ".join(tokens).upper(),
                tokens=[one.upper() for one in tokens],
                alignment=places,
                alternatives=[],
            )
        )
        found[-1].alternatives.append(
            SimpleNamespace(text="OTHER", tokens=["OTHER"], alignment=[0])
        )
    return found


def test_tags_and_placeholders_move_with_their_words():
    html = "<p>The <b>red house</b> stands. It</p> is {x} <i>very</i> <code>n</code> old!"
    decoded = DecodedText(html, "html", "en", str.split)
    assert decoded.aligned and decoded.sentences == ["The red house stands.", "It", "is very old!"]
    decoded.translations = aligned(decoded)
    assert (
        decoded.text()
        == "<p>STANDS. <b>HOUSE RED</b> THE IT</p> OLD! <i>VERY</i> <code>n</code> IS {x}"
    )
    assert decoded.text(1) == "<p>OTHER<b></b> OTHER</p> OTHER {x} <i></i> <code>n</code>"


def test_an_element_over_several_sentences():
    decoded = DecodedText("One <b>two. Three</b>  four. <i>five</i>", "html", "en", str.split)
    assert len(decoded.sentences) == 3
    decoded.translations = aligned(decoded, list)
    assert decoded.text() == "ONE <b>TWO. THREE</b> FOUR. <i>FIVE</i>"


def test_placeholders_of_plain_text_are_kept_where_that_is_asked_for():
    text = "Hello {name}, see https://a.b/.\n%s & <b>"
    plain = DecodedText(text, "text", "en", str.split)
    assert not plain.aligned and "{name}" in plain.sentences[0]
    decoded = DecodedText(text, "text", "en", str.split, keep=True)
    assert decoded.aligned and decoded.sentences == ["Hello, see.", "&"]
    decoded.translations = aligned(decoded, list)
    assert decoded.text() == "HELLO {name}, SEE https://a.b/.\n%s & <b>"
    # Nothing that could be translated.
    assert DecodedText("{x} %s ", "text", "en", str.split, keep=True).text() == "{x} %s "
    without = DecodedText(text, "text", "en", keep=True)
    assert without.sentences == ["Hello", ", see"] and not without.aligned
    without.translations = translated(without)
    assert without.text() == "HELLO {name}, SEE https://a.b/.\n%s & <b>"


@pytest.mark.parametrize("text", [
    "three  %d", "three\n %d", "three \t%d", "%d  three", "{name} %xy", "{name} {name} …three",
    "%d ?three", "a three  {name}%3", "a three {name}.3", "three  %d  three", "three  {name} %d three",
    " <b> %d three", "three\xa0 %d. three", "a  three",
])  # fmt: skip
def test_white_space_beside_placeholders_stays(text):
    decoded = DecodedText(text, "text", "en", re.compile(r"\w+|\S").findall, keep=True)
    for one in decoded.sentences:
        tokens = re.findall(r"\w+|\S", one)
        decoded.translations.append(
            SimpleNamespace(text=one, tokens=tokens, alignment=range(len(tokens)))
        )
    assert decoded.text() == text


def test_nothing_to_translate():
    for text, form in (("", "text"), (" \n", "text"), ("<br/>", "html")):
        decoded = DecodedText(text, form, "en")
        assert decoded.sentences == [] and decoded.text() == text


def test_the_parser_of_the_verb_loads_nothing_heavy():
    code = (
        "import sys, json; from fairseq_hrt.cli import serve;"
        " serve.build_parser();print(json.dumps([name for name in ('torch', 'fairseq', 'starlette',"
        " 'httptools', 'numpy') if name in sys.modules]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert json.loads(output) == []


def reversed_words(sentence):
    """A translation that writes the words backwards; 😀, which no model has, is carried over."""
    words = [word for word in sentence.rstrip(".").split() if word != "😀"]
    order = [*range(len(words))][::-1]
    text = " ".join(f"{words[n]} 😀" if f"{words[n]} 😀" in sentence else words[n] for n in order)
    tokens = [words[n] for n in order]
    return SimpleNamespace(text=f"{text}.", tokens=tokens, alignment=order, alternatives=[])


@pytest.mark.parametrize("html, expected", [
    # carried over in its element
    ("The cat <b>😀</b> eats.", "eats cat <b>😀</b> The."),
    ("The <b>cat 😀</b> eats.", "eats <b>cat 😀</b> The."),
    # a placeholder in an element leaves no second space behind
    ("Write <a href=m>{name}</a> or call <b>{phone}</b>.",
     "call <b>{phone}</b> or Write <a href=m>{name}</a>."),
])  # fmt: skip
def test_elements_keep_what_no_model_translates(html, expected):
    decoded = DecodedText(
        html, "html", "en", lambda text: [one for one in text.rstrip(".").split() if one != "😀"]
    )
    assert not any("  " in sentence for sentence in decoded.sentences)
    decoded.translations = [*map(reversed_words, decoded.sentences)]
    assert decoded.text() == expected
