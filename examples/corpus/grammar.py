"""Random derivations: samples abstract sentences from the grammar.

Constraints that keep both languages correct and the source unambiguous live here:
which tenses go together, which adverbial fits a tense, when a clause may be negated,
and which constituents may not meet (a time adverbial after a relative clause at the
end of an English clause would belong to either clause).
"""

from dataclasses import replace
from functools import cache
from typing import Optional, Sequence, Tuple, TypeVar

from lexicon import (
    ACCUSATIVE,
    DATIVE,
    DIRECTIONAL,
    DITRANSITIVE,
    FUTURE,
    INTRANSITIVE,
    LOCATIVE,
    PAST,
    PERFECT,
    PREPOSITIONAL,
    PRESENT,
    Adverbial,
    Conjunction,
    EnglishVerb,
    TimeAdverbial,
    Verb,
)
from modifiers import CONJUNCTIONS, EVERY, MANNERS, MODAL_TIME, POSSESSIVES, QUANTIFIERS, TIMES
from phrases import PhraseSampler, adjectives_of, nouns_of
from sentence import (
    COMPLEMENT,
    COORDINATION,
    QUESTION,
    STATEMENT,
    SUBORDINATE,
    Clause,
    Gap,
    Name,
    NounPhrase,
    Pair,
    Personal,
    Predicate,
    Sentence,
    is_definite,
)
from verbs import (
    COPULA,
    DATIVE_VERBS,
    DIRECTIONAL_VERBS,
    DITRANSITIVE_VERBS,
    IMPERSONAL_VERBS,
    INTRANSITIVE_VERBS,
    LOCATIVE_VERBS,
    MODALS,
    PREPOSITIONAL_VERBS,
    SIMPLE_VERBS,
    THAT_VERBS,
    TRANSITIVE_VERBS,
    WHETHER_VERBS,
)

T = TypeVar("T")
Weighted = Tuple[Tuple[T, float], ...]

_KINDS: Weighted[str] = (
    (STATEMENT, 0.26),
    (SUBORDINATE, 0.42),
    (COMPLEMENT, 0.16),
    (COORDINATION, 0.11),
    (QUESTION, 0.05),
)
_VERB_GROUPS: Weighted[Tuple[Verb, ...]] = (
    (TRANSITIVE_VERBS, 0.44),
    (DATIVE_VERBS, 0.08),
    (DITRANSITIVE_VERBS, 0.12),
    (PREPOSITIONAL_VERBS, 0.08),
    (DIRECTIONAL_VERBS, 0.08),
    (LOCATIVE_VERBS, 0.05),
    (INTRANSITIVE_VERBS, 0.15),
)
_TENSES: Weighted[str] = ((PRESENT, 0.4), (PAST, 0.34), (PERFECT, 0.12), (FUTURE, 0.14))
_PREDICATIVE_KINDS = (
    "person",
    "animal",
    "text",
    "vehicle",
    "device",
    "goods",
    "picture",
    "clothing",
    "place",
    "building",
    "event",
    "baked",
    "cooked",
    "drink",
    "opening",
)
_THAT = Conjunction(("that",), ("dass",), ())
_WHETHER = Conjunction(("whether",), ("ob",), ())
_AND = Conjunction(("and",), ("und",), ())
_BUT = Conjunction(("but",), ("aber",), ())


@cache
def times_of(reference: str) -> Tuple[TimeAdverbial, ...]:
    """Return the time adverbials that fit a tense or a modal in the present."""
    return tuple(time for time in TIMES if reference in time.tenses)


@cache
def manners_of(keys: Tuple[str, ...]) -> Tuple[Adverbial, ...]:
    """Return the manner adverbials with the given keys."""
    return tuple(manner for manner in MANNERS if manner.key in keys)


def allows_past(spelling: EnglishVerb) -> bool:
    """Tell whether the English past differs from the base form: "they read" could be
    either tense, and German would have to guess."""
    return spelling.past != spelling.base


