"""Measures the dynamic programs of directed acyclic graphs against the loops that they replace, on CPU or GPU.

Example:

    fairseq-hrt ops-speed --threads 1 --repeats 7
"""

import argparse
import logging
import platform
import sys
from typing import Optional, Sequence

from .parser import verb_parser
from .reporting import reporting


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("ops-speed", __doc__)
    parser.add_argument("--device", help="cpu or cuda (default: a GPU where there is one)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="repeats, in turns (default: %(default)s)")
    parser.add_argument(
        "--fuzzy-sentences", type=int, default=64, help="of 32 tokens, in the fuzzy loss (default: %(default)s)"
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    if min(options.threads, options.repeats, options.fuzzy_sentences) < 1:
        parser.error("--threads, --repeats and --fuzzy-sentences must be at least 1")
    import torch

    from ..evaluation import ops_speed

    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        parser.error(f"--device {name}: {str(error).splitlines()[0]}")
    with reporting(parser):
        torch.set_num_threads(options.threads)
        results = [
            ops_speed.compare_likelihood(device, options.repeats),
            ops_speed.compare_passing(device, options.repeats),
        ]
        memory = ops_speed.fuzzy_memory(device, batch=options.fuzzy_sentences)
        shown = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
        sys.stdout.write(ops_speed.markdown(results, memory, shown))


if __name__ == "__main__":
    main()
