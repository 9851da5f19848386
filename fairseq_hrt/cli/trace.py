"""Follows one sentence through one or several systems, decoder pass by decoder pass.

Example:

    fairseq-hrt trace data-bin --gen-subset test --sentence 3 --out trace \\
        --system 'name=Jacobi,path=at/checkpoint_best.pt,task=translation_jacobi,beam=1' \\
        --system 'name=HRT,path=hrt/checkpoint_last.pt,beam=1'
    echo 'ein hund läuft' | fairseq-hrt trace data-bin --text - --system name=...,path=...
    fairseq-hrt trace bundle --text 'Ein Hund läuft.' --out trace
    fairseq-hrt trace data-bin --system name=native,path=hrt/checkpoint_last.pt,engine=native,beam=1

The passes are shown in the terminal (in colour with FORCE_COLOR, never with NO_COLOR). Written into
--out: trace.json, trace.html (one file without any network, with a slider through the passes) and a
picture of passes × words with their probabilities and dependency arcs for each system (PNG and
SVG). A bundle in the place of the data is its own system unless --system names others, and takes
raw text; --set cpu=true keeps it off a GPU.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

from ..native.io.files import write_text
from .command import (
    add_data_arguments,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
)
from .one_sentence import SUBSET, add_sentence_arguments, given_systems, given_text
from .parser import verb_parser
from .settings import add_set_argument

if TYPE_CHECKING:
    from ..evaluation.sentence_trace import Trace
    from ..evaluation.systems import System

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("trace", __doc__)
    add_data_arguments(parser, SUBSET)
    add_system_argument(
        parser, "a model and how it decodes; repeat for each system", action="append"
    )
    add_set_argument(parser, "decoding option of a bundle without --system; repeatable")
    add_sentence_arguments(parser)
    add_out_argument(parser, "page, pictures and data")
    return parser


def run(options: argparse.Namespace) -> None:
    """Decodes the sentence with every system and shows its passes.

    Raises:
        ValueError: the data have no sentence number ``--sentence``, or two systems share a name.
    """
    from ..evaluation import sentence_trace
    from ..evaluation.step_colours import use_colour
    from ..evaluation.systems import load_watched

    specs = given_systems(options)
    text = given_text(options)
    traces = []
    for spec in specs:
        system = load_watched(spec, data_arguments(options))
        sample, source = sentence(system, options.sentence, text)
        traces.append(sentence_trace.trace(system, sample, source))
    colour = use_colour(sys.stdout)
    shown = [sentence_trace.to_text(found, colour=colour) for found in traces]
    sys.stdout.write("\n\n".join([sentence_trace.legend(colour=colour), *shown]) + "\n")
    if options.out:
        write(options.out, traces)


def sentence(system: "System", number: int, text: Optional[str]) -> Tuple[Dict[str, Any], str]:
    """Returns a batch of one sentence, as fairseq's models take it, and the sentence's words,
    separated by spaces.

    Args:
        system: the system that is to decode it.
        number: the number of the sentence in the data, from 0.
        text: a sentence in the model's words to take instead, or None.

    Raises:
        ValueError: the data have no sentence of this number.
    """
    from ..evaluation.comparison import source_text

    if text is not None:
        return system.collate_text([text]), text.strip()
    if not 0 <= number < len(system.dataset):
        raise ValueError(
            f"--sentence {number}: {system.subset} has the sentences 0 to {len(system.dataset) - 1}"
        )
    return system.collate([number]), source_text(system, number)


def write(folder: Path, traces: "Sequence[Trace]") -> None:
    """Writes the data (JSON), the page (HTML) and the pictures of the traces into ``folder``.

    Raises:
        ValueError: matplotlib is not installed (after the data were written).
    """
    from ..evaluation.result_files import drawing, in_file_names, picture_files

    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps([found.to_json() for found in traces], indent=1, ensure_ascii=False)
    write_text(folder / "trace.json", data + "\n")
    with drawing():
        from ..evaluation import trace_picture
    write_text(folder / "trace.html", trace_picture.page(traces))
    for number, found in enumerate(traces, start=1):
        name = f"trace_{number}_{in_file_names(found.name)}"
        trace_picture.draw(found, picture_files(folder, name))
    logger.info("written to %s", folder)


main = command(build_parser, run)
