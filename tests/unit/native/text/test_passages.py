"""Passages: cut into text and marks, and written as they were."""

import re

import pytest
from marked_passages import passage

from fairseq_hrt.native.text.passages import Passage
from fairseq_hrt.native.text.word_alignment import Link


@pytest.mark.parametrize("text, plain", [
    ("Hello {x}, you", "Hello, you"), ("Hello {x} you", "Hello you"), ("{x} has", "has"),
    ("see {x}.", "see."), ("a{x}b", "ab"), ("a {x}b", "a b"), ("a {x},b", "a ,b"),
    ("a {x} {y} b", "a b"), ("a\n{x} b", "a\nb"), ("({x})", "()"), ("[ba {x}], b", "a, b"),
    ("{x}", ""), ("{x} {y}", ""), ("a {x} ", "a "),
])  # fmt: skip
def test_what_is_translated(text, plain):
    own = passage(text)
    assert own.text == plain and own.untranslated() == re.sub(r"\[(\w)", r"<\1>", text).replace(
        "]", "</b>"
    )


def test_escaped():
    own = Passage(lambda text: text.replace("<", "&lt;"))
    own.add("a < b")
    own.finish()
    assert (own.text, own.write("<", []), own.untranslated(), own.marked) == (
        "a < b",
        "&lt;",
        "a &lt; b",
        False,
    )
    own.unit("<x>")
    assert own.write("< A", [Link(2, 3, 0)]).count("<x>") == 1
