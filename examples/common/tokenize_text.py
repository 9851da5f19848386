"""Moses punctuation normalisation and tokenisation of a text file (plain or gzip), one sentence a
line; of Chinese by jieba.

    python examples/common/tokenize_text.py --language en train.en.gz > train.tok.en

The case is kept and special characters are not escaped, so that ``sacremoses``' detokeniser gives
the text back.
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from fairseq_hrt.native.io.streams import raw_lines, reading


def read_lines(path: Path) -> Iterator[str]:
    """Lines of ``path`` without their line feed; gzip is unpacked.

    Only a line feed ends a line: ``str.splitlines`` would also split at U+2028 and misalign the two
    languages. A carriage return, at which the tools that come later split, becomes a space.
    """
    with reading(path) as source:
        for line in raw_lines(source, str(path)):
            yield line.decode("utf-8").rstrip("\r\n").replace("\r", " ")


def chinese_words() -> Callable[[str], str]:
    """A function that separates the words of Chinese text, which are written without spaces.

    Raises:
        ImportError: jieba is not installed.
    """
    import jieba

    jieba.setLogLevel(logging.WARNING)
    cutter = jieba.Tokenizer()
    # It keeps its dictionary in a file there, and would read what others have left in the folder
    # that all share.
    with tempfile.TemporaryDirectory() as cutter.tmp_dir:
        cutter.initialize()
    return lambda line: " ".join(word for word in cutter.cut(line) if not word.isspace())


def tokenize(lines: Iterator[str], language: str) -> Iterator[str]:
    """Normalise the punctuation of each line and tokenise it by the rules of ``language`` (ISO
    639-1 code)."""
    normalizer = MosesPunctNormalizer(lang=language)
    if language == "zh":
        split = chinese_words()
    else:
        tokenizer = MosesTokenizer(lang=language)

        def split(line: str) -> str:
            return tokenizer.tokenize(line, escape=False, return_str=True)

    for line in lines:
        yield split(normalizer.normalize(line))


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
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        lines = read_lines(options.file)
        for line in lines if options.tokenised else tokenize(lines, options.language):
            sys.stdout.write(line + "\n")
    except ImportError as error:
        raise SystemExit(
            "tokenize_text.py: Chinese text has no spaces between its words: pip install"
            f" jieba==0.42.1 ({error}), or give text in words (TOKENISED=1)"
        ) from None
    except UnicodeDecodeError as error:
        raise SystemExit(f"tokenize_text.py: {options.file} is not UTF-8: {error}") from None
    except OSError as error:
        raise SystemExit(f"tokenize_text.py: {options.file}: {error}") from None
    except ValueError as error:
        raise SystemExit(f"tokenize_text.py: {error}") from None


if __name__ == "__main__":
    main()
