"""A small German checker: its words, endings and rules of order are written by hand here, and
nothing of it comes from the generator."""

import functools
import re

# Nominative singular and plural of each noun, by gender ("w": weak masculines).
NOUNS = {
    "m": "Mann Männer Freund Freunde Lehrer Lehrer Arzt Ärzte Koch Köche Großvater Großväter Opa"
    " Opas Hund Hunde Tisch Tische Schirm Schirme Regenschirm Regenschirme Wagen Wagen Brief Briefe"
    " Garten Gärten Wald Wälder Apfel Äpfel",
    "w": "Junge Jungen Bauer Bauern Nachbar Nachbarn Student Studenten Löwe Löwen",
    "f": "Frau Frauen Schwester Schwestern Königin Königinnen Großmutter Großmütter Oma Omas Katze"
    " Katzen Lampe Lampen Tasche Taschen Zeitung Zeitungen Geschichte Geschichten Erzählung"
    " Erzählungen Orange Orangen Apfelsine Apfelsinen Suppe Suppen Feier Feiern Sitzung Sitzungen"
    " Besprechung Besprechungen Schule Schulen Stadt Städte Küche Küchen",
    "n": "Kind Kinder Mädchen Mädchen Pferd Pferde Hemd Hemden Auto Autos Fahrrad Fahrräder Rad"
    " Räder Buch Bücher Ei Eier Konzert Konzerte Fest Feste Haus Häuser Büro Büros",
}
NAMES = {"Anna", "Paul", "Julia"}
PRONOUNS = {"wir": "Np", "er": "N", "ihn": "A", "ihm": "D", "sie": "N A Np Ap", "ihr": "D",
            "ihnen": "Dp"}  # fmt: skip
# Third person of each verb: present and preterite, singular and plural, without a prefix.
VERBS = """
schläft schlafen schlief schliefen; lacht lachen lachte lachten; tanzt tanzen tanzte tanzten
arbeitet arbeiten arbeitete arbeiteten; kommt kommen kam kamen; endet enden endete endeten
hört hören hörte hörten; steht stehen stand standen; beginnt beginnen begann begannen
fängt fangen fing fingen; sieht sehen sah sahen; sucht suchen suchte suchten
findet finden fand fanden; liebt lieben liebte liebten; kennt kennen kannte kannten
besucht besuchen besuchte besuchten; trifft treffen traf trafen; weckt wecken weckte weckten
lädt laden lud luden; ruft rufen rief riefen; verliert verlieren verlor verloren
repariert reparieren reparierte reparierten; wählt wählen wählte wählten
putzt putzen putzte putzten; reinigt reinigen reinigte reinigten
schreibt schreiben schrieb schrieben; kauft kaufen kaufte kauften; isst essen aß aßen
bereitet bereiten bereitete bereiteten; hilft helfen half halfen; dankt danken dankte dankten
antwortet antworten antwortete antworteten; folgt folgen folgte folgten; gibt geben gab gaben
schickt schicken schickte schickten; bringt bringen brachte brachten
erklärt erklären erklärte erklärten; zeigt zeigen zeigte zeigten; wartet warten wartete warteten
denkt denken dachte dachten; träumt träumen träumte träumten; spricht sprechen sprach sprachen
redet reden redete redeten; geht gehen ging gingen; reist reisen reiste reisten
läuft laufen lief liefen; rennt rennen rannte rannten; wohnt wohnen wohnte wohnten
lebt leben lebte lebten; bleibt bleiben blieb blieben; ist sind war waren; hat haben hatte hatten
hofft hoffen hoffte hofften; weiß wissen wusste wussten; sagt sagen sagte sagten
glaubt glauben glaubte glaubten; meint meinen meinte meinten; fragt fragen fragte fragten
wird werden wurde wurden; kann können konnte konnten; muss müssen musste mussten
will wollen wollte wollten; sollte sollten sollte sollten
"""
# Verbs of one object, with their participles.
DATIVE = """hilft helfen half halfen geholfen dankt danken dankte dankten gedankt antwortet antworten
antwortete antworteten geantwortet folgt folgen folgte folgten gefolgt zugehört zuhören"""
ACCUSATIVE = """besucht besuchen besuchte besuchten trifft treffen traf trafen getroffen sieht sehen
sah sahen gesehen liebt lieben liebte liebten geliebt kennt kennen kannte kannten gekannt"""
PREFIXES = ("an", "auf", "ein", "aus", "vor", "zu")
SINGULAR, PLURAL = (
    {form for row in re.split("[;\n]", VERBS.strip()) for form in row.split()[first::2]}
    for first in (0, 1)
)
FINITE = SINGULAR | PLURAL
# Forms that are only ones of separable verbs, and their prefixes.
SEPARABLE = {"kommt kommen kam kamen": "an", "steht stehen stand standen": "auf",
             "lädt laden lud luden": "ein", "ruft rufen rief riefen": "an",
             "fängt fangen fing fingen": "an", "hört hören hörte hörten": "auf zu",
             "wählt wählen wählte wählten": "aus", "bereitet bereiten bereitete bereiteten": "vor",
             }  # fmt: skip
