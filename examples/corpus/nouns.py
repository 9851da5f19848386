"""Nouns, proper names and places (data only)."""

from lexicon import GermanNoun as G
from lexicon import Noun, Place

_IN = Place("in", "in", "in", "acc")
_AT_IN = Place("at", "in", "in", "acc")
_AT_AN = Place("at", "an", "zu", "dat")
_AT_TO = Place("at", "in", "zu", "dat")
_BESIDE = Place("at", "an", "an", "acc")
_ON = Place("on", "auf", "auf", "acc")
_MARKET = Place("at", "auf", "auf", "acc")

PERSONS = (
    Noun(("teacher",), (G("Lehrer", "m", "Lehrers", "Lehrer"),), "person"),
    Noun(
        ("doctor", "physician"),
        (G("Arzt", "m", "Arztes", "Ärzte"), G("Doktor", "m", "Doktors", "Doktoren")),
        "person",
    ),
    Noun(("neighbour",), (G("Nachbar", "m", "Nachbarn", "Nachbarn", True),), "person"),
    Noun(("boy",), (G("Junge", "m", "Jungen", "Jungen", True),), "person"),
    Noun(("man",), (G("Mann", "m", "Mannes", "Männer"),), "person"),
    Noun(
        ("farmer",),
        (G("Bauer", "m", "Bauern", "Bauern", True), G("Landwirt", "m", "Landwirts", "Landwirte")),
        "person",
    ),
    Noun(("baker",), (G("Bäcker", "m", "Bäckers", "Bäcker"),), "person"),
    Noun(("cook",), (G("Koch", "m", "Kochs", "Köche"),), "person"),
    Noun(("student",), (G("Student", "m", "Studenten", "Studenten", True),), "person"),
    Noun(("pupil",), (G("Schüler", "m", "Schülers", "Schüler"),), "person"),
    Noun(("policeman",), (G("Polizist", "m", "Polizisten", "Polizisten", True),), "person"),
    Noun(("boss",), (G("Chef", "m", "Chefs", "Chefs"),), "person"),
    Noun(("colleague",), (G("Kollege", "m", "Kollegen", "Kollegen", True),), "person"),
    Noun(("artist",), (G("Künstler", "m", "Künstlers", "Künstler"),), "person"),
    Noun(
        ("writer", "author"),
        (
            G("Autor", "m", "Autors", "Autoren"),
            G("Schriftsteller", "m", "Schriftstellers", "Schriftsteller"),
        ),
        "person",
    ),
    Noun(("gardener",), (G("Gärtner", "m", "Gärtners", "Gärtner"),), "person"),
    Noun(("guest",), (G("Gast", "m", "Gastes", "Gäste"),), "person"),
    Noun(("tourist",), (G("Tourist", "m", "Touristen", "Touristen", True),), "person"),
    Noun(
        ("lawyer",),
        (
            G("Anwalt", "m", "Anwalts", "Anwälte"),
            G("Rechtsanwalt", "m", "Rechtsanwalts", "Rechtsanwälte"),
        ),
        "person",
    ),
    Noun(("king",), (G("König", "m", "Königs", "Könige"),), "person"),
    Noun(("child",), (G("Kind", "n", "Kindes", "Kinder"),), "person"),
    Noun(("girl",), (G("Mädchen", "n", "Mädchens", "Mädchen"),), "person"),
    Noun(("woman",), (G("Frau", "f", "Frau", "Frauen"),), "person"),
    Noun(
        ("nurse",), (G("Krankenschwester", "f", "Krankenschwester", "Krankenschwestern"),), "person"
    ),
    Noun(("waitress",), (G("Kellnerin", "f", "Kellnerin", "Kellnerinnen"),), "person"),
    Noun(
        ("actress",), (G("Schauspielerin", "f", "Schauspielerin", "Schauspielerinnen"),), "person"
    ),
    Noun(("queen",), (G("Königin", "f", "Königin", "Königinnen"),), "person"),
)

