"""A small German checker, written without the generator's declension tables, run over
the generated sentences: agreement in noun phrases, government of prepositions, verb
second, verb last, separable prefixes, negation."""

import re
from itertools import islice, permutations

import pytest

# Readings of each determiner: "case + column" with the columns m, f, n and p(lural).
# The declension class decides the adjective ending: weak, mixed or strong.
ARTICLES = {
    "der": "Nm Df Gf Gp",
    "die": "Nf Af Np Ap",
    "das": "Nn An",
    "den": "Am Dp",
    "dem": "Dm Dn",
    "des": "Gm Gn",
    "im": "Dm Dn",
    "am": "Dm Dn",
    "zum": "Dm Dn",
    "vom": "Dm Dn",
    "zur": "Df",
    "ins": "An",
    "ans": "An",
}
DIESER = {
    "er": "Nm Df Gf Gp",
    "e": "Nf Af Np Ap",
    "es": "Nn An Gm Gn",
    "en": "Am Dp",
    "em": "Dm Dn",
}
EIN = {
    "": "Nm Nn An",
    "e": "Nf Af Np Ap",
    "en": "Am Dp",
    "em": "Dm Dn",
    "er": "Df Gf Gp",
    "es": "Gm Gn",
}
PLURAL = {"e": "Np Ap", "en": "Dp", "er": "Gp"}
# Readings of each adjective ending, by declension class.
ENDINGS = {
    "weak": {"e": "Nm Nf Nn Af An", "en": "Am Dm Df Dn Gm Gf Gn Np Ap Dp Gp"},
    "mixed": {"er": "Nm", "e": "Nf Af", "es": "Nn An", "en": "Am Dm Df Dn Gm Gf Gn Np Ap Dp Gp"},
    "strong": {
        "er": "Nm Df Gf Gp",
        "e": "Nf Af Np Ap",
        "es": "Nn An",
        "en": "Am Gm Gn Dp",
        "em": "Dm Dn",
    },
}
PREPOSITIONS = {
    "in": "AD",
    "an": "AD",
    "auf": "AD",
    "über": "A",
    "mit": "D",
    "von": "D",
    "nach": "D",
    "zu": "D",
    "vor": "D",
    "im": "D",
    "am": "D",
    "zum": "D",
    "vom": "D",
    "zur": "D",
    "ins": "A",
    "ans": "A",
    "als": "N",
}
PRONOUNS = set("ich er sie wir es mich ihn uns mir ihm ihr ihnen".split())
AUXILIARIES = {
    "bin",
    "ist",
    "sind",
    "war",
    "waren",
    "habe",
    "hat",
    "haben",
    "werde",
    "wird",
    "werden",
    "kann",
    "können",
    "muss",
    "müssen",
    "musste",
    "mussten",
    "sollte",
    "sollten",
    "will",
    "wollen",
    "wollte",
    "wollten",
}
PLURAL_AUXILIARIES = set(
    "sind waren haben werden können müssen mussten sollten wollen wollten".split()
)


def determiners():
    table = {word: ("weak", set(readings.split())) for word, readings in ARTICLES.items()}
    for ending, readings in DIESER.items():
        table["dies" + ending] = ("weak", set(readings.split()))
        table["jed" + ending] = ("weak", {r for r in readings.split() if r[1] != "p"})
    for stem in ("ein", "kein", "mein", "sein", "ihr", "unser"):
        for ending, readings in EIN.items():
            singular = {r for r in readings.split() if stem != "ein" or r[1] != "p"}
            table[stem + ending] = ("mixed", singular)
    for stem in ("viel", "einig"):
        for ending, readings in PLURAL.items():
            table[stem + ending] = ("strong", set(readings.split()))
    for word in ("zwei", "drei", "vier"):
        table[word] = ("strong", {"Np", "Ap", "Dp", "Gp"})
    return table


DETERMINERS = determiners()


