"""Texts to sentences: nothing is lost, and nothing takes more than a moment, whatever is sent."""

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.text.sentences import Segments, split

LENGTH = 20000
PIECES = st.sampled_from(
    [
        " ",
        "\n",
        "\t",
        ".",
        "? ",
        "Dr. ",
        "a",
        "B",
        "\u2028",
        "\r\n",
        "。",
        '"',
        "é",
        "\x85",
        "\u3000",
        "<b>",
        "1.5",
    ]
)


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=30).map("".join)),
    language=st.sampled_from(["en", "de", "zh", "xx"]),
)
def test_sentences_and_gaps_are_the_text(text, language):
    segments = split(text, language)
    assert segments.join(segments.sentences) == text
    assert all(sentence and sentence == sentence.strip() for sentence in segments.sentences)


# Each of these took minutes in a splitter or parser that looks at everything once for each place.
@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * LENGTH + "b",
        "a." * (LENGTH // 2),
        '"a. ' * (LENGTH // 4),
        "a\n" * (LENGTH // 2),
        "「" * LENGTH,
    ],
)
def test_long_texts_of_one_sign(text):
    segments = split(text, "en")
    assert segments.join(segments.sentences) == text


def test_what_stands_around_sentences_stays():
    segments = split("  One is here. Two?\r\n\r\n\tDr. Three's", "en")
    assert segments.sentences == ["One is here.", "Two?", "Dr. Three's"]
    assert segments.gaps == ["  ", " ", "\r\n\r\n\t", ""]
    assert segments.join(["1", "2", "3"]) == "  1 2\r\n\r\n\t3"


@pytest.mark.parametrize(
    "text, languages",
    [
        ("Am 3. Mai kam z. B. Dr. Meier. Er ging.", "de deu deu_Latn de_DE"),
        ("Ναι; Όχι.", "el ell_Grek"),
        ("Բարև։ Ես եմ։", "hy hye_Armn"),
    ],
)
def test_a_language_is_split_alike_by_all_its_codes(text, languages):
    for language in languages.split():
        assert len(split(text, language).sentences) == 2


@pytest.mark.parametrize("space", "\xa0\u1680\u2003\u3000")
def test_white_space_of_several_bytes(space):
    """sentencex itself panics here."""
    segments = split(f"Vitamin B{space}. One{space}is here.{space}Two?", "en")
    assert segments.join(segments.sentences) == f"Vitamin B{space}. One{space}is here.{space}Two?"
    assert segments.sentences[-2:] == [f"One{space}is here.", "Two?"]


def test_a_splitter_that_fails_splits_nothing(monkeypatch):
    class PanicException(BaseException):
        pass

    def fails(language, text):
        raise errors.pop()

    monkeypatch.setattr(sentencex, "segment", fails)
    errors = [KeyboardInterrupt(), PanicException("end byte index 4")]
    assert split(" One. Two? ", "en") == Segments(["One. Two?"], [" ", " "])
    with pytest.raises(KeyboardInterrupt):
        split("One.", "en")


@pytest.mark.parametrize("text", ["", " \n ", "\u2028"])
def test_a_text_without_words(text):
    assert split(text, "en") == Segments([], [text])
