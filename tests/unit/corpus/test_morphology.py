"""Inflected forms against forms written by hand, and the lexicon's own rules."""

import pytest

CASES = ("nom", "acc", "dat", "gen")


def phrase(corpus, determiner, adjective, noun, number, negative=False):
    """All four cases of determiner + adjective + noun, None where a case is not used."""
    german = corpus.german
    mass = noun.plural == ""
    forms = []
    for case in CASES:
        arguments = (noun.gender, number, case, mass, negative)
        words = (
            german.determiner_form(determiner, *arguments),
            german.attributive(adjective, german.adjective_ending(determiner, *arguments)),
            german.noun_form(noun, number, case),
        )
        forms.append(" ".join(word for word in words if word))
    return forms


def german_noun(corpus, lemma):
    return next(g for noun in corpus.nouns.NOUNS for g in noun.german if g.lemma == lemma)


def german_adjective(corpus, lemma):
    return next(
        g for adjective in corpus.modifiers.ADJECTIVES for g in adjective.german if g.lemma == lemma
    )


def german_verb(corpus, infinitive):
    every = corpus.verbs.SIMPLE_VERBS + corpus.verbs.THAT_VERBS + (corpus.verbs.COPULA,)
    return next(g for verb in every for g in verb.german if g.prefix + g.infinitive == infinitive)


# Determiner, adjective, noun, number: nominative | accusative | dative | genitive.
PHRASES = [
    (
        "DEFINITE",
        "alt",
        "Mann",
        "sg",
        "der alte Mann | den alten Mann | dem alten Mann | des alten Mannes",
    ),
    (
        "DEFINITE",
        "müde",
        "Frau",
        "sg",
        "die müde Frau | die müde Frau | der müden Frau | der müden Frau",
    ),
    (
        "DEFINITE",
        "teuer",
        "Auto",
        "sg",
        "das teure Auto | das teure Auto | dem teuren Auto | des teuren Autos",
    ),
    (
        "DEFINITE",
        "jung",
        "Kind",
        "pl",
        "die jungen Kinder | die jungen Kinder | den jungen Kindern | der jungen Kinder",
    ),
    (
        "DEFINITE",
        "faul",
        "Student",
        "sg",
        "der faule Student | den faulen Studenten | dem faulen Studenten | des faulen Studenten",
    ),
    (
        "THIS",
        "dunkel",
        "Haus",
        "sg",
        "dieses dunkle Haus | dieses dunkle Haus | diesem dunklen Haus | dieses dunklen Hauses",
    ),
    (
        "EVERY",
        "klein",
        "Junge",
        "sg",
        "jeder kleine Junge | jeden kleinen Jungen | jedem kleinen Jungen | jedes kleinen Jungen",
    ),
    (
        "INDEFINITE",
        "neu",
        "Rock",
        "sg",
        "ein neuer Rock | einen neuen Rock | einem neuen Rock | eines neuen Rockes",
    ),
    (
        "INDEFINITE",
        "neu",
        "Kamera",
        "sg",
        "eine neue Kamera | eine neue Kamera | einer neuen Kamera | einer neuen Kamera",
    ),
    (
        "INDEFINITE",
        "rot",
        "Hemd",
        "sg",
        "ein rotes Hemd | ein rotes Hemd | einem roten Hemd | eines roten Hemdes",
    ),
    ("INDEFINITE", "rot", "Hemd", "pl", "rote Hemden | rote Hemden | roten Hemden | roter Hemden"),
    (
        "INDEFINITE",
        "heiß",
        "Kaffee",
        "sg",
        "heißer Kaffee | heißen Kaffee | heißem Kaffee | heißen Kaffees",
    ),
    (
        "INDEFINITE",
        "kalt",
        "Milch",
        "sg",
        "kalte Milch | kalte Milch | kalter Milch | kalter Milch",
    ),
    (
        "our",
        "nett",
        "Onkel",
        "sg",
        "unser netter Onkel | unseren netten Onkel | unserem netten Onkel | unseres netten Onkels",
    ),
    (
        "our",
        "nett",
        "Tochter",
        "pl",
        (
            "unsere netten Töchter | unsere netten Töchter | unseren netten Töchtern | unserer"
            " netten Töchter"
        ),
    ),
    (
        "many",
        "alt",
        "Foto",
        "pl",
        "viele alte Fotos | viele alte Fotos | vielen alten Fotos | vieler alter Fotos",
    ),
    (
        "three",
        "alt",
        "Hund",
        "pl",
        "drei alte Hunde | drei alte Hunde | drei alten Hunden | drei alter Hunde",
    ),
]


