"""Moses punctuation normalisation and tokenisation of a text file (plain or gzip), one sentence a line.

    python examples/common/tokenize_text.py --language en train.en.gz > train.tok.en

The case is kept and special characters are not escaped, so that ``sacremoses``' detokeniser gives the text back.
"""

import argparse
import gzip
import sys
from pathlib import Path
from typing import Iterator, Optional, Sequence

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def read_lines(path: Path) -> Iterator[str]:
    """Lines of ``path`` without their line feed; a ``.gz`` file is unpacked.

    Only a line feed ends a line: ``str.splitlines`` would also split at U+2028 and misalign the two languages.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line.rstrip("\r\n")


def tokenize(lines: Iterator[str], language: str) -> Iterator[str]:
    """Normalise the punctuation of each line and tokenise it by the rules of ``language`` (ISO 639-1 code)."""
    normalizer = MosesPunctNormalizer(lang=language)
    tokenizer = MosesTokenizer(lang=language)
    for line in lines:
        yield tokenizer.tokenize(normalizer.normalize(line), escape=False, return_str=True)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="text, one sentence a line; unpacked when it ends in .gz")
    parser.add_argument("--language", required=True, help="language code, e.g. en or de")
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in tokenize(read_lines(options.file), options.language):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