CONJUNCTIONS = set("weil da obwohl obgleich wenn falls während bevor ehe dass ob".split())
RELATIVES = {"der": "Nm Df", "die": "Nf Af Np Ap", "das": "Nn An", "den": "Am", "dem": "Dm Dn",
             "denen": "Dp"}  # fmt: skip
ADVERBIALS = """gestern; letzte Woche; vor zwei Tagen; am Montag; am Samstag; am Sonnabend; heute;
jetzt; nun; morgen; nächste Woche; jeden Tag; täglich; am Abend; abends; nach der Arbeit; oft;
häufig; immer; stets; bald; nie; niemals; manchmal; gelegentlich; wahrscheinlich; vermutlich"""
ADVERBIALS = [words.split() for words in ADVERBIALS.replace("\n", " ").split("; ")]
# Endings of determiner and adjective together: case with gender or plural. "-": none, "0": no
# determiner.
ENDINGS = """
der e Nm; der en Df; die e Nf Af; die en Np Ap; das e Nn An; den en Am Dp; dem en Dm Dn
- er Nm; - es Nn An; e e Nf Af; e en Np Ap; en en Am Dp; em en Dm Dn; er en Df
zwei e Np Ap; zwei en Dp; viele e Np Ap; vielen en Dp; 0 e Np Ap; 0 en Dp
"""
ENDINGS = {
    tuple(row.split()[:2]): set(row.split()[2:]) for row in re.split("[;\n]", ENDINGS.strip())
}
# "Dieser" has the endings of "der".
LIKE_THE = {"er": "der", "e": "die", "es": "das", "en": "den", "em": "dem"}
PREPOSITIONS = {"in": "AD", "auf": "A", "an": "A", "über": "A", "von": "D", "im": "D", "vom": "D",
                "ins": "A", "ans": "A"}  # fmt: skip
MERGED = {"im": "dem", "vom": "dem", "ins": "das", "ans": "das"}


class Mistake(AssertionError):
    """What a sentence has wrong."""


@functools.cache
def noun_readings(word):
    """Case and gender or plural of a form, such as "Dm" or "Np"."""
    found = set()
    for gender, forms in NOUNS.items():
        for one, many in zip(*[iter(forms.split())] * 2):
            cases = "N" if gender == "w" else "NAD"
            if word == one:
                found |= {case + gender.replace("w", "m") for case in cases}
            if word == many:
                found |= {"Np", "Ap"} | ({"Dp"} if many[-1] in "ns" else set())
                found |= {"Am", "Dm"} if gender == "w" else set()
            if word == many + "n" and many[-1] not in "ns":
                found.add("Dp")
    return found


class Disagreement(AssertionError):
    """No case, gender and number fit all words."""


def noun_phrase(words, start):
    """Length and readings of the noun phrase that begins at a place, None where none does."""
    place, kind, allowed = start, "0", []
    match = re.match(r"(dies|jed|mein|sein|ihr|unser|kein|ein)(e[rnms]?)?$", words[start])
    if words[start] in {row[0] for row in ENDINGS if len(row[0]) > 2}:
        kind = words[start]
    elif match:
        kind = match[2] or "-"
        if match[1] in ("dies", "jed"):
            kind = LIKE_THE.get(kind)
        if match[1] in ("ein", "jed"):
            allowed.append({case + gender for case in "NAD" for gender in "mfn"})
    place += kind != "0"
    allowed.append(set().union(*(found for (one, _), found in ENDINGS.items() if one == kind)))
    while place < len(words) and words[place][0].islower():
        ending = re.search("e[rns]?$", words[place])
        if not ending or words[place] in FINITE:
            return None
        allowed.append(ENDINGS.get((kind, ending[0]), set()))
        place += 1
    readings = noun_readings(words[place]) if place < len(words) else None
    if not readings:
        return None
    readings = readings.intersection(*allowed)
    if not readings:
        raise Mistake(f"no agreement: {' '.join(words[start : place + 1])}")
    return place + 1 - start, readings


def nominal(words, start):
    """The same for pronouns and names, too. "Ihr" is either."""
    if words[start] in NAMES:
        return 1, {"N", "A", "D"}
    pronoun = (1, set(PRONOUNS[words[start]].split())) if words[start] in PRONOUNS else None
    if pronoun and words[start] != "ihr":
        return pronoun
    try:
        return noun_phrase(words, start) or pronoun
    except Mistake:
        if pronoun is None:
            raise
        return pronoun


