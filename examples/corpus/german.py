"""German morphology: determiners, adjectives, nouns, pronouns and verb forms.

Cases are "nom", "acc", "dat" and "gen"; numbers "sg" and "pl"; genders "m", "f" and
"n". Functions are pure and work on the entries of `lexicon.py`.
"""

from typing import Dict, Tuple

from lexicon import Determiner, GermanAdjective, GermanNoun, GermanVerb

CASES = ("nom", "acc", "dat", "gen")
# Column of a paradigm: the three genders in the singular, then the plural.
_COLUMNS = {"m": 0, "f": 1, "n": 2, "pl": 3}

_DEFINITE: Dict[str, Tuple[str, ...]] = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
    "gen": ("des", "der", "des", "der"),
}
_STRONG_DETERMINER: Dict[str, Tuple[str, ...]] = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
_EIN_WORD: Dict[str, Tuple[str, ...]] = {
    "nom": ("", "e", "", "e"),
    "acc": ("en", "e", "", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
_WEAK_ADJECTIVE: Dict[str, Tuple[str, ...]] = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
    "gen": ("en", "en", "en", "en"),
}
_MIXED_ADJECTIVE: Dict[str, Tuple[str, ...]] = {
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
    "dat": ("en", "en", "en", "en"),
    "gen": ("en", "en", "en", "en"),
}
_STRONG_ADJECTIVE: Dict[str, Tuple[str, ...]] = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("en", "er", "en", "er"),
}
_RELATIVE: Dict[str, Tuple[str, ...]] = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "denen"),
    "gen": ("dessen", "deren", "dessen", "deren"),
}
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
# First person singular, third person singular and plural, present and preterite.
_AUXILIARIES = {
    "haben": ("habe", "hat", "haben"),
    "sein": ("bin", "ist", "sind"),
    "werden": ("werde", "wird", "werden"),
}


def _column(gender: str, number: str) -> int:
    return _COLUMNS["pl" if number == "pl" else gender]


def determiner_form(
    determiner: Determiner, gender: str, number: str, case: str, bare: bool, negative: bool
) -> str:
    """Inflect a determiner; "" for the zero article.

    `bare` asks for the zero article in place of *ein* (mass nouns), `negative` for
    *kein*, which unlike *ein* has a plural.
    """
    column = _column(gender, number)
    if determiner.declension == "definite":
        return _DEFINITE[case][column]
    if determiner.declension == "dieser" or determiner.declension == "strong":
        return determiner.stem + _STRONG_DETERMINER[case][column]
    if determiner.declension == "bare":
        return determiner.stem
    if determiner.key != "indefinite":
        return determiner.stem + _EIN_WORD[case][column]
    if negative:
        return "kein" + _EIN_WORD[case][column]
    return "" if bare or number == "pl" else "ein" + _EIN_WORD[case][column]


def adjective_ending(
    determiner: Determiner, gender: str, number: str, case: str, bare: bool, negative: bool
) -> str:
    """Return the attributive ending after `determiner`: weak after der-words, mixed
    after ein-words, strong after the zero article and the plural quantifiers."""
    column = _column(gender, number)
    if determiner.declension in ("definite", "dieser"):
        return _WEAK_ADJECTIVE[case][column]
    zero_article = determiner.key == "indefinite" and not negative and (bare or number == "pl")
    if determiner.declension in ("strong", "bare") or zero_article:
        return _STRONG_ADJECTIVE[case][column]
    return _MIXED_ADJECTIVE[case][column]


def attributive(adjective: GermanAdjective, ending: str) -> str:
    """Inflect an attributive adjective."""
    return (adjective.stem or adjective.lemma) + ending


def noun_form(noun: GermanNoun, number: str, case: str) -> str:
    """Inflect a noun: dative plural -n, genitive, and the n-declension."""
    if number == "pl":
        add_n = case == "dat" and not noun.plural.endswith(("n", "s"))
        return noun.plural + "n" if add_n else noun.plural
    if case == "gen" or (noun.weak and case != "nom"):
        return noun.genitive
    return noun.lemma


def relative_pronoun(gender: str, number: str, case: str) -> str:
    """Return the relative pronoun *der, die, das*."""
    return _RELATIVE[case][_column(gender, number)]


def contract(preposition: str, words: Tuple[str, ...]) -> Tuple[str, ...]:
    """Put `preposition` before `words`, merged with a following article (im, zur)."""
    merged = _CONTRACTIONS.get((preposition, words[0]))
    return (merged,) + words[1:] if merged else (preposition,) + words


def auxiliary_present(infinitive: str, person: int, number: str) -> str:
    """Present of haben, sein and werden, first or third person."""
    forms = _AUXILIARIES[infinitive]
    return forms[2] if number == "pl" else forms[0 if person == 1 else 1]


def present(verb: GermanVerb, person: int, number: str) -> str:
    """Present tense, first or third person, without the separable prefix."""
    if verb.infinitive in _AUXILIARIES:
        return auxiliary_present(verb.infinitive, person, number)
    if number == "pl":
        return verb.infinitive
    if person == 1:
        stem = verb.infinitive[:-2] if verb.infinitive.endswith("en") else verb.infinitive[:-1]
        return verb.first_person or stem + "e"
    return verb.present


def preterite(verb: GermanVerb, number: str) -> str:
    """Preterite, first or third person, without the separable prefix."""
    if number == "sg":
        return verb.past
    return verb.past + ("n" if verb.past.endswith("e") else "en")


def infinitive(verb: GermanVerb) -> str:
    """Infinitive with the separable prefix attached."""
    return verb.prefix + verb.infinitive
