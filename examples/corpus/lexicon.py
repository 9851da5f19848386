"""The words of both languages and their forms.

The tables have what a dictionary has: irregular forms, genders, what a verb governs. An entry ends
at a line or a semicolon. German words separated by commas are synonyms, the first one canonical. No
two entries that govern the same are spelled alike, so English decides the canonical translation.

Kinds of noun: p person, a animal, t thing, v vehicle, x text, f food, e event, l place.
"""

import re
from typing import Any, List, NamedTuple, Sequence, Tuple

PRESENT, PAST, PERFECT, FUTURE = "present", "past", "perfect", "future"
SINGULAR, PLURAL = 0, 1
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an das": "ans", "von dem": "vom"}
# Masculine, feminine, neuter, plural; where "ein" and its kind have no ending.
_DEFINITE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
_STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"}
_BARE = (("nom", 0), ("nom", 2), ("acc", 2))


class Entry(NamedTuple):
    """English forms, German synonyms, what they fit: kinds of noun, of subject, tenses."""

    english: Tuple[str, ...]
    german: Tuple[Any, ...]
    fits: str = ""
    governs: str = ""


class GermanVerb(NamedTuple):
    """The forms but for the participle lack the separable prefix."""

    prefix: str
    infinitive: str
    present: str
    past: str
    participle: str
    auxiliary: str

    def finite(self, past: bool, number: int) -> str:
        """The third person."""
        if past:
            return self.past + ("", "n" if self.past[-1] == "e" else "en")[number]
        return (self.present, "sind" if self.infinitive == "sein" else self.infinitive)[number]


def _german_verb(text: str) -> GermanVerb:
    lemma, *forms = text.split()
    prefix, _, infinitive = lemma.rpartition("-")
    auxiliary = "sein" if forms[-1:] == ["sein"] else "haben"
    if len(forms) < 3:
        stem = infinitive[:-2]
        present = stem + ("et" if stem[-1] in "td" else "t")
        without_ge = stem.startswith(("be", "er", "ver")) or stem.endswith("ier")
        forms = [present, present + "e", present if without_ge else "ge" + present]
    return GermanVerb(prefix, infinitive, forms[0], forms[1], prefix + forms[2], auxiliary)


def english_s(word: str) -> str:
    """The regular plural of a noun, the third person of a verb."""
    if word == "have":
        return "has"
    return word + ("es" if word.endswith(("s", "o", "ch", "sh")) else "s")


def _entries(table: str) -> List[Entry]:
    """English has two forms, separated by a slash or regular."""
    rows = [re.split(r" *\| *", row.strip()) for row in re.split("[;\n]", table.strip())]
    forms = [one.split("/") if "/" in one else [one, english_s(one)] for one, *_ in rows]
    return [
        Entry(tuple(english), tuple(german.split(", ")), *more)
        for english, (_, german, *more) in zip(forms, rows)
    ]


def _verbs(table: str) -> List[Entry]:
    """English has base form, past, participle, particle."""
    found = []
    for entry in _entries(table):
        forms, _, particle = entry.english[0].partition(" +")
        base, *irregular = forms.split()
        past, *participle = irregular or [base.removesuffix("e") + "ed"]
        english = base, past, *(participle or [past]), particle
        german = tuple(map(_german_verb, entry.german))
        found.append(entry._replace(english=english, german=german))
    return found


