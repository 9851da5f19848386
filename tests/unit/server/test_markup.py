"""HTML: tags stay, texts are replaced, and nothing takes more than a moment."""

import pytest

from fairseq_hrt.server.errors import RequestError
from fairseq_hrt.server.markup import MOST_OPEN, MarkedUpText

LENGTH = 20000


@pytest.mark.parametrize("piece", ["<b>x", "<", "&", "<!--", "<![CDATA[", "<?", "<script>", "<a b=", "</b>"])
def test_long_markup(piece):
    marked = MarkedUpText(piece * (LENGTH // 2 // len(piece)) + ">")
    assert isinstance(marked.join([text.upper() for text in marked.texts]), str)


@pytest.mark.parametrize("html, message", [
    ("<p>x</p>" + "<a " * (MOST_OPEN + 1), f'there are {MOST_OPEN + 1} "<" that no ">" follows'), ("a<![secret[b]]>", 'a declaration that begins with "<!\\[" is none'),
    ("<![secret[", "a declaration"), ("secret &#" + "9" * 4301 + ";", "a character reference .* too many digits"),
    ('<a b="&#' + "9" * 4301 + ';">secret</a>', "too many digits"),
])  # fmt: skip
def test_what_is_refused(html, message):
    with pytest.raises(RequestError, match=message) as refused:
        MarkedUpText(html)
    assert refused.value.status == 400 and "secret" not in refused.value.message
    assert len(MarkedUpText("<p>x</p>" + "<a " * MOST_OPEN).texts) >= 1


def test_joined_again_with_other_texts():
    marked = MarkedUpText("<p>One <b>two</b></p>")
    assert [marked.join(texts) for texts in (["1 ", "2"], ["I ", "<II>"], ["1 ", "2"])] == [
        "<p>1 <b>2</b></p>", "<p>I <b>&lt;II&gt;</b></p>", "<p>1 <b>2</b></p>",
    ]  # fmt: skip


def test_texts_inside_of_what_is_kept_are_kept():
    marked = MarkedUpText(
        '<div translate="no"><p>a<b>b</b></p></div><p>c<span class="x notranslate">d<i>e</i></span></p><pre>f<b>g</b></pre>h'
    )
    assert marked.texts == ["c", "h"]


@pytest.mark.parametrize("name", ["script", "style", "code", "pre", "textarea", "template", "noscript"])
def test_what_is_no_text_for_readers(name):
    marked = MarkedUpText(f"a<{name}>b</{name}><!-- c --><!doctype d> \n e")
    assert [text.strip() for text in marked.texts] == ["a", "e"]


def test_texts_are_replaced_and_escaped():
    marked = MarkedUpText('<p title="a &amp; b">One <b>two</b> &lt;three&gt;<br/></p>')
    assert marked.texts == ["One ", "two", " <three>"]
    assert marked.join(["1 ", "<i>2</i>", " & 3"]) == '<p title="a &amp; b">1 <b>&lt;i&gt;2&lt;/i&gt;</b> &amp; 3<br/></p>'


def test_many_texts_side_by_side():
    """To look for each among the others would take ten minutes."""
    marked = MarkedUpText("<br>a" * 80_000)
    assert marked.join(["b"] * 80_000) == "<br/>b" * 80_000


def test_pronunciations_are_no_texts():
    marked = MarkedUpText("<ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>")
    assert marked.texts == ["a"] and marked.join(["<c>"]) == "<ruby>&lt;c&gt;<rp>(</rp><rt>b</rt><rp>)</rp></ruby>"
