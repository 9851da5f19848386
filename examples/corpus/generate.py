#!/usr/bin/env python3
"""Generates an English-German corpus from a small grammar.

    python examples/corpus/generate.py --out DIR [--train 20000] [--valid 500] [--test 500]
        [--modes 1] [--seed 1]

Writes `{train,valid,test}.{en,de}`, one sentence a line; `test.valid.jsonl`, all valid translations
of each test sentence, the canonical one first; `test.agreement.jsonl`, canonical translations of
the test set beside wrong ones, in which a verb does not agree with its noun. The targets of train
are drawn from the first `--modes` valid translations, those of valid and test are canonical.
"""

import argparse
import json
import math
import random
import re
from itertools import count, islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set

from grammar import Derivation, Finite, written

MIN_TOKENS, MAX_TOKENS = 3, 30
# Sentences with more combinations of choices are left out, as their lists would be long.
MAX_COMBINATIONS = 200


def tokens_of(text: str) -> List[str]:
    """Words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text)


def sentences(seed: int) -> Iterator[Derivation]:
    """Sentences without end, no two of them alike in English or in canonical German."""
    seen: Set[str] = set()
    for number in count(seed << 32):
        drawn = Derivation(number)
        # In other translations each clause may have a verb and a comma more.
        room = 2 * sum(isinstance(token, Finite) for token in drawn.german)
        lengths = len(tokens_of(drawn.english)), len(drawn.german)
        fits = min(lengths) >= MIN_TOKENS and max(lengths[0], lengths[1] + room) <= MAX_TOKENS
        texts = {drawn.english, written(drawn.german)}
        if fits and math.prod(drawn.asked.values()) <= MAX_COMBINATIONS and not texts & seen:
            seen |= texts
            yield drawn


def agreement(sentence: Derivation) -> Iterator[Dict[str, Any]]:
    """A pair for each verb that agrees with a noun, as in Lingeval97 (Sennrich, 2017); `distance`
    of the two: 1 if they are neighbours."""
    tokens = sentence.german
    for place, verb in enumerate(tokens):
        if isinstance(verb, Finite) and verb.noun is not None:
            (noun,) = (n for n, token in enumerate(tokens) if token is verb.noun)
            wrong = written([*tokens[:place], verb.other, *tokens[place + 1 :]])
            pair = {"source": sentence.english, "right": written(tokens), "wrong": wrong}
            yield {**pair, "distance": abs(place - noun)}


def one_of(options: Iterator[Any], index: int) -> Any:
    """One of the options, counted round if there are not so many."""
    first = list(islice(options, index + 1))
    return first[index % len(first)]


def generate(out: Path, train: int, valid: int, test: int, modes: int, seed: int) -> str:
    """Writes the corpus into a folder, and returns its statistics."""
    stream, draw = sentences(seed), random.Random(seed).random
    texts: Dict[str, List[str]] = {"en": [], "de": []}
    # Held-out sentences first: they are the same whatever the size of the training set.
    for split, size in (("test", test), ("valid", valid), ("train", train)):
        drawn = list(islice(stream, size))
        targets = [sentence.german for sentence in drawn]
        if split == "test":
            lists = [[written(tokens) for tokens in one.translations()] for one in drawn]
            rows = [{"source": o.english, "translations": found} for o, found in zip(drawn, lists)]
            write(out / "test.valid.jsonl", rows)
            pairs = (pair for sentence in drawn for pair in agreement(sentence))
            write(out / "test.agreement.jsonl", pairs)
        elif split == "train":
            targets = [one_of(sentence.translations(), int(draw() * modes)) for sentence in drawn]
        lines = [one.english for one in drawn], [written(tokens) for tokens in targets]
        for language, side in zip(texts, lines):
            write(out / f"{split}.{language}", side)
            texts[language] += side
    counts = [len(found) for found in lists] or [0]
    sides = [f"{language}: {statistics(side)}" for language, side in texts.items()]
    spread = f"valid translations mean/max {sum(counts) / len(counts):.1f}/{max(counts)}"
    return "; ".join([f"pairs {len(texts['en'])}", *sides, spread])


def write(path: Path, lines: Iterable[Any]) -> None:
    """Writes lines of text or of JSON."""
    texts = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")


def statistics(lines: Sequence[str]) -> str:
    """Size of the vocabulary and lengths."""
    tokens = [tokens_of(line.lower()) for line in lines]
    lengths = [len(line) for line in tokens] or [0]
    spread = f"{min(lengths)}/{sum(lengths) / len(lengths):.1f}/{max(lengths)}"
    return f"vocabulary {len(set().union(*tokens))}, tokens min/mean/max {spread}"


def options(about: str, arguments: Optional[Sequence[str]], **defaults: int) -> Dict[str, Any]:
    """The options of a command that writes a corpus: `--out` and numbers."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    given = vars(parser.parse_args(arguments))
    for name in defaults:
        least = 1 if name == "modes" else 0
        if given[name] < least:
            parser.error(f"--{name} is {given[name]}, but must be at least {least}")
    return given


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The command."""
    given = options(__doc__, arguments, train=20000, valid=500, test=500, modes=1, seed=1)
    print(generate(**given))


if __name__ == "__main__":
    main()
