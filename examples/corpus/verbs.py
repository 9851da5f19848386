"""Verbs and modal verbs (data only)."""

from lexicon import (
    ACCUSATIVE,
    CLAUSAL,
    DATIVE,
    DIRECTIONAL,
    DITRANSITIVE,
    IMPERSONAL,
    INTRANSITIVE,
    LOCATIVE,
    PREDICATIVE,
    PREPOSITIONAL,
    Modal,
    Verb,
)
from lexicon import EnglishVerb as E
from lexicon import GermanVerb as D

_LIVING = ("person", "animal")
_READABLE = ("text",)
_PORTABLE = ("text", "goods", "picture", "lid", "clothing", "device")
_MACHINES = ("vehicle", "device")
_EATABLE = ("food", "baked", "cooked")
_WARES = ("text", "food", "baked", "vehicle", "device", "goods", "picture", "lid", "clothing")
_VISIBLE = (
    "person",
    "animal",
    "vehicle",
    "transport",
    "goods",
    "picture",
    "building",
    "lid",
    "clothing",
)
_PERSON = ("person",)
_CARE = ("quickly", "slowly", "carefully")
_ATTENTION = ("quickly", "slowly", "attentively")
_MOVE = ("quickly", "slowly")

COPULA = Verb(
    (E("be", "was", "been"),), (D("sein", "ist", "war", "gewesen", "sein", "", "bin"),), PREDICATIVE
)

