"""Makes a bundle of a model that somebody else has trained, from files on disk; nothing in them is
run.

Example:

    fairseq-hrt import opus-mt-en-de --output en-de --runtime int8
    echo "Good morning." | fairseq-hrt translate en-de

    fairseq-hrt import mbart-large-50-many-to-many-mmt -s en_XX -t de_DE --output en-de

SOURCE is a folder of Hugging Face's transformers (Marian, MBart-50, M2M-100, NLLB), a folder of
Marian as OPUS-MT, Firefox and translateLocally have them (.npz, .bin, 8-bit ones too), a model file
in such a folder, or a folder with checkpoints, dictionaries and codes: of a model that fairseq
published, or of DA-Transformer and FA-DAT. The checkpoint in the bundle is one of fairseq's: it can
be a teacher (distill) and the start of training. An installation that only translates makes no
checkpoint: its bundles hold the native engine's model alone (int8, unless --runtime names float32).
The licence of a model stays its own.
"""

import argparse
from pathlib import Path

from .bundle import add_examples_argument, add_runtime_arguments, read_examples, read_lines
from .command import PREPARATION, add_new_folder_argument, add_text_arguments, command
from .distribution import only_translates
from .parser import verb_parser
from .reporting import write_output


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("import", __doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="folder or file of the model")
    add_new_folder_argument(parser)
    parser.add_argument(
        "-s",
        "--source-language",
        metavar="NAME",
        help="source language; multilingual models need it (default: from the files)",
    )
    parser.add_argument("-t", "--target-language", metavar="NAME", help="target language, likewise")
    add_examples_argument(parser, "none")
    text = parser.add_argument_group("text, where the model's files do not tell")
    add_text_arguments(text, "found out from the files, else space and none")
    add_runtime_arguments(parser, "words of the vocabulary")
    return parser


def run(options: argparse.Namespace) -> None:
    """Makes the bundle and prints its folder, languages and task.

    Raises:
        ValueError: the source cannot be imported, or options contradict each other.
    """
    checkpoint = not only_translates()
    if checkpoint and options.runtime is None and options.runtime_lines:
        raise ValueError(
            "--runtime-lines belongs to the native engine: give --runtime int8 or --runtime"
            " float32 as well"
        )
    from ..native.conversion import Wishes, import_model

    names = ("source_language", "target_language", "runtime", *PREPARATION)
    wishes = Wishes(
        **{name: getattr(options, name) for name in names},
        lines=None if options.runtime_lines is None else read_lines(options.runtime_lines),
        checkpoint=checkpoint,
        examples=[] if options.examples is None else read_examples(options.examples),
    )
    bundle = import_model(options.source, options.output, wishes)
    alone = (
        ""
        if bundle.models
        else ", the native engine's model alone (no PyTorch here, so no checkpoint)"
    )
    write_output(
        f"{bundle.folder}: {bundle.source_lang} -> {bundle.target_lang}, task"
        f" {bundle.task}{alone}\n"
    )


main = command(build_parser, run)
