#!/usr/bin/env python3
"""Generate an English-German corpus from a small hand-written grammar.

    python examples/corpus/generate.py --out DIR [--train 20000] [--valid 500]
        [--test 500] [--modes 1] [--seed 1]

Writes train, valid and test in plain text (`.en` and `.de`, one sentence a line) and
`test.valid.jsonl`, one JSON object a line with the source of a test sentence and all
its valid translations. The source sentences depend on the seed and the sizes only,
never on `--modes`, so corpora with different modes are comparable.
"""

import argparse
import json
import random
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence, Set

import english
from german_syntax import Choices, realise, translations
from grammar import Sampler
from sentence import Clause, NounPhrase, Sentence

MIN_TOKENS, MAX_TOKENS = 3, 30
# Sentences with more combinations of choices than this on the canonical derivation
# are dropped, which keeps the lists of valid translations short.
MAX_COMBINATIONS = 200
# Give up when this many draws in a row bring no new sentence.
MAX_FAILURES = 100_000


class Item(NamedTuple):
    """An abstract sentence with its source and its canonical translation."""

    sentence: Sentence
    source: str
    canonical: str


def tokenise(text: str) -> List[str]:
    """Split a line into words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text)


def _growth(sentence: Sentence) -> int:
    """Bound how many tokens a valid translation exceeds the canonical one by: a
    perfect or a separable prefix adds one per clause, a relative clause taken back
    before the verb one comma."""
    relatives = 0
    for clause in (sentence.main, sentence.second):
        if isinstance(clause, Clause):
            phrases = (clause.subject, clause.object)
            relatives += sum(
                isinstance(phrase, NounPhrase) and phrase.relative is not None for phrase in phrases
            )
    return 1 + (sentence.second is not None) + 2 * relatives


def sample_items(seed: int) -> Iterator[Item]:
    """Yield distinct items without end: no source and no canonical translation comes
    twice, so no split can share a sentence with another. Raises `ValueError` when the
    grammar seems exhausted."""
    sampler = Sampler(seed)
    sources: Set[str] = set()
    targets: Set[str] = set()
    failures = 0
    while failures < MAX_FAILURES:
        failures += 1
        sentence = sampler.sentence()
        choices = Choices()
        canonical = realise(sentence, choices)
        combinations = 1
        for size in choices.sizes:
            combinations *= size
        source = english.realise(sentence)
        longest = max(len(tokenise(source)), len(tokenise(canonical)) + _growth(sentence))
        shortest = min(len(tokenise(source)), len(tokenise(canonical)))
        if combinations > MAX_COMBINATIONS or longest > MAX_TOKENS or shortest < MIN_TOKENS:
            continue
        if source in sources or canonical in targets:
            continue
        sources.add(source)
        targets.add(canonical)
        failures = 0
        yield Item(sentence, source, canonical)
    raise ValueError(
        f"no new sentence in {MAX_FAILURES} draws after {len(sources)}: ask for fewer sentences"
    )


def training_target(item: Item, modes: int, rng: random.Random) -> str:
    """Return one of the first `modes` valid translations of `item`, at random."""
    if modes == 1:
        return item.canonical
    options = list(islice(translations(item.sentence), modes))
    return options[int(rng.random() * len(options))]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


def generate(
    out: Path, train: int = 20000, valid: int = 500, test: int = 500, modes: int = 1, seed: int = 1
) -> str:
    """Write the corpus into `out` (made if needed) and return a line of statistics.

    Args:
        train, valid, test: number of sentence pairs of each split.
        modes: number of valid translations the training targets are drawn from; 1
            gives the canonical translation. The references of valid and test are
            canonical whatever the modes.
        seed: seed of the derivations. Test comes first, then valid, then train, so a
            larger training set keeps the other splits.

    Raises:
        ValueError: if a size is negative, `modes` is below 1, or the grammar has too
            few sentences.
    """
    for name, value, least in (
        ("train", train, 0),
        ("valid", valid, 0),
        ("test", test, 0),
        ("modes", modes, 1),
    ):
        if value < least:
            raise ValueError(f"--{name} is {value}, but must be at least {least}")
    out.mkdir(parents=True, exist_ok=True)
    items = sample_items(seed)
    splits: Dict[str, List[Item]] = {}
    for name, size in (("test", test), ("valid", valid), ("train", train)):
        splits[name] = list(islice(items, size))
    rng = random.Random(seed)
    targets = {name: [item.canonical for item in split] for name, split in splits.items()}
    targets["train"] = [training_target(item, modes, rng) for item in splits["train"]]
    for name, split in splits.items():
        _write_lines(out / f"{name}.en", [item.source for item in split])
        _write_lines(out / f"{name}.de", targets[name])
    records = [
        {"source": item.source, "translations": list(translations(item.sentence))}
        for item in splits["test"]
    ]
    _write_lines(
        out / "test.valid.jsonl", [json.dumps(record, ensure_ascii=False) for record in records]
    )
    sources = [item.source for split in splits.values() for item in split]
    return _statistics(sources, [line for lines in targets.values() for line in lines], records)


def _statistics(
    sources: Sequence[str], targets: Sequence[str], records: Sequence[Dict[str, object]]
) -> str:
    parts = [f"pairs {len(sources)}"]
    for language, lines in (("en", sources), ("de", targets)):
        tokens = [tokenise(line) for line in lines]
        if tokens:
            lengths = [len(line) for line in tokens]
            vocabulary = len({token.lower() for line in tokens for token in line})
            mean = sum(lengths) / len(lengths)
            spread = f"{min(lengths)}/{mean:.1f}/{max(lengths)}"
            parts.append(f"{language}: vocabulary {vocabulary}, tokens min/mean/max {spread}")
    if records:
        counts = [len(record["translations"]) for record in records]
        parts.append(f"valid translations mean/max {sum(counts) / len(counts):.1f}/{max(counts)}")
    return "; ".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="output directory")
    parser.add_argument("--train", type=int, default=20000, help="training pairs (default 20000)")
    parser.add_argument("--valid", type=int, default=500, help="validation pairs (default 500)")
    parser.add_argument("--test", type=int, default=500, help="test pairs (default 500)")
    parser.add_argument(
        "--modes",
        type=int,
        default=1,
        help="translations a training target is drawn from (default 1)",
    )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    options = parser.parse_args(arguments)
    try:
        statistics = generate(**vars(options))
    except ValueError as error:
        parser.error(str(error))
    print(statistics)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