# English[/irregular plural] | German, gender (w: masculine, weak), plural | kind
NOUNS = _entries("""
man/men | Mann m Männer | p; woman/women | Frau f Frauen | p; child/children | Kind n Kinder | p
boy | Junge w Jungen | p; girl | Mädchen n Mädchen | p; friend | Freund m Freunde | p
teacher | Lehrer m Lehrer | p; doctor | Arzt m Ärzte | p; farmer | Bauer w Bauern | p
sister | Schwester f Schwestern | p; queen | Königin f Königinnen | p; cook | Koch m Köche | p
neighbour | Nachbar w Nachbarn | p; grandmother | Großmutter f Großmütter, Oma f Omas | p
student | Student w Studenten | p; grandfather | Großvater m Großväter, Opa m Opas | p
dog | Hund m Hunde | a; cat | Katze f Katzen | a; horse | Pferd n Pferde | a
lion | Löwe w Löwen | a; table | Tisch m Tische | t; lamp | Lampe f Lampen | t
shirt | Hemd n Hemden | t; bag | Tasche f Taschen | t
umbrella | Schirm m Schirme, Regenschirm m Regenschirme | t; car | Auto n Autos, Wagen m Wagen | v
bicycle | Fahrrad n Fahrräder, Rad n Räder | v; letter | Brief m Briefe | x
book | Buch n Bücher | x; newspaper | Zeitung f Zeitungen | x
story/stories | Geschichte f Geschichten, Erzählung f Erzählungen | x; apple | Apfel m Äpfel | f
orange | Orange f Orangen, Apfelsine f Apfelsinen | f; egg | Ei n Eier | f
soup | Suppe f Suppen | f; concert | Konzert n Konzerte | e
party/parties | Fest n Feste, Feier f Feiern | e
meeting | Sitzung f Sitzungen, Besprechung f Besprechungen | e; garden | Garten m Gärten | l
school | Schule f Schulen | l; house | Haus n Häuser | l; town | Stadt f Städte | l
forest | Wald m Wälder | l; office | Büro n Büros | l; kitchen | Küche f Küchen | l
""")
# English as subject/as object | German nominative, accusative, dative | number
PERSONS = _entries("""
we/us | wir | 1; he/him | er ihn ihm | 0; she/her | sie sie ihr | 0; they/them | sie sie ihnen | 1
Anna/Anna | Anna Anna Anna | 0; Paul/Paul | Paul Paul Paul | 0; Julia/Julia | Julia Julia Julia | 0
""")
# English singular/plural | German stem, declension | t: the; otherwise definite, indefinite,
# negative, of quantity
DETERMINERS = _entries("""
the/the | d definite | t; this/these | dies strong | d; my/my | mein ein | d; his/his | sein ein | d
our/our | unser ein | d; their/their | ihr ein | d; a/ | ein indefinite | i; a/any | kein ein | n
every/- | jed strong | q; -/many | viel adjective | q; -/two | zwei bare | q
""")
# English | German | kinds of noun
ADJECTIVES = _entries("""
old | alt | patvxl; young | jung | pa; new | neu | tvxl; big | groß | patvl; small | klein | patvl
tired | müde | pa; happy | glücklich | pa; sad | traurig | pax; hungry | hungrig | pa
red | rot | tv; beautiful | schön | patxle; rich | reich, wohlhabend | p; poor | arm | p
heavy | schwer | tv; clever | klug, schlau | pa; angry | wütend, zornig | pa
famous | berühmt, bekannt | pxle; strange | seltsam, merkwürdig | patxe
friendly | freundlich, nett | p; fresh | frisch | f; cheap | billig, preiswert | tvf
interesting | interessant, spannend | xle; long | lang | xe
""")
# English with irregular past and participle, +particle | German with irregular third person,
# preterite and participle, "sein" if that is the auxiliary | kinds of subject | what it governs:
# cases of objects and their kinds, "to" or "in" a place, "like" an adjective, clauses
VERBS = _verbs("""
sleep slept | schlafen schläft schlief geschlafen | pa; laugh | lachen | p; dance | tanzen | p
work | arbeiten | p; arrive | an-kommen kommt kam gekommen sein | p; end | enden, auf-hören | e
get got +up | auf-stehen steht stand gestanden sein | pa
begin began begun | beginnen beginnt begann begonnen, an-fangen fängt fing gefangen | e
see saw seen | sehen sieht sah gesehen | pa | acc patvel; look +for | suchen | pa | acc patvxl
find found | finden findet fand gefunden | pa | acc patvxf; love | lieben | p | acc paxlf
know knew known | kennen kennt kannte gekannt | p | acc paxl; visit | besuchen | p | acc p
meet met | treffen trifft traf getroffen | p | acc p
wake woke woken | wecken, auf-wecken | pa | acc pa; invite | ein-laden lädt lud geladen | p | acc p
call | an-rufen ruft rief gerufen | p | acc p
lose lost | verlieren verliert verlor verloren | p | acc tx; repair | reparieren | p | acc v
choose chose chosen | aus-wählen, aus-suchen | p | acc txf; clean | putzen, reinigen | p | acc tv
write wrote written | schreiben schreibt schrieb geschrieben | p | acc x
buy bought | kaufen | p | acc tvxf; eat ate eaten | essen isst aß gegessen | p | acc f
prepare | vor-bereiten | p | acc fe; help | helfen hilft half geholfen | p | dat pa
thank | danken | p | dat p; answer | antworten | p | dat p; follow | folgen sein | pa | dat pa
listen +to | zu-hören | p | dat p; give gave given | geben gibt gab gegeben | p | dat+acc txf
send sent | schicken | p | dat+acc tx
bring brought | bringen bringt brachte gebracht | p | dat+acc txf
explain | erklären | p | dat+acc x; show showed shown | zeigen | p | dat+acc atvx
wait +for | warten | pa | auf+acc pa
think thought +of | denken denkt dachte gedacht | p | an+acc paxe
dream +of | träumen | p | von+dat pavf
talk +about | sprechen spricht sprach gesprochen, reden | p | über+acc pxe
go went gone | gehen geht ging gegangen sein | pa | to; travel travelled | reisen sein | p | to
run ran run | laufen läuft lief gelaufen sein, rennen rennt rannte gerannt sein | pa | to
live | wohnen, leben | p | in; stay | bleiben bleibt blieb geblieben sein | pa | in
be was been | sein ist war gewesen sein | patvxfel | like; hope | hoffen | p | that
know knew known | wissen weiß wusste gewusst | p | that; say said | sagen | p | that
believe | glauben, meinen | p | that; ask | fragen | p | whether
""")
# English with its past, +to | German. "should", the last one, has no past.
MODALS = _verbs("""
can could | können kann konnte gekonnt; have had +to | müssen muss musste gemusst
want +to | wollen will wollte gewollt; should | sollten sollte sollte gesollt
""")
# English | German | tenses, "future" with modal verbs in the present, too
TIMES = _entries("""
yesterday | gestern | past; last week | letzte Woche | past; two days ago | vor zwei Tagen | past
on Monday | am Montag | past future; on Saturday | am Samstag, am Sonnabend | past future
today | heute | present past future; now | jetzt, nun | present; tomorrow | morgen | future
next week | nächste Woche | future; every day | jeden Tag, täglich | present
in the evening | am Abend, abends | present past; after work | nach der Arbeit | present past future
""")
# The same, before the English verb.
ADVERBS = _entries("""
often | oft, häufig | present past perfect; always | immer, stets | present past
soon | bald | future; never | nie, niemals | present past perfect
sometimes | manchmal, gelegentlich | present past
probably | wahrscheinlich, vermutlich | present past future
""")
# English | German | tenses of main and subordinate clause
CONJUNCTIONS = _entries("""
because | weil, da | present present, past past, perfect past, present perfect, future future
although | obwohl, obgleich | present present, past past, perfect past, future present
if | wenn, falls | present present, future present; while | während | present present, past past
before | bevor, ehe | present present, past past
""")
WERDEN = _german_verb("werden wird wurde geworden")
HABEN, SEIN = _german_verb("haben hat hatte gehabt"), _german_verb("sein ist war gewesen sein")
AUXILIARIES = {"haben": HABEN, "sein": SEIN}


def decline(
    determiner: str, adjectives: Sequence[str], noun: str, number: int, case: str
) -> List[str]:
    """A noun phrase. The strong ending, which shows the case, stands once: at the determiner or,
    where that has none, at the adjectives."""
    stem, declension = determiner.split()
    lemma, gender, plural = noun.split()
    column = 3 if number == PLURAL else {"m": 0, "w": 0, "f": 1, "n": 2}[gender]
    strong = _STRONG[case].split()[column]
    like_ein = stem if (case, column) in _BARE else stem + strong
    article = {
        "definite": _DEFINITE[case].split()[column],
        "strong": stem + strong,
        "ein": like_ein,
        "indefinite": like_ein if number == SINGULAR else "",
        "adjective": "",
        "bare": stem,
    }[declension]
    adjectives = [*([stem] if declension == "adjective" else []), *adjectives]
    weak = "e" if column < 3 and (case == "nom" or (case == "acc" and column > 0)) else "en"
    ending = strong if article in ("", stem) else weak
    if number == PLURAL:
        form = plural + ("n" if case == "dat" and plural[-1] not in "ns" else "")
    else:
        form = plural if gender == "w" and case != "nom" else lemma
    return [article, *(adjective.removesuffix("e") + ending for adjective in adjectives), form]
