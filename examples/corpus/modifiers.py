"""Adjectives, adverbials, determiners, pronouns and conjunctions (data only)."""

from lexicon import (
    FUTURE,
    PAST,
    PERFECT,
    PRESENT,
    Adjective,
    Adverbial,
    Conjunction,
    Determiner,
    Pronoun,
)
from lexicon import GermanAdjective as A
from lexicon import TimeAdverbial as T

_PERSON = ("person",)
_LIVING = ("person", "animal")
_GOODS = ("vehicle", "transport", "device", "goods", "picture", "lid", "clothing")
_PLACES = ("place", "building")
_EATABLE = ("food", "baked", "cooked")
_SIZED = (
    "animal",
    "baked",
    "vehicle",
    "device",
    "goods",
    "picture",
    "lid",
    "opening",
    "place",
    "building",
    "event",
)
_COLOURED = ("vehicle", "goods", "lid", "clothing", "device")

# Groups: 0 opinion, 1 size, 2 state and age, 3 colour.
ADJECTIVES = (
    Adjective(
        (("friendly", "friendlier"), ("kind", "kinder")),
        (A("freundlich", "freundlicher"), A("nett", "netter")),
        _PERSON,
        0,
    ),
    Adjective(
        (("famous", "more famous"),),
        (A("berühmt", "berühmter"), A("bekannt", "bekannter")),
        ("person", "building", "picture"),
        0,
    ),
    Adjective(
        (("clever", "cleverer"), ("intelligent", "more intelligent")),
        (A("klug", "klüger"), A("intelligent", "intelligenter")),
        _LIVING,
        0,
    ),
    Adjective((("polite", "more polite"),), (A("höflich", "höflicher"),), _PERSON, 0),
    Adjective((("brave", "braver"),), (A("mutig", "mutiger"), A("tapfer", "tapferer")), _LIVING, 0),
    Adjective((("patient", "more patient"),), (A("geduldig", "geduldiger"),), _PERSON, 0),
    Adjective((("lazy", "lazier"),), (A("faul", "fauler"),), _LIVING, 0),
    Adjective((("curious", "more curious"),), (A("neugierig", "neugieriger"),), _LIVING, 0),
    Adjective(
        (("beautiful", "more beautiful"),),
        (A("schön", "schöner"),),
        ("animal", "picture", "clothing", "building", "place"),
        0,
    ),
    Adjective(
        (("expensive", "more expensive"),),
        (A("teuer", "teurer", "teur"), A("kostspielig", "kostspieliger")),
        ("vehicle", "device", "goods", "clothing", "picture"),
        0,
    ),
    Adjective(
        (("cheap", "cheaper"),),
        (A("billig", "billiger"), A("preiswert", "preiswerter")),
        ("vehicle", "device", "goods", "clothing"),
        0,
    ),
    Adjective(
        (("useful", "more useful"),), (A("nützlich", "nützlicher"),), ("device", "text", "lid"), 0
    ),
    Adjective(
        (("important", "more important"),), (A("wichtig", "wichtiger"),), ("text", "event"), 0
    ),
    Adjective(
        (("interesting", "more interesting"),),
        (A("interessant", "interessanter"),),
        ("text", "event", "building"),
        0,
    ),
    Adjective(
        (("boring", "more boring"),), (A("langweilig", "langweiliger"),), ("text", "event"), 0
    ),
    Adjective((("delicious", ""),), (A("lecker", ""), A("köstlich", "")), _EATABLE, 0),
    Adjective(
        (("quiet", "quieter"),),
        (A("ruhig", "ruhiger"), A("still", "stiller")),
        ("person", "place"),
        0,
    ),
    Adjective(
        (("big", "bigger"), ("large", "larger")),
        (A("groß", "größer"),),
        _SIZED + ("transport",),
        1,
    ),
    Adjective(
        (("small", "smaller"),),
        (A("klein", "kleiner"),),
        _SIZED + ("person", "food"),
        1,
    ),
    Adjective((("long", "longer"),), (A("lang", "länger"),), ("text", "clothing", "event"), 1),
    Adjective((("short", "shorter"),), (A("kurz", "kürzer"),), ("text", "clothing", "event"), 1),
    Adjective((("strong", "stronger"),), (A("stark", "stärker"),), _LIVING, 1),
    Adjective((("heavy", "heavier"),), (A("schwer", "schwerer"),), ("lid", "opening", "device"), 1),
    Adjective(
        (("old", "older"),),
        (A("alt", "älter"),),
        ("person", "animal", "text", "opening", "place", "building") + _GOODS,
        2,
    ),
    Adjective((("young", "younger"),), (A("jung", "jünger"),), _LIVING, 2),
    Adjective(
        (("new", "newer"),), (A("neu", "neuer"),), ("text", "opening", "building") + _GOODS, 2
    ),
    Adjective(
        (("modern", "more modern"),),
        (A("modern", "moderner"),),
        ("vehicle", "transport", "device", "building"),
        2,
    ),
    Adjective((("dark", "darker"),), (A("dunkel", "dunkler", "dunkl"),), _PLACES, 2),
    Adjective((("tired", "more tired"),), (A("müde", "müder", "müd"),), _LIVING, 2),
    Adjective((("happy", "happier"),), (A("glücklich", "glücklicher"),), _LIVING, 2),
    Adjective((("sad", "sadder"),), (A("traurig", "trauriger"),), ("person", "animal", "text"), 2),
    Adjective((("ill", ""), ("sick", "")), (A("krank", ""),), _LIVING, 2),
    Adjective((("hungry", "hungrier"),), (A("hungrig", "hungriger"),), _LIVING, 2),
    Adjective(
        (("rich", "richer"),), (A("reich", "reicher"), A("wohlhabend", "wohlhabender")), _PERSON, 2
    ),
    Adjective((("poor", "poorer"),), (A("arm", "ärmer"),), _PERSON, 2),
    Adjective(
        (("angry", "angrier"),), (A("wütend", "wütender"), A("zornig", "zorniger")), _LIVING, 2
    ),
    Adjective(
        (("broken", ""),), (A("kaputt", ""), A("defekt", "")), ("vehicle", "device", "opening"), 2
    ),
    Adjective(
        (("dirty", "dirtier"),),
        (A("schmutzig", "schmutziger"), A("dreckig", "dreckiger")),
        ("vehicle", "clothing", "opening", "lid"),
        2,
    ),
    Adjective((("warm", "warmer"),), (A("warm", "wärmer"),), ("clothing", "cooked", "drink"), 2),
    Adjective((("hot", "hotter"),), (A("heiß", "heißer"),), ("cooked", "drink"), 2),
    Adjective((("cold", "colder"),), (A("kalt", "kälter"),), ("cooked", "drink"), 2),
    Adjective((("fresh", "fresher"),), (A("frisch", "frischer"),), ("food", "baked", "drink"), 2),
    Adjective((("sweet", "sweeter"),), (A("süß", "süßer"),), ("food", "baked"), 2),
    Adjective((("red", ""),), (A("rot"),), _COLOURED + ("food",), 3),
    Adjective((("blue", ""),), (A("blau"),), _COLOURED, 3),
    Adjective((("green", ""),), (A("grün"),), _COLOURED, 3),
    Adjective((("black", ""),), (A("schwarz"),), _COLOURED + ("animal",), 3),
    Adjective((("white", ""),), (A("weiß"),), _COLOURED + ("animal",), 3),
    Adjective((("yellow", ""),), (A("gelb"),), _COLOURED, 3),
    Adjective((("brown", ""),), (A("braun"),), _COLOURED + ("animal",), 3),
    Adjective((("grey", ""), ("gray", "")), (A("grau"),), _COLOURED + ("animal",), 3),
)

