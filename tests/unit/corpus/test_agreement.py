"""Contrastive pairs of right and wrong agreement."""

import json
import re
from itertools import islice

import pytest


@pytest.fixture(scope="module")
def agreement(corpus, load_example):
    return load_example("corpus/agreement.py")


@pytest.fixture(scope="module")
def found(agreement, items):
    return [(item, pair) for item in items for pair in agreement.pairs(item)]


def words(text):
    return re.findall(r"\w+|[^\w\s]", text)


def differing(pair):
    right, wrong = words(pair["right"]), words(pair["wrong"])
    assert len(right) == len(wrong)
    return [(number, *two) for number, two in enumerate(zip(right, wrong)) if two[0] != two[1]]


def finite_forms(corpus):
    """Of all verbs and modals, singular beside plural in the third person; as the paradigms of the
    data have them, not as the realiser inflects them."""
    forms = {("hat", "haben"), ("ist", "sind"), ("wird", "werden"), ("war", "waren")}
    for name in dir(corpus.verbs):
        for entry in getattr(corpus.verbs, name) if name.endswith("VERBS") else ():
            for verb in entry.german:
                plural = verb.past + ("n" if verb.past.endswith("e") else "en")
                for singular, many in ((verb.present, verb.infinitive), (verb.past, plural)):
                    forms |= {(singular, many), (verb.prefix + singular, verb.prefix + many)}
    for modal in corpus.verbs.MODALS:
        forms |= {modal.present, modal.past}
    return forms


def test_one_finite_verb_in_the_other_number(corpus, found):
    known = finite_forms(corpus)
    known |= {(plural, singular) for singular, plural in known}
    # A question begins with its verb.
    known |= {tuple(form.capitalize() for form in pair) for pair in known}
    for _, pair in found:
        ((_, right, wrong),) = differing(pair)
        assert (right, wrong) in known, pair


def test_the_wrong_one_is_no_translation(corpus, found):
    for item, pair in found:
        assert pair["source"] == item.source and pair["right"] == item.canonical
        assert pair["wrong"] not in set(
            islice(corpus.german_syntax.translations(item.sentence), 99)
        )


@pytest.mark.parametrize("right, verb, distance", [
    ("Die Kellnerin ist vielleicht mit diesem Lehrer nach Rom gefahren.", "ist", 1),
    ("Die Schwestern des Lehrers haben das Hotel beschrieben.", "haben", 3),
    ("Ich wusste, dass eine Tochter am Samstag zwei Touristen unseren Ring lieh.", "lieh", 7),
    ("Er lädt die Gärtner ein, obwohl diese starken Schwestern dieser Königin im Wald danken.",
     "danken", 5),
    # Not the subject: a pronoun.
    ("Er lädt die Gärtner ein, obwohl diese starken Schwestern dieser Königin im Wald danken.",
     "lädt", None),
])  # fmt: skip
def test_distances_counted_by_hand(agreement, tmp_path, right, verb, distance):
    pairs = agreement.write(tmp_path / "agreement.jsonl", 30)
    own = [p["distance"] for p in pairs if p["right"] == right and differing(p)[0][1] == verb]
    assert own == ([] if distance is None else [distance])


def test_the_file_is_that_of_the_test_split(agreement, corpus, tmp_path, capsys):
    corpus.generate.generate(tmp_path, train=10, valid=5, test=40)
    out = tmp_path / "new" / "agreement.jsonl"
    assert agreement.main(["--out", str(out), "--sentences", "40"]) == 0
    pairs = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert capsys.readouterr().out.startswith(f"{len(pairs)} pairs, distances up to ")
    lines = [
        (tmp_path / f"test.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    ]
    assert {(pair["source"], pair["right"]) for pair in pairs} <= set(zip(*lines))
    with pytest.raises(SystemExit):
        agreement.main(["--out", str(out), "--sentences", "0"])
