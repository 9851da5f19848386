"""Averages checkpoints of one training run into a new one.

Example:

    fairseq-hrt average --folder checkpoints --last 5 --output checkpoints/averaged.pt
    fairseq-hrt average --folder checkpoints --best 5 --output checkpoints/averaged.pt
    fairseq-hrt average --inputs a.pt b.pt --output averaged.pt

--last takes the numbered checkpoints of the latest epochs, or updates where the run kept those;
--best those with the best value of the run's --best-checkpoint-metric. Files are loaded safely (see
SECURITY.md, checkpoints).
"""

import argparse
import logging
from pathlib import Path

from ..native.io.streams import writing
from .command import command
from .parser import verb_parser

logger = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("average", __doc__)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the run's --save-dir")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--last", type=int, metavar="N", help="its last N numbered checkpoints")
    chosen.add_argument("--best", type=int, metavar="N", help="its N best checkpoints")
    chosen.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="checkpoints to average, instead of --folder",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="file for the average"
    )
    return parser


def run(options: argparse.Namespace) -> None:
    """Averages the chosen checkpoints and writes the average to ``--output``.

    Raises:
        ValueError: options contradict each other, or the checkpoints are not of one training run.
        OSError: a file cannot be read or written.
    """
    import torch

    from ..loading.averaging import average, best_checkpoints, last_checkpoints

    if (options.inputs is None) == (options.folder is None):
        raise ValueError("--last and --best need --folder; with --inputs leave --folder out")
    if options.inputs is not None:
        paths = options.inputs
    elif options.last is not None:
        paths = last_checkpoints(options.folder, options.last)
    else:
        paths = best_checkpoints(options.folder, options.best)
    logger.info("averaging %s", ", ".join(str(path) for path in paths))
    state = average(paths)
    try:
        # Complete or not there at all: a full disk or a kill must not leave half a checkpoint
        # behind.
        with writing(options.output) as file:
            torch.save(state, file)
    except RuntimeError as error:
        # PyTorch's writer raises this when the disk is full.
        raise OSError(f"{options.output} cannot be written: {error}") from error
    logger.info("written to %s", options.output)


main = command(build_parser, run)
