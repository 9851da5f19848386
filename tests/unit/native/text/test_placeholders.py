"""Placeholders of several kinds, and what only looks like one."""

import pytest

from fairseq_hrt.native.text.placeholders import without_placeholders


@pytest.mark.parametrize("text, expected", [
    ("Hi {name}, {0} {} {a.b[0]}", ["{name}", "{0}", "{}", "{a.b[0]}"]),
    ("{{ user }} ${x}", ["{{ user }}", "${x}"]), ("{not one} a}", []),
    ("%s %d %1$s %(n)s %.2f %5d %@ 50% done 5%so",
     ["%s", "%d", "%1$s", "%(n)s", "%.2f", "%5d", "%@"]),
    ("See https://a.b/c?d=e#f, (www.x.org).", ["https://a.b/c?d=e#f", "www.x.org"]),
    ("mail a.b+c@d-e.org.", ["a.b+c@d-e.org"]), ("a @b", []),
    ('<x id="1"/> <b> </b> 1 < 2 a<b and c>d', ['<x id="1"/>', "<b>", "</b>"]), ("", []),
])  # fmt: skip
def test_placeholders(text, expected):
    assert_found(text, expected)


@pytest.mark.parametrize("text, expected", [
    ("详情见https://a.b/x。我们明天见。", ["https://a.b/x"]),
    ("(网址：https://a.b/x）请看。", ["https://a.b/x"]),
    ("访问https://a.b/x了解，或www.x.org。", ["https://a.b/x", "www.x.org"]),
    ("我的邮箱是test@b.co请明天联系我。", ["test@b.co"]), ("อีเมลtest@b.coนะ", ["test@b.co"]),
    ("https://a.b/x에서 test@b.co로", ["https://a.b/x", "test@b.co"]),
    ("有%d个，50%的", ["%d"]), ("https://例子.中国/wiki/中国 好", ["https://例子.中国/wiki/中国"]),
])  # fmt: skip
def test_text_without_spaces_is_not_taken_for_a_placeholder(text, expected):
    assert_found(text, expected)


@pytest.mark.parametrize("text, expected", [
    ("See https://a.b/Bank_(Geld) for more.", ["https://a.b/Bank_(Geld)"]),
    ("(see https://a.b/(x)).", ["https://a.b/(x)"]),
    ("Call https://a.b/{id}/{{x}}, [https://a.b/c[0]].",
     ["https://a.b/{id}/{{x}}", "https://a.b/c[0]"]),
    ("“https://a.b/it's”… https://a.b/x(see below)", ["https://a.b/it's", "https://a.b/x"]),
])  # fmt: skip
def test_brackets_belong_to_the_url_that_has_both(text, expected):
    assert_found(text, expected)


def assert_found(text, expected):
    pieces = list(without_placeholders(text))
    assert [piece for piece, own in pieces if own] == expected
    assert "".join(piece for piece, _ in pieces) == text and all(piece for piece, _ in pieces)


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "a.", "http://.", "{", "{{ ", "%(", "%1", "<a ", '<a b="', "a@", "a@b.", "www."),
        *("${", "http://(", "http://a(", "http://[{(", "http://a.,", "http://中."),
    ],
)
def test_much_of_what_begins_like_a_placeholder(piece):
    """In quadratic time it would take minutes."""
    text = piece * (200_000 // len(piece))
    assert "".join(found for found, _ in without_placeholders(text)) == text