class Checker:
    """Reads noun phrases off a tokenised sentence and finds finite verbs."""

    def __init__(self, corpus):
        self.nouns = {}
        for noun in (g for concept in corpus.nouns.NOUNS for g in concept.german):
            self._add(
                noun.lemma,
                {"N" + noun.gender} | (set() if noun.weak else {c + noun.gender for c in "AD"}),
            )
            weak = {c + noun.gender for c in "AD"} if noun.weak else set()
            self._add(noun.genitive, {"G" + noun.gender} | weak)
            if noun.plural:
                self._add(
                    noun.plural, {"Np", "Ap", "Gp"} | ({"Dp"} if noun.plural[-1] in "ns" else set())
                )
                self._add(noun.plural + "n", {"Dp"} if noun.plural[-1] not in "ns" else set())
        # Nouns of the time adverbials.
        for word, gender in (
            ("Woche", "f"),
            ("Monat", "m"),
            ("Jahr", "n"),
            ("Tag", "m"),
            ("Morgen", "m"),
            ("Abend", "m"),
            ("Nacht", "f"),
            ("Sommer", "m"),
            ("Winter", "m"),
            ("Arbeit", "f"),
            ("Frühstück", "n"),
            ("Montag", "m"),
            ("Mittwoch", "m"),
            ("Freitag", "m"),
            ("Samstag", "m"),
            ("Sonnabend", "m"),
            ("Sonntag", "m"),
            ("Bahn", "f"),
        ):
            self._add(word, {c + gender for c in "NAD"})
        for word in ("Tagen", "Wochen"):
            self._add(word, {"Dp"})
        self.stems = {"letzt", "nächst"}
        for adjective in (g for concept in corpus.modifiers.ADJECTIVES for g in concept.german):
            self.stems.add(adjective.stem or adjective.lemma)
        self.adverbs = {
            word for t in corpus.modifiers.TIMES for g in t.german if " " not in g for word in [g]
        }
        self.names = set(corpus.nouns.NAMES)
        self.towns = {german for _, german in corpus.nouns.TOWNS}
        self.finite, self.plural_finite, self.prefixes = (
            set(AUXILIARIES),
            set(PLURAL_AUXILIARIES),
            set(),
        )
        verbs = corpus.verbs
        for verb in (
            verbs.SIMPLE_VERBS + verbs.THAT_VERBS + verbs.WHETHER_VERBS + verbs.IMPERSONAL_VERBS
        ):
            for g in verb.german:
                self.prefixes |= {g.prefix} if g.prefix else set()
                past_plural = g.past + "n" if g.past.endswith("e") else g.past + "en"
                singular = {g.present, g.past, g.infinitive[:-1], g.first_person or g.present}
                for form in singular | {g.infinitive, past_plural}:
                    self.finite |= {form, g.prefix + form}
                for form in (g.infinitive, past_plural):
                    self.plural_finite |= {form, g.prefix + form}

    def _add(self, form, readings):
        self.nouns.setdefault(form, set()).update(readings)

    def adjective(self, token):
        for ending in ("en", "em", "er", "es", "e"):
            if token.endswith(ending) and token[: -len(ending)] in self.stems:
                return ending
        return None

    def chunk(self, tokens, start):
        """Return (end, readings) of the noun or prepositional phrase or adverb at
        `start`; readings are None for phrases without inflection."""
        i, cases = start, None
        first = tokens[start]
        if first in self.adverbs:
            end = start + 1
            return (end + 1 if tokens[end] == "Abend" else end), None
        if first in PREPOSITIONS:
            cases = PREPOSITIONS[first]
            i += first not in DETERMINERS
        if tokens[i] in self.names | self.towns:
            return i + 1, {"Nm", "Am", "Dm"}
        if tokens[i] in PRONOUNS and (
            tokens[i] not in DETERMINERS or not self._noun_follows(tokens, i + 1)
        ):
            return i + 1, None
        kind, readings = "strong", None
        if tokens[i] in DETERMINERS:
            kind, readings = DETERMINERS[tokens[i]]
            i += 1
        i += tokens[i] == "sehr"
        while self.adjective(tokens[i]):
            allowed = set(ENDINGS[kind][self.adjective(tokens[i])].split())
            readings = allowed if readings is None else readings & allowed
            i += 1
        assert tokens[i] in self.nouns, f"no noun at {tokens[start : i + 1]}"
        readings = self.nouns[tokens[i]] if readings is None else readings & self.nouns[tokens[i]]
        if cases is not None:
            readings = {r for r in readings if r[0] in cases}
        assert readings, f"no agreement in {tokens[start : i + 1]}"
        return i + 1, readings

    def _noun_follows(self, tokens, i):
        while tokens[i] == "sehr" or self.adjective(tokens[i]):
            i += 1
        return tokens[i] in self.nouns

    def starts_phrase(self, tokens, i):
        token = tokens[i]
        if token == "sein":  # possessive or infinitive
            return self._noun_follows(tokens, i + 1)
        return (
            token in DETERMINERS
            or token in PREPOSITIONS
            or token in self.nouns
            or bool(self.adjective(token) and self._noun_follows(tokens, i))
        )


