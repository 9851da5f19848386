"""How much less probable models find translations than another model does: translations that they
learnt from, and others.

Example:

    python examples/study/fit.py --learnt seen/data-bin --unseen other/data-bin --out results \\
        --baseline 'name=Transformer,path=at/checkpoint_best.pt' \\
        --system 'name=hrt,path=hrt/checkpoint_best.pt,hrt_decode_chunk=2'

A model that lacks text finds only the others less probable; what it lacks in both columns, it has
not learnt yet from what it was shown. After few passes both columns are alike whatever the cause. A
baseline that started from the teacher had learnt the translations before.

Figures are nats a subword, ``</s>`` included, the </s> that fill hrt's last chunk are not; over all
paths for graphs. Models trained with other label smoothing are not comparable. The table goes to
the standard output and, with all figures, into --out: fit.md, .json.
"""

import argparse
import logging
import math
from dataclasses import dataclass
from typing import List, Sequence

from analysis import report, scoring, table
from mutual_information import (
    MutualInformation,
    add_comparison_arguments,
    estimate,
    score_references,
)

from fairseq_hrt.cli.command import add_language_arguments, command, data_arguments
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.systems import FairseqSystem, parse_system
from fairseq_hrt.native.io.escaping import in_markdown

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fit:
    """Of one model: its log-probabilities beside the baseline's.

    Attributes:
        name: of the model.
        learnt, unseen: of translations that it learnt from, and of others.
    """

    name: str
    learnt: MutualInformation
    unseen: MutualInformation


def markdown(results: Sequence[Fit]) -> str:
    """One row a model, the baseline's first."""
    rows = []
    for result in results:
        both = (result.learnt, result.unseen)
        own = [f"{math.log(found.perplexity):.3f}" for found in both]
        more = [f"{found.nats:.2f} ({found.low:.2f}–{found.high:.2f})" for found in both]
        rows.append([in_markdown(result.name), *own, *(more if rows else ("", ""))])
    first = results[0]
    return (
        table(["Model", "learnt", "others", "more, learnt", "more, others"], rows)
        + f"\n−log P in nats a subword, and how much more than {in_markdown(first.name)}, with 95 %"
        f" intervals over sentences; {first.learnt.words} and {first.unseen.words} subwords.\n"
    )


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--learnt", required=True, metavar="DATA", help="binarised pairs that the models learnt"
    )
    parser.add_argument("--unseen", required=True, metavar="DATA", help="other pairs")
    parser.add_argument(
        "--gen-subset", default="train", help="subset of both (default: %(default)s)"
    )
    add_language_arguments(parser)
    add_comparison_arguments(parser, baseline="what the others stand beside", system="model")
    return parser


def run(options: argparse.Namespace) -> None:
    """Scores both kinds of pairs with every model and writes the figures.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    specs = [scoring(parse_system(text)) for text in [options.baseline, *options.system]]
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ValueError(f"two models have one name: {', '.join(names)}")
    kinds: List[List[MutualInformation]] = []
    for folder in (options.learnt, options.unseen):
        logger.info("scoring %s", folder)
        data = data_arguments(argparse.Namespace(**{**vars(options), "data": folder}))
        scores = [score_references(FairseqSystem(spec, data)) for spec in specs]
        kinds.append(
            [estimate(name, own, scores[0], seed=options.seed) for name, own in zip(names, scores)]
        )
    results = [Fit(name, *both) for name, *both in zip(names, *kinds)]
    report(options.out, "fit", markdown(results), results)


main = command(build_parser, run)
