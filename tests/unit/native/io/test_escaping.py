"""Texts of unknown origin stay texts, in terminals, HTML and Markdown."""

import html
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_hrt.native.io.escaping import code_in_markdown, in_markdown, json_in_script, printable

# Half of the signs are those that mean something somewhere.
TEXTS = st.text(
    st.one_of(
        st.sampled_from("\\`*|<>&~$@_[](){}#!:/.-w \x1b\x07\r\n\u2028\u202e\u2066\x9b"),
        st.characters(),
    ),
    max_size=30,
)


@given(TEXTS)
def test_usual_text_stays_as_it_is(text):
    assert printable(text) == text or not text.isprintable()


# Of the signs of format only those that turn the direction of writing: others join letters of real
# scripts.
UNSEEN = [
    sign
    for sign in map(chr, range(0x10000))
    if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")
]
TURNING = [
    sign
    for sign in map(chr, range(0x10000))
    if re.fullmatch("(LR|RL)[EOI]|FSI|PD[FI]", unicodedata.bidirectional(sign))
]


def test_every_sign_that_changes_what_follows_is_written_out():
    assert {"\x1b", "\x9b", "\u2028", "\ud800"} <= set(UNSEEN) and {
        "\u202e",
        "\u2066",
        "\u2069",
    } <= set(TURNING)
    for sign in UNSEEN + TURNING:
        assert printable(sign) == ascii(sign)[1:-1]
    assert printable("\u200d\u200c\xa0\xad") == "\u200d\u200c\xa0\xad"


def test_what_is_hidden_can_be_read():
    assert printable("a\x1b[31mb\u202ec\ud800é") == r"a\x1b[31mb\u202ec\ud800é"


class Script(HTMLParser):
    """Collects elements, and the text of scripts."""

    def __init__(self):
        super().__init__()
        self.elements, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)

    def handle_data(self, data):
        self.text += data


@given(
    st.recursive(
        TEXTS,
        lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
        max_leaves=4,
    )
)
@example("\u2028\u2029<!--<script>&</script>")
def test_a_script_holds_its_data_and_nothing_else(document):
    text = json_in_script(document)
    assert json.loads(text) == document
    page = Script()
    page.feed(f"<script>{text}</script><p></p>")
    assert page.elements == ["script", "p"] and page.text == text
    assert not set("<>&\u2028\u2029") & set(text)


@pytest.mark.parametrize(
    "mark",
    ["<b>x</b>", "![x](y)", "[x](y)", "[x][y]", "[x]: y", "a | b", "`x`", "@somebody", "http://x",
     "www.x.y", "$x$", "*x*", "_x_", "~~x~~", "\\|", "&lt;"],
)  # fmt: skip
def test_markdown_shows_what_would_be_markup(mark):
    shown = in_markdown(mark)
    assert shown != mark and html.unescape(shown) == mark
    assert not set("\\`*|<>~$@") & set(shown) and "](" not in shown and "://" not in shown


@given(TEXTS)
def test_a_cell_stays_one_cell_with_its_words(text):
    shown = in_markdown(text)
    assert not set("\\`*|<>~$@\n\r\u2028") & set(shown)
    assert html.unescape(shown) == printable(" ".join(text.split()))


def test_usual_names_stay_as_they_are():
    for name in ("HRT k=2 (1,1)", "snake_case", "a/b.pt", "50 %", "é"):
        assert in_markdown(name) == name
    assert in_markdown(38.25) == "38.25" and in_markdown("two\nlines") == "two lines"


@given(TEXTS)
def test_code_is_not_ended_by_what_it_holds(text):
    shown, words = code_in_markdown(text), printable(" ".join(text.split()))
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    if not words:
        assert shown == ""
        return
    inside = shown[len(fence) : -len(fence)]
    # CommonMark, 6.1: a span ends at a run of backticks as long as the one that began it; one space
    # on either side is taken away.
    assert shown.endswith(fence) and not inside.startswith("`") and not inside.endswith("`")
    assert len(fence) not in [
        len(run) for run in inside.replace("`", " `").split() if set(run) == {"`"}
    ]
    assert inside in (words, f" {words} ")
