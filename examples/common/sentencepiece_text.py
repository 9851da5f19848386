"""Raw text in pieces of a SentencePiece model, one sentence a line.

    python examples/common/sentencepiece_text.py encode --model vocab.spm train.en.gz > train.en
    python examples/common/sentencepiece_text.py learn --pieces 32000 train.en train.de > new.spm

Text is plain or gzip. `learn` writes the model: unigrams, of all sentences, with every character,
the same on every machine.
"""

import argparse
import io
import itertools
import sys
import zlib
from pathlib import Path
from typing import Any, Optional, Sequence

from tokenize_text import read_lines


def fail(message: str) -> None:
    """Ends the program."""
    raise SystemExit(f"sentencepiece_text.py: {message}")


def sentencepiece() -> Any:
    """The package, if it is installed."""
    try:
        import sentencepiece
    except ImportError:
        fail("the package sentencepiece is missing: pip install sentencepiece")
    return sentencepiece


def encode(model: Path, text: Path) -> None:
    """Writes the pieces of each line, separated by spaces."""
    package = sentencepiece()
    try:
        processor = package.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        fail(f"{model} is not a SentencePiece model: {error}")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in read_lines(text):
        sys.stdout.write(" ".join(processor.encode(line, out_type=str)) + "\n")


def learn(pieces: int, texts: Sequence[Path]) -> None:
    """Writes a model of ``pieces`` pieces."""
    written = io.BytesIO()
    try:
        sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=itertools.chain.from_iterable(map(read_lines, texts)),
            model_writer=written, vocab_size=pieces,
            # More threads would add probabilities in another order.
            character_coverage=1.0, num_threads=1, minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        fail(f"{pieces} pieces cannot be learnt of {', '.join(map(str, texts))}: {error}")
    sys.stdout.buffer.write(written.getvalue())


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    encoding = verbs.add_parser("encode", help="turn text into pieces")
    encoding.add_argument("--model", type=Path, required=True, metavar="FILE")
    encoding.add_argument("text", type=Path)
    learning = verbs.add_parser("learn", help="learn a model from texts")
    learning.add_argument(
        "--pieces", type=int, required=True, metavar="N", help="size of the vocabulary"
    )
    learning.add_argument("texts", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    try:
        if options.verb == "encode":
            encode(options.model, options.text)
        else:
            learn(options.pieces, options.texts)
    except UnicodeDecodeError as error:
        fail(f"the text is not UTF-8: {error}")
    except (OSError, EOFError, zlib.error) as error:
        fail(str(error))


if __name__ == "__main__":
    main()
