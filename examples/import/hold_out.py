"""Divides a text into a test set, a validation set and the rest to train on, by a seed.

    python examples/import/hold_out.py captions.en.gz --language en --test 1000 --valid 500 --seed 1
    --out raw

Text is plain or gzip, a sentence a line; empty lines and repeated ones are left out. Writes
test.en, valid.en and train.en.
"""

import argparse
import random
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from fairseq_hrt.evaluation.quality import read_lines


def divide(lines: Sequence[str], test: int, valid: int, seed: int) -> Dict[str, List[str]]:
    """The lines of each part, in an order drawn by ``seed``.

    Raises:
        ValueError: there are not enough different lines.
    """
    # In the order of the text: that of a set changes from start to start.
    distinct = list(dict.fromkeys(line for line in lines if line.strip()))
    if len(distinct) <= test + valid:
        raise ValueError(
            f"{len(distinct)} different lines are not enough to hold out {test} + {valid} and train"
            " on the rest"
        )
    random.Random(seed).shuffle(distinct)
    return {
        "test": distinct[:test],
        "valid": distinct[test : test + valid],
        "train": distinct[test + valid :],
    }


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("--language", required=True, help="ending of the files that are written")
    parser.add_argument("--test", type=int, required=True, help="lines of the test set")
    parser.add_argument("--valid", type=int, required=True, help="lines of the validation set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of the files")
    options = parser.parse_args(arguments)
    for name in ("test", "valid"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: give 1 or more")
    try:
        parts = divide(read_lines(options.text), options.test, options.valid, options.seed)
        options.out.mkdir(parents=True, exist_ok=True)
        for name, lines in parts.items():
            path = options.out / f"{name}.{options.language}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