@pytest.mark.parametrize("key, adjective, noun, number, expected", PHRASES)
def test_noun_phrases_decline(corpus, key, adjective, noun, number, expected):
    modifiers = corpus.modifiers
    named = {d.key: d for d in modifiers.POSSESSIVES + modifiers.QUANTIFIERS}
    determiner = named.get(key) or getattr(modifiers, key)
    forms = phrase(
        corpus, determiner, german_adjective(corpus, adjective), german_noun(corpus, noun), number
    )
    assert forms == expected.split(" | ")


@pytest.mark.parametrize(
    "noun, number, expected",
    [
        ("Tisch", "sg", "keinen neuen Tisch"),
        ("Tisch", "pl", "keine neuen Tische"),
        ("Buch", "sg", "kein neues Buch"),
    ],
)
def test_kein_replaces_the_indefinite_article(corpus, noun, number, expected):
    determiner, adjective = corpus.modifiers.INDEFINITE, german_adjective(corpus, "neu")
    assert (
        phrase(corpus, determiner, adjective, german_noun(corpus, noun), number, True)[1]
        == expected
    )


@pytest.mark.parametrize(
    "infinitive, expected",
    [
        # ich, er, wir in the present; er, wir in the preterite
        ("kaufen", ["kaufe", "kauft", "kaufen", "kaufte", "kauften"]),
        ("anrufen", ["rufe", "ruft", "rufen", "rief", "riefen"]),
        ("wissen", ["weiß", "weiß", "wissen", "wusste", "wussten"]),
        ("einladen", ["lade", "lädt", "laden", "lud", "luden"]),
        ("sein", ["bin", "ist", "sind", "war", "waren"]),
    ],
)
def test_verbs_conjugate(corpus, infinitive, expected):
    verb, german = german_verb(corpus, infinitive), corpus.german
    forms = [
        german.present(verb, 1, "sg"),
        german.present(verb, 3, "sg"),
        german.present(verb, 1, "pl"),
    ]
    assert forms + [german.preterite(verb, "sg"), german.preterite(verb, "pl")] == expected


@pytest.mark.parametrize(
    "preposition, words, expected",
    [
        ("in", ("dem", "Garten"), "im Garten"),
        ("in", ("das", "Haus"), "ins Haus"),
        ("zu", ("der", "Schule"), "zur Schule"),
        ("auf", ("dem", "Markt"), "auf dem Markt"),
        ("in", ("diesem", "Garten"), "in diesem Garten"),
    ],
)
def test_prepositions_contract(corpus, preposition, words, expected):
    assert " ".join(corpus.german.contract(preposition, words)) == expected


def test_english_forms(corpus):
    english = corpus.english
    assert [english.plural(w) for w in ("boy", "lady", "church", "woman", "radio")] == [
        "boys",
        "ladies",
        "churches",
        "women",
        "radios",
    ]
    assert [english.third_person(w) for w in ("buy", "cry", "go", "wash")] == [
        "buys",
        "cries",
        "goes",
        "washes",
    ]
    assert [english.indefinite_article(w) for w in ("old", "useful", "lawyer")] == ["an", "a", "a"]


def test_an_english_spelling_stands_for_one_concept(corpus):
    def assert_unique(spellings):
        assert len(spellings) == len(set(spellings))

    verbs = corpus.verbs
    every = verbs.SIMPLE_VERBS + verbs.THAT_VERBS + verbs.WHETHER_VERBS
    assert_unique([(verb.frame, e.base, e.particle) for verb in every for e in verb.english])
    assert_unique([spelling for noun in corpus.nouns.NOUNS for spelling in noun.english])
    assert_unique(
        [positive for adjective in corpus.modifiers.ADJECTIVES for positive, _ in adjective.english]
    )
    assert_unique([spelling for time in corpus.modifiers.TIMES for spelling in time.english])


def test_german_synonyms_keep_the_length_and_the_prefix(corpus):
    modifiers = corpus.modifiers
    for concept in modifiers.TIMES + modifiers.MANNERS + modifiers.CONJUNCTIONS:
        assert len({len(synonym.split()) for synonym in concept.german}) == 1, concept
    for verb in corpus.verbs.SIMPLE_VERBS:
        for german in verb.german:
            assert german.participle.startswith(german.prefix), german
            assert not german.infinitive.startswith(german.prefix or "-"), german


def test_every_noun_kind_has_adjectives(corpus):
    kinds = {kind for adjective in corpus.modifiers.ADJECTIVES for kind in adjective.kinds}
    assert {noun.kind for noun in corpus.nouns.NOUNS} == kinds