class Sampler(PhraseSampler):
    """Draws abstract sentences; equal seeds give equal sequences."""

    def sentence(self) -> Sentence:
        """Draw one abstract sentence."""
        kind = self.weighted(_KINDS)
        if kind == SUBORDINATE:
            return self._subordinate()
        if kind == COMPLEMENT:
            return self._complement()
        if kind == COORDINATION:
            conjunction = self.pick((_AND, _BUT))
            main = self._clause(self.weighted(_TENSES), edge_time=True)
            return Sentence(kind, main, self._clause(main.tense, edge_time=True), conjunction)
        if kind == QUESTION:
            return Sentence(
                kind, self._clause(self.weighted(_TENSES), edge_time=True, negatable=False)
            )
        return Sentence(
            kind, self._clause(self.weighted(_TENSES), edge_time=True, front=True, relative=0.4)
        )

    def _subordinate(self) -> Sentence:
        conjunction = self.pick(CONJUNCTIONS)
        main_tense, second_tense = self.pick(conjunction.tenses)
        first = self.chance(0.45)
        impersonal = self.chance(0.05)
        main = self._clause(main_tense, edge_time=True, front=not first, relative=0.06)
        if impersonal:
            second = self._impersonal(second_tense)
        else:
            # "before it probably did not rain" makes no sense.
            plain = "before" in conjunction.english
            second = self._clause(
                second_tense, edge_time=True, relative=0.06, negatable=not plain, comment=not plain
            )
        return Sentence(
            SUBORDINATE, main, second, conjunction, self.index(conjunction.english), first
        )

    def _complement(self) -> Sentence:
        tense = self.pick((PRESENT, PAST))
        second_tense = PAST if tense == PAST else self.weighted(_TENSES)
        whether = self.chance(0.3)
        verb = self.pick(WHETHER_VERBS if whether else THAT_VERBS)
        subject = self.subject_phrase(("person",), owner=False)
        main = Clause(verb, self.pick(verb.english), subject, tense)
        second = self._clause(second_tense, edge_time=True, relative=0.15)
        return Sentence(COMPLEMENT, main, second, _WHETHER if whether else _THAT)

    def _impersonal(self, tense: str) -> Clause:
        verb = self.pick(IMPERSONAL_VERBS)
        times = [time for time in times_of(tense) if time.position == "edge"]
        time = self.pick(times) if times and self.chance(0.6) else None
        return Clause(verb, verb.english[0], None, tense, time=time)

    def _clause(
        self,
        tense: str,
        edge_time: bool = False,
        front: bool = False,
        relative: float = 0.0,
        negatable: bool = True,
        comment: bool = True,
    ) -> Clause:
        """Draw a clause of the given tense. `edge_time` allows a time adverbial at
        the end, `front` one at the beginning, `comment` one before the verb ("often",
        "probably"); `relative` is the probability of a relative clause on the subject
        or on the object."""
        if tense != PERFECT and self.chance(0.13):
            clause = self._predicative(tense, edge_time, front, comment)
            return self._with_negation(clause) if negatable else clause
        verb, spelling = self._verb(tense)
        clause = Clause(verb, spelling, self.subject_phrase(verb.subjects), tense)
        clause = self._with_complements(clause)
        clause = self._with_modal(clause)
        with_relative = self._with_relative(clause) if self.chance(relative) else clause
        # An English clause that ends in a relative clause has no room for adverbials.
        open_end = with_relative.object is clause.object
        clause = with_relative
        clause = self._with_time(clause, edge_time and open_end, front, comment)
        if open_end:
            clause = self._with_adverbials(clause)
        return self._with_negation(clause) if negatable else clause

    def _verb(self, tense: str, verbs: Optional[Sequence[Verb]] = None) -> Tuple[Verb, EnglishVerb]:
        while True:
            verb = self.pick(verbs or self.weighted(_VERB_GROUPS))
            spelling = self.pick(verb.english)
            if tense != PAST or allows_past(spelling):
                return verb, spelling

    def _predicative(self, tense: str, edge_time: bool, front: bool, comment: bool) -> Clause:
        noun = self.noun_phrase((self.pick(_PREDICATIVE_KINDS),), adjectives=0.25)
        adjectives = [
            a
            for a in adjectives_of(noun.noun.kind)
            if a not in [used for used, _ in noun.adjectives]
        ]
        gradable = [a for a in adjectives if a.group < 3 and a.english[0][1]]
        standard = None
        if gradable and self.chance(0.35):
            adjective = self.pick(gradable)
            other = self.pick(
                [
                    candidate
                    for candidate in nouns_of((noun.noun.kind,))
                    if candidate is not noun.noun
                ]
            )
            standard = self.noun_phrase((), adjectives=0.3, definite=True, noun=other)
        else:
            adjective = self.pick(adjectives)
        very = standard is None and bool(adjective.english[0][1]) and self.chance(0.35)
        predicate = Predicate(adjective, self.index(adjective.english), very, standard)
        clause = Clause(COPULA, COPULA.english[0], noun, tense, predicate=predicate)
        return self._with_time(clause, edge_time and standard is None, front, comment)

    def _with_complements(self, clause: Clause) -> Clause:
        frame, verb = clause.verb.frame, clause.verb
        if frame in (ACCUSATIVE, DATIVE):
            return replace(clause, object=self.object_phrase(verb.objects, clause.subject))
        if frame == PREPOSITIONAL and verb.objects == ("person",):
            return replace(clause, object=self.object_phrase(verb.objects, clause.subject))
        if frame == PREPOSITIONAL:
            # A pronoun would not do for a thing: "darauf" instead of "auf ihn".
            return replace(clause, object=self.noun_phrase(verb.objects))
        if frame == DITRANSITIVE:
            recipient = self.object_phrase(("person",), clause.subject)
            direct = self.noun_phrase(verb.objects)
            first = verb.double_object and self.chance(0.6)
            # "gives her books" could also be read as "gives (someone) her books".
            if isinstance(recipient, Personal) and recipient.pronoun.english_object == "her":
                first = False
            return replace(clause, recipient=recipient, object=direct, recipient_first=first)
        if frame == DIRECTIONAL:
            return replace(clause, direction=self.location())
        if frame == LOCATIVE:
            return replace(clause, place=self.location())
        return clause

    def _with_modal(self, clause: Clause) -> Clause:
        if clause.tense not in (PRESENT, PAST) or not self.chance(0.22):
            return clause
        if "person" not in clause.verb.subjects:
            return clause
        modals = [modal for modal in MODALS if clause.tense == PRESENT or modal.english_past]
        modal = self.pick(modals)
        return replace(clause, modal=modal, modal_spelling=self.index(modal.english))

    def _with_time(self, clause: Clause, edge_time: bool, front: bool, comment: bool) -> Clause:
        """Add a time adverbial that fits the tense, with probability 0.55."""
        reference = (
            MODAL_TIME if clause.modal is not None and clause.tense == PRESENT else clause.tense
        )
        mid = comment and clause.modal is None
        times = [
            time
            for time in times_of(reference)
            if (mid if time.position == "mid" else edge_time or front)
        ]
        if not times or not self.chance(0.55):
            return clause
        time = self.pick(times)
        first = time.position == "edge" and front and (not edge_time or self.chance(0.45))
        return replace(clause, time=time, time_first=first)

    def _with_adverbials(self, clause: Clause) -> Clause:
        frame = clause.verb.frame
        if clause.verb.manners and self.chance(0.25):
            clause = replace(clause, manner=self.pick(manners_of(clause.verb.manners)))
        alive = isinstance(clause.subject, (Name, Personal, Pair)) or (
            isinstance(clause.subject, NounPhrase) and clause.subject.noun.kind == "person"
        )
        if not alive or (isinstance(clause.object, Personal) and frame == PREPOSITIONAL):
            return clause
        # Verbs of activity take a manner; those of perception or state do not, and
        # have no use for company either.
        activity = frame in (INTRANSITIVE, DIRECTIONAL) or (
            frame == ACCUSATIVE and clause.verb.manners
        )
        if activity and self.chance(0.16):
            companion = self.noun_phrase(("person",), adjectives=0.2, definite=True, owner=False)
            clause = replace(clause, companion=companion)
        elif frame in (ACCUSATIVE, INTRANSITIVE, DATIVE) and self.chance(0.28):
            kind = clause.object.noun.kind if isinstance(clause.object, NounPhrase) else ""
            # "sees the house in the city": a place inside a place reads as attribute.
            if kind not in ("place", "building"):
                clause = replace(clause, place=self.location())
        return clause

    def _with_negation(self, clause: Clause) -> Clause:
        """Negate with probability 0.15 where the scope of the negation is plain."""
        if not self.chance(0.15) or (clause.time is not None and clause.time.position == "mid"):
            return clause
        if clause.modal is not None and not clause.modal.negatable:
            return clause
        if clause.companion is not None or (
            clause.place is not None and clause.verb.frame == PREPOSITIONAL
        ):
            return clause
        if isinstance(clause.subject, NounPhrase) and not self._plain(clause.subject):
            return clause
        for phrase in (clause.object, clause.recipient):
            if isinstance(phrase, NounPhrase) and (
                not self._plain(phrase) or phrase.relative is not None
            ):
                return clause
        if clause.verb.frame == PREPOSITIONAL and not is_definite(clause.object):
            return clause
        if clause.recipient is not None and not is_definite(clause.recipient):
            return clause
        if isinstance(clause.place, NounPhrase) and not is_definite(clause.place):
            return clause
        return replace(clause, negated=True)

    @staticmethod
    def _plain(phrase: NounPhrase) -> bool:
        """Quantified phrases take part in the scope of a negation; others do not."""
        return phrase.determiner is not EVERY and phrase.determiner not in QUANTIFIERS

    def _with_relative(self, clause: Clause) -> Clause:
        """Attach a relative clause to the object or, if that cannot carry one, to the
        subject."""
        target = (
            clause.object
            if clause.verb.frame in (ACCUSATIVE, DATIVE) and self.chance(0.5)
            else clause.subject
        )
        if (
            not isinstance(target, NounPhrase)
            or target.owner is not None
            or target.determiner in POSSESSIVES
        ):
            return clause
        phrase = self._relative_phrase(target)
        if target is clause.subject:
            return replace(clause, subject=phrase)
        return replace(clause, object=phrase)

    def _relative_phrase(self, phrase: NounPhrase) -> NounPhrase:
        kind = phrase.noun.kind
        gap = Gap(phrase.number)
        tense = self.weighted(_TENSES[:3])
        as_object = [verb for verb in TRANSITIVE_VERBS + DATIVE_VERBS if kind in verb.objects]
        as_subject = [verb for verb in SIMPLE_VERBS if kind in verb.subjects]
        if as_object and (not as_subject or self.chance(0.45)):
            verb, spelling = self._verb(tense, as_object)
            subject = self.subject_phrase(verb.subjects, owner=False, adjectives=0.2)
            clause = Clause(verb, spelling, subject, tense, object=gap)
            relativiser = "whom" if kind == "person" else self.pick(("which", "that"))
        elif as_subject:
            verb, spelling = self._verb(tense, as_subject)
            clause = self._with_complements(Clause(verb, spelling, gap, tense))
            relativiser = "who" if kind == "person" else self.pick(("which", "that"))
        else:
            return phrase
        clause = self._with_time(clause, True, False, True) if self.chance(0.5) else clause
        return replace(phrase, relative=clause, relativiser=relativiser)
