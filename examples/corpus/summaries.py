"""Writes a small corpus of news reports and their summaries, made from a few kinds of events.

    python examples/corpus/summaries.py --out DIR [--train 8000] [--valid 300] [--test 300] [--seed
    1]

Files: ``{train,valid,test}.{article,summary}``, one text a line. A report has six to nine
    sentences, the facts scattered among
sentences that do not matter. A summary copies names, places and numbers, adds numbers up, and says
the rest in other words. It is a function of the report, so that a small model can learn it in
minutes. Nothing is downloaded; the same seed gives the same bytes on every machine. No report
occurs twice.
"""

import argparse
import random
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

CITIES = (
    "Arnheim Bergen Calais Dover Essen Florence Ghent Haarlem Innsbruck Jena Krakow Lyon Malmo"
    " Nantes Odense Porto Riga Seville Turin Utrecht Verona Warsaw Zagreb Basel Cork"
).split()
NAMES = (
    "Adams Baker Carter Dawson Ellis Foster Grant Harris Irving Jensen Keller Lambert Morris Norton"
    " Olsen Parker Quinn Rogers Sutton Turner Vogel Walsh Young Ziegler Bennett"
).split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
# How a report gives the goals of a side.
GOALS = "none one two three four five".split()
NUMBERS = (
    "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen"
).split()
COMPANIES = (
    "Altona Borealis Cobalt Delmar Everest Fjord Granite Horizon Juniper Meridian Northwind Orion"
    " Pinewood Summit".split()
)
GOODS = {"steel": "metal", "bread": "food", "cheese": "food", "furniture": "household goods",
         "trains": "vehicles",
         "ships": "vehicles", "coats": "clothes", "shoes": "clothes", "copper": "metal",
         "lamps": "household goods"}  # fmt: skip
VEHICLES = {
    "bus": "vehicles",
    "lorry": "vehicles",
    "tram": "vehicles",
    "ferry": "boats",
    "barge": "boats",
    "tug": "boats",
}
BUILDINGS = {"school": "public building", "library": "public building", "museum": "public building",
             "warehouse": "depot", "depot": "depot", "bakery": "shop",
             "bookshop": "shop"}  # fmt: skip

FILLERS = (
    "The weather was {weather} for the season.",
    "A spokesman for the city said that more would be known by {day}.",
    "In {year} something similar had happened in {other}.",
    "{person}, who lives nearby, had heard nothing.",
    "People in {other} followed the news with interest.",
    "The mayor of {other} offered help.",
    "Local radio interrupted its programme.",
    "Experts from {other} will write a report.",
    "{person} thanked everybody who had helped.",
)
WEATHER = "mild cold warm wet dry windy".split()


class Event(NamedTuple):
    """Facts that a report tells in this order, and their summary."""

    facts: List[str]
    summary: str


