"""Given translations of terms are put into a translation."""

import re

from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.text.given_terms import (
    _likeness as likeness,
)
from fairseq_hrt.native.text.given_terms import (
    links_with_terms,
    with_terms,
    without_terms,
)
from fairseq_hrt.native.text.glossary import Glossary
from fairseq_hrt.native.text.word_alignment import Link


def word_links(source, translation, pairs):
    """Links between words of two texts, given by their numbers."""

    def spans(text):
        found, place = [], 0
        for word in text.split():
            place = text.index(word, place)
            found.append((place, place + len(word)))
            place += len(word)
        return found

    one, other = spans(source), spans(translation)
    return [
        Link(*other[target], sum(one[number]) // 2)
        for target, number in pairs
        if target < len(other) and number < len(one)
    ]


def placed(source, translation, pairs, terms):
    links = word_links(source, translation, pairs)
    return with_terms(source, translation, links, Glossary(terms).find(source))


WORDS = st.lists(st.sampled_from(["dog", "Cat", "a", "old", "red", "."]), max_size=8).map(" ".join)
TRANSLATED = st.lists(
    st.sampled_from(["Hund", "katze", "ein", "rot", "alter Hut", "Hut", "."]), max_size=8
).map(" ".join)
PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12)
TERMS = {"dog": "Hund", "cat": "katze", "old dog": "alter Hut", "old": "Hut", "red cat": "ja und"}


ALONE = st.lists(st.sampled_from(["", "Hund", "ein alter", "alter Hut", "katzen", "rot ein alt"]))


