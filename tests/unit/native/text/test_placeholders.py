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
    pieces = list(without_placeholders(text))
    assert [piece for piece, own in pieces if own] == expected
    assert "".join(piece for piece, _ in pieces) == text and all(piece for piece, _ in pieces)


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "http://.", "{", "{{ ", "%(", "%1", "<a ", '<a b="', "a@", "a@b.", "www.", "${"],
)
def test_much_of_what_begins_like_a_placeholder(piece):
    """In quadratic time it would take minutes."""
    text = piece * (200_000 // len(piece))
    assert "".join(found for found, _ in without_placeholders(text)) == text
