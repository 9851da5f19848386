"""Packs a trained model with its dictionaries and text preparation into a folder that translates
raw text.

Example:

    fairseq-hrt bundle runs/quickstart/hrt/checkpoint_last.pt --data runs/quickstart/data-bin \\
        --codes runs/quickstart/bpe/codes --set beam=1 --card BLEU=93.3 --output bundle
    fairseq-hrt translate bundle < input.txt

With --runtime the bundle also holds a model for the native runtime, which translates several times
as fast on a CPU and starts without PyTorch. It is compared with PyTorch's engine first; how far
their translations agree is written into the bundle's README.md.
"""

import argparse
import sys
from pathlib import Path
from typing import List

from ..native.bundles.bundle import Bundle
from .command import add_new_folder_argument, add_text_arguments, command
from .jobs import input_lines, read_line
from .parser import verb_parser
from .settings import add_set_argument, read_settings


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("bundle", __doc__)
    parser.add_argument(
        "checkpoints",
        nargs="+",
        type=Path,
        metavar="CHECKPOINT",
        help="one checkpoint, or several for an ensemble",
    )
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        help="folder written by fairseq-preprocess, for its dictionaries",
    )
    add_new_folder_argument(parser)
    add_text_arguments(parser, "found out from the validation set in --data")
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FILE",
        help=(
            "raw source lines of that validation set, to check the preparation of text with"
            " (default: its own sentences, detokenised)"
        ),
    )
    parser.add_argument("--task", help="task to decode with (default: that of the training)")
    add_set_argument(parser)
    parser.add_argument(
        "--card",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a row for the table in the bundle's README.md, e.g. BLEU=38.0; repeatable",
    )
    add_examples_argument(parser, "some of the validation set in --data; /dev/null for none")
    native = add_runtime_arguments(parser, "sentences of --data")
    native.add_argument(
        "--shortlist",
        type=Path,
        metavar="FILE",
        help="likely words: a table of fairseq-hrt shortlist, Marian's lex or CTranslate2's vmap",
    )
    return parser


def add_examples_argument(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds ``--examples``; ``default`` tells, in the option's help, which sentences are taken
    without the option."""
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="FILE",
        help=(
            "raw source sentences, one per line, to try the bundle with: in its README.md and on"
            f" the page of fairseq-hrt serve (default: {default})"
        ),
    )


def add_runtime_arguments(
    parser: argparse.ArgumentParser, compared: str
) -> argparse._ArgumentGroup:
    """Adds ``--runtime`` and ``--runtime-lines`` in a group, and returns the group. ``compared``
    tells, in the help, which lines both engines translate without ``--runtime-lines``."""
    group = parser.add_argument_group("native engine")
    group.add_argument(
        "--runtime",
        choices=("int8", "float32"),
        help="also make a model for the native engine, with these weights",
    )
    group.add_argument(
        "--runtime-lines",
        type=Path,
        metavar="FILE",
        help=f"raw source lines to compare both engines with (default: {compared})",
    )
    return group


def run(options: argparse.Namespace) -> None:
    """Packs the bundle and prints its languages, task and text preparation.

    Raises:
        ValueError: options contradict each other or the files of the model.
        OSError: a file cannot be read or written.
    """
    if options.runtime is None and (options.shortlist or options.runtime_lines):
        raise ValueError(
            "--shortlist and --runtime-lines belong to the native engine: give --runtime int8 or"
            " --runtime float32 as well"
        )
    from ..export.checkpoint_bundle import pack

    card = dict(pair.split("=", 1) if "=" in pair else (pair, "") for pair in options.card)
    bundle = pack(
        options.output,
        options.checkpoints,
        options.data,
        tokenizer=options.tokenizer,
        subwords=options.subwords,
        codes=options.codes,
        target_codes=options.target_codes,
        sources=None if options.sources is None else read_lines(options.sources),
        task=options.task,
        options=read_settings(options.set),
        card=card,
        runtime=options.runtime,
        lines=None if options.runtime_lines is None else read_lines(options.runtime_lines),
        shortlist=options.shortlist,
        complete=lambda bundle: add_examples(bundle, options),
    )
    sys.stdout.write(
        f"{bundle.folder}: {bundle.source_lang} -> {bundle.target_lang}, task {bundle.task}\n"
        f"text preparation: {bundle.card.get('text preparation', bundle.tokenizer)}\n"
    )
    if bundle.examples and options.examples is None:
        sys.stdout.write(
            f"{len(bundle.examples)} sentences of {options.data} were added as examples"
            " (--examples)\n"
        )


def add_examples(bundle: Bundle, options: argparse.Namespace) -> None:
    """Adds example sentences to the bundle: those of ``--examples``, else some of the validation
    set.

    Raises:
        ValueError: there are too many sentences, or one is too long.
        OSError: the file cannot be read.
    """
    from ..export.examples import example_sentences

    if options.examples is None:
        bundle.examples = example_sentences(bundle, options.data)
    else:
        bundle.examples = read_examples(options.examples)


def read_examples(path: Path) -> List[str]:
    """The sentences of a file, without empty lines.

    Raises:
        ValueError: there are too many sentences, or one is too long.
        OSError: the file cannot be read.
    """
    from ..native.bundles.description import checked_examples

    given = [line.strip() for line in read_lines(path)]
    return checked_examples([line for line in given if line], str(path))


def read_lines(path: Path) -> List[str]:
    """The lines of a text file.

    Raises:
        ValueError: the file is not text in UTF-8.
        OSError: it cannot be read.
    """
    with input_lines(path) as lines:
        return [read_line(line, first=not number) for number, line in enumerate(lines)]


main = command(build_parser, run, progress=False)
