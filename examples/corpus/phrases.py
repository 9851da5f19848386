"""Random nominal phrases: the building blocks of the derivations in `grammar.py`."""

import math
import random
from dataclasses import replace
from functools import cache
from typing import Optional, Sequence, Tuple, TypeVar

from lexicon import Adjective, Noun
from modifiers import (
    ADJECTIVES,
    DEFINITE,
    EVERY,
    INDEFINITE,
    POSSESSIVES,
    PRONOUNS,
    QUANTIFIERS,
    THIS,
)
from nouns import NAMES, NOUNS, OWNABLE, PLACES, RELATIVES, TOWNS
from sentence import Location, Name, NounPhrase, Pair, Personal, Phrase, Town

T = TypeVar("T")


@cache
def nouns_of(kinds: Tuple[str, ...]) -> Tuple[Noun, ...]:
    """Return the nouns of the given kinds."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds)


@cache
def adjectives_of(kind: str) -> Tuple[Adjective, ...]:
    """Return the adjectives that fit a noun of `kind`."""
    return tuple(adjective for adjective in ADJECTIVES if kind in adjective.kinds)


class PhraseSampler:
    """Draws nominal phrases; equal seeds give equal sequences.

    Only `random.Random.random` is used: it alone is documented to give the
    same sequence on every Python version.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`, uniformly."""
        return options[int(self._random.random() * len(options))]

    def index(self, options: Sequence[object]) -> int:
        """Return the index of one of `options`, uniformly."""
        return int(self._random.random() * len(options))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random.random() < probability

    def weighted(self, options: Sequence[Tuple[T, float]]) -> T:
        """Return one of the (option, weight) pairs' options."""
        # The rounding of sum() changed with Python 3.12, that of fsum() never does.
        point = self._random.random() * math.fsum(weight for _, weight in options)
        for option, weight in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][0]

    def subject_phrase(
        self, kinds: Tuple[str, ...], owner: bool = True, adjectives: float = 0.4
    ) -> Phrase:
        """Draw a subject; persons may be pronouns, names and coordinated pairs."""
        if "person" in kinds:
            point = self.weighted(
                (("pronoun", 0.16), ("name", 0.1), ("pair", 0.05), ("noun", 0.69))
            )
            if point == "pronoun":
                return Personal(self.pick(PRONOUNS))
            if point == "name":
                return Name(self.pick(NAMES))
            if point == "pair":
                second = self.noun_phrase(("person",), adjectives=0.2, definite=True, owner=False)
                if self.chance(0.4):
                    return Pair(Name(self.pick(NAMES)), second)
                other = self.pick(
                    [noun for noun in nouns_of(("person",)) if noun is not second.noun]
                )
                return Pair(
                    self.noun_phrase((), 0.2, definite=True, owner=False, noun=other), second
                )
        return self.noun_phrase(kinds, adjectives, owner=owner)

    def object_phrase(self, kinds: Tuple[str, ...], subject: Phrase) -> Phrase:
        """Draw an object that cannot be the subject itself, as that would have to be
        a reflexive pronoun ("I" with "me", "we" with "me")."""
        if "person" in kinds:
            point = self.weighted((("pronoun", 0.18), ("name", 0.1), ("noun", 0.72)))
            if point == "pronoun":
                first_person = isinstance(subject, Personal) and subject.pronoun.person == 1
                return Personal(
                    self.pick([p for p in PRONOUNS if p.person == 3 or not first_person])
                )
            if point == "name":
                return Name(self.pick([name for name in NAMES if subject != Name(name)]))
        return self.noun_phrase(kinds)

    def location(self) -> Location:
        """Draw a town or a place in the singular."""
        if self.chance(0.2):
            return Town(*self.pick(TOWNS))
        phrase = self.noun_phrase((), adjectives=0.3, noun=self.pick(PLACES), owner=False)
        return (
            phrase if phrase.number == "sg" else replace(phrase, number="sg", determiner=DEFINITE)
        )

    def noun_phrase(
        self,
        kinds: Tuple[str, ...],
        adjectives: float = 0.4,
        definite: bool = False,
        owner: bool = True,
        noun: Optional[Noun] = None,
    ) -> NounPhrase:
        """Draw a noun phrase of one of `kinds` (or of `noun`); `definite` excludes
        indefinite and quantified ones, `owner` allows a genitive."""
        noun = noun or self.pick(nouns_of(kinds))
        options = [(DEFINITE, 0.5), (self.pick(POSSESSIVES), 0.15), (THIS, 0.08)]
        if not definite:
            options += [(INDEFINITE, 0.2)]
        if not definite and not noun.mass:
            options += [(EVERY, 0.03), (self.pick(QUANTIFIERS), 0.07)]
        determiner = self.weighted(options)
        number = (
            "pl" if "pl" in determiner.numbers and not noun.mass and self.chance(0.22) else "sg"
        )
        if "sg" not in determiner.numbers:
            number = "pl"
        chosen, very = self._adjectives(noun, adjectives)
        possessor = None
        if (
            owner
            and determiner is DEFINITE
            and (noun.kind in OWNABLE or noun in RELATIVES)
            and self.chance(0.2)
        ):
            possessor = self.noun_phrase(("person",), adjectives=0.2, definite=True, owner=False)
        return NounPhrase(
            noun, self.index(noun.english), determiner, number, chosen, very, possessor
        )

    def _adjectives(
        self, noun: Noun, probability: float
    ) -> Tuple[Tuple[Tuple[Adjective, int], ...], bool]:
        if not self.chance(probability):
            return (), False
        candidates = adjectives_of(noun.kind)
        first = self.pick(candidates)
        chosen = [first]
        if self.chance(0.22):
            later = [adjective for adjective in candidates if adjective.group > first.group]
            chosen += [self.pick(later)] if later else []
        very = (
            len(chosen) == 1 and first.group < 3 and bool(first.english[0][1]) and self.chance(0.12)
        )
        return tuple((adjective, self.index(adjective.english)) for adjective in chosen), very
