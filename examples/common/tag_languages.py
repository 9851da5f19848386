"""Several language pairs as one: each source line begins with a word that names the language asked
for (Johnson et al., 2017).

    python examples/common/tag_languages.py --pair de train.en train.de --pair fr train.en train.fr
    --out all/train.en all/train.xx

The text is in words already: Moses' tokeniser would take the first word apart. Pairs alternate line
by line, so that a part of the result holds all of them; a pair that is longer than the others ends
alone.
"""

import argparse
import itertools
import re
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

from tokenize_text import read_lines

from fairseq_hrt.native.io.streams import writing


def language_word(language: str) -> str:
    """The word that asks for a language: ``__de__``."""
    return f"__{language}__"


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text.

    Raises:
        ValueError: it is not UTF-8.
    """
    try:
        yield from read_lines(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {error}") from error


def tagged(language: str, source: Path, target: Path) -> Iterator[Tuple[str, str]]:
    """The pairs of two aligned files.

    Raises:
        ValueError: one has more lines than the other.
    """
    ends = itertools.zip_longest(lines_of(source), lines_of(target))
    for number, (words, translation) in enumerate(ends, 1):
        if words is None or translation is None:
            short, long = (source, target) if words is None else (target, source)
            raise ValueError(
                f"{short} ends before line {number}, {long} does not: give aligned files"
            )
        yield f"{language_word(language)} {words}", translation


def alternating(pairs: Sequence[Iterator[Tuple[str, str]]]) -> Iterator[Tuple[str, str]]:
    """The first of each, the second of each, …"""
    for row in itertools.zip_longest(*pairs):
        yield from filter(None, row)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pair", nargs=3, action="append", required=True, metavar=("LANGUAGE", "SOURCE", "TARGET")
    )
    parser.add_argument("--out", nargs=2, required=True, type=Path, metavar=("SOURCE", "TARGET"))
    options = parser.parse_args(arguments)
    if options.out[0].resolve() == options.out[1].resolve():
        parser.error(f"--out {options.out[0]} {options.out[1]}: give two files")
    pairs: List[Iterator[Tuple[str, str]]] = []
    for language, source, target in options.pair:
        if not re.fullmatch("[A-Za-z]{2,8}", language):
            parser.error(f"--pair {language!r}: give a language code, e.g. de")
        pairs.append(tagged(language, Path(source), Path(target)))
    try:
        with writing(options.out[0]) as sources, writing(options.out[1]) as targets:
            for words, translation in alternating(pairs):
                sources.write(f"{words}\n".encode())
                targets.write(f"{translation}\n".encode())
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
