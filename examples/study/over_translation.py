"""How much translations repeat: OTEM (Yang et al., 2018), as in Figure 4 of the paper on IBDecoder.

Example:

    python examples/study/over_translation.py test.de ibdecoder.de ib_sa.de

The first file holds the references, each further one the translations of a system, in raw text and
line by line. Lower is better.

An n-gram is over-translated as often as the translation has it more often than the reference; one
that the reference lacks, as often as it comes again. OTEM is the geometric mean over n of their
share among all n-grams of the corpus, times exp(1 - r / c) where the c words of the translations
are at least as many as the r of the references. As in the code released with it, n goes to 2
without smoothing: without a repeated bigram OTEM is 0. Words are those of sacreBLEU's tokenisation,
shown in percent; the paper on IBDecoder names neither.
"""

import argparse
import math
import sys
from collections import Counter
from pathlib import Path
from typing import List, Optional, Sequence

ORDER = 2


def otem(
    translations: Sequence[Sequence[str]], references: Sequence[Sequence[str]], order: int = ORDER
) -> float:
    """OTEM of a corpus with one reference a sentence, from 0 to 1.

    Args:
        translations, references: the words of each sentence.
        order: n of the longest n-grams.

    Raises:
        ValueError: other numbers of sentences.
    """
    if len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations of {len(references)} references")
    logarithm = 0.0
    for size in range(1, order + 1):
        over = total = 0
        for words, reference in zip(translations, references):
            found, known = (Counter(ngrams(line, size)) for line in (words, reference))
            total += sum(found.values())
            over += sum(max(0, count - max(1, known[ngram])) for ngram, count in found.items())
        if not over:
            return 0.0
        logarithm += math.log(over / total) / order
    written, wanted = (sum(map(len, lines)) for lines in (translations, references))
    penalty = 1 - wanted / written if written >= wanted else 0.0
    return math.exp(penalty + logarithm)


def ngrams(words: Sequence[str], size: int) -> List[Sequence[str]]:
    """All runs of so many words."""
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def words_of(path: Path, tokenizer: str) -> List[List[str]]:
    """The words of each line of a file, as a tokenizer of sacreBLEU cuts them."""
    from sacrebleu.metrics import BLEU

    tokenize = BLEU(tokenize=tokenizer).tokenizer
    # Not splitlines: U+2028 is a character of its line.
    lines = path.read_text(encoding="utf-8").split("\n")
    return [tokenize(line).split() for line in (lines if lines[-1] else lines[:-1])]


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("references", type=Path, help="reference translations, one a line")
    parser.add_argument(
        "translations", type=Path, nargs="+", help="those of a system; several files are a row each"
    )
    parser.add_argument(
        "--tokenize", default="13a", help="sacreBLEU's: 13a, zh, none, … (default: %(default)s)"
    )
    parser.add_argument(
        "--order", type=int, default=ORDER, help="n of the longest n-grams (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.order < 1:
        parser.error(f"--order {options.order} must be at least 1")
    rows = [f"| translations | OTEM-{options.order} |", "|---|---:|"]
    try:
        references = words_of(options.references, options.tokenize)
        for path in options.translations:
            score = otem(words_of(path, options.tokenize), references, options.order)
            rows.append(f"| {path} | {100 * score:.2f} |")
    except (OSError, ValueError) as error:
        parser.exit(2, f"error: {error}\n")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
