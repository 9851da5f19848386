"""The options of the verbs that show how systems translate one sentence, ``trace`` and
``graph``."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Dict, List, Optional

from .command import given_bundle
from .jobs import input_lines, read_line

# The subset of the data, unless --gen-subset names another one.
SUBSET = "test"

if TYPE_CHECKING:
    from ..evaluation.systems import SystemSpec
    from ..native.bundles.bundle import Bundle


def given_systems(options: argparse.Namespace) -> "List[SystemSpec]":
    """The systems that ``--system`` describes; without ``--system`` the bundle that is given in the
    place of the data folder, with the options of ``--set``.

    Raises:
        ValueError: neither a system nor a bundle is given, two systems share a name, or ``--set``
            is given beside ``--system`` or without a bundle.
    """
    from ..evaluation.systems import parse_system
    from ..evaluation.systems.specification import system_from_mapping
    from .settings import read_settings

    bundle, texts = given_bundle(options), options.system or []
    specs = [parse_system(text) for text in ([texts] if isinstance(texts, str) else texts)]
    if options.set and (specs or bundle is None):
        raise ValueError(
            f"--set {options.set[0]} is for a bundle without --system: give"
            f" --system name=...,path=...,{options.set[0]}"
        )
    if not specs and bundle is not None:
        own = {**_trained_options(bundle), **bundle.options}
        chosen = read_settings(options.set, ("device", "engine"))
        named = {
            "name": bundle.folder.resolve().name,
            "path": ":".join(map(str, bundle.paths)),
            "task": bundle.task,
        }
        spec = system_from_mapping({**named, **own, **chosen})
        specs = [replace(spec, defaults=frozenset(own) - set(chosen))]
    if not specs:
        raise ValueError(
            "no system is given; add --system name=...,path=... (or give a bundle instead of the"
            " data folder: it is then the system)"
        )
    if len({spec.name for spec in specs}) < len(specs):
        raise ValueError(
            f"two systems share a name: {[spec.name for spec in specs]}; give each its own"
        )
    return specs


def _trained_options(bundle: "Bundle") -> Dict[str, str]:
    """The decoding options that were set in the training of the bundle's checkpoint, with which
    ``translate`` decodes it: {name: text}."""
    from ..export.runtime_bundle import trained_options
    from ..loading.checkpoints import read_checkpoint

    if bundle.runtime is not None:
        return bundle.runtime_options
    state = read_checkpoint(bundle.paths[0], for_decoding=False)
    return trained_options(state["cfg"].task, bundle.task)


def add_sentence_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds ``--sentence``, the number of a sentence in the data, from 0, and ``--text``, a sentence
    of the user's own instead."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--sentence",
        type=int,
        default=0,
        metavar="N",
        help="number of the sentence (default: %(default)s)",
    )
    which.add_argument(
        "--text",
        metavar="WORDS",
        help=(
            "a sentence of your own, in the model's words (tokenised, in subwords; for a bundle raw"
            " text); - reads one line from the standard input"
        ),
    )


def given_text(options: argparse.Namespace) -> Optional[str]:
    """The sentence of ``--text`` in the model's words (tokenised, in subwords), separated by
    spaces; None without ``--text``.

    Raises:
        ValueError: ``--text`` has no words, stands beside ``--gen-subset``, or is missing although
            the data are a bundle, which holds no sentences.
    """
    if options.text is not None and options.gen_subset != SUBSET:
        raise ValueError(
            f"--gen-subset {options.gen_subset}: --text is translated instead of a sentence of the"
            " data; leave one of the two out"
        )
    text, bundle = _standard_line() if options.text == "-" else options.text, given_bundle(options)
    if bundle is not None:
        if text is None:
            raise ValueError(
                f"{options.data} is a bundle, which holds no sentences: give a sentence by --text"
            )
        text = " ".join(bundle.pipeline().words(text))
    if text is not None and not text.strip():
        raise ValueError("--text has no words; give a sentence")
    return text


def _standard_line() -> str:
    with input_lines(None) as lines:
        return read_line(next(lines, b""), first=True)
