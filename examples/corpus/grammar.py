"""A grammar that derives English and German side by side.

A seed decides what a sentence says and how English says it. German is then still open: a derivation
chooses between synonyms, orders and tenses. The first option of every choice gives the canonical
translation; the same seed with other answers gives whatever else is valid.
"""

import random
import re
from functools import cache
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import lexicon
from lexicon import FUTURE, PAST, PERFECT, PLURAL, PRESENT, SINGULAR, Entry, decline

T = TypeVar("T")
Words = List[str]
# Tenses of the clauses A and B; English; German in its orders, with the places of finite verbs.
# A conjunction ("*") has tenses of its own. The numbers say how often each is drawn.
SENTENCES = (
    [("?", "A .", "A:second .")] * 12
    + [("?", "A ?", "A:first ?")] * 2
    + [("present ?, past past", "A that B .", "A:second , dass B:last .")] * 2
    + [("present ?, past past", "A whether B .", "A:second , ob B:last .")] * 2
    + [("present present, past past", "A , and B .", "A:second und B:second .")] * 3
    + [("present present, past past", "A , but B .", "A:second , aber B:second .")] * 2
    + [("*", "A * B .", "A:second , * B:last .", "* B:last , A:first .")] * 12
    + [("*", "* B , A .", "* B:last , A:first .", "A:second , * B:last .")] * 8
)
# What a question mark stands for.
TENSES = (PRESENT, PRESENT, PRESENT, PAST, PAST, PAST, PERFECT, FUTURE)
# The parts of a clause in their order, for German without the verb. Times are a start, an adverb or
# an end in English. In German, definite objects may also precede them.
STATEMENT = (
    "start subject auxiliary not adverb verb object indefinite pronoun to complement place end"
)
QUESTION = STATEMENT.replace("start subject auxiliary", "auxiliary subject")
GERMAN = "relative subject pronoun start adverb end to object not place indefinite complement"
SHIFTED = GERMAN.replace("start adverb end to object", "to object start adverb end")
FRONTS = ("start", "subject", "adverb", "end", "place")
# Groups of determiners, as often as they are drawn of ten times.
ANY, PLAIN, NEGATED, DEFINITE = "tttttddiiq", "tttttdddii", "tttttdddnn", "ttttttdddd"
# Verbs that govern a clause, and the others. The copula is drawn as often as four of these.
LINKS = ("that", "whether")
LINKING = {link: [verb for verb in lexicon.VERBS if verb.governs == link] for link in LINKS}
SIMPLE = [verb for verb in lexicon.VERBS if verb.governs not in LINKS]
SIMPLE += [verb for verb in SIMPLE if verb.governs == "like"] * 3


class Noun(str):
    """The noun of a phrase."""


class Finite(str):
    """A finite verb, its form in the other number, and the noun that it agrees with."""

    other: str
    noun: Optional[Noun]


class Phrase(NamedTuple):
    """A part of a clause; number and kind of its noun, and which part it is as an object."""

    english: str
    german: Words
    number: int = SINGULAR
    kind: str = "p"
    role: str = "object"


Parts = Dict[str, Phrase]


class Clause(NamedTuple):
    """What both languages have in common."""

    verb: Entry
    modal: Optional[Entry]
    tense: str
    parts: Parts

    def english(self, order: str = STATEMENT) -> str:
        """The words of a statement or of a question."""
        words = {name: part.english for name, part in self.parts.items()}
        words["auxiliary"], verb = self._english_verb("not" in words or order == QUESTION)
        words["verb"] = f"{verb} {self.verb.english[3]}"
        return " ".join(words[name] for name in order.split() if name in words)

    def _english_verb(self, with_do: bool) -> Tuple[str, str]:
        """The auxiliary, and the other words."""
        base, past, participle, _ = (self.modal or self.verb).english
        rest = f" {self.modal.english[3]} {self.verb.english[0]}" if self.modal else ""
        number, in_past = self.parts["subject"].number, self.tense == PAST
        if self.tense == FUTURE:
            return "will", base
        if self.tense == PERFECT:
            return ("has", "have")[number], participle
        if base == "be":
            return (("was", "were") if in_past else ("is", "are"))[number], ""
        if base in ("can", "should"):
            return past if in_past else base, rest
        if with_do:
            return "did" if in_past else ("does", "do")[number], base + rest
        return "", (past if in_past else (lexicon.english_s(base), base)[number]) + rest


