"""Translates raw text with a bundle: one sentence a line in, one line out, whatever is in it.

Example:

    fairseq-hrt translate bundle < input.txt > output.txt
    fairseq-hrt translate bundle first.txt second.txt --output translated
    fairseq-hrt translate bundle input.txt --json --set beam=5 --set nbest=3
    tail -f log | fairseq-hrt translate bundle --line-buffered
    fairseq-hrt translate bundle input.txt --engine runtime --threads 2

The output has as many lines as the input, in its order; empty lines stay empty. Bytes that are no UTF-8 are read as U+FFFD. Options of
decoding are those of fairseq-generate (without dashes; =true for a switch): --set jacobi_mode=pj, --set hrt_decode_chunk=3;
--set task=... decodes the checkpoint with another task. --json writes an object for each line: text, score, tokens with their
log-probabilities and decoder passes, and the other hypotheses.
"""

import argparse
import json
import logging
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, TextIO

from ..hub.pretrained import ENGINES, from_pretrained

if TYPE_CHECKING:
    from ..hub.translation import Translation

# Lines that are read before they are translated together, sorted by length.
BUFFER = 4096


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="fairseq-hrt translate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path, help="folder made by fairseq-hrt bundle")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="text files (default: the standard input)")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="file for the translations; a folder where several files are given"
    )
    parser.add_argument("--json", action="store_true", help="a JSON object for each line instead of its text")
    parser.add_argument(
        "--line-buffered", action="store_true", help="translate each line as soon as it comes, for use behind a pipe"
    )
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="decoding option; repeatable")
    parser.add_argument("--batch-size", type=int, default=32, help="sentences decoded together (default: %(default)s)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="runtime: the native one, for bundles that were made with --runtime; torch: PyTorch; auto: the runtime where it can (default)",
    )
    parser.add_argument("--threads", type=int, help="threads of the engine (default: its own choice)")
    parser.add_argument("--shortlist", action="store_true", help="choose among the likely words of the bundle's shortlist only")
    parser.add_argument("--device", help="cpu or cuda (default: a GPU where there is one)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s", force=True)
    try:
        run(options)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"error: {error}\n")


def read_settings(pairs: Sequence[str]) -> Dict[str, str]:
    """``["beam=5"]`` → ``{"beam": "5"}``.

    Raises:
        ValueError: an entry without ``=``.
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair}: give OPTION=VALUE, e.g. --set beam=5")
        settings[name.strip().lstrip("-").replace("-", "_")] = value.strip()
    return settings


def run(options: argparse.Namespace) -> None:
    """Loads the bundle and translates every file.

    Raises:
        ValueError: options and files that do not fit each other.
    """
    if options.batch_size < 1:
        raise ValueError(f"--batch-size {options.batch_size} must be at least 1")
    for file in options.files:
        if not file.is_file():
            raise ValueError(f"{file} is no file")
    if options.threads is not None:
        if options.threads < 1:
            raise ValueError(f"--threads {options.threads} must be at least 1")
    model = from_pretrained(
        options.bundle, device=options.device, engine=options.engine, threads=options.threads, use_shortlist=options.shortlist,
        **read_settings(options.set),
    )  # fmt: skip
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if not options.files:
        with _output(options.output) as target:
            translate_stream(model, sys.stdin.buffer, target, options)
        return
    several = len(options.files) > 1
    if several and options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
    for file in options.files:
        path = options.output / file.name if several and options.output else options.output
        with open(file, "rb") as source, _output(path) as target:
            translate_stream(model, source, target, options)


class _output:
    """A file that appears only when it is complete, or the standard output."""

    def __init__(self, path: Optional[Path]) -> None:
        self.path = path

    def __enter__(self) -> TextIO:
        if self.path is None:
            return sys.stdout
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.file = open(self.partial, "w", encoding="utf-8", newline="\n")
        return self.file

    def __exit__(self, kind: object, *rest: object) -> None:
        if self.path is None:
            sys.stdout.flush()
            return
        self.file.close()
        if kind is None:
            self.partial.replace(self.path)


def read_lines(source: BinaryIO) -> Iterator[str]:
    """Lines of any bytes; only a line feed ends a line."""
    for line in source:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")


def translate_stream(model: Any, source: BinaryIO, target: TextIO, options: argparse.Namespace) -> None:
    """Translates all lines of ``source`` into as many lines of ``target``."""
    size = 1 if options.line_buffered else BUFFER
    visible = not (options.quiet or options.line_buffered) and sys.stderr.isatty()
    with progress_bar(visible) as bar:
        buffer: List[str] = []
        for line in read_lines(source):
            buffer.append(line)
            if len(buffer) == size:
                _flush(model, buffer, target, options)
                bar.update(len(buffer))
                buffer = []
        if buffer:
            _flush(model, buffer, target, options)
            bar.update(len(buffer))


def progress_bar(visible: bool) -> Any:
    """A bar that counts lines; without one tqdm is not loaded."""
    if not visible:
        return nullcontext(SimpleNamespace(update=lambda count: None))
    from tqdm import tqdm

    return tqdm(unit=" lines", file=sys.stderr)


def _flush(model: Any, lines: List[str], target: TextIO, options: argparse.Namespace) -> None:
    # Scores are computed only when somebody asks.
    for found in model.translate(lines, details=options.json, batch_size=options.batch_size):
        target.write((to_json(found) if options.json else found) + "\n")
    if options.line_buffered:
        target.flush()


def to_json(found: "Translation") -> str:
    """One line of JSON."""
    return json.dumps(asdict(found), ensure_ascii=False)


if __name__ == "__main__":
    main()