# A time adverbial fits a *time reference*: the tense of the clause, or "modal" for a
# modal verb in the present, which looks ahead as the future does.
MODAL_TIME = "modal"
_AHEAD = (FUTURE, MODAL_TIME)
_HABIT = (PRESENT,)
TIMES = (
    T(("yesterday",), ("gestern",), (PAST,)),
    T(("yesterday evening",), ("gestern Abend",), (PAST,)),
    T(("last week",), ("letzte Woche",), (PAST,)),
    T(("last month",), ("letzten Monat",), (PAST,)),
    T(("last year",), ("letztes Jahr",), (PAST,)),
    T(("two days ago",), ("vor zwei Tagen",), (PAST,)),
    T(("three weeks ago",), ("vor drei Wochen",), (PAST,)),
    T(("a year ago",), ("vor einem Jahr",), (PAST,)),
    T(("today",), ("heute",), (PRESENT, PAST, FUTURE, MODAL_TIME), future=True),
    T(("now",), ("jetzt", "nun"), (PRESENT, MODAL_TIME)),
    T(("tomorrow",), ("morgen",), _AHEAD, future=True),
    T(("tomorrow evening",), ("morgen Abend",), _AHEAD, future=True),
    T(("tonight",), ("heute Abend",), _AHEAD, future=True),
    T(("next week",), ("nächste Woche",), _AHEAD, future=True),
    T(("next month",), ("nächsten Monat",), _AHEAD, future=True),
    T(("next year",), ("nächstes Jahr",), _AHEAD, future=True),
    T(("in two weeks",), ("in zwei Wochen",), _AHEAD, future=True),
    T(("on Monday",), ("am Montag",), (PAST, FUTURE, MODAL_TIME), future=True),
    T(("on Wednesday",), ("am Mittwoch",), (PAST, FUTURE, MODAL_TIME), future=True),
    T(("on Friday",), ("am Freitag",), (PAST, FUTURE, MODAL_TIME), future=True),
    T(("on Saturday",), ("am Samstag", "am Sonnabend"), (PAST, FUTURE, MODAL_TIME), future=True),
    T(("on Sunday",), ("am Sonntag",), (PAST, FUTURE, MODAL_TIME), future=True),
    T(("every day",), ("jeden Tag",), _HABIT),
    T(("every morning",), ("jeden Morgen",), _HABIT),
    T(("every evening",), ("jeden Abend",), _HABIT),
    T(("every week",), ("jede Woche",), _HABIT),
    T(("in the evening",), ("am Abend",), (PRESENT, PAST)),
    T(("at night",), ("in der Nacht",), (PRESENT, PAST)),
    T(("in summer",), ("im Sommer",), (PRESENT, PAST, FUTURE)),
    T(("in winter",), ("im Winter",), (PRESENT, PAST, FUTURE)),
    T(("after work",), ("nach der Arbeit",), (PRESENT, PAST, FUTURE)),
    T(("before breakfast",), ("vor dem Frühstück",), (PRESENT, PAST)),
    T(("often",), ("oft", "häufig"), (PRESENT, PAST, PERFECT), "mid"),
    T(("always",), ("immer", "stets"), (PRESENT, PAST), "mid"),
    T(("sometimes",), ("manchmal", "gelegentlich"), (PRESENT, PAST), "mid"),
    T(("usually",), ("meistens", "normalerweise"), (PRESENT,), "mid"),
    T(("already",), ("schon", "bereits"), (PERFECT,), "mid", False),
    T(("never",), ("nie", "niemals"), (PRESENT, PAST, PERFECT), "mid", False),
    T(("perhaps",), ("vielleicht",), (PRESENT, PAST, PERFECT), "mid"),
    T(("soon",), ("bald",), (FUTURE,), "mid", future=True),
    T(("probably",), ("wahrscheinlich", "vermutlich"), (PRESENT, PAST, FUTURE), "mid"),
)

