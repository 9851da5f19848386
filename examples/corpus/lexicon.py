"""Types of the lexicon entries shared by both languages.

A *concept* (noun, verb, adjective, adverbial, conjunction) carries every English
word and every German word that expresses it. The first German word is the canonical
one; the others are valid synonyms. An English word stands for exactly one concept
per part of speech, so the source sentence decides the canonical translation.

Synonyms of an adverbial or a conjunction all have the same number of tokens, and a
verb differs from its synonym by a separable prefix at most: the length bound in
`generate.py` relies on it.
"""

from typing import NamedTuple, Optional, Tuple

# Tenses of a clause. A German preterite may also be rendered as a perfect.
PRESENT, PAST, PERFECT, FUTURE = "present", "past", "perfect", "future"

# Verb frames: which complements a verb takes.
INTRANSITIVE = "intransitive"
ACCUSATIVE = "accusative"
DATIVE = "dative"
DITRANSITIVE = "ditransitive"
PREPOSITIONAL = "prepositional"
DIRECTIONAL = "directional"
LOCATIVE = "locative"
PREDICATIVE = "predicative"
CLAUSAL = "clausal"
IMPERSONAL = "impersonal"


class GermanNoun(NamedTuple):
    """Gender is "m", "f" or "n". A weak noun takes its genitive form in every
    singular case but the nominative (n-declension: der Junge, den Jungen)."""

    lemma: str
    gender: str
    genitive: str
    plural: str
    weak: bool = False


class Place(NamedTuple):
    """Prepositions of a place: English location ("at"), German location (always with
    the dative) and German direction with its case."""

    english: str
    location: str
    direction: str
    direction_case: str


class Noun(NamedTuple):
    """A mass noun has no plural and no indefinite article."""

    english: Tuple[str, ...]
    german: Tuple[GermanNoun, ...]
    kind: str
    place: Optional[Place] = None
    mass: bool = False


class EnglishVerb(NamedTuple):
    """`particle` follows the verb at once: "wait" + "for", "turn" + "on"."""

    base: str
    past: str
    participle: str
    particle: str = ""


class GermanVerb(NamedTuple):
    """`infinitive`, `present` (3rd person singular) and `past` (1st and 3rd person
    singular) go without the separable prefix; `participle` includes it."""

    infinitive: str
    present: str
    past: str
    participle: str
    auxiliary: str = "haben"
    prefix: str = ""
    first_person: str = ""


class Verb(NamedTuple):
    """`subjects` and `objects` are noun kinds. A ditransitive verb takes its second
    object (dative) from the persons. `governed` is the German preposition and the
    case of a prepositional object. `double_object` allows "gives the girl a book"
    besides "gives a book to the girl"."""

    english: Tuple[EnglishVerb, ...]
    german: Tuple[GermanVerb, ...]
    frame: str
    subjects: Tuple[str, ...] = ("person",)
    objects: Tuple[str, ...] = ()
    governed: Tuple[str, str] = ("", "")
    manners: Tuple[str, ...] = ()
    double_object: bool = False


class GermanAdjective(NamedTuple):
    """`stem` is the attributive stem where it differs from the predicative form
    (teuer, ein teures Haus)."""

    lemma: str
    comparative: str = ""
    stem: str = ""


class Adjective(NamedTuple):
    """`english` holds (positive, comparative) pairs, comparative "" where none is
    used. Two adjectives of one noun come from different groups, in group order."""

    english: Tuple[Tuple[str, str], ...]
    german: Tuple[GermanAdjective, ...]
    kinds: Tuple[str, ...]
    group: int


class TimeAdverbial(NamedTuple):
    """`position` is the English one: "edge" (first or last in the clause) or "mid"
    (before the main verb). `frontable` allows the German prefield. `future` marks
    the future by itself, so that the German present may replace the future."""

    english: Tuple[str, ...]
    german: Tuple[str, ...]
    tenses: Tuple[str, ...]
    position: str = "edge"
    frontable: bool = True
    future: bool = False


class Adverbial(NamedTuple):
    """An uninflected phrase: a manner adverb or a means of transport."""

    key: str
    english: Tuple[str, ...]
    german: Tuple[str, ...]


class Modal(NamedTuple):
    """`english_past` is "" where the past is not used. German forms: singular and
    plural, present and past. Only a `negatable` modal keeps its sense under *not*
    ("must not" is not "muss nicht")."""

    english: Tuple[str, ...]
    english_past: str
    infinitive: str
    present: Tuple[str, str]
    past: Tuple[str, str]
    negatable: bool


class Conjunction(NamedTuple):
    """`tenses` lists the (main clause, subordinate clause) tenses that go together."""

    english: Tuple[str, ...]
    german: Tuple[str, ...]
    tenses: Tuple[Tuple[str, str], ...]


class Determiner(NamedTuple):
    """English singular and plural form ("" where unused), German stem and declension
    class. `numbers` holds the allowed numbers, "sg" and "pl"."""

    key: str
    english: Tuple[str, str]
    stem: str
    declension: str
    numbers: Tuple[str, ...]
    definite: bool


class Pronoun(NamedTuple):
    """Personal pronoun; German forms in the nominative, accusative and dative."""

    english: str
    english_object: str
    german: Tuple[str, str, str]
    person: int
    number: str
