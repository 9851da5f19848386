#!/usr/bin/env python3
"""Contrastive pairs for the agreement of verb and subject, from the grammar of the corpus.

    python examples/corpus/agreement.py --out agreement.jsonl [--sentences 500] [--seed 1]

The right translation is the canonical one of `generate.py`; the wrong one differs in one
word, a finite verb in the other number, as in Lingeval97 (Sennrich, 2017). With the same
seed the sentences are the first ones of that corpus: its test split, as long as --sentences
is no more than its --test. Subjects are nouns; each clause that has one gives a pair.

Writes one JSON object a line: `source`, `right`, `wrong`, and `distance`, from the noun to
its verb in words and punctuation marks (1: side by side). `examples/study/agreement_by_distance.py`
asks models which of the two they prefer.
"""

import argparse
import json
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Union

from generate import Item, sample_items, tokenise
from german_syntax import Choices, realise
from sentence import Clause, NounPhrase, Sentence

# Stands in the place of a noun to see where that is.
_MARK = "Dingsda"


def pairs(item: Item) -> Iterator[Dict[str, Union[str, int]]]:
    """Yield a pair for each clause of a sentence whose subject is a noun."""
    for name in ("main", "second"):
        clause = getattr(item.sentence, name)
        if not isinstance(clause, Clause) or not isinstance(clause.subject, NounPhrase):
            continue
        wrong = _with(item.sentence, name, replace(clause, misagrees=True))
        verb = _changed(item.canonical, wrong)
        noun = _changed(
            item.canonical, _with(item.sentence, name, replace(clause, subject=_marked(clause)))
        )
        yield {
            "source": item.source,
            "right": item.canonical,
            "wrong": wrong,
            "distance": abs(verb - noun),
        }


def _with(sentence: Sentence, name: str, clause: Clause) -> str:
    return realise(replace(sentence, **{name: clause}), Choices())


def _marked(clause: Clause) -> NounPhrase:
    """The subject with a noun of the same gender in the place of its own."""
    phrase = clause.subject
    assert isinstance(phrase, NounPhrase)
    noun = phrase.noun.german[0]._replace(lemma=_MARK, genitive=_MARK, plural=_MARK)
    return replace(phrase, noun=phrase.noun._replace(german=(noun,)))


def _changed(canonical: str, other: str) -> int:
    """The place of the one word in which two sentences differ."""
    words, others = tokenise(canonical), tokenise(other)
    places = [place for place, pair in enumerate(zip(words, others)) if pair[0] != pair[1]]
    if len(words) != len(others) or len(places) != 1:
        raise AssertionError(f"{canonical!r} and {other!r} differ in more than one word")
    return places[0]


def write(out: Path, sentences: int = 500, seed: int = 1) -> List[Dict[str, Union[str, int]]]:
    """Write the pairs of the first `sentences` of the corpus and return them."""
    found = [pair for item in islice(sample_items(seed), sentences) for pair in pairs(item)]
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in found)
    out.write_text(lines, encoding="utf-8", newline="\n")
    return found


def main(arguments: Sequence[str]) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--sentences", type=int, default=500, help="sentences (default 500)")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus (default 1)")
    options = parser.parse_args(arguments)
    if options.sentences < 1:
        parser.error(f"--sentences is {options.sentences}, but must be at least 1")
    found = write(**vars(options))
    print(f"{len(found)} pairs, distances up to {max((p['distance'] for p in found), default=0)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
