"""Words of raw texts that belong to each other, found through the subwords of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.text.word_alignment import LONGEST_WORD, Link, Words, links, origins


def spans(text):
    words = Words(text)
    return [text[start:end] for start, end in zip(words.starts, words.ends)]


@pytest.mark.parametrize("text, expected", [
    ("The two-year-old didn't, 3.5%!", ["The", "two-year-old", "didn't", ",", "3.5", "%", "!"]),
    (" \n ", []), ("«Où»", ["«", "Où", "»"]), ("中文 ok です", ["中", "文", "ok", "で", "す"]),
    ("-a- b.", ["-", "a", "-", "b", "."]), ("", []),
])  # fmt: skip
def test_words(text, expected):
    assert spans(text) == expected


def test_the_length_of_words_is_limited():
    """Each is compared with the words of the translation, which would take quadratic time."""
    found = spans("1," * 1000)
    assert "".join(found) == "1," * 1000 and max(map(len, found)) == LONGEST_WORD


@given(st.text(alphabet="ab -'.中 \n", max_size=20), st.integers(0, 20), st.integers(1, 5))
def test_words_of_spans(text, start, length):
    words = Words(text)
    assert "".join(spans(text)) == "".join(text.split())
    both = list(zip(words.starts, words.ends))
    assert [*words.at(start, start + length)] == [
        n for n, (a, b) in enumerate(both) if a < start + length and b > start
    ]
    assert words.before(start) == sum((a + b) / 2 < start for a, b in both)


def test_links_of_subwords():
    # Characters that the tokeniser normalised (the quotation mark) are passed over.
    source, translation = "He  said “newspapers”.", "Er sagte „Zeitungen“."
    subwords = ["He", "said", '"', "news@@", "papers", '"', "."]
    tokens = ["Er", "sagte", "„", "Zeit@@", "ungen", "“", ".", "</s>"]
    found = links(source, subwords, translation, tokens, [0, 1, 2, 3, 4, 5, 6, 7])
    assert [translation[link.start : link.end] for link in found] == [
        "Er",
        "sagte",
        "Zeit",
        "ungen",
        ".",
    ]
    assert [source[link.source] for link in found] == ["e", "i", "w", "e", "."]
    assert origins(Words(source), Words(translation), found) == [0, 1, -1, 3, -1, 5]
    pieces = links("a bc", ["▁a", "▁b", "c"], "C ab", ["▁C", "▁a", "b", "</s>"], [2, 0, 1, 3])
    assert pieces == [Link(0, 1, 3), Link(2, 3, 0), Link(3, 4, 2)]


def test_origins_are_those_of_most_characters_and_signs_come_from_signs():
    source, translation = Words("one two ."), Words("zweieins , x")
    found = [Link(0, 4, 5), Link(4, 8, 1), Link(0, 2, 5), Link(9, 10, 5), Link(11, 12, 8)]
    assert origins(source, translation, found) == [1, -1, -1]
    assert origins(source, translation, [Link(9, 10, 8)]) == [-1, 2, -1]


PIECES = st.lists(st.text(alphabet="ab@▁. <", min_size=0, max_size=4), max_size=12)


@given(
    st.text(alphabet="ab@▁. <", max_size=30),
    PIECES,
    st.text(alphabet="ab ", max_size=30),
    PIECES,
    st.lists(st.integers(-1, 13), max_size=14),
)
def test_whatever_a_model_says_links_lie_in_the_texts(
    source, subwords, translation, tokens, alignment
):
    last = 0
    for link in links(source, subwords, translation, tokens, alignment):
        assert last <= link.start < link.end <= len(translation) and 0 <= link.source < len(source)
        last = link.end


@given(
    st.lists(st.text(alphabet="abc", min_size=1, max_size=6), min_size=1, max_size=10), st.data()
)
def test_subwords_of_a_text_are_found_where_they_are(words, data):
    text, subwords, expected = "", [], []
    for word in words:
        cut = data.draw(st.integers(0, len(word) - 1))
        for piece, mark in ((word[:cut], "@@"), (word[cut:], "")):
            if piece:
                subwords.append(piece + mark)
                expected.append((len(text), len(text) + len(piece)))
                text += piece
        text += " " * data.draw(st.integers(1, 30))
    found = links("x", ["x"], text, subwords, [0] * len(subwords))
    assert [(link.start, link.end) for link in found] == expected


def test_subwords_that_are_nowhere_take_linear_time():
    assert links("a" * 100_000, ["b"] * 50_000, "a " * 50_000, ["c"] * 50_000, [0] * 50_000) == []


def test_escapes_split_hyphens_and_lower_case_are_found_in_raw_text():
    source, subwords = "The well-known Man's \"car\"", (
        "the well @-@ known m@@ an &apos;s &quot; car &quot;".split()
    )  # fmt: skip
    found = links(source, subwords, source, subwords, range(len(subwords)))
    assert [source[link.start : link.end] for link in found] == [
        "The", "well", "-", "known", "M", "an", "'s", '"', "car", '"',
    ]  # fmt: skip
    assert len(links("İx a", ["a"], "İx a", ["a"], [0])) == 1
