"""Writes an autoregressive model for CTranslate2, a C++ runtime without Python.

Example:

    fairseq-hrt export at/checkpoint_best.pt --data data-bin --output at_ctranslate2
    fairseq-hrt export bundle --quantization int8 --output bundle_int8

Takes a checkpoint with the folder of its dictionaries, or a bundle. These convert: models of
fairseq's transformer family (the teachers), and hrt_transformer trained with --hrt-relative-window
0, as the autoregressive model that it also is (C_d = 1). These do not: hrt_transformer with
relative positions (CTranslate2 drops the absolute ones beside them), and every model that writes
several words at a time (bidirectional_transformer, dag_transformer, fairseq's non-autoregressive
ones), for CTranslate2 writes one word after another. The result is compared with fairseq on random
sentences before it is kept. Text goes in and out in the model's own words (tokenised, in subwords):

    translator = ctranslate2.Translator("at_ctranslate2")
    found = translator.translate_batch([["a", "word@@"]], suppress_sequences=[["<blank>"]])
    found[0].hypotheses[0]

(fairseq never writes its padding symbol, CTranslate2 would without the last argument.)
"""

import argparse
import logging
from pathlib import Path
from typing import List, Optional, Tuple

from ..native.bundles.bundle import load_bundle
from ..native.io.progress import Doing
from ..native.options.conditions import flag
from .command import add_language_arguments, add_new_folder_argument, command, language_arguments
from .parser import verb_parser

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("export", __doc__)
    parser.add_argument("model", type=Path, metavar="CHECKPOINT|BUNDLE", help="model to convert")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder written by fairseq-preprocess, for a checkpoint's dictionaries",
    )
    add_language_arguments(parser)
    parser.add_argument(
        "--quantization", metavar="TYPE", help="type of the weights, e.g. int8 (default: float32)"
    )
    add_new_folder_argument(parser)
    return parser


def what_to_load(options: argparse.Namespace) -> Tuple[Path, List[str], Optional[Path]]:
    """Finds the model to convert, from a checkpoint or bundle on the command line.

    Returns:
        (the checkpoint's path, arguments of ``fairseq-generate`` that choose its dictionaries, the
        bundle's file of subword codes or None).

    Raises:
        ValueError: a checkpoint is given without its dictionaries, or a bundle of several models.
    """
    if options.model.is_dir():
        for name in ("data", "source_lang", "target_lang"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"{flag(name)} {getattr(options, name)}: {options.model} is a bundle, which has"
                    " dictionaries and languages; leave it out"
                )
        bundle = load_bundle(options.model)
        if len(bundle.paths) > 1:
            raise ValueError(
                f"{options.model} is an ensemble of {len(bundle.paths)} models; CTranslate2 decodes"
                " with a single one: export the checkpoint of each"
            )
        languages = language_arguments(bundle.source_lang, bundle.target_lang)
        return bundle.paths[0], [str(bundle.folder), *languages], bundle.recipe.codes
    if options.data is None:
        raise ValueError(
            f"{options.model} is not the folder of a bundle; if it is a checkpoint, give --data,"
            " the folder of its dictionaries"
        )
    return (
        options.model,
        [str(options.data), *language_arguments(options.source_lang, options.target_lang)],
        None,
    )


def run(options: argparse.Namespace) -> None:
    """Loads the model, converts it, and prints the result's size and how much its log-probabilities
    differ from fairseq's.

    Raises:
        ValueError: the model cannot be converted.
    """
    import torch
    from fairseq import tasks

    from ..engine.models import generation_config, load_models
    from ..export.ctranslate2_model import export
    from ..loading.checkpoints import reading

    path, arguments, codes = what_to_load(options)
    with Doing("loading the model"):
        config = generation_config(
            [*arguments, "--path", str(path), "--cpu", "--task", "translation"], str(path)
        )
        with reading(path, "has no usable dictionaries"):
            task = tasks.setup_task(config.task)
        model = load_models([path], config, task, torch.device("cpu")).models[0]
    with Doing("converting and comparing"):
        exported = export(
            model,
            task.source_dictionary,
            task.target_dictionary,
            options.output,
            quantization=options.quantization,
            codes=codes,
        )
    print(
        f"{exported.folder}: {exported.size / 1e6:.1f} MB, weights"
        f" {options.quantization or 'float32'}; log-probabilities differ from fairseq's by at most"
        f" {exported.difference:.1g}"
    )


main = command(build_parser, run)
