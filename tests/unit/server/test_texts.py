"""A text of a request on its way: cut into sentences, put together from their translations."""

import json
import subprocess
import sys
from types import SimpleNamespace

from fairseq_hrt.server.texts import DecodedText


def translated(decoded):
    """Each sentence in capital letters, with one alternative for those of more than one word."""
    others = {True: [SimpleNamespace(text="other")], False: []}
    return [SimpleNamespace(text=one.upper(), alternatives=others[" " in one]) for one in decoded.sentences]


def test_plain_text():
    decoded = DecodedText(" One two. Three!\n\nfour", "text", "en")
    assert decoded.sentences == ["One two.", "Three!", "four"]
    decoded.translations = translated(decoded)
    assert decoded.text() == " ONE TWO. THREE!\n\nFOUR"
    # A sentence that has no second translation keeps its best one.
    assert decoded.text(1) == " other THREE!\n\nFOUR" and decoded.text(2) == decoded.text()


def test_html():
    decoded = DecodedText("<p>One two. Three!</p> <i>four</i><b>five</b><code>no</code>", "html", "en")
    assert decoded.sentences == ["One two.", "Three!", "four", "five"]
    decoded.translations = translated(decoded)
    # Each rank anew: putting one together leaves the others alone.
    for _ in range(2):
        assert decoded.text() == "<p>ONE TWO. THREE!</p> <i>FOUR</i><b>FIVE</b><code>no</code>"
        assert decoded.text(1) == "<p>other THREE!</p> <i>FOUR</i><b>FIVE</b><code>no</code>"


def test_nothing_to_translate():
    for text, form in (("", "text"), (" \n", "text"), ("<br/>", "html")):
        decoded = DecodedText(text, form, "en")
        assert decoded.sentences == [] and decoded.text() == text


def test_the_parser_of_the_verb_loads_nothing_heavy():
    code = (
        "import sys, json; from fairseq_hrt.cli import serve; serve.build_parser();"
        "print(json.dumps([name for name in ('torch', 'fairseq', 'starlette', 'uvicorn', 'numpy') if name in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(output) == []
