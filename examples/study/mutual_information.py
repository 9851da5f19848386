"""Estimates the mutual information that models writing several words a step ignore.

Example:

    python examples/study/mutual_information.py data-bin --gen-subset valid --out results \\
        --baseline 'name=interleaved,path=interleaved/checkpoint_best.pt' \\
        --system 'name=IBDecoder,path=ib/checkpoint_best.pt' --system
        'name=IB+SA(2),path=ib_sa/checkpoint_best.pt'

The baseline writes one word a step in the same order: --bidirectional-directions 2
--bidirectional-block 1 for models of two directions, an ordinary Transformer for one direction. The
systems are compared on the reference translations. The table goes to the standard output and, with
all figures, into --out: mutual_information.md, .json.

A model that predicts z words at once assumes them independent given the earlier steps. The mean of
log P_autoregressive - log P_parallel over the words of real translations, both models writing in
the *same order*, estimates the mutual information per word that this ignores (IBDecoder, Appendix
B: the difference of log perplexities; its Table 3 is in logarithms to base 10, here are nats).
``</s>`` counts, dead slots do not, nothing is smoothed.
True mutual information is never negative; an estimate below zero is the noise of two trainings.
"""

import argparse
import logging
import math
from dataclasses import dataclass
from typing import List, Sequence

import numpy as np
from analysis import report, scoring, table

from fairseq_hrt.cli.command import (
    add_data_arguments,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
)
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.comparison import decode_all
from fairseq_hrt.evaluation.systems import FairseqSystem, System, parse_system
from fairseq_hrt.native.io.escaping import in_markdown

logger = logging.getLogger(__name__)

RESAMPLES = 1000


@dataclass(frozen=True)
class MutualInformation:
    """Estimate for one parallel model.

    Attributes:
        name: of the parallel model.
        perplexity: per word, of the parallel model.
        baseline_perplexity: of the autoregressive model in the same order.
        nats: mutual information per word.
        low, high: 95 % confidence interval, from resampled sentences.
        words: scored, ``</s>`` included.
    """

    name: str
    perplexity: float
    baseline_perplexity: float
    nats: float
    low: float
    high: float
    words: int


def estimate(
    name: str,
    parallel: Sequence[Sequence[float]],
    baseline: Sequence[Sequence[float]],
    *,
    seed: int = 1,
) -> MutualInformation:
    """Compares the log-probabilities that two models give the words of the same sentences.

    Args:
        parallel, baseline: natural log-probabilities of the words of each sentence.
        seed: of the bootstrap.

    Raises:
        ValueError: the sentences or their lengths differ.
    """
    if [len(scores) for scores in parallel] != [len(scores) for scores in baseline] or not parallel:
        raise ValueError(
            f"{name} and its baseline did not score the same sentences: use one data set for both"
        )
    counts = np.array([len(scores) for scores in parallel])
    totals = np.array(
        [[math.fsum(own), math.fsum(other)] for own, other in zip(parallel, baseline)]
    )
    words = int(counts.sum())
    means = totals.sum(0) / words
    random = np.random.default_rng(seed)
    resampled = random.integers(len(counts), size=(RESAMPLES, len(counts)))
    gains = (totals[:, 1] - totals[:, 0])[resampled].sum(1) / counts[resampled].sum(1)
    low, high = np.quantile(gains, [0.025, 0.975])
    return MutualInformation(
        name=name,
        perplexity=math.exp(-means[0]),
        baseline_perplexity=math.exp(-means[1]),
        nats=float(means[1] - means[0]),
        low=float(low),
        high=float(high),
        words=words,
    )


def score_references(system: System) -> List[List[float]]:
    """Log-probability of each word of the reference translations, by a
    :class:`~fairseq_hrt.evaluation.systems.System` that scores them.

    Raises:
        ValueError: the data have no targets.
    """
    if len(system.dataset) and system.collate([0])["target"] is None:
        raise ValueError(f"{system.name}: the data have no targets to score")
    return [list(best.positional_scores) for best in decode_all(system, 64)]


def markdown(results: Sequence[MutualInformation]) -> str:
    """One row a parallel model."""
    rows = [
        [
            in_markdown(own.name), f"{own.perplexity:.3f}", f"{own.baseline_perplexity:.3f}",
            f"{own.nats:.4f}", f"{own.low:.4f} – {own.high:.4f}",
        ]
        for own in results
    ]  # fmt: skip
    header = ["Model", "perplexity", "autoregressive, same order", "nats / word", "95 % interval"]
    return (
        table(header, rows)
        + f"\nNatural logarithms, {results[0].words} words with </s>, {RESAMPLES} resamples of the"
        " sentences.\n"
    )


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_data_arguments(parser, "valid")
    add_comparison_arguments(
        parser, baseline="one word a step, same order", system="parallel model"
    )
    return parser


def add_comparison_arguments(parser: argparse.ArgumentParser, baseline: str, system: str) -> None:
    """The options of a comparison of models with a baseline; texts say what these are."""
    parser.add_argument("--baseline", required=True, metavar="name=...,path=...", help=baseline)
    add_system_argument(parser, f"repeat for each {system}", action="append", required=True)
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the bootstrap (default: %(default)s)"
    )
    add_out_argument(parser, "table and figures")


def run(options: argparse.Namespace) -> None:
    """Scores the references with every model and writes the estimates.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    scores = {}
    for text in [options.baseline, *options.system]:
        spec = scoring(parse_system(text))
        logger.info("scoring with %s", spec.name)
        if spec.name in scores:
            raise ValueError(f"two models are called {spec.name!r}: give each a name of its own")
        scores[spec.name] = score_references(FairseqSystem(spec, data_arguments(options)))
    baseline, *systems = scores
    results = [
        estimate(name, scores[name], scores[baseline], seed=options.seed) for name in systems
    ]
    report(options.out, "mutual_information", markdown(results), results)


main = command(build_parser, run)
