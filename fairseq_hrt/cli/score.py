"""Scores given translations with a bundle: two files in, one score per line out.

Example:

    fairseq-hrt score bundle source.en translation.de > scores
    fairseq-hrt score bundle source.en translation.de --json -o scores.jsonl

The score is the mean log-probability of the translation's subwords and its end, as fairseq-generate
--score-reference computes it; a model that writes left to right finds its own greedy translation
with this score. The two files have the same number of lines. A pair with an empty line has no
score: its line stays empty.
"""

import argparse
import itertools
import json
import math
import os
import re
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Tuple

from ..native.io.progress import Doing, Progress, count_lines
from ..native.io.streams import is_stream, writing
from ..native.options.effects import require_scoring
from .binary import require_text
from .command import command
from .jobs import input_lines, read_line
from .parser import require_positive, verb_parser
from .settings import add_engine_arguments, add_set_argument, read_settings
from .translate import BATCHES, tell_engine


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("score", __doc__)
    parser.add_argument("bundle", type=Path, help="folder made by fairseq-hrt bundle or import")
    parser.add_argument(
        "sources", type=Path, metavar="SOURCES", help="text file, or - for the standard input"
    )
    parser.add_argument(
        "targets", type=Path, metavar="TARGETS", help="their translations, line by line"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file for the scores (default: standard output)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="an object per line: score, tokens and their log-probabilities",
    )
    add_set_argument(parser)
    parser.add_argument(
        "--batch-size", type=int, default=32, help="pairs scored together (default: %(default)s)"
    )
    add_engine_arguments(parser)
    return parser


def run(options: argparse.Namespace) -> None:
    """Loads the bundle and scores every pair.

    Raises:
        ValueError: an option is invalid, or one file has more lines than the other.
        OSError: a file cannot be read or written.
    """
    require_positive(options, "batch_size", "threads")
    settings = read_settings(options.set)
    if "forced_start" in settings:
        raise ValueError(
            f"--set forced_start={settings['forced_start']}: given translations have"
            " their own beginning; leave it out"
        )
    require_scoring(settings)
    names = [None if str(path) == "-" else path for path in (options.sources, options.targets)]
    if names == [None, None]:
        raise ValueError("- is given twice: the standard input can be read only once")
    given = [path for path in names if path is not None]
    for path in given:
        require_text(path)
    output = options.output
    if not is_stream(output) and os.path.realpath(output) in map(os.path.realpath, given):
        raise ValueError(
            f"{output} is an input: the scores would replace it; give another --output"
        )
    # Imported here: --help needs no NumPy.
    from ..native.bundles.pretrained import from_pretrained

    named: Dict[str, Any] = {
        **{name: getattr(options, name) for name in ("device", "engine", "threads")},
        **settings,
    }
    with Doing("loading the model"):
        model = from_pretrained(options.bundle, **named)
    source, target = map(input_lines, names)
    with source as sources, target as targets, writing(output) as written:
        score(model, paired(sources, targets), written, options)
    tell_engine(model)


def paired(sources: Iterator[bytes], targets: Iterator[bytes]) -> Iterator[Tuple[str, str]]:
    """Yields pairs (source, target) of lines of two files, decoded.

    Raises:
        ValueError: one file has more lines than the other.
    """
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            shorter, longer = ("sources", "targets") if source is None else ("targets", "sources")
            raise ValueError(
                f"the {shorter} end after line {number}, the {longer} do not: give two files"
                " that correspond line by line"
            )
        yield read_line(source, first=not number), read_line(target, first=not number)


def score(
    model: Any, pairs: Iterator[Tuple[str, str]], output: BinaryIO, options: argparse.Namespace
) -> None:
    """Scores the pairs (source, translation) and writes an output line for each.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        pairs: the pairs, as raw text.
        output: a binary file; the lines are UTF-8.
        options: the options of the command line.

    Raises:
        ValueError: a line is too long for the model; the message has the line's number.
    """
    total = partial(count_lines, None if str(options.sources) == "-" else options.sources)
    with Progress("pairs", total) as progress:
        _score(model, pairs, output, options, progress)


def _score(
    model: Any,
    pairs: Iterator[Tuple[str, str]],
    output: BinaryIO,
    options: argparse.Namespace,
    progress: Progress,
) -> None:
    begun = 0
    while block := list(itertools.islice(pairs, BATCHES * options.batch_size)):
        sources, targets = ([pair[side] for pair in block] for side in (0, 1))
        try:
            found = model.score(sources, targets, batch_size=options.batch_size)
        except ValueError as error:
            # The model counts pairs within the block, the user lines of the file.
            pair, message = re.search(r"\bpair (\d+)", str(error)), str(error)
            if pair is not None:
                message = message.replace(pair[0], f"line {begun + 1 + int(pair[1])}")
            raise ValueError(message) from None
        rows: List[str] = [_line(one, as_json=options.json) for one in found]
        output.write("".join(f"{row}\n" for row in rows).encode("utf-8"))
        begun += len(block)
        progress.add(len(block))


def _line(found: Any, *, as_json: bool) -> str:
    if as_json:
        names = ("source", "text", "score", "tokens", "positional_scores")
        values = {name: getattr(found, name) for name in names}
        if found.score == -math.inf:
            # JSON has no infinity: no path of the model writes the text.
            values.update(score=None, positional_scores=[])
        return json.dumps(values, ensure_ascii=False)
    return "" if found.score is None else f"{found.score:.6f}"


main = command(build_parser, run, progress=False)
