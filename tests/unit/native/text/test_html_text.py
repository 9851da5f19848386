"""HTML: tags stay, texts are replaced, and nothing takes more than a moment."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.text.html_text import (
    MOST_NESTED,
    MOST_OPEN,
    MarkedUpText,
    UnreadableMarkup,
    escape,
)
from fairseq_hrt.native.text.word_alignment import Link

LENGTH = 10000


def texts(marked):
    return [passage.text for passage in marked.passages]


def joined(marked, translations):
    return marked.join(
        [passage.write(text, []) for passage, text in zip(marked.passages, translations)]
    )


def word_by_word(passage, change=str.upper):
    """A passage whose words are translated each by itself, in their order."""
    words = [(found.start(), found.end()) for found in re.finditer(r"\w+", passage.text)]
    return passage.write(change(passage.text), [Link(start, end, start) for start, end in words])


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(
    "piece",
    ["<b>x", "<", "&", "<!--", "<![CDATA[", "<?", "<script>", "<a b=", "</b>", "<b>x ",
     "<b>x</b> ", "<b>1</b>,", "<x/>a ", "<p><b>x ", "{a} ",
     "%(", "{{", "a@", "a.", "http://", "http://. ", "<p>", "<i><p>x</i>", "<!-- -->"],
)  # fmt: skip
def test_long_markup(piece, aligned):
    marked = MarkedUpText(piece * (LENGTH // len(piece)) + ">", aligned)
    found = marked.join([word_by_word(passage) for passage in marked.passages])
    assert isinstance(found, str) and len(found) < 10 * LENGTH


@pytest.mark.parametrize("html, message", [
    ("<p>x</p>" + "<a " * (MOST_OPEN + 1), f'{MOST_OPEN + 1} "<" without a ">" after them'),
    ("a<![secret[b]]>", '"<!\\[" does not begin a declaration here'),
    ("<![secret[", "begin a declaration"),
    ("secret &#" + "9" * 4301 + ";", "a character reference .* too many digits"),
    ('<a b="&#' + "9" * 4301 + ';">secret</a>', "too many digits"),
])  # fmt: skip
def test_what_is_refused(html, message):
    with pytest.raises(UnreadableMarkup, match=message) as refused:
        MarkedUpText(html)
    assert "secret" not in str(refused.value)
    assert len(MarkedUpText("<p>x</p>" + "<a " * MOST_OPEN).passages) >= 1


def test_joined_again_with_other_texts():
    marked = MarkedUpText("<p>One <b>two</b></p>")
    assert [joined(marked, texts) for texts in (["1 ", "2"], ["I ", "<II>"], ["1 ", "2"])] == [
        "<p>1 <b>2</b></p>", "<p>I <b>&lt;II&gt;</b></p>", "<p>1 <b>2</b></p>",
    ]  # fmt: skip


def test_texts_inside_of_what_is_kept_are_kept():
    marked = MarkedUpText(
        '<div translate="no"><p>a<b>b</b></p></div><p>c<span class="x'
        ' notranslate">d<i>e</i></span></p><pre>f<b>g</b></pre>h'
    )
    assert texts(marked) == ["c", "h"]


@pytest.mark.parametrize(
    "name", ["script", "style", "code", "pre", "textarea", "template", "noscript"]
)
def test_what_is_no_text_for_readers(name):
    marked = MarkedUpText(f"a<{name}>b</{name}><!-- c --><!doctype d> \n e")
    assert [text.strip() for text in texts(marked)] == ["a", "e"]


def test_texts_are_replaced_and_escaped():
    marked = MarkedUpText('<p title="a &amp; b">One <b>two</b> &lt; three<br/></p>')
    assert texts(marked) == ["One ", "two", " < three"]
    assert (
        joined(marked, ["1 ", "<i>2</i>", " & 3"])
        == '<p title="a &amp; b">1 <b>&lt;i&gt;2&lt;/i&gt;</b> &amp; 3<br/></p>'
    )


def test_many_texts_side_by_side():
    """To look for each among the others would take seconds."""
    marked = MarkedUpText("<br>a" * 10_000)
    assert joined(marked, ["b"] * 10_000) == "<br>b" * 10_000


def test_pronunciations_are_no_texts():
    marked = MarkedUpText("<ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>")
    assert (
        texts(marked) == ["a"]
        and joined(marked, ["<c>"]) == "<ruby>&lt;c&gt;<rp>(</rp><rt>b</rt><rp>)</rp></ruby>"
    )


def test_text_is_translated_across_inline_elements():
    marked = MarkedUpText(
        '<p>The <b class="x">two <i>young</i></b> women<!-- c --> run<br>to <a'
        ' href="?a&amp;b">us</a>.</p>\n<pre>no</pre>',
        True,
    )
    assert texts(marked) == ["The two young women run", "to us."]
    assert (
        marked.join(map(word_by_word, marked.passages))
        == '<p>THE <b class="x">TWO <i>YOUNG</i></b> WOMEN<!-- c --> RUN<br>TO <a'
        ' href="?a&amp;b">US</a>.</p>\n<pre>no</pre>'
    )


@pytest.mark.parametrize("html, expected", [
    ("<b>One<p>two</p>three</b> four", ["One", "two", "three", " four"]),
    ("one <i>two<br>three</i> four", ["one ", "two", "three", " four"]),
    ("one <code>x</code>, two", ["one, two"]),
    ('one <span translate="no">x<p>y</p></span> two', ["one two"]), ("a<img src=x>b", ["ab"]),
    ("See <x id='1'/>the page", ["See the page"]), ("a <script>b</script> c", ["a ", " c"]),
    ("Hello {name}, you", ["Hello, you"]),
])  # fmt: skip
def test_what_a_passage_is(html, expected):
    marked = MarkedUpText(html, True)
    assert texts(marked) == expected
    assert (
        "".join(passage.untranslated() for passage in marked.passages)
        in marked.join([passage.untranslated() for passage in marked.passages])
        or len(expected) > 1
    )


def test_xliff():
    marked = MarkedUpText('One <x id="1"/>two <g id="2">three</g>', True)
    assert (
        marked.join(map(word_by_word, marked.passages)) == 'ONE <x id="1"/>TWO <g id="2">THREE</g>'
    )


def test_elements_nested_too_deeply_are_translated_text_by_text():
    for depth, passages in ((MOST_NESTED, 1), (MOST_NESTED + 1, 2 * (MOST_NESTED + 1) + 1)):
        html = "a<b>" * depth + "c" + "</b>d" * depth
        marked = MarkedUpText(html, True)
        assert (
            len(marked.passages) == passages
            and marked.join([one.untranslated() for one in marked.passages]) == html
        )


def test_without_alignments_each_text_between_tags_and_placeholders_is_a_passage():
    html = "One {x} <b>two</b> &lt;i&gt; <code>no</code>"
    marked = MarkedUpText(html)
    assert (
        texts(marked) == ["One ", "two"]
        and joined(marked, ["1 ", "2"]) == "1 {x} <b>2</b> &lt;i&gt; <code>no</code>"
    )


WORD = st.sampled_from(
    ["one", "two", "a&amp;b", "don't", "3.5", ",", ".", "\u4e2d\u6587", "&lt;", "x-y"]
)
UNITS = [
    "<img/>",
    "<!-- c -->",
    "{name}",
    "%s",
    "https://a.b/c?d=e",
    "a.b@c.org",
    "<x></x>",
    "<code>k l</code>",
    "&lt;x/&gt;",
]
# Side by side without white space.
GLUE = "<img/>"
PIECES = st.recursive(
    WORD | st.sampled_from(UNITS),
    lambda inner: st.tuples(
        st.sampled_from(["b", "i", "span", "p"]), st.lists(inner, max_size=4), st.booleans()
    ).map(lambda found: f"<{found[0]}>{(' ' if found[2] else GLUE).join(found[1])}</{found[0]}>"),
    max_leaves=12,
)


def numbered(html):
    """Each tag and comment told from the others."""
    names = iter(range(10**6))
    return re.sub(
        r"<(b|i|span|p|img|x|code)(?=[>/])|<!-- c|\{name",
        lambda found: f"{found[0]}{' id=' if found[1] else ''}{next(names)}",
        html,
    )


TAG = re.compile(r"<!--.*?-->|</?[a-z]+[^<>]*>")
PLACEHOLDER = re.compile(r"\{name\d*\}|%s|https://a\.b/c\?d=e|a\.b@c\.org|&lt;x/&gt;")


def canonical(html):
    return MarkedUpText(html).join(
        [passage.untranslated() for passage in MarkedUpText(html).passages]
    )


@given(st.lists(PIECES, max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_every_tag_and_placeholder_once_whatever_the_translation(pieces, chance, aligned):
    html = canonical(numbered(" ".join(pieces)))
    marked = MarkedUpText(html, aligned)

    def invented(passage):
        words = [(found.start(), found[0]) for found in re.finditer(r"\S+", passage.text)]
        chosen = [word for word in words if chance.random() < 0.8] + [
            (-1, "neu") for _ in range(chance.randrange(3))
        ]
        chance.shuffle(chosen)
        text, found = "", []
        for place, word in chosen:
            text += " " * chance.randrange(1, 3)
            if place >= 0:
                found.append(Link(len(text), len(text) + len(word), place))
            text += word
        return text, found

    translations = [invented(passage) for passage in marked.passages]
    result = marked.join(
        [passage.write(*found) for passage, found in zip(marked.passages, translations)]
    )
    assert sorted(TAG.findall(result)) == sorted(TAG.findall(html))
    assert sorted(PLACEHOLDER.findall(result)) == sorted(PLACEHOLDER.findall(html))
    assert around(result) == around(html), "each element is inside of those it was in"
    if aligned:
        # The rest is the translations without a change, but for spaces around a unit, numbers that
        # the translation lacks, and signs that are a passage of their own.
        assert words(visible(result)) == words(
            "".join(visible(escape(text)) for text, _ in translations)
        )


def words(html):
    return re.sub(r"\s|[35.,]|&lt;", "", html)


def visible(html):
    """Without tags, comments, code and placeholders."""
    return PLACEHOLDER.sub("", TAG.sub("", re.sub(r"<code[^>]*>[^<]*</code>", "", html)))


def around(html):
    """For each numbered element those around it."""
    stack, found = [], {}
    for tag in TAG.findall(html):
        if tag.startswith("</"):
            opened = stack.pop()
            assert re.match(r"\w+", opened[1:])[0] == tag[2:-1]
        elif not tag.startswith("<!"):
            found[tag] = tuple(stack)
            if not tag.endswith("/>"):
                stack.append(tag)
    return found


def copied(html, pieces=r"\w|\S"):
    """HTML with the translations of a model that copies."""
    marked = MarkedUpText(html, True)
    return marked.join([
        passage.write(passage.text, [
            Link(*found.span(), found.start()) for found in re.finditer(pieces, passage.text)
        ])
        for passage in marked.passages
    ])  # fmt: skip


@pytest.mark.parametrize("html", [
    "E = mc<sup>2</sup>", "See note<sup><a href='#fn1'>1</a></sup>.", "about 10<sup>3</sup> people",
    "Area: 5 m<sup>2</sup>.", "Paris<sup>[1]</sup> is large", "<b>50%</b> of H<sub>2</sub>O",
    '<span class="cap">O</span>nce', "un<em>believ</em>able", "<span>$</span>100", "A<b>B</b>C",
    "5<small>.99</small>", "(H<sub>2</sub>O)", "x<sub>1</sub> + x<sub>2</sub>", "a<img>b",
    '<b>One </b><i> two</i> <div onClick=\'go("x")\' Data-ID=5 class="b  a">three</div>\n\n\t four',
    "<p>One</p>     <p>two</p>", "<code><span>a</span>    <span>b</span></code>",
    "<pre> a\n\n  b </pre>", "a\n\n\n   b", "<TD NOWRAP>one<BR/>two", "<p>one<p>two", "one<b>two",
    "<b>one<i>two</b>three</i>", "one</b> two", "one</>two", "<?xml version='1.0'?>one", "&nbsp;",
    "<!DOCTYPE html><title>one</title>", "<p class=x translate='no'>one<p>two</p></p>three",
    "\u4e2d<b>\u6587</b>\u5b57", "one<wbr>two", "</b>one", "</>one", "one<!-- -->two",
    "<x id='1'></x>one<ph id=2 /> two", "<script>if (a < b && c) x('</b>')</script>one<br></br>two",
])  # fmt: skip
def test_a_model_that_copies_changes_nothing(html):
    assert copied(html) == html
    marked = MarkedUpText(html)
    assert joined(marked, texts(marked)) == html, "without alignments"


ATTRIBUTES = st.sampled_from(
    ["", ' Class="b  a"', " onClick='x(\"y\")'", " B=1  a", ' href="?a&b"']
)
INLINE = st.recursive(
    st.text(alphabet="ab12 .,%$[(-'\u4e2d\n", min_size=1, max_size=4),
    lambda inner: st.tuples(
        st.sampled_from(["b", "SUP", "a", "span"]), ATTRIBUTES, st.lists(inner, max_size=3)
    ).map(lambda found: f"<{found[0]}{found[1]}>{''.join(found[2])}</{found[0]}>"),
    max_leaves=12,
)


@given(st.lists(INLINE, max_size=6).map("".join), st.sampled_from([r"\w|\S", r"\w+|\S", r"\S+"]))
def test_a_model_that_copies_changes_no_inline_markup(html, pieces):
    assert copied(html, pieces) == html