MANNERS = (
    Adverbial("quickly", ("quickly",), ("schnell", "rasch")),
    Adverbial("slowly", ("slowly",), ("langsam",)),
    Adverbial("carefully", ("carefully",), ("sorgfältig", "gründlich")),
    Adverbial("attentively", ("attentively",), ("aufmerksam",)),
    Adverbial("quietly", ("quietly",), ("leise",)),
    Adverbial("means", ("by train",), ("mit dem Zug", "mit der Bahn")),
    Adverbial("means", ("by car",), ("mit dem Auto", "mit dem Wagen")),
    Adverbial("means", ("by bus",), ("mit dem Bus",)),
)

_ALIKE = ((PRESENT, PRESENT), (PAST, PAST))
_REASON = _ALIKE + ((PRESENT, PERFECT), (PERFECT, PAST), (FUTURE, PRESENT), (FUTURE, FUTURE))
CONJUNCTIONS = (
    Conjunction(("because",), ("weil", "da"), _REASON),
    Conjunction(("although", "though"), ("obwohl", "obgleich"), _REASON),
    Conjunction(("if",), ("wenn", "falls"), ((PRESENT, PRESENT), (FUTURE, PRESENT))),
    Conjunction(("while",), ("während",), _ALIKE),
    Conjunction(("before",), ("bevor", "ehe"), _ALIKE),
)

DEFINITE = Determiner("definite", ("the", "the"), "", "definite", ("sg", "pl"), True)
INDEFINITE = Determiner("indefinite", ("a", ""), "ein", "ein", ("sg", "pl"), False)
THIS = Determiner("this", ("this", "these"), "dies", "dieser", ("sg", "pl"), True)
EVERY = Determiner("every", ("every", ""), "jed", "dieser", ("sg",), True)
POSSESSIVES = (
    Determiner("my", ("my", "my"), "mein", "ein", ("sg", "pl"), True),
    Determiner("his", ("his", "his"), "sein", "ein", ("sg", "pl"), True),
    Determiner("her", ("her", "her"), "ihr", "ein", ("sg", "pl"), True),
    Determiner("our", ("our", "our"), "unser", "ein", ("sg", "pl"), True),
    Determiner("their", ("their", "their"), "ihr", "ein", ("sg", "pl"), True),
)
QUANTIFIERS = (
    Determiner("many", ("", "many"), "viel", "strong", ("pl",), False),
    Determiner("some", ("", "some"), "einig", "strong", ("pl",), False),
    Determiner("two", ("", "two"), "zwei", "bare", ("pl",), False),
    Determiner("three", ("", "three"), "drei", "bare", ("pl",), False),
    Determiner("four", ("", "four"), "vier", "bare", ("pl",), False),
)

PRONOUNS = (
    Pronoun("I", "me", ("ich", "mich", "mir"), 1, "sg"),
    Pronoun("he", "him", ("er", "ihn", "ihm"), 3, "sg"),
    Pronoun("she", "her", ("sie", "sie", "ihr"), 3, "sg"),
    Pronoun("we", "us", ("wir", "uns", "uns"), 1, "pl"),
    Pronoun("they", "them", ("sie", "sie", "ihnen"), 3, "pl"),
)