# Relatives are persons too, but may also be owned: "my brother", "the son of the king".
RELATIVES = (
    Noun(("father",), (G("Vater", "m", "Vaters", "Väter"),), "person"),
    Noun(("brother",), (G("Bruder", "m", "Bruders", "Brüder"),), "person"),
    Noun(("uncle",), (G("Onkel", "m", "Onkels", "Onkel"),), "person"),
    Noun(("grandfather",), (G("Großvater", "m", "Großvaters", "Großväter"),), "person"),
    Noun(("son",), (G("Sohn", "m", "Sohnes", "Söhne"),), "person"),
    Noun(("friend",), (G("Freund", "m", "Freundes", "Freunde"),), "person"),
    Noun(("mother",), (G("Mutter", "f", "Mutter", "Mütter"),), "person"),
    Noun(("sister",), (G("Schwester", "f", "Schwester", "Schwestern"),), "person"),
    Noun(("aunt",), (G("Tante", "f", "Tante", "Tanten"),), "person"),
    Noun(("grandmother",), (G("Großmutter", "f", "Großmutter", "Großmütter"),), "person"),
    Noun(("daughter",), (G("Tochter", "f", "Tochter", "Töchter"),), "person"),
)

ANIMALS = (
    Noun(("dog",), (G("Hund", "m", "Hundes", "Hunde"),), "animal"),
    Noun(("cat",), (G("Katze", "f", "Katze", "Katzen"),), "animal"),
    Noun(("horse",), (G("Pferd", "n", "Pferdes", "Pferde"),), "animal"),
    Noun(("bird",), (G("Vogel", "m", "Vogels", "Vögel"),), "animal"),
    Noun(("cow",), (G("Kuh", "f", "Kuh", "Kühe"),), "animal"),
    Noun(("mouse",), (G("Maus", "f", "Maus", "Mäuse"),), "animal"),
    Noun(("lion",), (G("Löwe", "m", "Löwen", "Löwen", True),), "animal"),
)

