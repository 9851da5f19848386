"""Abstract sentences: what `grammar.py` samples and both languages realise.

An abstract sentence fixes the English surface completely (spellings, word order),
so that every sentence has exactly one source; the German side is left open and is
resolved by the choices of `german_syntax.py`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Optional, Tuple, Union

from lexicon import (
    PRESENT,
    Adjective,
    Adverbial,
    Conjunction,
    Determiner,
    EnglishVerb,
    Modal,
    Noun,
    Pronoun,
    TimeAdverbial,
    Verb,
)

STATEMENT = "statement"
QUESTION = "question"
SUBORDINATE = "subordinate"
COMPLEMENT = "complement"
COORDINATION = "coordination"


class Name(NamedTuple):
    """A person's name, the same in both languages."""

    name: str


class Town(NamedTuple):
    """A town takes no article: "in Rome", "to Rome" (in Rom, nach Rom)."""

    english: str
    german: str


class Personal(NamedTuple):
    """A personal pronoun as subject or object."""

    pronoun: Pronoun


class Gap(NamedTuple):
    """The argument of a relative clause that the relative pronoun stands for."""

    number: str


@dataclass(frozen=True)
class NounPhrase:
    """`english` and the second item of each adjective index the English spelling.
    `relative` follows the noun, introduced in English by `relativiser`."""

    noun: Noun
    english: int
    determiner: Determiner
    number: str
    adjectives: Tuple[Tuple[Adjective, int], ...] = ()
    very: bool = False
    owner: Optional["NounPhrase"] = None
    relative: Optional["Clause"] = None
    relativiser: str = ""


class Pair(NamedTuple):
    """Two coordinated noun phrases ("the king and the queen"), plural as a whole."""

    first: Union[NounPhrase, Name]
    second: Union[NounPhrase, Name]


Phrase = Union[NounPhrase, Name, Personal, Pair, Gap]
Location = Union[NounPhrase, Town]


class Predicate(NamedTuple):
    """A predicative adjective, compared with `standard` where that is given."""

    adjective: Adjective
    english: int
    very: bool
    standard: Optional[NounPhrase]


@dataclass(frozen=True)
class Clause:
    """One finite verb with its arguments and adverbials. `subject` is None for an
    impersonal verb. `time_first` and `recipient_first` are English word orders.
    `misagrees` puts the German verb into the other number (`agreement.py`)."""

    verb: Verb
    english_verb: EnglishVerb
    subject: Optional[Phrase]
    tense: str = PRESENT
    modal: Optional[Modal] = None
    modal_spelling: int = 0
    negated: bool = False
    time: Optional[TimeAdverbial] = None
    time_first: bool = False
    object: Optional[Phrase] = None
    recipient: Optional[Phrase] = None
    recipient_first: bool = False
    companion: Optional[NounPhrase] = None
    manner: Optional[Adverbial] = None
    place: Optional[Location] = None
    direction: Optional[Location] = None
    predicate: Optional[Predicate] = None
    misagrees: bool = False


@dataclass(frozen=True)
class Sentence:
    """`second` is the subordinate, complement or coordinated clause; `second_first`
    puts a subordinate clause before the main clause in English."""

    kind: str
    main: Clause
    second: Optional[Clause] = None
    conjunction: Optional[Conjunction] = None
    spelling: int = 0
    second_first: bool = False


def agreement(subject: Optional[Phrase]) -> Tuple[int, str]:
    """Return the (person, number) a finite verb takes from `subject`."""
    if isinstance(subject, Personal):
        return subject.pronoun.person, subject.pronoun.number
    if isinstance(subject, (NounPhrase, Gap)):
        return 3, subject.number
    return 3, "pl" if isinstance(subject, Pair) else "sg"


def is_definite(phrase: Phrase) -> bool:
    """Tell whether `phrase` is definite: it may precede adverbials in the German
    middle field, and is negated by *nicht* rather than by *kein*."""
    return not isinstance(phrase, NounPhrase) or phrase.determiner.definite


def detokenise(tokens: Tuple[str, ...], final: str) -> str:
    """Join tokens into a sentence: commas attached, runs of commas merged, first
    letter in upper case, `final` ("." or "?") at the end."""
    words = []
    for token in tokens:
        if token != ",":
            words.append(token)
        elif words and not words[-1].endswith(","):
            words[-1] += ","
    text = " ".join(words).rstrip(",") + final
    return text[0].upper() + text[1:]
