"""Turns a text file (plain or gzip), one sentence a line, into words, by default Moses's after
punctuation normalisation; of Chinese jieba's.

    python examples/common/tokenize_text.py --language en train.en.gz > train.tok.en
    python examples/common/tokenize_text.py --language en --tokenizer moses+escape train.en

`fairseq-hrt bundle` recognises the variants of Moses from the data (docs/guides/data.md).
"""

import argparse
import sys
from pathlib import Path
from typing import Iterator, Optional, Sequence

from fairseq_hrt.native.io.streams import raw_lines, reading
from fairseq_hrt.native.text.pipeline import one_line, tokenization
from fairseq_hrt.native.text.recipe import SPECIFICATION, VARIANTS, TextRecipe
from fairseq_hrt.native.text.word_separators import SEPARATORS


def read_lines(path: Path) -> Iterator[str]:
    """Lines of ``path`` without their line feed; gzip is unpacked.

    Only a line feed ends a line: ``str.splitlines`` would also split at U+2028 and misalign the two
    languages. A carriage return, at which the tools that come later split, becomes a space.
    """
    with reading(path) as source:
        for line in raw_lines(source, str(path)):
            yield line.decode("utf-8").rstrip("\r\n").replace("\r", " ")


def tokenize(lines: Iterator[str], language: str, tokenizer: Optional[str] = None) -> Iterator[str]:
    """Turns each line into words by the rules of ``language`` (ISO 639-1 code).

    Raises:
        ValueError: the tokeniser is unknown, or its package is not installed.
    """
    if tokenizer is None:
        tokenizer = "moses+jieba" if SEPARATORS["jieba"].separates(language) else "moses"
    # One specification is for both languages: what separates words is for one of them.
    name, *variants = tokenizer.split("+")
    kept = [one for one in variants if one not in SEPARATORS or SEPARATORS[one].separates(language)]
    tokenizer = "+".join([name, *kept])
    prepare, _ = tokenization(TextRecipe(language, language, tokenizer, "none"))
    for line in lines:
        yield prepare(one_line(line))


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="text, one sentence a line, plain or gzip")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--language", help="language code, e.g. en or de")
    chosen.add_argument(
        "--tokenised", action="store_true", help="the text is in words already: it is only copied"
    )
    parser.add_argument(
        "--tokenizer",
        metavar=SPECIFICATION,
        help=(
            "moses, moses-punctuation or space, with variants of moses"
            f" ({', '.join(VARIANTS)}; default: moses, for zh moses+jieba)"
        ),
    )
    options = parser.parse_args(arguments)
    if options.tokenised and options.tokenizer:
        parser.error("--tokenizer has no effect on text that is --tokenised; leave one of them out")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        lines = read_lines(options.file)
        words = lines if options.tokenised else tokenize(lines, options.language, options.tokenizer)
        for line in words:
            sys.stdout.write(line + "\n")
    except UnicodeDecodeError as error:
        raise SystemExit(f"tokenize_text.py: {options.file} is not UTF-8: {error}") from None
    except OSError as error:
        raise SystemExit(f"tokenize_text.py: {options.file}: {error}") from None
    except ValueError as error:
        raise SystemExit(f"tokenize_text.py: {error}") from None


if __name__ == "__main__":
    main()