THINGS = (
    Noun(("book",), (G("Buch", "n", "Buches", "Bücher"),), "text"),
    Noun(("letter",), (G("Brief", "m", "Briefes", "Briefe"),), "text"),
    Noun(("newspaper",), (G("Zeitung", "f", "Zeitung", "Zeitungen"),), "text"),
    Noun(("novel",), (G("Roman", "m", "Romans", "Romane"),), "text"),
    Noun(
        ("story",),
        (
            G("Geschichte", "f", "Geschichte", "Geschichten"),
            G("Erzählung", "f", "Erzählung", "Erzählungen"),
        ),
        "text",
    ),
    Noun(("report",), (G("Bericht", "m", "Berichts", "Berichte"),), "text"),
    Noun(("poem",), (G("Gedicht", "n", "Gedichts", "Gedichte"),), "text"),
    Noun(
        ("message",),
        (
            G("Nachricht", "f", "Nachricht", "Nachrichten"),
            G("Mitteilung", "f", "Mitteilung", "Mitteilungen"),
        ),
        "text",
    ),
    Noun(("article",), (G("Artikel", "m", "Artikels", "Artikel"),), "text"),
    Noun(("apple",), (G("Apfel", "m", "Apfels", "Äpfel"),), "food"),
    Noun(("cake",), (G("Kuchen", "m", "Kuchens", "Kuchen"),), "baked"),
    Noun(
        ("roll",),
        (G("Brötchen", "n", "Brötchens", "Brötchen"), G("Semmel", "f", "Semmel", "Semmeln")),
        "baked",
    ),
    Noun(
        ("orange",),
        (G("Orange", "f", "Orange", "Orangen"), G("Apfelsine", "f", "Apfelsine", "Apfelsinen")),
        "food",
    ),
    Noun(("egg",), (G("Ei", "n", "Eis", "Eier"),), "cooked"),
    Noun(("potato",), (G("Kartoffel", "f", "Kartoffel", "Kartoffeln"),), "cooked"),
    Noun(
        ("carrot",),
        (G("Karotte", "f", "Karotte", "Karotten"), G("Möhre", "f", "Möhre", "Möhren")),
        "cooked",
    ),
    Noun(("soup",), (G("Suppe", "f", "Suppe", "Suppen"),), "cooked"),
    Noun(("pear",), (G("Birne", "f", "Birne", "Birnen"),), "food"),
    Noun(("tomato",), (G("Tomate", "f", "Tomate", "Tomaten"),), "food"),
    Noun(("coffee",), (G("Kaffee", "m", "Kaffees", ""),), "drink", None, True),
    Noun(("tea",), (G("Tee", "m", "Tees", ""),), "drink", None, True),
    Noun(("milk",), (G("Milch", "f", "Milch", ""),), "drink", None, True),
    Noun(("water",), (G("Wasser", "n", "Wassers", ""),), "drink", None, True),
    Noun(("juice",), (G("Saft", "m", "Saftes", ""),), "drink", None, True),
    Noun(
        ("car",), (G("Auto", "n", "Autos", "Autos"), G("Wagen", "m", "Wagens", "Wagen")), "vehicle"
    ),
    Noun(
        ("bicycle", "bike"),
        (G("Fahrrad", "n", "Fahrrads", "Fahrräder"), G("Rad", "n", "Rades", "Räder")),
        "vehicle",
    ),
    Noun(("motorcycle", "motorbike"), (G("Motorrad", "n", "Motorrads", "Motorräder"),), "vehicle"),
    Noun(("truck", "lorry"), (G("Lastwagen", "m", "Lastwagens", "Lastwagen"),), "vehicle"),
    Noun(("boat",), (G("Boot", "n", "Bootes", "Boote"),), "vehicle"),
    Noun(("bus",), (G("Bus", "m", "Busses", "Busse"),), "transport"),
    Noun(("train",), (G("Zug", "m", "Zuges", "Züge"),), "transport"),
    Noun(("ship",), (G("Schiff", "n", "Schiffes", "Schiffe"),), "transport"),
    Noun(
        ("computer",),
        (G("Computer", "m", "Computers", "Computer"), G("Rechner", "m", "Rechners", "Rechner")),
        "device",
    ),
    Noun(("camera",), (G("Kamera", "f", "Kamera", "Kameras"),), "device"),
    Noun(
        ("television",),
        (
            G("Fernseher", "m", "Fernsehers", "Fernseher"),
            G("Fernsehgerät", "n", "Fernsehgeräts", "Fernsehgeräte"),
        ),
        "device",
    ),
    Noun(("machine",), (G("Maschine", "f", "Maschine", "Maschinen"),), "device"),
    Noun(("radio",), (G("Radio", "n", "Radios", "Radios"),), "device"),
    Noun(("lamp",), (G("Lampe", "f", "Lampe", "Lampen"),), "device"),
    Noun(("guitar",), (G("Gitarre", "f", "Gitarre", "Gitarren"),), "goods"),
    Noun(
        ("violin",),
        (G("Geige", "f", "Geige", "Geigen"), G("Violine", "f", "Violine", "Violinen")),
        "goods",
    ),
    Noun(("table",), (G("Tisch", "m", "Tisches", "Tische"),), "goods"),
    Noun(("chair",), (G("Stuhl", "m", "Stuhls", "Stühle"),), "goods"),
    Noun(("sofa", "couch"), (G("Sofa", "n", "Sofas", "Sofas"),), "goods"),
    Noun(("bed",), (G("Bett", "n", "Bettes", "Betten"),), "goods"),
    Noun(("clock",), (G("Uhr", "f", "Uhr", "Uhren"),), "goods"),
    Noun(("key",), (G("Schlüssel", "m", "Schlüssels", "Schlüssel"),), "goods"),
    Noun(("ball",), (G("Ball", "m", "Balles", "Bälle"),), "goods"),
    Noun(("doll",), (G("Puppe", "f", "Puppe", "Puppen"),), "goods"),
    Noun(("present", "gift"), (G("Geschenk", "n", "Geschenks", "Geschenke"),), "goods"),
    Noun(("flower",), (G("Blume", "f", "Blume", "Blumen"),), "goods"),
    Noun(("ring",), (G("Ring", "m", "Ringes", "Ringe"),), "goods"),
    Noun(("photo", "photograph"), (G("Foto", "n", "Fotos", "Fotos"),), "picture"),
    Noun(
        ("picture", "painting"),
        (G("Bild", "n", "Bildes", "Bilder"), G("Gemälde", "n", "Gemäldes", "Gemälde")),
        "picture",
    ),
    Noun(
        ("umbrella",),
        (
            G("Regenschirm", "m", "Regenschirms", "Regenschirme"),
            G("Schirm", "m", "Schirms", "Schirme"),
        ),
        "goods",
    ),
    Noun(("suitcase",), (G("Koffer", "m", "Koffers", "Koffer"),), "lid"),
    Noun(("bag",), (G("Tasche", "f", "Tasche", "Taschen"),), "lid"),
    Noun(("window",), (G("Fenster", "n", "Fensters", "Fenster"),), "opening"),
    Noun(("door",), (G("Tür", "f", "Tür", "Türen"),), "opening"),
    Noun(("gate",), (G("Tor", "n", "Tores", "Tore"),), "opening"),
    Noun(("coat",), (G("Mantel", "m", "Mantels", "Mäntel"),), "clothing"),
    Noun(("shirt",), (G("Hemd", "n", "Hemdes", "Hemden"),), "clothing"),
    Noun(("dress",), (G("Kleid", "n", "Kleides", "Kleider"),), "clothing"),
    Noun(("hat",), (G("Hut", "m", "Hutes", "Hüte"),), "clothing"),
    Noun(("jacket",), (G("Jacke", "f", "Jacke", "Jacken"),), "clothing"),
    Noun(("skirt",), (G("Rock", "m", "Rockes", "Röcke"),), "clothing"),
    Noun(("sweater", "pullover"), (G("Pullover", "m", "Pullovers", "Pullover"),), "clothing"),
    Noun(("shoe",), (G("Schuh", "m", "Schuhs", "Schuhe"),), "clothing"),
)

