"""German realisation of an abstract sentence, with every valid translation.

Wherever German leaves a choice (a synonym, the prefield, the order of the middle
field, preterite or perfect, the place of a relative or subordinate clause) the
realiser asks a `Choices` object. Option 0 everywhere gives the canonical
translation; `translations` walks through all combinations.
"""

from collections import deque
from typing import Deque, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

from german import (
    adjective_ending,
    attributive,
    auxiliary_present,
    contract,
    determiner_form,
    infinitive,
    noun_form,
    present,
    preterite,
    relative_pronoun,
)
from lexicon import DATIVE, FUTURE, PAST, PERFECT, PREDICATIVE, PREPOSITIONAL
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
    Predicate,
    Sentence,
    Town,
    agreement,
    detokenise,
    is_definite,
)

_CASE_INDEX = {"nom": 0, "acc": 1, "dat": 2}
_MAIN, _VERB_FIRST, _VERB_LAST = "main", "verb first", "verb last"
# Gender and number of the noun that a relative clause belongs to.
_Head = Tuple[str, str]
T = TypeVar("T")


class Choices:
    """Answers the choice points of one realisation: the `forced` indices first, then
    option 0. `taken` and `sizes` record every choice point that was met."""

    def __init__(self, forced: Tuple[int, ...] = ()) -> None:
        self.forced = forced
        self.taken: List[int] = []
        self.sizes: List[int] = []
        self._shared: Dict[object, int] = {}

    def pick(self, options: Sequence[T], key: Optional[object] = None) -> T:
        """Return one option. Choice points with the same `key` are decided once, so
        that a sentence does not mix two synonyms or two past tenses."""
        if len(options) == 1:
            return options[0]
        if key is not None and key in self._shared:
            return options[self._shared[key]]
        position = len(self.taken)
        index = self.forced[position] if position < len(self.forced) else 0
        self.taken.append(index)
        self.sizes.append(len(options))
        if key is not None:
            self._shared[key] = index
        return options[index]


def translations(sentence: Sentence) -> Iterator[str]:
    """Yield all valid translations, each once: the canonical one, then those that
    differ from it in one choice, in two choices and so on."""
    queue: Deque[Tuple[int, ...]] = deque([()])
    seen = set()
    while queue:
        forced = queue.popleft()
        choices = Choices(forced)
        text = realise(sentence, choices)
        if text not in seen:
            seen.add(text)
            yield text
        for position in range(len(forced), len(choices.taken)):
            for index in range(1, choices.sizes[position]):
                queue.append(tuple(choices.taken[:position]) + (index,))


def _noun_phrase(
    phrase: Phrase, case: str, choices: Choices, negative: bool = False
) -> Tuple[List[str], List[str]]:
    """Return the words of a noun phrase and those of its relative clause."""
    if isinstance(phrase, Name):
        return [phrase.name], []
    if isinstance(phrase, Personal):
        return [phrase.pronoun.german[_CASE_INDEX[case]]], []
    if isinstance(phrase, Pair):
        first, _ = _noun_phrase(phrase.first, case, choices)
        second, _ = _noun_phrase(phrase.second, case, choices)
        return first + ["und"] + second, []
    assert isinstance(phrase, NounPhrase)
    noun = choices.pick(phrase.noun.german, phrase.noun)
    form = (noun.gender, phrase.number, case, phrase.noun.mass, negative)
    article = determiner_form(phrase.determiner, *form)
    ending = adjective_ending(phrase.determiner, *form)
    words = [article] if article else []
    if phrase.very:
        words.append("sehr")
    for adjective, _ in phrase.adjectives:
        words.append(attributive(choices.pick(adjective.german, adjective), ending))
    words.append(noun_form(noun, phrase.number, case))
    if phrase.owner is not None:
        words += _noun_phrase(phrase.owner, "gen", choices)[0]
    if phrase.relative is None:
        return words, []
    relative = _clause(phrase.relative, _VERB_LAST, choices, (noun.gender, phrase.number))
    return words, [","] + relative + [","]


def _adjacent(phrase: Phrase, case: str, choices: Choices, negative: bool = False) -> List[str]:
    words, relative = _noun_phrase(phrase, case, choices, negative)
    return words + relative


def _prepositional(preposition: str, phrase: Phrase, case: str, choices: Choices) -> List[str]:
    return list(contract(preposition, tuple(_noun_phrase(phrase, case, choices)[0])))


def _location(location: Location, direction: bool, choices: Choices) -> List[str]:
    if isinstance(location, Town):
        return ["nach" if direction else "in", location.german]
    place = location.noun.place
    if direction:
        return _prepositional(place.direction, location, place.direction_case, choices)
    return _prepositional(place.location, location, "dat", choices)


