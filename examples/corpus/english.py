"""English morphology and realisation."""

from typing import List, Optional, Tuple

from lexicon import FUTURE, PAST, PERFECT, EnglishVerb
from nouns import IRREGULAR_PLURALS
from sentence import (
    COMPLEMENT,
    COORDINATION,
    QUESTION,
    SUBORDINATE,
    Clause,
    Gap,
    Location,
    Name,
    NounPhrase,
    Pair,
    Personal,
    Phrase,
    Sentence,
    Town,
    agreement,
    detokenise,
)

_ARTICLE_EXCEPTIONS = {"useful": "a"}


def plural(noun: str) -> str:
    """Return the plural of an English noun."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    return _sibilant_s(noun)


def third_person(base: str) -> str:
    """Return the third person singular present of an English verb."""
    irregular = {"have": "has", "do": "does", "go": "goes", "be": "is"}
    return irregular.get(base) or _sibilant_s(base)


def _sibilant_s(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def indefinite_article(following: str) -> str:
    """Return "a" or "an" for the word that follows."""
    return _ARTICLE_EXCEPTIONS.get(following, "an" if following[0] in "aeiou" else "a")


def _be(person: int, number: str, past: bool) -> str:
    if past:
        return "was" if number == "sg" else "were"
    if number == "pl":
        return "are"
    return "am" if person == 1 else "is"


def _present(base: str, person: int, number: str) -> str:
    return third_person(base) if (person, number) == (3, "sg") else base


def _modal_group(
    clause: Clause, question: bool, person: int, number: str
) -> Tuple[List[str], List[str]]:
    """Auxiliary and remainder of a clause with a modal verb; "have to" and "want to"
    take *do* in questions and negations."""
    modal = clause.modal
    base = [clause.english_verb.base]
    negation = ["not"] if clause.negated else []
    if clause.tense == PAST:
        if clause.negated or question:
            return ["did"] + negation, modal.english[-1].split() + base
        return [], modal.english_past.split() + base
    spelling = modal.english[clause.modal_spelling].split()
    if len(spelling) == 1:
        if not clause.negated:
            return spelling, base
        return (["cannot"] if spelling == ["can"] else spelling + ["not"]), base
    if clause.negated or question:
        return [_present("do", person, number)] + negation, spelling + base
    return [], [_present(spelling[0], person, number)] + spelling[1:] + base


def _verb_group(clause: Clause, question: bool) -> Tuple[List[str], List[str]]:
    """Return (auxiliary with negation, remainder) of the verb group; a "mid" adverb
    goes between the two. The auxiliary is empty for a simple tense."""
    person, number = agreement(clause.subject)
    verb: EnglishVerb = clause.english_verb
    negation = ["not"] if clause.negated else []
    if clause.modal is not None:
        return _modal_group(clause, question, person, number)
    if clause.tense == PERFECT:
        return [_present("have", person, number)] + negation, [verb.participle]
    if clause.tense == FUTURE:
        return ["will"] + negation, [verb.base]
    past = clause.tense == PAST
    if verb.base == "be":
        return [_be(person, number, past)] + negation, []
    if clause.negated or question:
        return ["did" if past else _present("do", person, number)] + negation, [verb.base]
    return [], [verb.past if past else _present(verb.base, person, number)]


def noun_phrase(phrase: Phrase, negated: bool = False, object_form: bool = False) -> List[str]:
    """Realise a noun phrase; `negated` turns a zero article into "any"."""
    if isinstance(phrase, Name):
        return [phrase.name]
    if isinstance(phrase, Personal):
        return [phrase.pronoun.english_object if object_form else phrase.pronoun.english]
    if isinstance(phrase, Pair):
        return noun_phrase(phrase.first) + ["and"] + noun_phrase(phrase.second)
    assert isinstance(phrase, NounPhrase)
    words = [adjective.english[spelling][0] for adjective, spelling in phrase.adjectives]
    if phrase.very:
        words.insert(0, "very")
    noun = phrase.noun.english[phrase.english]
    words.append(noun if phrase.number == "sg" else plural(noun))
    article = phrase.determiner.english[0 if phrase.number == "sg" else 1]
    if phrase.determiner.key == "indefinite":
        if phrase.noun.mass or phrase.number == "pl":
            article = "any" if negated else ""
        else:
            article = indefinite_article(words[0])
    if article:
        words.insert(0, article)
    if phrase.owner is not None:
        words += ["of"] + noun_phrase(phrase.owner)
    if phrase.relative is not None:
        words += [phrase.relativiser] + _clause(phrase.relative)
    return words


def _is_gap(phrase: Optional[Phrase]) -> bool:
    return phrase is None or isinstance(phrase, Gap)


def _objects(clause: Clause) -> List[str]:
    words: List[str] = []
    direct = [] if _is_gap(clause.object) else noun_phrase(clause.object, clause.negated, True)
    if clause.recipient is None:
        words += direct
    elif clause.recipient_first:
        words += noun_phrase(clause.recipient, object_form=True) + direct
    else:
        words += direct + ["to"] + noun_phrase(clause.recipient, object_form=True)
    return words


def _location(location: Location, direction: bool) -> List[str]:
    if isinstance(location, Town):
        return ["to" if direction else "in", location.english]
    return ["to" if direction else location.noun.place.english] + noun_phrase(location)


def _predicate(clause: Clause) -> List[str]:
    predicate = clause.predicate
    if predicate is None:
        return []
    positive, comparative = predicate.adjective.english[predicate.english]
    if predicate.standard is not None:
        return comparative.split() + ["than"] + noun_phrase(predicate.standard)
    return (["very"] if predicate.very else []) + [positive]


def _clause(clause: Clause, question: bool = False) -> List[str]:
    """Realise a clause: time, subject, verb group, complements, companion, manner,
    place, time."""
    if clause.subject is None:
        subject = ["it"]
    else:
        subject = [] if _is_gap(clause.subject) else noun_phrase(clause.subject)
    auxiliary, verb = _verb_group(clause, question)
    if clause.english_verb.particle:
        verb = verb + [clause.english_verb.particle]
    time = clause.time.english[0].split() if clause.time is not None else []
    middle = clause.time is not None and clause.time.position == "mid"
    words = auxiliary[:1] + subject + auxiliary[1:] if question else subject + auxiliary
    words += (time if middle else []) + verb + _objects(clause) + _predicate(clause)
    if clause.direction is not None:
        words += _location(clause.direction, True)
    if clause.companion is not None:
        words += ["with"] + noun_phrase(clause.companion)
    if clause.manner is not None:
        words += clause.manner.english[0].split()
    if clause.place is not None:
        words += _location(clause.place, False)
    if middle:
        return words
    return time + words if clause.time_first else words + time


def realise(sentence: Sentence) -> str:
    """Return the English sentence."""
    question = sentence.kind == QUESTION
    words = _clause(sentence.main, question)
    if sentence.kind == SUBORDINATE:
        second = [sentence.conjunction.english[sentence.spelling]] + _clause(sentence.second)
        words = second + [","] + words if sentence.second_first else words + second
    elif sentence.kind in (COMPLEMENT, COORDINATION):
        marker = sentence.conjunction.english[sentence.spelling]
        comma = [","] if sentence.kind == COORDINATION else []
        words = words + comma + [marker] + _clause(sentence.second)
    return detokenise(words, "?" if question else ".")
