"""Times training updates of several models on the same batches, taking turns.

    python examples/measure/training_speed.py data-bin --layers 3 --width 256 --max-tokens 1600
    --updates 20 --repeats 5

Compares fairseq's Transformer with the models of this package at equal size: the same encoder,
decoder and batches, fairseq's own trainer, one process. Prints the median time of an update, words
per second, and the ratio to the Transformer, each with minimum and maximum over the repeats (ratios
are taken within a repeat).
"""

import argparse
import logging
import statistics
import time
from typing import Dict, List, Optional, Sequence

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import fairseq_hrt  # noqa: F401  (registers the models)

MODELS = {
    "Transformer": "--task translation --arch transformer --criterion label_smoothed_cross_entropy",
    "IBDecoder": (
        "--task translation_bidirectional --arch bidirectional_transformer --criterion"
        " bidirectional_loss"
    ),
    "IB+SA(2)": (
        "--task translation_bidirectional --arch bidirectional_transformer --criterion"
        " bidirectional_loss --bidirectional-tokens-per-step 2"
    ),
    "HRT k=2": (
        "--task translation_hrt --arch hrt_transformer --criterion hrt_loss --hrt-chunk-sizes 2 "
        "--hrt-curriculum-power 0"
    ),
}


class Training:
    """A model with its trainer and its batches.

    Args:
        data: folder written by ``fairseq-preprocess``.
        arguments: of ``fairseq-train``.
        count: batches to keep.
    """

    def __init__(self, data: str, arguments: Sequence[str], count: int) -> None:
        parsed = options.parse_args_and_arch(options.get_training_parser(), [data, *arguments])
        config = convert_namespace_to_omegaconf(parsed)
        torch.manual_seed(config.common.seed)
        task = tasks.setup_task(config.task)
        task.load_dataset("train")
        model = task.build_model(config.model)
        self.trainer = Trainer(config, task, model, task.build_criterion(config.criterion))
        batches = task.get_batch_iterator(
            task.dataset("train"), max_tokens=config.dataset.max_tokens, seed=config.common.seed
        ).next_epoch_itr(shuffle=True)
        self.batches = [batch for batch, _ in zip(batches, range(count))]
        self.words = sum(batch["ntokens"] for batch in self.batches)
        self.trainer.begin_epoch(1)

    def run(self) -> float:
        """Seconds for one update on each batch."""
        begin = time.perf_counter()
        for batch in self.batches:
            self.trainer.train_step([batch])
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - begin


def report(seconds: Dict[str, List[float]], words: int, updates: int) -> List[str]:
    """The table's lines: median, minimum and maximum; the first model counts as 1."""
    reference = next(iter(seconds.values()))
    lines = ["| Model | ms / update | words / s | × speed |", "|---|---:|---:|---:|"]
    for name, times in seconds.items():
        ratios = [other / own for own, other in zip(times, reference)]
        median = statistics.median(times)
        lines.append(
            f"| {name} | {1000 * median / updates:.0f} | {words / median:.0f} "
            f"| {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |"
        )
    return lines


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", help="folder written by fairseq-preprocess with a joined dictionary"
    )
    for name, default in (
        ("layers", 3), ("width", 256), ("heads", 4), ("max-tokens", 1600), ("updates", 20),
        ("repeats", 5), ("threads", 1),
    ):  # fmt: skip
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"(default: {default})"
        )
    parser.add_argument(
        "--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="models to train"
    )
    given = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    torch.set_num_threads(given.threads)
    sizes = ["--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        sizes += [f"--{side}-layers={given.layers}", f"--{side}-embed-dim={given.width}",
                  f"--{side}-ffn-embed-dim={4 * given.width}",
                  f"--{side}-attention-heads={given.heads}"]  # fmt: skip
    shared = [*sizes, "--label-smoothing=0.1", "--optimizer=adam", "--lr=0.0005",
              f"--max-tokens={given.max_tokens}",
              "--max-update=1000000", "--save-dir=unused", "--no-save"]  # fmt: skip
    trainings = {
        name: Training(given.data, [*MODELS[name].split(), *shared], given.updates)
        for name in given.models
    }
    seconds: Dict[str, List[float]] = {name: [] for name in trainings}
    for repeat in range(-1, given.repeats):
        # The first round warms up; the order rotates, so that a slow phase of the machine meets all
        # of them.
        order = list(trainings)
        first = max(repeat, 0) % len(order)
        for name in [*order[first:], *order[:first]]:
            spent = trainings[name].run()
            if repeat >= 0:
                seconds[name].append(spent)
    words = next(iter(trainings.values())).words
    print("\n".join(report(seconds, words, given.updates)))


if __name__ == "__main__":
    main()