def _verb_forms(clause: Clause, choices: Choices) -> Tuple[str, str, List[str]]:
    """Return the finite verb, the separable prefix it leaves behind and the
    non-finite verb forms of the right bracket."""
    person, number = agreement(clause.subject)
    if clause.misagrees:
        number = "sg" if number == "pl" else "pl"
    verb = choices.pick(clause.verb.german, clause.verb)
    if clause.modal is not None:
        forms = clause.modal.past if clause.tense == PAST else clause.modal.present
        return forms[0 if number == "sg" else 1], "", [infinitive(verb)]
    if clause.tense == FUTURE:
        marked = clause.time is not None and clause.time.future
        if not marked or choices.pick((True, False), FUTURE):
            return auxiliary_present("werden", person, number), "", [infinitive(verb)]
        return present(verb, person, number), verb.prefix, []
    tense = clause.tense
    if tense == PAST and clause.verb.frame != PREDICATIVE:
        tense = choices.pick((PAST, PERFECT), PAST)
    if tense == PERFECT:
        return auxiliary_present(verb.auxiliary, person, number), "", [verb.participle]
    if tense == PAST:
        return preterite(verb, number), verb.prefix, []
    return present(verb, person, number), verb.prefix, []


def _predicate(predicate: Predicate, choices: Choices) -> Tuple[List[str], List[str]]:
    """Return the adjective and the standard of comparison ("als ...")."""
    adjective = choices.pick(predicate.adjective.german, predicate.adjective)
    if predicate.standard is not None:
        return [adjective.comparative], ["als"] + _noun_phrase(predicate.standard, "nom", choices)[
            0
        ]
    return (["sehr"] if predicate.very else []) + [adjective.lemma], []


def _fields(clause: Clause, choices: Choices) -> Dict[str, List[str]]:
    """Realise every constituent but subject, verb and direct object."""
    fields: Dict[str, List[str]] = {}
    if clause.time is not None:
        fields["time"] = choices.pick(clause.time.german, clause.time).split()
    if clause.recipient is not None:
        fields["recipient"] = _adjacent(clause.recipient, "dat", choices)
    if clause.companion is not None:
        fields["companion"] = _prepositional("mit", clause.companion, "dat", choices)
    if clause.manner is not None:
        fields["manner"] = choices.pick(clause.manner.german, clause.manner).split()
    if clause.place is not None:
        fields["place"] = _location(clause.place, False, choices)
    if clause.direction is not None:
        fields["direction"] = _location(clause.direction, True, choices)
    if clause.object is not None and clause.verb.frame == PREPOSITIONAL:
        preposition, case = clause.verb.governed
        fields["prepositional"] = _prepositional(preposition, clause.object, case, choices)
    return fields


def _orders(clause: Clause, fields: Dict[str, List[str]]) -> List[Tuple[str, ...]]:
    """Return the valid orders of the middle field, the canonical one first.

    A definite object may precede the time adverbial, an indefinite one prefers the
    end; the dative precedes the accusative unless both are definite. Pronoun objects
    do not take part: they come first in any case.
    """
    end = ("nicht", "manner", "place", "prepositional", "direction", "predicate")
    direct = clause.object if "object" in fields else None
    early = [field for field in ("time", "companion") if field in fields]
    if clause.recipient is not None and direct is not None:
        orders = [("time", "recipient", "object") + end]
        if isinstance(clause.recipient, Personal):
            if early and is_definite(direct):
                orders.append(("object", "time") + end)
            return orders
        if early and is_definite(clause.recipient):
            orders.append(("recipient", "time", "object") + end)
        if is_definite(clause.recipient) and is_definite(direct):
            orders.append(("time", "object", "recipient") + end)
        return orders
    if direct is None or isinstance(direct, Personal):
        return [("time", "companion") + end]
    has_relative = isinstance(direct, NounPhrase) and direct.relative is not None
    if is_definite(direct):
        orders = [("time", "companion", "object") + end]
        if early and not has_relative:
            orders.append(("object", "time", "companion") + end)
        return orders
    orders = [("time", "companion", "manner", "place", "object")]
    if "manner" in fields or "place" in fields:
        orders.append(("time", "companion", "object", "manner", "place"))
    return orders


def _prefield(clause: Clause, choices: Choices) -> str:
    """Choose the constituent before the finite verb. The canonical one follows the
    English order; *nicht* keeps a place from being fronted, as that would change the
    scope of the negation."""
    options = ["subject"]
    if clause.time is not None and clause.time.frontable:
        options.append("time")
    if clause.time_first:
        options.reverse()
    if clause.place is not None and not clause.negated and clause.subject is not None:
        options.append("place")
    return choices.pick(options)


