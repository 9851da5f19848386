"""Makes a checkpoint of fairseq's autoregressive ``transformer`` a starting point for its
``nonautoregressive_transformer``.

    python examples/common/nat_from_at.py at/checkpoint_best.pt nat_start.pt

The two share all tensors but one: the vectors of target lengths are drawn at random. The result is
for ``fairseq-train --arch nonautoregressive_transformer --finetune-from-model``, so that a
comparison with models that also start from the teacher is fair.
"""

import argparse
from pathlib import Path

import torch
from fairseq import checkpoint_utils

import fairseq_hrt  # noqa: F401  (repairs fairseq)

# fairseq's nonautoregressive_transformer tells this many target lengths apart.
LENGTHS = 256


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("teacher", help="checkpoint of a transformer")
    parser.add_argument("output", type=Path, help="checkpoint to write")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random vectors (default: %(default)s)"
    )
    options = parser.parse_args()
    state = checkpoint_utils.load_checkpoint_to_cpu(options.teacher)
    weights = state["model"]
    width = weights["decoder.embed_tokens.weight"].size(1)
    generator = torch.Generator().manual_seed(options.seed)
    weights["decoder.embed_length.weight"] = (
        torch.randn(LENGTHS, width, generator=generator) * width**-0.5
    )
    kept = {
        key: state[key]
        for key in (
            "args",
            "cfg",
            "model",
            "criterion",
            "optimizer_history",
            "task_state",
            "extra_state",
        )
        if key in state
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    partial = options.output.with_suffix(".partial")
    torch.save(kept, partial)
    partial.replace(options.output)


if __name__ == "__main__":
    main()
