"""Sentences are grammatical, as far as a checker can tell that shares nothing with the generator."""

import re
from itertools import islice

import german
import pytest


@pytest.fixture(scope="module")
def texts(generator, sentences):
    """Some translations of each sentence."""
    return [
        (sentence, [generator.written(t) for t in islice(sentence.translations(), 5)])
        for sentence in sentences
    ]


def test_agreement_and_order(texts):
    for _, several in texts:
        for text in several:
            german.check(text)


@pytest.mark.parametrize("text, mistake", [
    ("Die Frau sieht den neue Tisch.", "no agreement"),
    ("Sie wartet auf der Frau.", "no case after auf"),
    ("Er kauft ein neue Hemd.", "no agreement"),
    ("Anna sieht den Student.", "no agreement"),
    ("Meiner alte Bauer schläft.", "no agreement"),
    ("Paul folgt den Kinder.", "no agreement"),
    ("Die Frau hilft den Koch.", "not the case of the verb"),
    ("Der Koch liebt der Frau.", "not the case of the verb"),
    ("Den Koch liebt den Hund.", "no subject"),
    ("Die Männer schläft.", "no subject"),
    ("Er schlafen.", "no subject"),
    ("Gestern die Frau schlief.", "verb not second"),
    ("Heute Paul schlief im Garten.", "verb not second"),
    ("Die Frau lacht, weil sie schläft heute.", "verb not last"),
    ("Der Mann, der schläft heute, lacht.", "verb not last"),
    ("Weil sie schläft, Paul lacht.", "verb not first"),
    ("Der Mann schläft heute?", "verb not first"),
    ("Der Mann ruft die Frau.", "no prefix"),
    ("Er lacht, weil der Mann ruft.", "no prefix"),
    ("Der Mann will tanzen heute.", "no infinitive at the end"),
    ("Der Mann hat getanzt heute.", "no participle at the end"),
    ("Er liebt nicht eine Frau.", "nicht ein"),
])  # fmt: skip
def test_the_checker_finds_mistakes(text, mistake):
    with pytest.raises(german.Mistake, match=mistake):
        german.check(text)


def test_what_english_says_german_says(texts):
    """Negation, "an", times and the number of clauses, by counting words."""
    for sentence, several in texts:
        english = sentence.english.lower()
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|can not", english), english
        for text in several:
            for here, there in (("not|cannot", "nicht|kein(e|en|em|er)?"), ("never", "niemals|nie"),
                                ("tomorrow", "morgen"), ("very", "sehr")):  # fmt: skip
                counts = [
                    len(re.findall(rf"\b({words})\b", lower))
                    for words, lower in ((here, english), (there, text.lower()))
                ]
                assert counts[0] == counts[1], (english, text)


def test_every_construction_occurs(texts):
    canonical = " ".join(several[0] for _, several in texts)
    words = set(re.findall(r"\w+", canonical))
    assert words >= {"dass", "ob", "weil", "wenn", "und", "aber", "nicht", "dem", "ins"}
    assert words >= {"kann", "wird", "hat", "ist", "im", "vom", "jeder", "viele", "ihn", "ihr"}
    kinds = [kind for _, several in texts for kind, _ in german.clauses(several[0])]
    assert all(kinds.count(kind) > 15 for kind in ("first", "second", "last", "relative"))


def test_wrong_agreement_differs_in_the_number_of_one_verb(generator, texts):
    """And the right one is canonical. Distances up to more than eight words occur."""
    partners = {
        (prefix + one, prefix + many)
        for row in re.split("[;\n]", german.VERBS.strip())
        for one, many in (row.split()[:2], row.split()[2:])
        for prefix in ("", *german.PREFIXES)
    }
    partners |= {pair[::-1] for pair in partners}
    distances = set()
    for sentence, (canonical, *_) in texts:
        for pair in generator.agreement(sentence):
            assert pair["source"] == sentence.english and pair["right"] == canonical
            both = zip(*(generator.tokens_of(pair[side]) for side in ("right", "wrong")))
            ((right, wrong),) = (two for two in both if two[0] != two[1])
            assert (right.lower(), wrong.lower()) in partners, pair
            distances.add(pair["distance"])
    assert {1, 2, 3, 4, 5, 6, 7, 8} <= distances


def test_distances_counted_by_hand(generator):
    pairs = [p for one in islice(generator.sentences(1), 80) for p in generator.agreement(one)]
    for right, distances in (
        ("Der kluge Junge arbeitet nach der Arbeit.", [1]),
        ("Am Abend beginnt das berühmte Fest.", [3]),
        (
            "Eine berühmte seltsame Geschichte, die der Student liebt, ist nicht interessant.",
            [1, 7],
        ),
    ):
        assert [pair["distance"] for pair in pairs if pair["right"] == right] == distances