EVENTS = (
    Noun(("concert",), (G("Konzert", "n", "Konzerts", "Konzerte"),), "event"),
    Noun(
        ("party",),
        (G("Party", "f", "Party", "Partys"), G("Feier", "f", "Feier", "Feiern")),
        "event",
    ),
    Noun(
        ("meeting",),
        (
            G("Besprechung", "f", "Besprechung", "Besprechungen"),
            G("Sitzung", "f", "Sitzung", "Sitzungen"),
        ),
        "event",
    ),
    Noun(("wedding",), (G("Hochzeit", "f", "Hochzeit", "Hochzeiten"),), "event"),
    Noun(("exhibition",), (G("Ausstellung", "f", "Ausstellung", "Ausstellungen"),), "event"),
    Noun(("course",), (G("Kurs", "m", "Kurses", "Kurse"),), "event"),
)

PLACES = (
    Noun(("garden",), (G("Garten", "m", "Gartens", "Gärten"),), "place", _IN),
    Noun(("city", "town"), (G("Stadt", "f", "Stadt", "Städte"),), "place", _IN),
    Noun(("village",), (G("Dorf", "n", "Dorfes", "Dörfer"),), "place", _IN),
    Noun(("park",), (G("Park", "m", "Parks", "Parks"),), "place", _IN),
    Noun(("kitchen",), (G("Küche", "f", "Küche", "Küchen"),), "place", _IN),
    Noun(("cellar", "basement"), (G("Keller", "m", "Kellers", "Keller"),), "place", _IN),
    Noun(("forest",), (G("Wald", "m", "Waldes", "Wälder"),), "place", _IN),
    Noun(
        ("room",),
        (G("Zimmer", "n", "Zimmers", "Zimmer"), G("Raum", "m", "Raumes", "Räume")),
        "place",
        _IN,
    ),
    Noun(("house",), (G("Haus", "n", "Hauses", "Häuser"),), "building", _IN),
    Noun(("church",), (G("Kirche", "f", "Kirche", "Kirchen"),), "building", _IN),
    Noun(("castle",), (G("Schloss", "n", "Schlosses", "Schlösser"),), "building", _IN),
    Noun(("museum",), (G("Museum", "n", "Museums", "Museen"),), "building", _AT_IN),
    Noun(("school",), (G("Schule", "f", "Schule", "Schulen"),), "building", _AT_TO),
    Noun(
        ("library",),
        (
            G("Bibliothek", "f", "Bibliothek", "Bibliotheken"),
            G("Bücherei", "f", "Bücherei", "Büchereien"),
        ),
        "building",
        _IN,
    ),
    Noun(
        ("hospital",), (G("Krankenhaus", "n", "Krankenhauses", "Krankenhäuser"),), "building", _IN
    ),
    Noun(("theatre",), (G("Theater", "n", "Theaters", "Theater"),), "building", _AT_IN),
    Noun(("cinema",), (G("Kino", "n", "Kinos", "Kinos"),), "building", _AT_IN),
    Noun(("restaurant",), (G("Restaurant", "n", "Restaurants", "Restaurants"),), "building", _IN),
    Noun(("hotel",), (G("Hotel", "n", "Hotels", "Hotels"),), "building", _IN),
    Noun(("office",), (G("Büro", "n", "Büros", "Büros"),), "place", _IN),
    Noun(("factory",), (G("Fabrik", "f", "Fabrik", "Fabriken"),), "building", _IN),
    Noun(("bakery",), (G("Bäckerei", "f", "Bäckerei", "Bäckereien"),), "place", _IN),
    Noun(("supermarket",), (G("Supermarkt", "m", "Supermarkts", "Supermärkte"),), "place", _IN),
    Noun(("station",), (G("Bahnhof", "m", "Bahnhofs", "Bahnhöfe"),), "place", _AT_AN),
    Noun(("airport",), (G("Flughafen", "m", "Flughafens", "Flughäfen"),), "place", _AT_AN),
    Noun(("lake",), (G("See", "m", "Sees", "Seen"),), "place", _BESIDE),
    Noun(("river",), (G("Fluss", "m", "Flusses", "Flüsse"),), "place", _BESIDE),
    Noun(
        ("beach",),
        (G("Strand", "m", "Strandes", "Strände"),),
        "place",
        Place("on", "an", "an", "acc"),
    ),
    Noun(("market",), (G("Markt", "m", "Marktes", "Märkte"),), "place", _MARKET),
    Noun(("island",), (G("Insel", "f", "Insel", "Inseln"),), "place", _ON),
    Noun(("balcony",), (G("Balkon", "m", "Balkons", "Balkone"),), "place", _ON),
)

NOUNS = PERSONS + RELATIVES + ANIMALS + THINGS + EVENTS + PLACES

# Kinds that may be owned ("the car of the teacher").
OWNABLE = ("animal", "text", "vehicle", "device", "goods", "picture", "lid", "clothing")

NAMES = ("Anna", "Peter", "Maria", "Thomas", "Julia", "Paul", "Sophie", "Max", "Laura", "Felix")

# (English, German) names of towns.
TOWNS = (
    ("Berlin", "Berlin"),
    ("Hamburg", "Hamburg"),
    ("Paris", "Paris"),
    ("London", "London"),
    ("Rome", "Rom"),
    ("Vienna", "Wien"),
    ("Munich", "München"),
    ("Cologne", "Köln"),
    ("Prague", "Prag"),
    ("Madrid", "Madrid"),
)

IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "policeman": "policemen",
    "child": "children",
    "mouse": "mice",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "photo": "photos",
    "radio": "radios",
}
