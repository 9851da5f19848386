"""Times training updates of several models on the same batches, taking turns.

    python examples/measure/training_speed.py data-bin --layers 3 --width 256 --max-tokens 1600
    --updates 20 --repeats 5

Compares fairseq's Transformer with the models of this package at equal size: the same encoder,
decoder and batches, fairseq's own trainer, one process. Prints the median time of an update, words
per second, and the ratio to the Transformer, each with minimum and maximum over the repeats (ratios
are taken within a repeat).
"""

import argparse
from typing import Dict, List, Sequence

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from number_options import require
from ops_speed import now
from timed_rows import Clock, Row

import fairseq_hrt  # noqa: F401  (registers the models)
from fairseq_hrt.cli.command import add_numbers, command
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.speed import Timing, measure

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


def training(name: str, data: str, arguments: Sequence[str], count: int) -> Row:
    """A model with its trainer: what is timed are updates, each on a batch.

    Args:
        data: folder written by ``fairseq-preprocess``.
        arguments: of ``fairseq-train``.
        count: batches to keep.
    """
    parsed = options.parse_args_and_arch(options.get_training_parser(), [data, *arguments])
    config = convert_namespace_to_omegaconf(parsed)
    torch.manual_seed(config.common.seed)
    task = tasks.setup_task(config.task)
    task.load_dataset("train")
    model = task.build_model(config.model)
    trainer = Trainer(config, task, model, task.build_criterion(config.criterion))
    batches = task.get_batch_iterator(
        task.dataset("train"), max_tokens=config.dataset.max_tokens, seed=config.common.seed
    ).next_epoch_itr(shuffle=True)
    kept = [batch for batch, _ in zip(batches, range(count))]
    trainer.begin_epoch(1)
    return Row(name, kept, lambda batch: trainer.train_step([batch]), Clock())


def report(timings: Dict[str, Timing], words: int) -> List[str]:
    """The table's lines: median, minimum and maximum; the first model counts as 1."""
    reference = next(iter(timings.values()))
    lines = ["| Model | ms / update | words / s | × speed |", "|---|---:|---:|---:|"]
    for name, timing in timings.items():
        ratio = timing.ratio_to(reference)
        lines.append(
            f"| {name} | {1000 / timing.sentences_per_second().median:.0f}"
            f" | {timing.words_per_second(words).median:.0f}"
            f" | {ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) |"
        )
    return lines


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "data", help="folder written by fairseq-preprocess with a joined dictionary"
    )
    add_numbers(
        parser, ("--layers", 3, "on either side"), ("--width", 256, "of the model"),
        ("--heads", 4, "of attention"), ("--max-tokens", 1600, "of an update"),
        ("--updates", 20, "in a repeat"), ("--repeats", 5, "in turns"),
        ("--threads", 1, "of PyTorch"),
    )  # fmt: skip
    parser.add_argument(
        "--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="models to train"
    )
    return parser


def run(given: argparse.Namespace) -> None:
    """Measures and prints.

    Raises:
        ValueError: a number below 1.
    """
    require(given, 1, "layers", "width", "heads", "max-tokens", "updates", "repeats", "threads")
    torch.set_num_threads(given.threads)
    sizes = ["--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        sizes += [f"--{side}-layers={given.layers}", f"--{side}-embed-dim={given.width}",
                  f"--{side}-ffn-embed-dim={4 * given.width}",
                  f"--{side}-attention-heads={given.heads}"]  # fmt: skip
    shared = [*sizes, "--label-smoothing=0.1", "--optimizer=adam", "--lr=0.0005",
              f"--max-tokens={given.max_tokens}",
              "--max-update=1000000", "--save-dir=unused", "--no-save"]  # fmt: skip
    rows = [
        training(name, given.data, [*MODELS[name].split(), *shared], given.updates)
        for name in given.models
    ]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ids = [[number] for number in range(len(rows[0].batches))]
    timings = measure(rows, ids, repeats=given.repeats, clock=lambda: now(device))
    words = sum(batch["ntokens"] for batch in rows[0].batches)
    print("\n".join(report(timings, words)))


main = command(build_parser, run, progress=False)
