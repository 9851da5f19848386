"""Quality with and without a glossary, in every way that terms can be placed.

    python examples/measure/glossary.py bundle --train train.en train.de --test test.en test.de \\
        --capitals --beam 5

The terms are frequent source words. A sentence's glossary gives each the translation that its
reference has, among those that often stand beside the word in the training text. Texts are raw or
gzip; words are what is between spaces and signs. --capitals takes target words with a capital only:
in German nouns.

fairseq's constrained search is measured by --write and --read:

    python examples/measure/glossary.py ... --write constraints.txt
    fairseq-interactive data-bin --path checkpoint_best.pt --constraints --beam 5 \\
        --remove-bpe < constraints.txt > found.txt
    python examples/measure/glossary.py ... --read found.txt
"""

import argparse
import gzip
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import sacrebleu

import fairseq_hrt
from fairseq_hrt.native.text.given_terms import with_terms
from fairseq_hrt.native.text.glossary import Glossary, within_word
from fairseq_hrt.native.text.unknown_symbols import all_links

_WORD = re.compile(r"[^\W\d_]{3,}")
Given = Dict[str, str]


def read(path: Path) -> List[str]:
    """The lines of a text."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def translations(
    sources: Sequence[str], targets: Sequence[str], *, terms: int, capitals: bool
) -> Dict[str, List[str]]:
    """The translations of the most frequent source words in small letters: target words whose best
    partner, by Dice's coefficient, they are; most probable first."""
    one, other, both = Counter[str](), Counter[str](), Counter[Tuple[str, str]]()
    for source, target in zip(sources, targets):
        left = {word for word in _WORD.findall(source) if word.islower()}
        right = {word for word in _WORD.findall(target) if word[0].isupper() or not capitals}
        one.update(left)
        other.update(right)
        both.update((a, b) for a in left for b in right)
    partners: Dict[str, List[Tuple[float, str]]] = defaultdict(list)
    best: Dict[str, float] = defaultdict(float)
    for (a, b), count in both.items():
        dice = 2 * count / (one[a] + other[b])
        if count >= 8:
            partners[a].append((dice, b))
            best[b] = max(best[b], dice)
    found: Dict[str, List[str]] = {}
    for word, _ in one.most_common():
        ranked = sorted(partners[word], reverse=True)[:12]
        own = [b for dice, b in ranked if dice == best[b] and both[word, b] > 0.4 * other[b]]
        if own and ranked[0][0] >= 0.35:
            found[word] = own
        if len(found) == terms:
            break
    return found


def glossaries(
    sources: Sequence[str], references: Sequence[str], known: Dict[str, List[str]]
) -> Iterator[Given]:
    """The glossary of each sentence; words that it has twice are left out."""
    every = Glossary({word: own[0] for word, own in known.items()})
    for source, reference in zip(sources, references):
        words = set(_WORD.findall(reference))
        names = Counter(source[one.start : one.end].lower() for one in every.find(source))
        chosen = {name: [b for b in known[name] if b in words] for name in names}
        yield {name: own[0] for name, own in chosen.items() if own and names[name] == 1}


def standing(given: str, text: str) -> int:
    """How often a given translation stands in a text."""
    return sum(
        not (within_word(text, match.start()) or within_word(text, match.end()))
        for match in re.finditer(re.escape(given), text)
    )


def report(name: str, found: Sequence[str], references: Sequence[str], given: List[Given]) -> None:
    """Prints a row."""
    counts = [standing(b, text) for text, own in zip(found, given) for b in own.values()]
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    scores = [metric.corpus_score(found, [references]).score for metric in (bleu, chrf)]
    shares = [100 * sum(map(test, counts)) / len(counts) for test in (bool, (1).__eq__)]
    row = " ".join(f"{value:8.2f}" for value in (*scores, *shares))
    print(f"{name:34}{row}   {bleu.get_signature()}", flush=True)


def placed(model: Any, sources: Sequence[str], given: List[Given], beam: int) -> Iterator[Any]:
    """(name, translations) of each way to place terms."""
    base = model.translate(sources, details=True, beam=beam, print_alignment="hard")
    yield "no glossary", [one.text for one in base]
    names = sorted({name for own in given for name in own})
    alone = dict(zip(names, model.translate(names, beam=beam)))
    for name, linked, compared in (
        ("alignment alone", True, False),
        ("terms alone", False, True),
        ("both", True, True),
    ):
        texts = []
        for source, one, own in zip(sources, base, given):
            terms = Glossary(own).find(source) if own else []
            links = all_links(
                source, model.in_words(source).words, one.text, one.tokens, one.alignment
            )
            texts.append(
                with_terms(
                    source,
                    one.text,
                    links if linked else [],
                    terms,
                    [alone[source[term.start : term.end].lower()] for term in terms] * compared,
                )[0]
            )
        yield name, texts
    mixed = [
        re.sub(_WORD, lambda match: own.get(match[0].lower(), match[0]), source)  # noqa: B023
        for source, own in zip(sources, given)
    ]
    yield "translations put into the source", model.translate(mixed, beam=beam)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Prints the table, or writes or reads the files of a constrained search."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    for name in ("--train", "--test"):
        parser.add_argument(name, type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--terms", type=int, default=100)
    parser.add_argument("--capitals", action="store_true")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--read", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    known = translations(*map(read, options.train), terms=options.terms, capitals=options.capitals)
    sources, references = map(read, options.test)
    given = list(glossaries(sources, references, known))
    model = fairseq_hrt.from_pretrained(options.bundle)
    if options.write:
        target = model.bundle.target_pipeline()
        rows = [
            [model.pipeline.words(source), *map(target.words, own.values())]
            for source, own in zip(sources, given)
        ]
        options.write.write_text("".join("\t".join(map(" ".join, row)) + "\n" for row in rows))
        return
    print(f"{len(known)} words, {sum(map(len, given))} terms in {sum(map(bool, given))} sentences")
    print(f"{'':34}    BLEU     chrF in place     once")
    if options.read:
        first: Dict[int, str] = {}
        for line in read(options.read):
            if line.startswith("H-"):
                number, _, text = line.split("\t")
                first.setdefault(int(number[2:]), model.pipeline.text(text))
        report("constrained search", [first[n] for n in range(len(sources))], references, given)
        return
    for name, found in placed(model, sources, given, options.beam):
        report(name, found, references, given)


if __name__ == "__main__":
    main()