class Dice:
    """Random choices that depend on the seed alone, not on the version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, options: Sequence[str]) -> str:
        """One of the options."""
        return options[self.number(0, len(options) - 1)]

    def two(self, options: Sequence[str]) -> Tuple[str, str]:
        """Two different ones."""
        first = self.number(0, len(options) - 1)
        second = (first + self.number(1, len(options) - 1)) % len(options)
        return options[first], options[second]


def people(count: int, noun: str) -> str:
    """``one man``, ``three men``."""
    plural = {"man": "men", "woman": "women", "child": "children"}[noun]
    return f"{NUMBERS[count]} {noun if count == 1 else plural}"


def accident(dice: Dice, place: str, day: str) -> Event:
    """Casualties are added up, two vehicles become one noun."""
    first, second = dice.two(list(VEHICLES))
    men, women = dice.number(1, 8), dice.number(1, 8)
    total = men + women
    kind = VEHICLES[first] if VEHICLES[first] == VEHICLES[second] else "vehicles"
    facts = [
        f"On {day} a {first} ran into a {second} in {place}.",
        f"Among the injured were {people(men, 'man')} and {people(women, 'woman')}.",
    ]
    return Event(
        facts, f"{NUMBERS[total].capitalize()} people hurt as two {kind} collide in {place}."
    )


def match(dice: Dice, place: str, day: str) -> Event:
    """The winner comes first in the summary, whoever is named first in the report."""
    rivals = [city for city in CITIES if city != place]
    first, second = dice.two(rivals)
    goals = (dice.number(0, 5), dice.number(0, 5))
    scorer = dice.pick(NAMES)
    facts = [
        f"{first} met {second} in the stadium of {place} on {day}.",
        (
            f"When the game was over, {first} had scored {GOALS[goals[0]]} and {second}"
            f" {GOALS[goals[1]]}."
        ),
        f"{scorer} was the best player of the evening.",
    ]
    if goals[0] == goals[1]:
        return Event(facts, f"{first} and {second} draw {goals[0]} to {goals[1]}; {scorer} shines.")
    winner, loser = (first, second) if goals[0] > goals[1] else (second, first)
    return Event(facts, f"{winner} beat {loser} {max(goals)} to {min(goals)}; {scorer} shines.")


def business(dice: Dice, place: str, day: str) -> Event:
    """A comparison of two numbers becomes a verb, the goods their general name."""
    company, goods = dice.pick(COMPANIES), dice.pick(list(GOODS))
    before, now = dice.number(12, 60), dice.number(12, 60)
    director = dice.pick(NAMES)
    facts = [
        f"{company}, which makes {goods} in {place}, published its figures on {day}.",
        f"It earned {now} million, after {before} million in the year before.",
        f"{director}, the director, explained the numbers to the shareholders.",
    ]
    verb = "rises" if now > before else "falls" if now < before else "stays at"
    amount = f"{now} million" if verb == "stays at" else f"to {now} million"
    return Event(facts, f"Profit of {GOODS[goods]} maker {company} {verb} {amount}.")


def fire(dice: Dice, place: str, day: str) -> Event:
    """Who was saved and by whom; the building by its general name."""
    building, children = dice.pick(list(BUILDINGS)), dice.number(1, 9)
    hero = dice.pick(NAMES)
    facts = [
        f"Flames broke out in a {building} in {place} in the night to {day}.",
        f"{hero} carried {people(children, 'child')} into the street.",
        f"The damage is put at {dice.number(2, 90)} thousand.",
    ]
    return Event(
        facts,
        f"{hero} rescues {people(children, 'child')} from burning {BUILDINGS[building]} in"
        f" {place}.",
    )


def vote(dice: Dice, place: str, day: str) -> Event:
    """The larger number decides, the summary gives the majority."""
    subject = dice.pick(["bridge", "tunnel", "airport", "harbour", "theatre", "swimming pool"])
    yes, no = dice.number(10, 40), dice.number(10, 40)
    if yes == no:
        yes += 1
    facts = [
        f"The council of {place} met on {day} to decide about a new {subject}.",
        f"{yes} members were in favour and {no} were against it.",
    ]
    verdict = "approves" if yes > no else "rejects"
    return Event(facts, f"{place} {verdict} {subject} by a majority of {abs(yes - no)}.")


EVENTS: Tuple[Callable[[Dice, str, str], Event], ...] = (accident, match, business, fire, vote)


def report(dice: Dice) -> Tuple[str, str]:
    """(article, summary)."""
    place, day = dice.pick(CITIES), dice.pick(DAYS)
    event = EVENTS[dice.number(0, len(EVENTS) - 1)](dice, place, day)
    sentences = list(event.facts)
    for _ in range(dice.number(6, 9) - len(sentences)):
        filler = dice.pick(FILLERS).format(
            weather=dice.pick(WEATHER), day=dice.pick(DAYS), year=dice.number(1990, 2019),
            other=dice.pick(CITIES), person=dice.pick(NAMES),
        )  # fmt: skip
        # The facts keep their order; what does not matter may stand anywhere.
        sentences.insert(dice.number(0, len(sentences)), filler)
    return " ".join(sentences), event.summary


def write(folder: Path, sizes: Dict[str, int], seed: int) -> Dict[str, List[Tuple[str, str]]]:
    """Writes the splits, and returns them.

    Raises:
        ValueError: a size is negative.
    """
    if min(sizes.values()) < 0:
        raise ValueError(f"sizes {sizes} must not be negative")
    folder.mkdir(parents=True, exist_ok=True)
    dice, seen, splits = Dice(seed), set(), {}
    # Held-out texts first: they are the same whatever the size of the training set.
    for split in ("test", "valid", "train"):
        pairs: List[Tuple[str, str]] = []
        while len(pairs) < sizes[split]:
            article, summary = report(dice)
            if article not in seen:
                seen.add(article)
                pairs.append((article, summary))
        for place, kind in enumerate(("article", "summary")):
            text = "".join(pair[place] + "\n" for pair in pairs)
            (folder / f"{split}.{kind}").write_text(text, encoding="utf-8", newline="\n")
        splits[split] = pairs
    return splits


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    for split, size in (("train", 8000), ("valid", 300), ("test", 300)):
        parser.add_argument(
            f"--{split}", type=int, default=size, metavar="N", help=f"texts (default: {size})"
        )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        splits = write(
            options.out,
            {split: getattr(options, split) for split in ("train", "valid", "test")},
            options.seed,
        )
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    pairs = [pair for split in splits.values() for pair in split]
    for place, kind in enumerate(("articles", "summaries")):
        lengths = [len(pair[place].split()) for pair in pairs] or [0]
        print(
            f"{len(pairs)} {kind}, tokens min/mean/max"
            f" {min(lengths)}/{sum(lengths) / len(lengths):.1f}/{max(lengths)}"
        )


if __name__ == "__main__":
    main()
