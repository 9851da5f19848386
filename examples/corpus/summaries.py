#!/usr/bin/env python3
"""Writes a small corpus of news reports and their summaries.

    python examples/corpus/summaries.py --out DIR [--train 8000] [--valid 300] [--test 300]
        [--seed 1]

Files: `{train,valid,test}.{article,summary}`, one text a line. The facts of a report are scattered
among sentences that do not matter. A summary copies names, places and numbers, adds numbers up and
puts the rest in other words. It follows from the report, so that a small model learns it in
minutes. Equal seeds give equal files everywhere; no report occurs twice.
"""

import random
from itertools import islice
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

from generate import options, statistics, write

CITIES = "Arnheim Bergen Calais Dover Essen Florence Ghent Haarlem Jena Krakow Lyon".split()
NAMES = "Adams Baker Carter Dawson Ellis Foster Grant Harris Irving Jensen Keller".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
NUMBERS = "no one two three four five six seven eight nine ten eleven twelve thirteen".split()
# Goods as reports and as summaries have them.
GOODS = {"steel": "metal", "copper": "metal", "bread": "food", "ships": "vehicle"}
# The facts of an event in their order, and the summary.
EVENTS = (
    "On {day} a bus ran into a tram in {place}."
    "|Among the injured were {men} men and {women} women."
    "|{hurt} people hurt as two vehicles collide in {place}.",
    "{first} met {second} in the stadium of {place} on {day}."
    "|When the game was over, {first} had scored {yes} and {second} {no}."
    "|{person} was the best player of the evening."
    "|{winner} beat {loser} {most} to {least}; {person} shines.",
    "{person} of {place}, who makes {goods}, published the figures on {day}."
    "|The firm earned {yes} million, after {no} million in the year before."
    "|Profit of {sort} maker {person} {rises} to {yes} million.",
    "The council of {place} met on {day} to decide about a new bridge."
    "|{yes} members were in favour and {no} were against it."
    "|{place} {approves} bridge by a majority of {majority}.",
)
FILLERS = (
    "A spokesman for the city said that more would be known by {day}.",
    "In {year} something similar had happened in {place}.",
    "{person}, who lives nearby, had heard nothing.",
    "People in {place} followed the news with interest.",
    "Local radio interrupted its programme.",
)
Pick = Callable[[Sequence[Any]], Any]


def report(pick: Pick) -> Tuple[str, str]:
    """An article and its summary, of what `pick` picks."""

    def two(choices: Sequence[Any]) -> Sequence[Any]:
        first = pick(choices)
        return first, pick([choice for choice in choices if choice != first])

    def filled(text: str, **facts: Any) -> str:
        common = {"day": DAYS, "place": CITIES, "person": NAMES, "year": range(1990, 2020)}
        return text.format(**{name: pick(options) for name, options in common.items()}, **facts)

    (yes, no), sides, (men, women) = two(range(1, 10)), two(CITIES), two(range(2, 8))
    winner, loser = sides if yes > no else sides[::-1]
    goods = pick([*GOODS])
    *facts, summary = filled(
        pick(EVENTS), yes=yes, no=no, most=max(yes, no), least=min(yes, no), majority=abs(yes - no),
        first=sides[0], second=sides[1], winner=winner, loser=loser, goods=goods, sort=GOODS[goods],
        men=NUMBERS[men], women=NUMBERS[women], hurt=NUMBERS[men + women].capitalize(),
        rises="rises" if yes > no else "falls", approves="approves" if yes > no else "rejects",
    ).split("|")  # fmt: skip
    for _ in range(pick(range(6, 10)) - len(facts)):
        # The facts keep their order; what does not matter may stand anywhere.
        facts.insert(pick(range(len(facts) + 1)), filled(pick(FILLERS)))
    return " ".join(facts), summary


def reports(seed: int) -> Iterator[Tuple[str, str]]:
    """Articles and summaries without end; no article comes twice."""
    # random() alone gives the same numbers with every version of Python.
    draw, seen = random.Random(seed).random, set()
    while True:
        article, summary = report(lambda options: options[int(draw() * len(options))])
        if article not in seen:
            yield article, summary
        seen.add(article)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The command."""
    given = options(__doc__, arguments, train=8000, valid=300, test=300, seed=1)
    stream = reports(given["seed"])
    # Held-out texts first: they are the same whatever the size of the training set.
    for split in ("test", "valid", "train"):
        drawn = list(islice(stream, given[split]))
        for place, kind in enumerate(("article", "summary")):
            lines = [texts[place] for texts in drawn]
            write(given["out"] / f"{split}.{kind}", lines)
            print(f"{split}.{kind}: {len(lines)} texts, {statistics(lines)}")


if __name__ == "__main__":
    main()