def tokens_of(corpus, text, checker):
    """Tokens with the first letter put in the case the word has inside a sentence."""
    tokens = corpus.generate.tokenise(text)
    first = tokens[0]
    if first.lower() in checker.adverbs or (
        first not in checker.nouns and first not in checker.names
    ):
        tokens[0] = first[0].lower() + first[1:]
    return tokens


@pytest.fixture(scope="module")
def checker(corpus):
    return Checker(corpus)


@pytest.fixture(scope="module")
def realised(corpus, items):
    """Up to five translations of each sampled sentence."""
    return [
        (item.sentence, text)
        for item in items
        for text in islice(corpus.german_syntax.translations(item.sentence), 5)
    ]


def is_plain(corpus, clause):
    """A clause without relative clauses."""
    phrases = (clause.subject, clause.object)
    return not any(
        isinstance(p, corpus.sentence.NounPhrase) and p.relative is not None for p in phrases
    )


def plain_statements(corpus, realised):
    for sentence, text in realised:
        if sentence.kind == corpus.sentence.STATEMENT and is_plain(corpus, sentence.main):
            yield sentence.main, text


def check_phrases(checker, tokens):
    """Check every noun phrase of a sentence; return how many there are."""
    i = found = 0
    while i < len(tokens):
        relative_pronoun = (
            i > 0
            and tokens[i - 1] == ","
            and tokens[i] in {"der", "die", "das", "den", "dem", "denen"}
        )
        # A separable prefix ("macht ... an.") closes its clause.
        prefix = tokens[i] in checker.prefixes and tokens[i + 1] in {".", ",", "und", "?"}
        if not relative_pronoun and not prefix and checker.starts_phrase(tokens, i):
            i, _ = checker.chunk(tokens, i)
            found += 1
        else:
            i += 1
    return found


def test_noun_phrases_agree(corpus, checker, realised):
    found = 0
    for _, text in realised:
        found += check_phrases(checker, tokens_of(corpus, text, checker))
    assert found > 3 * len(realised) * 0.8


@pytest.mark.parametrize(
    "text",
    [
        "Der Mann sieht den neue Tisch.",
        "Er wartet mit die Frau.",
        "Ich sehe ein neue Hut.",
        "Wir gehen in das Gärten.",
        "Er dankt den Kinder.",
        "Ich sehe den Student.",
        "Er ist größer als den Mann.",
        "Er sieht unseren Haus.",
    ],
)
def test_the_checker_finds_mistakes(corpus, checker, text):
    with pytest.raises(AssertionError, match="no agreement"):
        check_phrases(checker, tokens_of(corpus, text, checker))