def _extrapose(
    words: List[str], tail: List[str], bracket: List[str], choices: Choices, by_default: bool
) -> List[str]:
    """Return `tail` to be placed after the right bracket, or append it to `words` and
    return nothing; `by_default` tells which of the two is canonical."""
    if tail and bracket and choices.pick((by_default, not by_default)):
        return tail
    words += tail
    return []


def _clause(
    clause: Clause, shape: str, choices: Choices, head: Optional[_Head] = None
) -> List[str]:
    """Realise a clause as main clause (verb second), with the verb first (questions,
    and after a fronted subordinate clause) or with the verb last. `head` is the
    gender and number of the noun that a relative clause belongs to."""
    front = _prefield(clause, choices) if shape == _MAIN else ""
    finite, prefix, nonfinite = _verb_forms(clause, choices)
    fields = _fields(clause, choices)
    opening: List[str] = []
    if isinstance(clause.subject, Gap):
        opening = [relative_pronoun(*head, "nom")]
        subject: List[str] = []
    else:
        subject = ["es"] if clause.subject is None else _adjacent(clause.subject, "nom", choices)
    bracket = nonfinite if shape != _VERB_LAST else nonfinite + [prefix + finite]
    if shape != _VERB_LAST and prefix:
        bracket = [prefix]
    extraposed: List[str] = []
    if clause.object is not None and clause.verb.frame != PREPOSITIONAL:
        case = "dat" if clause.verb.frame == DATIVE else "acc"
        if isinstance(clause.object, Gap):
            opening = [relative_pronoun(*head, case)]
        else:
            negative = clause.negated and not is_definite(clause.object)
            words, relative = _noun_phrase(clause.object, case, choices, negative)
            extraposed = _extrapose(words, relative, bracket, choices, True)
            fields["object"] = words
    if clause.predicate is not None:
        words, standard = _predicate(clause.predicate, choices)
        extraposed = _extrapose(words, standard, bracket, choices, False)
        fields["predicate"] = words
    if clause.negated and ("object" not in fields or is_definite(clause.object)):
        fields["nicht"] = ["nicht"]
    if front == "subject":
        opening = subject
    elif front:
        opening = fields.pop(front)
    middle = _middle_field(clause, [] if front == "subject" else subject, fields, choices)
    if shape == _VERB_LAST:
        return opening + middle + bracket + extraposed
    return [*opening, finite, *middle, *bracket, *extraposed]


def _middle_field(
    clause: Clause, subject: List[str], fields: Dict[str, List[str]], choices: Choices
) -> List[str]:
    """What stands between the brackets of a clause: subject, pronouns, and the other fields in a
    chosen order."""
    pronouns = [
        field
        for field, phrase in (("object", clause.object), ("recipient", clause.recipient))
        if field in fields and isinstance(phrase, Personal)
    ]
    early = [word for field in pronouns for word in fields[field]]
    if early and subject and isinstance(clause.subject, (NounPhrase, Name, Pair)):
        words = choices.pick((subject + early, early + subject))
    else:
        words = subject + early
    order = choices.pick(_orders(clause, fields))
    return words + [
        word for field in order if field not in pronouns for word in fields.get(field, ())
    ]


def realise(sentence: Sentence, choices: Choices) -> str:
    """Return the German sentence that `choices` selects."""
    if sentence.kind == SUBORDINATE:
        first = choices.pick((sentence.second_first, not sentence.second_first))
        marker = [choices.pick(sentence.conjunction.german, sentence.conjunction)]
        if first:
            second = marker + _clause(sentence.second, _VERB_LAST, choices)
            return detokenise(second + [","] + _clause(sentence.main, _VERB_FIRST, choices), ".")
        main = _clause(sentence.main, _MAIN, choices)
        return detokenise(
            main + [","] + marker + _clause(sentence.second, _VERB_LAST, choices), "."
        )
    if sentence.kind == QUESTION:
        return detokenise(_clause(sentence.main, _VERB_FIRST, choices), "?")
    words = _clause(sentence.main, _MAIN, choices)
    if sentence.kind == COMPLEMENT:
        marker = [",", sentence.conjunction.german[0]]
        words = words + marker + _clause(sentence.second, _VERB_LAST, choices)
    elif sentence.kind == COORDINATION:
        marker = sentence.conjunction.german[0]
        comma = [","] if marker == "aber" else []
        words = words + comma + [marker] + _clause(sentence.second, _MAIN, choices)
    return detokenise(words, ".")