TRANSITIVE_VERBS = (
    Verb(
        (E("buy", "bought", "bought"),),
        (D("kaufen", "kauft", "kaufte", "gekauft"),),
        ACCUSATIVE,
        _PERSON,
        _WARES,
    ),
    Verb(
        (E("sell", "sold", "sold"),),
        (D("verkaufen", "verkauft", "verkaufte", "verkauft"),),
        ACCUSATIVE,
        _PERSON,
        _WARES,
    ),
    Verb(
        (E("see", "saw", "seen"),),
        (D("sehen", "sieht", "sah", "gesehen"),),
        ACCUSATIVE,
        _LIVING,
        _VISIBLE,
    ),
    Verb(
        (E("look", "looked", "looked", "at"),),
        (
            D("betrachten", "betrachtet", "betrachtete", "betrachtet"),
            D("sehen", "sieht", "sah", "angesehen", "haben", "an"),
        ),
        ACCUSATIVE,
        _PERSON,
        _VISIBLE,
        manners=("attentively",),
    ),
    Verb(
        (E("read", "read", "read"),),
        (D("lesen", "liest", "las", "gelesen"),),
        ACCUSATIVE,
        _PERSON,
        _READABLE,
        manners=_ATTENTION,
    ),
    Verb(
        (E("write", "wrote", "written"),),
        (D("schreiben", "schreibt", "schrieb", "geschrieben"),),
        ACCUSATIVE,
        _PERSON,
        _READABLE,
        manners=("quickly", "slowly"),
    ),
    Verb(
        (E("find", "found", "found"),),
        (D("finden", "findet", "fand", "gefunden"),),
        ACCUSATIVE,
        _LIVING,
        ("person", "animal", "text", "goods", "lid", "clothing"),
    ),
    Verb(
        (E("lose", "lost", "lost"),),
        (D("verlieren", "verliert", "verlor", "verloren"),),
        ACCUSATIVE,
        _PERSON,
        ("text", "goods", "picture", "lid", "clothing"),
    ),
    Verb(
        (E("look", "looked", "looked", "for"), E("search", "searched", "searched", "for")),
        (D("suchen", "sucht", "suchte", "gesucht"),),
        ACCUSATIVE,
        _LIVING,
        ("person", "animal", "text", "goods", "lid", "clothing"),
    ),
    Verb(
        (E("open", "opened", "opened"),),
        (
            D("öffnen", "öffnet", "öffnete", "geöffnet"),
            D("machen", "macht", "machte", "aufgemacht", "haben", "auf"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("opening", "lid"),
        manners=_CARE,
    ),
    Verb(
        (E("close", "closed", "closed"),),
        (
            D("schließen", "schließt", "schloss", "geschlossen"),
            D("machen", "macht", "machte", "zugemacht", "haben", "zu"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("opening", "lid"),
        manners=_CARE,
    ),
    Verb(
        (E("clean", "cleaned", "cleaned"),),
        (
            D("putzen", "putzt", "putzte", "geputzt"),
            D("reinigen", "reinigt", "reinigte", "gereinigt"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("opening", "vehicle", "lid"),
        manners=_CARE,
    ),
    Verb(
        (E("repair", "repaired", "repaired"), E("fix", "fixed", "fixed")),
        (D("reparieren", "repariert", "reparierte", "repariert"),),
        ACCUSATIVE,
        _PERSON,
        _MACHINES + ("opening",),
        manners=_CARE,
    ),
    Verb(
        (E("use", "used", "used"),),
        (
            D("benutzen", "benutzt", "benutzte", "benutzt"),
            D("verwenden", "verwendet", "verwendete", "verwendet"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("device",),
    ),
    Verb(
        (E("visit", "visited", "visited"),),
        (D("besuchen", "besucht", "besuchte", "besucht"),),
        ACCUSATIVE,
        _PERSON,
        ("person", "building"),
    ),
    Verb(
        (E("invite", "invited", "invited"),),
        (D("laden", "lädt", "lud", "eingeladen", "haben", "ein"),),
        ACCUSATIVE,
        _PERSON,
        _PERSON,
    ),
    Verb(
        (E("call", "called", "called"), E("phone", "phoned", "phoned")),
        (D("rufen", "ruft", "rief", "angerufen", "haben", "an"),),
        ACCUSATIVE,
        _PERSON,
        _PERSON,
    ),
    Verb(
        (E("meet", "met", "met"),),
        (D("treffen", "trifft", "traf", "getroffen"),),
        ACCUSATIVE,
        _PERSON,
        _PERSON,
    ),
    Verb(
        (E("know", "knew", "known"),),
        (D("kennen", "kennt", "kannte", "gekannt"),),
        ACCUSATIVE,
        _PERSON,
        ("person", "text", "building"),
    ),
    Verb(
        (E("love", "loved", "loved"),),
        (D("lieben", "liebt", "liebte", "geliebt"),),
        ACCUSATIVE,
        _PERSON,
        ("person", "animal", "text"),
    ),
    Verb(
        (E("hear", "heard", "heard"),),
        (D("hören", "hört", "hörte", "gehört"),),
        ACCUSATIVE,
        _LIVING,
        _LIVING,
    ),
    Verb(
        (E("eat", "ate", "eaten"),),
        (D("essen", "isst", "aß", "gegessen"),),
        ACCUSATIVE,
        _PERSON,
        _EATABLE,
        manners=_MOVE,
    ),
    Verb(
        (E("drink", "drank", "drunk"),),
        (D("trinken", "trinkt", "trank", "getrunken"),),
        ACCUSATIVE,
        _PERSON,
        ("drink",),
        manners=_MOVE,
    ),
    Verb(
        (E("cook", "cooked", "cooked"),),
        (D("kochen", "kocht", "kochte", "gekocht"),),
        ACCUSATIVE,
        _PERSON,
        ("cooked",),
    ),
    Verb(
        (E("bake", "baked", "baked"),),
        (D("backen", "backt", "backte", "gebacken"),),
        ACCUSATIVE,
        _PERSON,
        ("baked",),
    ),
    Verb(
        (E("wash", "washed", "washed"),),
        (D("waschen", "wäscht", "wusch", "gewaschen"),),
        ACCUSATIVE,
        _PERSON,
        ("vehicle", "clothing"),
        manners=_CARE,
    ),
    Verb(
        (E("wear", "wore", "worn"),),
        (D("tragen", "trägt", "trug", "getragen"),),
        ACCUSATIVE,
        _PERSON,
        ("clothing",),
    ),
    Verb(
        (E("put", "put", "put", "on"),),
        (D("ziehen", "zieht", "zog", "angezogen", "haben", "an"),),
        ACCUSATIVE,
        _PERSON,
        ("clothing",),
        manners=_MOVE,
    ),
    Verb(
        (E("take", "took", "taken", "off"),),
        (D("ziehen", "zieht", "zog", "ausgezogen", "haben", "aus"),),
        ACCUSATIVE,
        _PERSON,
        ("clothing",),
        manners=_MOVE,
    ),
    Verb(
        (E("turn", "turned", "turned", "on"), E("switch", "switched", "switched", "on")),
        (
            D("schalten", "schaltet", "schaltete", "eingeschaltet", "haben", "ein"),
            D("machen", "macht", "machte", "angemacht", "haben", "an"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("device",),
    ),
    Verb(
        (E("turn", "turned", "turned", "off"), E("switch", "switched", "switched", "off")),
        (
            D("schalten", "schaltet", "schaltete", "ausgeschaltet", "haben", "aus"),
            D("machen", "macht", "machte", "ausgemacht", "haben", "aus"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("device",),
    ),
    Verb(
        (E("receive", "received", "received"),),
        (
            D("bekommen", "bekommt", "bekam", "bekommen"),
            D("erhalten", "erhält", "erhielt", "erhalten"),
        ),
        ACCUSATIVE,
        _PERSON,
        ("text", "goods", "picture"),
    ),
    Verb(
        (E("paint", "painted", "painted"),),
        (D("malen", "malt", "malte", "gemalt"),),
        ACCUSATIVE,
        _PERSON,
        ("animal", "building", "goods"),
    ),
    Verb(
        (E("steal", "stole", "stolen"),),
        (D("stehlen", "stiehlt", "stahl", "gestohlen"),),
        ACCUSATIVE,
        _PERSON,
        ("vehicle", "picture", "lid", "goods"),
    ),
    Verb(
        (E("prepare", "prepared", "prepared"),),
        (D("bereiten", "bereitet", "bereitete", "vorbereitet", "haben", "vor"),),
        ACCUSATIVE,
        _PERSON,
        ("event",),
        manners=("carefully",),
    ),
    Verb(
        (E("plan", "planned", "planned"),),
        (D("planen", "plant", "plante", "geplant"),),
        ACCUSATIVE,
        _PERSON,
        ("event",),
    ),
    Verb(
        (E("miss", "missed", "missed"),),
        (D("verpassen", "verpasst", "verpasste", "verpasst"),),
        ACCUSATIVE,
        _PERSON,
        ("transport", "event"),
    ),
    Verb(
        (E("understand", "understood", "understood"),),
        (D("verstehen", "versteht", "verstand", "verstanden"),),
        ACCUSATIVE,
        _PERSON,
        ("text", "person"),
    ),
    Verb(
        (E("forget", "forgot", "forgotten"),),
        (D("vergessen", "vergisst", "vergaß", "vergessen"),),
        ACCUSATIVE,
        _PERSON,
        ("lid", "text", "goods"),
    ),
    Verb(
        (E("describe", "described", "described"),),
        (D("beschreiben", "beschreibt", "beschrieb", "beschrieben"),),
        ACCUSATIVE,
        _PERSON,
        ("picture", "building", "person"),
        manners=("carefully",),
    ),
    Verb(
        (E("praise", "praised", "praised"),),
        (D("loben", "lobt", "lobte", "gelobt"),),
        ACCUSATIVE,
        _PERSON,
        ("person", "text"),
    ),
    Verb(
        (E("wake", "woke", "woken"),),
        (D("wecken", "weckt", "weckte", "geweckt"),),
        ACCUSATIVE,
        _LIVING,
        _LIVING,
    ),
    Verb(
        (E("collect", "collected", "collected"),),
        (D("holen", "holt", "holte", "abgeholt", "haben", "ab"),),
        ACCUSATIVE,
        _PERSON,
        ("person", "goods", "lid"),
    ),
)

DATIVE_VERBS = (
    Verb(
        (E("help", "helped", "helped"),),
        (D("helfen", "hilft", "half", "geholfen"),),
        DATIVE,
        _PERSON,
        _LIVING,
    ),
    Verb(
        (E("thank", "thanked", "thanked"),),
        (D("danken", "dankt", "dankte", "gedankt"),),
        DATIVE,
        _PERSON,
        _PERSON,
    ),
    Verb(
        (E("follow", "followed", "followed"),),
        (D("folgen", "folgt", "folgte", "gefolgt", "sein"),),
        DATIVE,
        _LIVING,
        _LIVING,
        manners=_MOVE,
    ),
    Verb(
        (E("answer", "answered", "answered"),),
        (D("antworten", "antwortet", "antwortete", "geantwortet"),),
        DATIVE,
        _PERSON,
        _PERSON,
        manners=("quickly", "quietly"),
    ),
    Verb(
        (E("trust", "trusted", "trusted"),),
        (D("vertrauen", "vertraut", "vertraute", "vertraut"),),
        DATIVE,
        _LIVING,
        _PERSON,
    ),
    Verb(
        (E("congratulate", "congratulated", "congratulated"),),
        (D("gratulieren", "gratuliert", "gratulierte", "gratuliert"),),
        DATIVE,
        _PERSON,
        _PERSON,
    ),
    Verb(
        (E("listen", "listened", "listened", "to"),),
        (D("hören", "hört", "hörte", "zugehört", "haben", "zu"),),
        DATIVE,
        _PERSON,
        _PERSON,
        manners=("attentively",),
    ),
)

DITRANSITIVE_VERBS = (
    Verb(
        (E("give", "gave", "given"),),
        (D("geben", "gibt", "gab", "gegeben"),),
        DITRANSITIVE,
        _PERSON,
        _PORTABLE + ("baked", "food"),
        double_object=True,
    ),
    Verb(
        (E("show", "showed", "shown"),),
        (D("zeigen", "zeigt", "zeigte", "gezeigt"),),
        DITRANSITIVE,
        _PERSON,
        _PORTABLE + ("building", "vehicle"),
        double_object=True,
    ),
    Verb(
        (E("send", "sent", "sent"),),
        (
            D("schicken", "schickt", "schickte", "geschickt"),
            D("senden", "sendet", "sendete", "gesendet"),
        ),
        DITRANSITIVE,
        _PERSON,
        ("text", "picture"),
        double_object=True,
    ),
    Verb(
        (E("lend", "lent", "lent"),),
        (D("leihen", "leiht", "lieh", "geliehen"),),
        DITRANSITIVE,
        _PERSON,
        ("vehicle", "device", "lid", "goods"),
        double_object=True,
    ),
    Verb(
        (E("bring", "brought", "brought"),),
        (D("bringen", "bringt", "brachte", "gebracht"),),
        DITRANSITIVE,
        _PERSON,
        _PORTABLE + ("baked", "food"),
        double_object=True,
    ),
    Verb(
        (E("explain", "explained", "explained"),),
        (D("erklären", "erklärt", "erklärte", "erklärt"),),
        DITRANSITIVE,
        _PERSON,
        ("text", "device", "picture"),
    ),
    Verb(
        (E("recommend", "recommended", "recommended"),),
        (D("empfehlen", "empfiehlt", "empfahl", "empfohlen"),),
        DITRANSITIVE,
        _PERSON,
        ("text", "building"),
    ),
    Verb(
        (E("return", "returned", "returned"),),
        (D("geben", "gibt", "gab", "zurückgegeben", "haben", "zurück"),),
        DITRANSITIVE,
        _PERSON,
        _PORTABLE,
    ),
)

PREPOSITIONAL_VERBS = (
    Verb(
        (E("wait", "waited", "waited", "for"),),
        (D("warten", "wartet", "wartete", "gewartet"),),
        PREPOSITIONAL,
        _LIVING,
        ("person", "transport"),
        ("auf", "acc"),
    ),
    Verb(
        (E("think", "thought", "thought", "of"),),
        (D("denken", "denkt", "dachte", "gedacht"),),
        PREPOSITIONAL,
        _PERSON,
        ("person", "event"),
        ("an", "acc"),
    ),
    Verb(
        (E("talk", "talked", "talked", "about"),),
        (
            D("sprechen", "spricht", "sprach", "gesprochen"),
            D("reden", "redet", "redete", "geredet"),
        ),
        PREPOSITIONAL,
        _PERSON,
        ("person", "text", "event"),
        ("über", "acc"),
    ),
    Verb(
        (E("speak", "spoke", "spoken", "with"),),
        (
            D("sprechen", "spricht", "sprach", "gesprochen"),
            D("reden", "redet", "redete", "geredet"),
        ),
        PREPOSITIONAL,
        _PERSON,
        _PERSON,
        ("mit", "dat"),
    ),
    Verb(
        (E("ask", "asked", "asked", "about"),),
        (D("fragen", "fragt", "fragte", "gefragt"),),
        PREPOSITIONAL,
        _PERSON,
        ("person", "text", "lid"),
        ("nach", "dat"),
    ),
    Verb(
        (E("dream", "dreamed", "dreamed", "of"),),
        (D("träumen", "träumt", "träumte", "geträumt"),),
        PREPOSITIONAL,
        _LIVING,
        ("vehicle", "building", "person"),
        ("von", "dat"),
    ),
    Verb(
        (E("work", "worked", "worked", "on"),),
        (D("arbeiten", "arbeitet", "arbeitete", "gearbeitet"),),
        PREPOSITIONAL,
        _PERSON,
        ("text", "device"),
        ("an", "dat"),
    ),
)

DIRECTIONAL_VERBS = (
    Verb(
        (E("go", "went", "gone"),), (D("gehen", "geht", "ging", "gegangen", "sein"),), DIRECTIONAL
    ),
    Verb(
        (E("drive", "drove", "driven"),),
        (D("fahren", "fährt", "fuhr", "gefahren", "sein"),),
        DIRECTIONAL,
        manners=("quickly", "slowly"),
    ),
    Verb(
        (E("run", "ran", "run"),),
        (
            D("rennen", "rennt", "rannte", "gerannt", "sein"),
            D("laufen", "läuft", "lief", "gelaufen", "sein"),
        ),
        DIRECTIONAL,
        _LIVING,
    ),
    Verb(
        (E("travel", "travelled", "travelled"),),
        (
            D("reisen", "reist", "reiste", "gereist", "sein"),
            D("fahren", "fährt", "fuhr", "gefahren", "sein"),
        ),
        DIRECTIONAL,
        manners=("means",),
    ),
    Verb(
        (E("come", "came", "come"),),
        (D("kommen", "kommt", "kam", "gekommen", "sein"),),
        DIRECTIONAL,
        manners=("means",),
    ),
    Verb(
        (E("return", "returned", "returned"),),
        (
            D("kehren", "kehrt", "kehrte", "zurückgekehrt", "sein", "zurück"),
            D("kommen", "kommt", "kam", "zurückgekommen", "sein", "zurück"),
        ),
        DIRECTIONAL,
        manners=("means",),
    ),
)

LOCATIVE_VERBS = (
    Verb(
        (E("live", "lived", "lived"),),
        (D("wohnen", "wohnt", "wohnte", "gewohnt"), D("leben", "lebt", "lebte", "gelebt")),
        LOCATIVE,
    ),
    Verb(
        (E("stay", "stayed", "stayed"),),
        (D("bleiben", "bleibt", "blieb", "geblieben", "sein"),),
        LOCATIVE,
        _LIVING,
    ),
    Verb(
        (E("arrive", "arrived", "arrived"),),
        (D("kommen", "kommt", "kam", "angekommen", "sein", "an"),),
        LOCATIVE,
    ),
    Verb(
        (E("take", "took", "taken", "place"),),
        (D("finden", "findet", "fand", "stattgefunden", "haben", "statt"),),
        LOCATIVE,
        ("event",),
    ),
)

INTRANSITIVE_VERBS = (
    Verb(
        (E("sleep", "slept", "slept"),),
        (D("schlafen", "schläft", "schlief", "geschlafen"),),
        INTRANSITIVE,
        _LIVING,
    ),
    Verb(
        (E("work", "worked", "worked"),),
        (D("arbeiten", "arbeitet", "arbeitete", "gearbeitet"),),
        INTRANSITIVE,
        manners=_CARE,
    ),
    Verb(
        (E("laugh", "laughed", "laughed"),),
        (D("lachen", "lacht", "lachte", "gelacht"),),
        INTRANSITIVE,
        manners=("quietly",),
    ),
    Verb(
        (E("sing", "sang", "sung"),),
        (D("singen", "singt", "sang", "gesungen"),),
        INTRANSITIVE,
        ("person", "animal"),
        manners=("quietly",),
    ),
    Verb(
        (E("dance", "danced", "danced"),),
        (D("tanzen", "tanzt", "tanzte", "getanzt"),),
        INTRANSITIVE,
        manners=_MOVE,
    ),
    Verb(
        (E("cry", "cried", "cried"),),
        (D("weinen", "weint", "weinte", "geweint"),),
        INTRANSITIVE,
        manners=("quietly",),
    ),
    Verb(
        (E("play", "played", "played"),),
        (D("spielen", "spielt", "spielte", "gespielt"),),
        INTRANSITIVE,
        _LIVING,
        manners=("quietly",),
    ),
    Verb(
        (E("study", "studied", "studied"),),
        (D("lernen", "lernt", "lernte", "gelernt"),),
        INTRANSITIVE,
        manners=("attentively",),
    ),
    Verb(
        (E("shop", "shopped", "shopped"),),
        (D("kaufen", "kauft", "kaufte", "eingekauft", "haben", "ein"),),
        INTRANSITIVE,
    ),
    Verb(
        (E("get", "got", "got", "up"),),
        (D("stehen", "steht", "stand", "aufgestanden", "sein", "auf"),),
        INTRANSITIVE,
        _LIVING,
        manners=_MOVE,
    ),
    Verb(
        (E("fall", "fell", "fallen", "asleep"),),
        (D("schlafen", "schläft", "schlief", "eingeschlafen", "sein", "ein"),),
        INTRANSITIVE,
        _LIVING,
    ),
    Verb(
        (E("begin", "began", "begun"), E("start", "started", "started")),
        (
            D("beginnen", "beginnt", "begann", "begonnen"),
            D("fangen", "fängt", "fing", "angefangen", "haben", "an"),
        ),
        INTRANSITIVE,
        ("event",),
    ),
    Verb(
        (E("end", "ended", "ended"),),
        (D("enden", "endet", "endete", "geendet"),),
        INTRANSITIVE,
        ("event",),
    ),
    Verb(
        (E("depart", "departed", "departed"), E("leave", "left", "left")),
        (D("fahren", "fährt", "fuhr", "abgefahren", "sein", "ab"),),
        INTRANSITIVE,
        ("transport",),
    ),
    Verb(
        (E("stop", "stopped", "stopped"),),
        (D("halten", "hält", "hielt", "angehalten", "haben", "an"),),
        INTRANSITIVE,
        ("transport", "vehicle"),
        manners=("slowly",),
    ),
)

IMPERSONAL_VERBS = (
    Verb(
        (E("rain", "rained", "rained"),),
        (D("regnen", "regnet", "regnete", "geregnet"),),
        IMPERSONAL,
        (),
    ),
    Verb(
        (E("snow", "snowed", "snowed"),),
        (D("schneien", "schneit", "schneite", "geschneit"),),
        IMPERSONAL,
        (),
    ),
)

SIMPLE_VERBS = (
    TRANSITIVE_VERBS
    + DATIVE_VERBS
    + DITRANSITIVE_VERBS
    + PREPOSITIONAL_VERBS
    + DIRECTIONAL_VERBS
    + LOCATIVE_VERBS
    + INTRANSITIVE_VERBS
)

# Verbs with a complement clause: "that" (dass) or "whether" (ob).
THAT_VERBS = (
    Verb((E("say", "said", "said"),), (D("sagen", "sagt", "sagte", "gesagt"),), CLAUSAL),
    Verb(
        (E("believe", "believed", "believed"), E("think", "thought", "thought")),
        (D("glauben", "glaubt", "glaubte", "geglaubt"), D("denken", "denkt", "dachte", "gedacht")),
        CLAUSAL,
    ),
    Verb(
        (E("know", "knew", "known"),),
        (D("wissen", "weiß", "wusste", "gewusst", "haben", "", "weiß"),),
        CLAUSAL,
    ),
    Verb((E("hope", "hoped", "hoped"),), (D("hoffen", "hofft", "hoffte", "gehofft"),), CLAUSAL),
    Verb(
        (E("claim", "claimed", "claimed"),),
        (D("behaupten", "behauptet", "behauptete", "behauptet"),),
        CLAUSAL,
    ),
    Verb(
        (E("notice", "noticed", "noticed"),),
        (
            D("bemerken", "bemerkt", "bemerkte", "bemerkt"),
            D("merken", "merkt", "merkte", "gemerkt"),
        ),
        CLAUSAL,
    ),
)
WHETHER_VERBS = (
    Verb((E("ask", "asked", "asked"),), (D("fragen", "fragt", "fragte", "gefragt"),), CLAUSAL),
    Verb(
        (E("check", "checked", "checked"),),
        (
            D("prüfen", "prüft", "prüfte", "geprüft"),
            D("kontrollieren", "kontrolliert", "kontrollierte", "kontrolliert"),
        ),
        CLAUSAL,
    ),
)

# English modals: the sampler picks one spelling; "has to" and "wants to" inflect.
MODALS = (
    Modal(("can",), "", "können", ("kann", "können"), ("konnte", "konnten"), True),
    Modal(
        ("must", "have to"), "had to", "müssen", ("muss", "müssen"), ("musste", "mussten"), False
    ),
    Modal(("should",), "", "sollen", ("sollte", "sollten"), ("sollte", "sollten"), True),
    Modal(("want to",), "wanted to", "wollen", ("will", "wollen"), ("wollte", "wollten"), True),
)