@given(WORDS, TRANSLATED, PAIRS, ALONE)
def test_each_term_is_written_once_and_the_rest_stays(source, translation, pairs, alone):
    terms = Glossary(TERMS).find(source)
    links = sorted(word_links(source, translation, pairs))
    alone = alone[: len(terms)] if len(alone) >= len(terms) else ()
    text, written = with_terms(source, translation, links, terms, alone)
    assert sorted((one.origin, one.source) for one in written) == [
        (one.start, source[one.start : one.end]) for one in terms
    ]
    translations = {one.start: one.translation for one in terms}
    last = 0
    for one in written:
        assert last <= one.start and text[one.start : one.end] == one.text
        own = translations[one.origin]
        assert one.text in (own, own[0].upper() + own[1:])
        last = one.end
    # Nothing but spaces is added, and nothing taken away, beside them.
    before = without_terms(text, written)
    assert before.replace(" ", "") == translation.replace(" ", "")
    if not terms:
        assert text == translation
    # The words of one term are not those of another one: each is there as often as it was found.
    wanted = [one.translation for one in terms]
    words = re.findall(r"\w+", text.lower())
    for term in {"Hund", "katze"} & set(wanted):
        count = words.count(term.lower())
        there = re.findall(r"\w+", translation.lower()).count(term.lower())
        assert count == max(wanted.count(term), min(count, there))
    links = word_links(source, before, pairs)
    given_links = {(one.text, one.origin + len(one.source) // 2) for one in written}
    moved = {
        (text[link.start : link.end], link.source) for link in links_with_terms(links, written)
    }
    assert given_links <= moved
    assert moved - given_links <= {(before[one.start : one.end], one.source) for one in links}
    replaced = " ".join(one.replaced for one in written)
    for one in links:
        word = before[one.start : one.end]
        assert word in replaced or (word, one.source) in moved


@given(WORDS, TRANSLATED, PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_terms_means_nothing(source, translation, pairs, random):
    lines = list(TERMS.items())
    random.shuffle(lines)
    assert placed(source, translation, pairs, TERMS) == placed(
        source, translation, pairs, dict(lines)
    )


def test_words_that_are_aligned_are_replaced():
    english, german = "A red dog runs .", "Ein roter Hund rennt ."
    pairs = [(number, number) for number in range(5)]
    cases = [
        (english, german, pairs, {"dog": "Köter"}, "Ein roter Köter rennt ."),
        (english, german, pairs, {"dog": "Hund"}, german),
        # It stands there, although the alignment does not know.
        (english, german, pairs[:2], {"dog": "Hund"}, german),
        (english, german, pairs, {"red dog": "Rotfuchs", "dog": "x"}, "Ein Rotfuchs rennt ."),
        (english, german, pairs, {"a": "irgendein"}, "Irgendein roter Hund rennt ."),
        (english, german, pairs, {"a": "IrgendEin"}, "IrgendEin roter Hund rennt ."),
        # Aligned with nothing: beside its neighbours.
        (english, german, [*pairs[:2], (3, 3), (4, 4)], {"dog": "x"}, "Ein roter x Hund rennt ."),
        (english, "", [], {"dog": "x"}, "x"),
        ("dog dog", "Hund", [(0, 0)], {"dog": "Hund"}, "Hund Hund"),
        ("dog dog", "Hund Katze", [(0, 0), (1, 1)], {"dog": "Katze"}, "Katze Katze"),
        # Part of a word answers no word.
        ("A dog's old hat", "Hunde dort", [(0, 1), (1, 3)], {"dog": "x"}, "X dort"),
        ("dog food", "狗粮", [(0, 0)], {"dog": "犬"}, "犬"),
    ]
    for source, translation, links, terms, expected in cases:
        assert placed(source, translation, links, terms)[0] == expected


def test_words_that_the_given_translation_has_itself_are_not_repeated():
    """The alignment often leaves an article out."""
    terms = {"the old dogs": "die alten Hunde"}
    for first in ("die", "Die"):
        text, written = placed(
            "the old dogs bark", f"{first} greisen Hunde bellen", [(1, 1), (2, 2)], terms
        )
        assert text == f"{first} alten Hunde bellen"
        assert written[0].replaced == f"{first} greisen Hunde"
    text, _ = placed("put it on", "legen Sie es an", [(0, 0)], {"put": "ziehen Sie"})
    assert text == "ziehen Sie es an"
    # Words that may translate others, parts of words, and the words of another term stay.
    text, _ = placed("for 12 dozen", "für 12 Dutzend", [(2, 2)], {"dozen": "12 Stück"})
    assert text == "für 12 12 Stück"
    text, _ = placed("dog and pets", "Hund und Tiere", [(2, 2)], {"pets": "Hund und Katze"})
    assert text == "Hund und Hund und Katze"
    terms = {"old dogs": "die alten Hunde", "cat": "Sadie"}
    text, _ = placed("old dogs", "Sadie greisen Hunde", [(1, 0), (2, 1)], terms)
    assert text == "Sadie die alten Hunde"
    terms = {"cat": "Kuh und Ohr", "ear": "Ohr"}
    text, _ = placed("cat ear", "Mieze Ohr", [(0, 0), (1, 1)], terms)
    assert text == "Kuh und Ohr Ohr"
    # A longer word at the beginning of the sentence is not the given one.
    text, _ = placed("red card", "Rote Karten", [(0, 0), (1, 1)], {"red card": "rote Karte"})
    assert text == "Rote Karte"


def test_the_translation_of_a_term_alone_shows_its_words():
    english, german = "the old dog sees a cat", "der alte Hund sieht eine Katze"
    pairs = [(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 5), (5, 5)]
    cases = [
        # The alignment has the adjective, or an article, too.
        (pairs, {"dog": "Köter"}, ["Ein Hund."], "der alte Köter sieht eine Katze"),
        (pairs, {"cat": "Mieze"}, ["Katzen"], "der alte Hund sieht eine Mieze"),
        (pairs, {"old dog": "Greis"}, ["alter Hund"], "der Greis sieht eine Katze"),
        # No word is of two terms.
        (pairs, {"old": "Greis", "dog": "Köter"}, ["alter Hund", "Hund"],
         "der Greis Köter sieht eine Katze"),
        # Nothing resembles it: what is aligned, without short words before the others.
        ([(0, 2), (2, 2)], {"dog": "Köter"}, ["Rüde"], "der Köter sieht eine Katze"),
        # Nothing is aligned.
        ([], {"dog": "Köter", "cat": "Mieze"}, ["Hunde", "Kater"],
         "der alte Köter sieht eine Mieze"),
        ([], {"dog": "Köter"}, ["Rüde"], "der alte Hund Köter sieht eine Katze"),
    ]  # fmt: skip
    for links, terms, alone, expected in cases:
        found = Glossary(terms).find(english)
        links = word_links(english, german, links)
        assert with_terms(english, german, links, found, alone)[0] == expected
    source, terms = "old dog cat b c d e f", {"old dog": "Greis", "cat": "Mieze"}
    found = Glossary(terms).find(source)
    text, _ = with_terms(source, "alte Hund", [], found, ["alter Hund", "x"])
    assert text == "Greis Mieze"


def test_terms_that_occur_very_often_are_compared_a_few_times(monkeypatch):
    """Not each occurrence with each word: the number of comparisons grows with the terms."""
    source = " ".join(f"dog w{number}" for number in range(200))
    translation = " ".join(f"Hund w{number}" for number in range(200))
    found = Glossary({"dog": "Köter"}).find(source)
    compared = []
    monkeypatch.setattr(
        "fairseq_hrt.native.text.given_terms._likeness",
        lambda one, other: compared.append(one) or likeness(one, other),
    )
    for alone in ([], ["Hund"] * len(found)):
        text, given = with_terms(source, translation, [], found, alone)
        assert text.split().count("Köter") == len(given) == 200
    assert 0 < len(compared) <= 4 * len(found)