def written(tokens: Sequence[str]) -> str:
    """The text of a sentence."""
    text = re.sub(" ([,.?])", r"\1", " ".join(tokens))
    return text[0].upper() + text[1:]


def replaced(pattern: str, texts: Mapping[str, Words]) -> Words:
    """A pattern with texts for some of its items, without empty tokens and double punctuation."""
    found: Words = []
    for token in (token for item in pattern.split() for token in texts.get(item, [item]) if token):
        if token in (",", ".", "?") and found[-1] == ",":
            found.pop()
        found.append(token)
    return found


def governed(preposition: str, words: Words) -> Words:
    """Words after a preposition, which merges with some articles."""
    merged = lexicon.CONTRACTIONS.get(f"{preposition} {words[0]}")
    return [merged, *words[1:]] if merged else [preposition, *words]


@cache
def fitting(table: str, kinds: str) -> List[Entry]:
    """Entries of a table of the lexicon that fit one of some kinds."""
    return [entry for entry in getattr(lexicon, table) if set(entry.fits) & set(kinds)]


class Derivation:
    """A sentence: its `english` text and its `german` tokens. `answers` decide choices of German
    otherwise than for the first option; `asked` has the number of options of each.

    Equal seeds give equal sentences with every version of Python, as `random.Random.random` does.
    """

    def __init__(self, seed: int, answers: Optional[Mapping[Any, int]] = None) -> None:
        self.seed, self._random = seed, random.Random(seed).random
        self._answers = answers or {}
        self.asked: Dict[Any, int] = {}
        self._clauses = 0
        self.english, self.german = self._sentence()

    def translations(self) -> Iterator[Words]:
        """All valid ones: the canonical one first, then by the number of other choices."""
        found = set()
        level: List[Dict[Any, int]] = [{}]
        while level:
            following = []
            for answers in level:
                one = Derivation(self.seed, answers) if answers else self
                if tuple(one.german) not in found:
                    found.add(tuple(one.german))
                    yield one.german
                asked = list(one.asked)
                for key in asked[asked.index([*answers][-1]) + 1 if answers else 0 :]:
                    following += [{**answers, key: other} for other in range(1, one.asked[key])]
            level = following

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    def _choose(self, key: Any, options: Sequence[T]) -> T:
        """A key has one answer, so a word has the same synonym throughout a sentence."""
        self.asked[key] = len(options)
        return options[self._answers.get(key, 0)]

    def _word(self, entry: Entry) -> Any:
        return self._choose((entry.english, entry.governs), entry.german)

    def _sentence(self) -> Tuple[str, Words]:
        several, pattern, *orders = self._pick(SENTENCES)
        link = self._pick(lexicon.CONJUNCTIONS)
        tenses = self._pick((link.fits if several == "*" else several).split(", ")).split()
        order, verbs = self._choose("order", orders), LINKING.get(pattern.split()[1], SIMPLE)
        english, german = {"*": [link.english[0]]}, {"*": [self._word(link)]}
        for name, tense in zip("AB", tenses):
            tense, relatives = self._pick(TENSES) if tense == "?" else tense, 0.4 / len(tenses) ** 2
            start, question = pattern.startswith(name), pattern.endswith("?")
            clause = self._clause({}, tense, verbs, start and not question, relatives)
            english[name] = clause.english(QUESTION if question else STATEMENT).split()
            (item,) = (item for item in order.split() if item.startswith(f"{name}:"))
            german[item] = self._german(clause, item[2:])
            verbs = SIMPLE
        text = written(replaced(pattern, english)).replace("can not", "cannot")
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text), replaced(order, german)

    def _clause(
        self, parts: Parts, tense: str, verbs: Sequence[Entry], start: bool = False,
        relatives: float = 0.0,
    ) -> Clause:  # fmt: skip
        """A clause of given parts and others, with one of `verbs`. `start`: a time may come first
        in English; `relatives`: probability of a relative clause."""
        verb, negated, modal, reference = self._pick(verbs), self._chance(0.15), None, tense
        if "subject" not in parts:
            parts["subject"] = self._nominal(verb.fits, PLAIN if negated else ANY, "nom", relatives)
        if tense in (PRESENT, PAST) and verb.fits in ("p", "pa") and self._chance(0.2):
            modal = self._pick(lexicon.MODALS[: None if tense == PRESENT else -1])
            reference = FUTURE if tense == PRESENT else PAST
        self._add_adverbials(parts, verb.governs, negated, reference, start)
        if {"place", "end"} & parts.keys():
            relatives = 0.0  # in English, the adverbials would seem to belong to that clause
        self._add_complements(parts, verb.governs, negated, relatives)
        if negated:
            parts["not"] = Phrase("not", [] if "indefinite" in parts else ["nicht"])
        return Clause(verb, modal, tense, parts)

    def _add_complements(self, parts: Parts, governs: str, negated: bool, relatives: float) -> None:
        """What the verb governs."""
        case, _, kinds = governs.partition(" ")
        (preposition, _, case), subject = case.rpartition("+"), parts["subject"]
        if case == "like":
            adjective = self._pick(fitting("ADJECTIVES", subject.kind))
            parts["complement"] = Phrase(adjective.english[0], [self._word(adjective)])
        elif case in ("to", "in"):
            parts["complement"] = self._place(case)
        elif kinds and preposition not in ("", "dat"):
            thing = self._nominal(kinds, PLAIN if negated else ANY, case, 0.0, subject.english)
            parts["complement"] = thing._replace(german=governed(preposition, thing.german))
        elif kinds and "relative" not in parts:
            groups, relatives = NEGATED if negated else ANY, 0.0 if preposition else relatives
            thing = self._nominal(kinds, groups, case, relatives, subject.english)
            parts[thing.role] = thing
        if preposition == "dat":
            person = self._nominal("p", DEFINITE, "dat", 0.0, subject.english)
            name = person.role.replace("object", "to")
            parts[name] = person._replace(english=f"to {person.english}")

    def _add_adverbials(
        self, parts: Parts, governs: str, negated: bool, tense: str, start: bool
    ) -> None:
        """Place and time, neither at the end if another clause follows there."""
        end = governs not in LINKS
        if end and governs not in ("to", "in", "like") and self._chance(0.15):
            parts["place"] = self._place("in")
        times = [*lexicon.TIMES * (start or end), *lexicon.ADVERBS * (not negated)]
        times = [entry for entry in times if tense in entry.fits]
        if times and self._chance(0.55):
            time = self._pick(times)
            name = "start" if start and (not end or self._chance(0.4)) else "end"
            name = "adverb" if time in lexicon.ADVERBS else name
            parts[name] = Phrase(time.english[0], [self._word(time)])

    def _place(self, preposition: str) -> Phrase:
        """Where somebody is ("in") or goes ("to")."""
        phrase = self._noun_phrase("l", PLAIN, "dat" if preposition == "in" else "acc")
        return Phrase(f"{preposition} {phrase.english}", governed("in", phrase.german))

    def _nominal(
        self, kinds: str, groups: str, case: str, relatives: float, no: str = ""
    ) -> Phrase:
        """A noun phrase, a name or a pronoun, but not `no`, the subject."""
        while True:
            if "p" in kinds and self._chance(0.25):
                person = self._pick(lexicon.PERSONS[case != "nom" :])  # "we" is no object
                german = person.german[0].split()["nom acc dat".split().index(case)]
                number, english = int(person.fits), person.english[case != "nom"]
                found = Phrase(english, [german], number, role="pronoun")
            else:
                found = self._noun_phrase(kinds, groups, case, relatives)
            if found.english != no:
                return found

    def _noun_phrase(self, kinds: str, groups: str, case: str, relatives: float = 0.0) -> Phrase:
        """Determiner, adjectives, noun and, perhaps, a relative clause."""
        group = self._pick(groups)
        determiner = self._pick(fitting("DETERMINERS", group))
        number = self._pick([n for n in (0, 0, 0, 1) if determiner.english[n] != "-"])
        noun = self._pick(fitting("NOUNS", kinds))
        options = fitting("ADJECTIVES", noun.fits)
        drawn = {self._pick(range(len(options))) for _ in range(self._pick((0, 0, 0, 1, 1, 2)))}
        adjectives = [options[index] for index in sorted(drawn)]
        english = [determiner.english[number], *(entry.english[0] for entry in adjectives)]
        described, name = [self._word(entry) for entry in adjectives], self._word(noun)
        *german, form = decline(determiner.german[0], described, name, number, case)
        german, english = [*german, Noun(form)], [*english, noun.english[number]]
        if self._chance(relatives):
            link, clause = self._relative(noun, number)
            english += [link, clause.english()]
            german += [",", *self._german(clause, "last"), ","]
        role = "object" if group in "td" else "indefinite"
        return Phrase(" ".join(english), german, number, noun.fits, role)

    def _relative(self, noun: Entry, number: int) -> Tuple[str, Clause]:
        """The English pronoun and a clause, to which a noun is the subject or the object."""
        uses = [(verb, "nom") for verb in SIMPLE if noun.fits in verb.fits]
        governing = [verb for verb in SIMPLE if re.match(f"(acc|dat) .*{noun.fits}", verb.governs)]
        verb, case = self._pick(uses + 2 * [(verb, verb.governs[:3]) for verb in governing])
        pronoun = decline("d definite", [], self._word(noun), number, case)[0]
        pronoun = "denen" if case == "dat" and number == PLURAL else pronoun
        gap = Phrase("", [pronoun], number, noun.fits)
        link = "that" if noun.fits != "p" else "who" if case == "nom" else "whom"
        parts = {"subject" if case == "nom" else "relative": gap}
        return link, self._clause(parts, self._pick(TENSES), [verb])

    def _german(self, clause: Clause, place: str) -> Words:
        """The words of a clause with the finite verb in a place."""
        self._clauses += 1
        key, order, front, late = self._clauses, GERMAN, [], []
        parts = {name: part.german for name, part in clause.parts.items()}
        finite, end = self._german_verb(clause, place == "last")
        finite.noun = next((word for word in parts["subject"] if isinstance(word, Noun)), None)
        for name in ("object", "indefinite"):
            # A relative clause may wait until the verb is complete.
            if "," in parts.get(name, ()) and self._choose(("late", key), (True, False)):
                comma = parts[name].index(",")
                parts[name], late = parts[name][:comma], parts[name][comma:]
        if place == "second":
            fronts = [name for name in FRONTS if name in parts]
            front = parts.pop(self._choose(("front", key), fronts))
        if {"start", "adverb", "end"} & parts.keys() and {"object", "to"} & parts.keys():
            order = self._choose(("shifted", key), (GERMAN, SHIFTED))
        middle = [word for name in order.split() for word in parts.get(name, ())]
        if place == "last":
            return [*middle, *end, finite, *late]
        return [*front, finite, *middle, *end, *late]

    def _german_verb(self, clause: Clause, last: bool) -> Tuple[Finite, Words]:
        """The finite verb, and the words at the end of a clause."""
        verb, tense = self._word(clause.verb), clause.tense
        if tense == PAST and clause.modal is None and verb != lexicon.SEIN:
            tense = self._choose(PAST, (PAST, PERFECT))
        if tense == FUTURE and {"start", "end"} & clause.parts.keys():
            tense = self._choose(FUTURE, (FUTURE, PRESENT))
        infinitive = verb.prefix + verb.infinitive
        head, end = {
            FUTURE: (lexicon.WERDEN, infinitive),
            PERFECT: (lexicon.AUXILIARIES[verb.auxiliary], verb.participle),
        }.get(tense, (verb, verb.prefix))
        if clause.modal is not None:
            head, end = clause.modal.german[0], infinitive
        prefix, end = (verb.prefix, "") if last and head is verb else ("", end)
        forms = [prefix + head.finite(tense == PAST, number) for number in (SINGULAR, PLURAL)]
        number = clause.parts["subject"].number
        finite, finite.other = Finite(forms[number]), forms[1 - number]
        return finite, [end]