def prefield(checker, tokens):
    """Return the end of the first constituent (a coordinated pair counts as one, and
    a genitive belongs to its noun) and the readings of its first noun phrase."""
    end, readings = checker.chunk(tokens, 0)
    pair = tokens[end] == "und"
    if pair:
        end, _ = checker.chunk(tokens, end + 1)
    while tokens[end] in DETERMINERS and tokens[end] not in checker.finite:
        end, genitive = checker.chunk(tokens, end)
        assert any(reading[0] == "G" for reading in genitive)
    return end, readings, pair


def test_main_clauses_have_the_verb_second(corpus, checker, realised):
    count = 0
    for _, text in plain_statements(corpus, realised):
        tokens = tokens_of(corpus, text, checker)
        end, readings, pair = prefield(checker, tokens)
        assert tokens[end] in checker.finite, text
        subject_first = (
            tokens[0] not in PREPOSITIONS and tokens[0] not in checker.adverbs and readings
        )
        if (
            subject_first
            and any(reading[0] == "N" for reading in readings)
            and "jeden" not in tokens[0]
        ):
            columns = {reading[1] for reading in readings if reading[0] == "N"}
            if columns == {"p"} or pair:
                assert tokens[end] in checker.plural_finite, text
            elif "p" not in columns:
                assert tokens[end] not in checker.plural_finite or tokens[1] in (
                    "Woche",
                    "Monat",
                    "Jahr",
                ), text
        count += 1
    assert count > 500


def test_subordinate_clauses_have_the_verb_last(corpus, checker, realised):
    count = 0
    for sentence, text in realised:
        if sentence.kind != corpus.sentence.SUBORDINATE:
            continue
        if not (is_plain(corpus, sentence.main) and is_plain(corpus, sentence.second)):
            continue
        tokens = tokens_of(corpus, text, checker)
        comma = tokens.index(",")
        comparison = (
            sentence.second.predicate is not None and sentence.second.predicate.standard is not None
        )
        if tokens[0] in sentence.conjunction.german:
            assert tokens[comma + 1] in checker.finite, text
            last = tokens[comma - 1]
        else:
            assert tokens[comma + 1] in sentence.conjunction.german, text
            last = tokens[-2]
        assert last in checker.finite or comparison, text
        count += 1
    assert count > 1000


def test_relative_clauses_have_the_verb_last(corpus, checker, realised):
    count = 0
    for sentence, text in realised:
        main = sentence.main
        subject = (
            isinstance(main.subject, corpus.sentence.NounPhrase)
            and main.subject.relative is not None
        )
        if sentence.kind != corpus.sentence.STATEMENT or not subject:
            continue
        tokens = tokens_of(corpus, text, checker)
        commas = [i for i, token in enumerate(tokens) if token == ","]
        opening, closing = commas[0], (commas + [len(tokens) - 1])[1]
        assert tokens[opening + 1] in ("der", "die", "das", "den", "dem", "denen"), text
        assert tokens[closing - 1] in checker.finite, text
        count += 1
    assert count > 100


def required_cases(corpus, clause):
    """Cases of the bare noun phrases of a plain clause, by the meaning of the clause."""
    phrases = [(clause.subject, "N"), (clause.recipient, "D")]
    if clause.verb.frame != "prepositional":
        phrases.append((clause.object, "D" if clause.verb.frame == "dative" else "A"))
    if clause.time is not None and re.match(r"(letzte|nächste|jede)", clause.time.german[0]):
        phrases.append((corpus.sentence.Name(""), "A"))
    cases = []
    for phrase, case in phrases:
        if isinstance(phrase, corpus.sentence.Pair):
            cases += [case, case]
        elif isinstance(phrase, (corpus.sentence.NounPhrase, corpus.sentence.Name)):
            cases.append(case)
    return cases


