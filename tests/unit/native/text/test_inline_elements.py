"""Marks, put where they belong in a translation."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_passages import passage

from fairseq_hrt.native.text.word_alignment import Link


def written(text, translation, *alignment):
    """The passage with a translation; ``alignment`` has the number of the source word of each word
    (white space divides them)."""
    own = passage(text)
    source, target = (list(re.finditer(r"\S+", one)) for one in (own.text, translation))
    found = [
        Link(*word.span(), source[place].start())
        for word, place in zip(target, alignment)
        if place is not None
    ]
    return own.write(translation, found)


@pytest.mark.parametrize("text, translation, alignment, expected", [
    ("the [bred house]", "la maison rouge", (0, 2, 1), "la <b>maison rouge</b>"),
    ("the [bred] [ihouse]", "la maison rouge", (0, 2, 1), "la <i>maison</i> <b>rouge</b>"),
    ("[ba [ib c] d]", "C D A B", (2, 3, 0, 1), "<b><i>C</i> D A B</b>"),
    # One other word between is taken in; more are not, and never those of another element.
    ("[ba b] c", "A C B", (0, 2, 1), "<b>A C B</b>"),
    ("[ba b] c d", "A C D B", (0, 2, 3, 1), "<b>A</b> C D B"),
    ("[ba b] [ic]", "A C B", (0, 2, 1), "<b>A</b> <i>C</i> B"),
    ("[ba b] c", "x A y B z", (None, 0, None, 1, None), "x <b>A y B</b> z"),
    # What was not translated stands beside its neighbour.
    ("a [bb] c", "C A", (2, 0), "C A<b></b>"), ("[ba]", "x", (None,), "<b></b>x"),
    ("[ba]", "", (), "<b></b>"), ("a [bb {x}] c", "C A", (2, 0), "C A <b>{x}</b>"),
    ("[ba] [ib]", "B", (1,), "<b></b><i>B</i>"),
    # Units keep the white space around them.
    ("a {x} b", "B A", (1, 0), "B A {x}"), ("a{x} b", "A B", (0, 1), "A{x} B"),
    ("a {x}b", "B A", (1, 0), "{x}B A"), ("{x} a", "n A", (None, 0), "{x} n A"),
    ("a b {x}", "B A", (1, 0), "B {x} A"), ("a {x}{y} {z} b", "A B", (0, 1), "A {x}{y} {z} B"),
    ("a [b{x}] b", "B A", (1, 0), "B A <b>{x}</b>"), ("a {x}, b", "A, B", (0, 1), "A {x}, B"),
    ("({x}) a", "( ) A", (0, 1), "({x} ) A"), ("a\n{x} b", "A\nB", (0, 1), "A\n{x} B"),
    ("a {x}\nb", "A\nB", (0, 1), "A {x}\nB"), (" {x} a", " A", (0,), " {x} A"),
    ("[b{x} {y}] a", "A", (0,), "<b>{x} {y}</b> A"), ("{x} {y} a", "A", (0,), "{x} {y} A"),
    # Half of a word has what corresponds to it, from the beginning, the end, or in proportion.
    ("ab[bcdef]", "W", (0,), "<b>W</b>"), ("abcd[bef]", "W", (0,), "W<b></b>"),
    ("dog[bs] a", "chat a", (0, 1), "cha<b>t</b> a"), ("[adog]s", "c\u00e3es", (0,), "<a>c\u00e3e</a>s"),
    ("1[bst] May", "1.\u00ba maio", (0, 1), "1<b>.\u00ba</b> maio"), ("1[bst]", "1", (0,), "1<b></b>"),
    ("[bO]nce", "Era", (0,), "<b>E</b>ra"), ("un[bbeliev]able", "\u96be\u4ee5", (0,), "<b>\u96be</b>\u4ee5"),
    ("mc[b2]", "mc2", (0,), "mc<b>2</b>"), ("mc[b2]", "MC 2", (0, 0), "MC <b>2</b>"),
    # A sign belongs to its word, a number to the same number, whatever the alignment.
    ("[b50%] a", "A 50%", (1, 0), "A <b>50%</b>"), ("a[b[c1]] b", "B a1", (1, 0), "B a<b><c>1</c></b>"),
    ("a [b1] b", "A 1 B", (0, 0, 2), "A <b>1</b> B"), ("a[b[c1]].", "A.", (0,), "A<b><c>1</c></b>."),
    ("a [b1] c", "A 10 C", (0, None, 2), "A <b>10</b> C"),
    ("a[b1] b", "A 1 B", (0, 1, 1), "A <b>1</b> B"), ("a[b1] b", "1 A B", (1, 0, 1), "<b>1</b> A B"),
    ("[ba]1 b", "A 1 B", (0, None, 1), "<b>A</b> 1 B"), ("[b2]nd a", "two A", (0, 1), "<b></b>two A"),
    ("5[b.99] a", "de 5,99 A", (0, 0, 1), "de 5<b>,99</b> A"),
    ("20[bo]C", "de 20oC", (0, 0), "de 20<b>o</b>C"), ("[ba]bc", "o ABC", (0, 0), "o <b>A</b>BC"),
    # Numbers may have other separators.
    ("a [b1,000] b", "A 1.000 B", (0, 2, 2), "A <b>1.000</b> B"),
    ("a [b3.5] b", "A 3,5 B", (0, 0, 2), "A <b>3,5</b> B"),
    ("a [b3.5] b 35", "A 35 3,5", (0, None, None), "A 35 <b>3,5</b>"),
    ("a 2 [b2] b", "A 2 2 B", (0, 1, 1, 3), "A 2 <b>2</b> B"),
    # Words may spell them: those beside the number's neighbours.
    ("[b2] a", "Two A", (1, 1), "<b>Two</b> A"), ("a [b2]", "A two", (0, 0), "A <b>two</b>"),
    ("a [b2] b c [b2] d", "A x B C y D", (0, 2, 2, 3, 5, 5), "A <b>x</b> B C <b>y</b> D"),
    ("a [b2] b", "A two B", (0, None, 2), "A <b>two</b> B"), ("[b2] a", "A b A", (1, 0, 1), "A <b>b</b> A"),
    # A number is added where the translation has nothing in its place.
    ("a [b1] b", "A B", (0, 2), "A <b>1</b> B"), ("[b1] a", "A", (1,), "<b>1</b> A"),
    ("a [b[c1] [d2]] b", "A B", (0, 3), "A <b><c>1</c> <d>2</d></b> B"),
    ("a[b1] 1", "A 1", (0, 1), "A<b>1</b> 1"),
    ("a [b5:30] b c", "17.30 A B C", (2, 0, 2, 3), "17.30 A<b></b> B C"),
    # White space within an element stays there.
    ("a[b b ]c", "A B C", (0, 1, 2), "A<b> B </b>C"), ("[ba ][ib]", "B A", (1, 0), "<i>B</i> <b>A</b>"),
])  # fmt: skip
def test_marks_find_their_words(text, translation, alignment, expected):
    assert written(text, translation, *alignment) == expected


@given(st.lists(st.sampled_from(["a", "b", " ", "\n", ",", "{x}", "{y}", "."]), max_size=12))
def test_units_of_an_unchanged_translation_stay_in_their_order(pieces):
    """Where nothing changes its place, neither does a unit."""
    text = "".join(pieces)
    own = passage(text)
    words = [(found.start(), found.end()) for found in re.finditer(r"\w+|\S", own.text)]
    result = (
        own.write(own.text, [Link(*span, span[0]) for span in words])
        if own.text.strip()
        else own.untranslated()
    )
    assert "".join(result.split()) == "".join(text.split())