def constituent(words, start):
    """The same for adverbials and phrases with a preposition, which have no readings."""
    for adverbial in ADVERBIALS:
        if words[start : start + len(adverbial)] == adverbial:
            return len(adverbial), set()
    if words[start] not in PREPOSITIONS:
        return nominal(words, start)
    merged = MERGED.get(words[start])
    found = nominal([*([merged] if merged else []), *words[start + 1 :], "."], 0)
    if not found:
        return None
    if not {reading[0] for reading in found[1]} & set(PREPOSITIONS[words[start]]):
        raise Mistake(f"no case after {words[start]}: {' '.join(words)}")
    return found[0] + (merged is None), set()


def clauses(text):
    """(kind, words) of each clause, in which the finite verb is "first", "second" or "last"."""
    words = re.findall(r"\w+|[^\w\s]", text)
    if "Np" not in noun_readings(words[0]) and words[0] not in NAMES:
        words[0] = words[0].lower()
    found, after_relative = [], False
    for number, part in enumerate(" ".join(words[:-1]).replace(" und ", " , und ").split(" , ")):
        part = part.split()
        if number and part[0] in RELATIVES and not after_relative:
            found.insert(0, ("relative", part))
            after_relative = True
            continue
        before, complete = found[-1] if found else (None, []), True
        if after_relative and part[0] not in CONJUNCTIONS | {"und", "aber"}:
            complete = before[0] == "last" and is_finite(before[1][-1])
        after_relative = False
        if not complete:
            before[1].extend(part)
        elif part[0] in CONJUNCTIONS:
            found.append(("last", part))
        elif words[-1] == "?" or (number and part[0] not in ("und", "aber")):
            found.append(("first", part))
        else:
            found.append(("second", part[part[0] in ("und", "aber") :]))
    return found


def is_finite(word):
    """With or without a separable prefix."""
    return word in FINITE or any(
        word.removeprefix(prefix) in FINITE for prefix in PREFIXES if word.startswith(prefix)
    )


def check(text):
    """Agreement and order in every clause of a sentence.

    Raises:
        Mistake: something is wrong.
    """
    if re.search(r"\bnicht (eine[rnm]?\b|ein (?!und )\w)", text):
        raise Mistake(f"nicht ein: {text}")
    for kind, words in clauses(text):
        check_clause(kind, words)


def check_clause(kind, words):
    subordinate = kind in ("last", "relative")
    start, nominals = 0, []
    if kind == "relative":
        start, nominals = 1, [set(RELATIVES[words[0]].split())]
    elif kind == "last":
        start = 1
    at = len(words) - 1 if subordinate else 0
    if kind == "second":
        at, readings = constituent(words, 0) or (0, set())
        start, nominals = at, [readings]
    if not is_finite(words[at]):
        raise Mistake(f"verb not {'last' if subordinate else kind}: {' '.join(words)}")
    place = start
    while place < len(words):
        length, readings = constituent(words, place) or (1, set())
        nominals += [readings]
        place += length
    check_verb(kind, words, at)
    check_cases(words, words[at], [readings for readings in nominals if readings])


def check_verb(kind, words, at):
    """Prefixes, and what ends the clause beside an auxiliary."""
    subordinate, text = kind in ("last", "relative"), " ".join(words)
    finite, rest = words[at], words[:at] if kind in ("last", "relative") else words
    for forms, prefixes in SEPARABLE.items():
        if finite in forms.split() and (subordinate or words[-1] not in prefixes.split()):
            raise Mistake(f"no prefix: {text}")
    infinitive = rest[-1] == "sein" or (rest[-1] in PLURAL or is_finite(rest[-1]))
    participle = re.search("ge|^be|^er|^ver|iert$|bereitet$", rest[-1])
    if finite in "wird werden kann können muss müssen will wollen".split() and not infinitive:
        raise Mistake(f"no infinitive at the end: {text}")
    if finite in ("hat", "haben") and not participle:
        raise Mistake(f"no participle at the end: {text}")


def check_cases(words, finite, nominals):
    """The subject agrees with the verb, objects have the case that it governs."""
    plural = finite in PLURAL or any(finite.removeprefix(prefix) in PLURAL for prefix in PREFIXES)
    subjects = [reading.endswith("p") for found in nominals for reading in found if "N" in reading]
    certain = [found for found in nominals if {reading[0] for reading in found} == {"N"}]
    wrong = [found for found in certain if plural not in {r.endswith("p") for r in found}]
    if plural not in subjects or wrong or len(certain) > 1:
        raise Mistake(f"no subject agrees with {finite}: {' '.join(words)}")
    for verbs, case in ((DATIVE, "D"), (ACCUSATIVE, "A")):
        if set(words) & set(verbs.split()):
            cases = [{reading[0] for reading in found} for found in nominals]
            if not any(case in found for found in cases) or {"AD".replace(case, "")} in cases:
                raise Mistake(f"not the case of the verb: {' '.join(words)}")
