"""Translations out of the output of ``fairseq-generate``, in the order of its input.

    python examples/common/extract_hypotheses.py generate.log --sentences 29000 > train.de

fairseq translates sorted by length and prints each best hypothesis as ``H-<id>``; the subwords are
kept as they are.
"""

import argparse
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence


def extract(lines: Sequence[str], sentences: int) -> List[str]:
    """The hypotheses ``H-0`` to ``H-<sentences - 1>``.

    Raises:
        ValueError: one is missing, given twice or beyond the last.
    """
    hypotheses: Dict[int, str] = {}
    for line in lines:
        if not line.startswith("H-"):
            continue
        # "H-12\t-0.31\ttext"; the text may be empty.
        label, _, text = line.rstrip("\n").split("\t", 2)
        sentence = int(label[len("H-") :])
        if sentence in hypotheses:
            raise ValueError(
                f"two hypotheses {label}: generate with --nbest 1, and only once into the file"
            )
        hypotheses[sentence] = text
    if hypotheses.keys() != set(range(sentences)):
        missing = sorted(set(range(sentences)) - hypotheses.keys())[:5]
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {sentences} sentences (missing: {missing} ...): was"
            " the output cut off, or were long sentences skipped?"
        )
    return [hypotheses[sentence] for sentence in range(sentences)]


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="standard output of fairseq-generate")
    parser.add_argument(
        "--sentences", type=int, required=True, help="number of sentences that were translated"
    )
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    with open(options.file, encoding="utf-8", newline="\n") as lines:
        try:
            hypotheses = extract(list(lines), options.sentences)
        except ValueError as error:
            parser.exit(1, f"error: {options.file}: {error}\n")
    for hypothesis in hypotheses:
        sys.stdout.write(hypothesis + "\n")


if __name__ == "__main__":
    main()
