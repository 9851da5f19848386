#!/usr/bin/env python3
"""Share of hypotheses that are exactly one of the valid translations.

    python examples/corpus/valid_share.py --valid-translations test.valid.jsonl HYPOTHESES

HYPOTHESES holds one detokenised sentence a line, in the order of the test set.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import List, Sequence


def normalise(sentence: str) -> str:
    """Collapse runs of blanks; everything else counts."""
    return " ".join(sentence.split())


def valid_share(hypotheses: Sequence[str], valid_translations: Sequence[Sequence[str]]) -> float:
    """Return the fraction (0 to 1) of hypotheses among their valid translations.

    Args:
        hypotheses: N detokenised sentences.
        valid_translations: for each of the N sources, all its valid translations.

    Raises:
        ValueError: if the lengths differ or there is no sentence.
    """
    if len(hypotheses) != len(valid_translations):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(valid_translations)} sources: give one line per"
            " test sentence"
        )
    if not hypotheses:
        raise ValueError("no hypotheses: give at least one line")
    valid = sum(
        normalise(hypothesis) in {normalise(option) for option in options}
        for hypothesis, options in zip(hypotheses, valid_translations)
    )
    return valid / len(hypotheses)


def read_valid_translations(path: Path) -> List[List[str]]:
    """Read the translations of each line of a `test.valid.jsonl` file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["translations"] for line in lines]


def main(arguments: Sequence[str]) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--valid-translations", type=Path, required=True, help="test.valid.jsonl of the corpus"
    )
    parser.add_argument("hypotheses", type=Path, help="hypotheses, one a line")
    options = parser.parse_args(arguments)
    with options.hypotheses.open(encoding="utf-8") as lines:
        hypotheses = [line.rstrip("\n") for line in lines]
    try:
        share = valid_share(hypotheses, read_valid_translations(options.valid_translations))
    except ValueError as error:
        parser.error(str(error))
    print(f"{100 * share:.1f}% of {len(hypotheses)} hypotheses are valid translations")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
