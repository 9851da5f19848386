"""Packs a trained model with its dictionaries and text preparation into a folder that translates raw text.

Example:

    fairseq-hrt bundle runs/quickstart/hrt/checkpoint_last.pt --data runs/quickstart/data-bin \\
        --codes runs/quickstart/bpe/codes --set beam=1 --card BLEU=93.3 --output bundle
    fairseq-hrt translate bundle < input.txt
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence

from ..hub.bundle import make_bundle
from ..hub.text import SUBWORDS, TOKENIZERS
from .translate import read_settings


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="fairseq-hrt bundle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT", help="one, or several for an ensemble")
    parser.add_argument("--data", required=True, type=Path, help="folder of fairseq-preprocess, for its dictionaries")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="to make; must not exist")
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default="moses", help="of the training text (default: %(default)s)")
    parser.add_argument("--subwords", choices=SUBWORDS, default="subword-nmt", help="likewise (default: %(default)s)")
    parser.add_argument("--codes", type=Path, help="their codes or model")
    parser.add_argument("--task", help="to decode with (default: the one of the training)")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="decoding option; repeatable")
    parser.add_argument(
        "--card", action="append", default=[], metavar="NAME=VALUE", help="something to know, e.g. BLEU=38.0; repeatable"
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    from ..hub.translator import from_pretrained

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s", force=True)
    try:
        card = dict(pair.split("=", 1) if "=" in pair else (pair, "") for pair in options.card)
        bundle = make_bundle(
            options.output,
            options.checkpoints,
            options.data,
            tokenizer=options.tokenizer,
            subwords=options.subwords,
            codes=options.codes,
            task=options.task,
            options=read_settings(options.set),
            card=card,
        )
        # A bundle that cannot be loaded is worse than none.
        from_pretrained(bundle.folder, device="cpu")
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    sys.stdout.write(f"{bundle.folder}: {bundle.source_lang} -> {bundle.target_lang}, task {bundle.task}\n")


if __name__ == "__main__":
    main()