def owners(corpus, clause):
    standard = clause.predicate.standard if clause.predicate else None
    phrases = (clause.subject, clause.recipient, clause.object, standard)
    return sum(isinstance(p, corpus.sentence.NounPhrase) and p.owner is not None for p in phrases)


def test_subjects_and_objects_have_the_case_the_verb_asks_for(corpus, checker, realised):
    count = 0
    for clause, text in plain_statements(corpus, realised):
        tokens, i, found = tokens_of(corpus, text, checker), 0, []
        while i < len(tokens):
            prefix = tokens[i] in checker.prefixes and tokens[i + 1] == "."
            uninflected = tokens[i] in checker.names or tokens[i] in checker.adverbs
            if uninflected or (not prefix and checker.starts_phrase(tokens, i)):
                governed = tokens[i] in PREPOSITIONS
                i, readings = checker.chunk(tokens, i)
                if not governed and readings is not None:
                    found.append({reading[0] for reading in readings})
            else:
                i += 1
        required = required_cases(corpus, clause) + ["G"] * owners(corpus, clause)
        assert len(found) == len(required), text
        assert any(all(c in r for c, r in zip(order, found)) for order in permutations(required)), (
            text
        )
        count += 1
    assert count > 500


def test_separable_prefixes_close_the_main_clause(corpus, checker, realised):
    count = 0
    for clause, text in plain_statements(corpus, realised):
        simple = clause.modal is None and clause.tense in ("present", "past")
        if not simple or not all(verb.prefix for verb in clause.verb.german):
            continue
        tokens = tokens_of(corpus, text, checker)
        finite = tokens[prefield(checker, tokens)[0]]
        if finite in AUXILIARIES:
            # The perfect in place of the preterite.
            assert tokens[-2] in {verb.participle for verb in clause.verb.german}, text
        else:
            assert tokens[-2] in checker.prefixes, text
            assert not finite.startswith(tokens[-2]), text
        count += 1
    assert count > 30


def test_indefinite_objects_are_negated_by_kein(realised):
    negated = [text for sentence, text in realised if sentence.main.negated]
    assert any(re.search(r"\bkein", text) for text in negated)
    for text in negated:
        assert not re.search(r"\bnicht (eine|einen|einem|einer|ein) \w", text), text
        assert re.search(r"\b(nicht|kein(e|en|em|er)?)\b", text), text


def test_pronoun_objects_precede_adverbials(corpus, checker, realised):
    count = 0
    for clause, text in plain_statements(corpus, realised):
        pronoun = clause.object
        if (
            not isinstance(pronoun, corpus.sentence.Personal)
            or clause.verb.frame == "prepositional"
        ):
            continue
        tokens = tokens_of(corpus, text, checker)
        form = pronoun.pronoun.german[2 if clause.verb.frame == "dative" else 1]
        end = prefield(checker, tokens)[0]
        between = tokens[end + 1 : tokens.index(form, end)]
        assert not set(between) & checker.adverbs, text
        count += 1
    assert count > 20


def test_first_person_has_no_reflexive_objects(realised):
    for _, text in realised:
        assert not re.search(
            r"\b[Ii]ch \w+ (mich|mir|uns)\b|\b[Ww]ir \w+ (uns|mich|mir)\b", text
        ), text


def test_every_construction_occurs(corpus, items):
    clauses = [
        clause for item in items for clause in (item.sentence.main, item.sentence.second) if clause
    ]
    assert {item.sentence.kind for item in items} == {
        "statement",
        "question",
        "subordinate",
        "complement",
        "coordination",
    }
    assert {clause.tense for clause in clauses} == {"present", "past", "perfect", "future"}
    assert {clause.verb.frame for clause in clauses} >= {
        "intransitive",
        "accusative",
        "dative",
        "ditransitive",
        "prepositional",
        "directional",
        "locative",
        "predicative",
        "clausal",
        "impersonal",
    }
    used = {german for clause in clauses for german in clause.verb.german}
    assert len(used) > 80
