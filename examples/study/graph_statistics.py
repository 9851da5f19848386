"""Measures how sharp the graphs of dag_transformer models are, and where their likelihood comes
from.

Example:

    python examples/study/graph_statistics.py data-bin --gen-subset valid --out results \\
        --system 'name=DAG,path=dag_nll/checkpoint_last.pt' --system
        'name=FA-DAT,path=dag_fuzzy/checkpoint_last.pt'

The first table has -log P(a|x) of the best path for the reference, -log P(y|a,x) of the reference
on it, and -log P(y|x) over all paths; the second one the same of the model's translation and its
path, repeated words kept (FA-DAT, Table 3). The picture shows how passing and token probabilities
are distributed (Figure 1). Written into --out: graph_statistics.md, .json, .png and .svg.
"""

import argparse
import logging
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Dict, List, NamedTuple, Sequence

import torch
from analysis import report, scoring, table
from matplotlib.figure import Figure

from fairseq_hrt.cli.command import (
    add_data_arguments,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
)
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.graph import Graphs
from fairseq_hrt.engine import attached
from fairseq_hrt.evaluation.picture import plain
from fairseq_hrt.evaluation.speed import make_batches
from fairseq_hrt.evaluation.systems import FairseqSystem, System, parse_system
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.io.escaping import in_markdown
from fairseq_hrt.ops import dag_log_likelihood

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphStatistics:
    """Of one model over a set of sentences; natural logarithms.

    Attributes:
        name: of the system.
        sentences: with a path for their reference; without: longer than their graph.
        path_nll: -log P(a | x) of the best path a for the reference y, mean over the sentences with
            a path, as the next two.
        token_nll: -log P(y | a, x).
        nll: -log P(y | x), over all paths.
        own_path_nll, own_token_nll, own_nll: the same of the model's translation, repeats kept, and
        the path that it was read from; all sentences.
        passing: probability that a path passes each vertex, first and last ones left out.
        token: probability of the best token of each of these vertices.
    """

    name: str
    sentences: int
    without: int
    path_nll: float
    token_nll: float
    nll: float
    own_path_nll: float
    own_token_nll: float
    own_nll: float
    passing: List[float]
    token: List[float]


class TranslationScores(NamedTuple):
    """Natural log-probabilities of a translation y that was decoded along the path a.

    Attributes:
        path_log_prob: log P(a | x).
        token_log_prob: log P(y | a, x).
        log_likelihood: log P(y | x), over all paths.
    """

    path_log_prob: float
    token_log_prob: float
    log_likelihood: float


@torch.no_grad()
def score_decoded(graphs: Graphs, found: Sequence[Hypothesis]) -> List[TranslationScores]:
    """Scores decoded translations and their paths (FA-DAT, Table 3).

    Args:
        graphs: the graphs of a batch.
        found: the translation of each sentence, decoded with ``--dag-keep-repeats``.
    """
    size, device = graphs.links.size(1), graphs.links.device
    lengths = torch.tensor([len(hypothesis.tokens) + 1 for hypothesis in found], device=device)
    rows = torch.arange(len(found), device=device)  # [B]
    texts = torch.full((len(found), int(lengths.max())), graphs.eos, device=device)  # [B, T]
    texts[:, 0] = graphs.bos
    for row, hypothesis in enumerate(found):
        texts[row, 1 : lengths[row]] = torch.tensor(hypothesis.tokens, device=device)
    # [B, L, V] -> [B, T, L]
    match = (
        graphs.log_probs()
        .gather(2, texts.unsqueeze(1).expand(-1, size, -1))
        .transpose(1, 2)
        .contiguous()
    )
    # log_probs() forbids <s> and </s>; the first and the last vertex emit them.
    match[:, 0, 0], match[rows, lengths - 1, graphs.last] = graphs.end_scores().to(match).unbind(1)
    likelihood = dag_log_likelihood(match, graphs.links, lengths, graphs.lengths).tolist()
    scores = []
    for row, (hypothesis, total) in enumerate(zip(found, likelihood)):
        path = torch.tensor([0, *hypothesis.token_vertices], device=device)  # [T]
        of_links = graphs.links[row, path[:-1], path[1:]].sum()
        of_tokens = match[row, torch.arange(len(path), device=device), path].sum()
        scores.append(TranslationScores(float(of_links), float(of_tokens), total))
    return scores


def score_translations(generator: DagGenerator, sample: Dict[str, Any]) -> List[TranslationScores]:
    """Decodes a batch with repeated words kept, so that each word has one vertex, and scores its
    translations and their paths."""
    if not generator.options.dag_keep_repeats:
        options, rescorer = replace(generator.options, dag_keep_repeats=True), generator.rescorer
        generator = DagGenerator(
            generator.models, generator.dictionary, options, seed=generator.seed
        )
        generator.rescorer = rescorer
    found: List[TranslationScores] = []
    with attached(
        generator.graph_hooks,
        lambda graphs, hypotheses: found.extend(
            score_decoded(graphs, [best[0] for best in hypotheses])
        ),
    ):
        generator.generate(generator.models, sample)
    return found


def collect(scored: System, decoded: System, batch_size: int = 32) -> GraphStatistics:
    """Measures one model.

    Args:
        scored: with ``score_reference=true``.
        decoded: the same without it.

    Raises:
        ValueError: the model writes no graphs, or no reference has a path.
    """
    if not hasattr(decoded.generator, "describe_graphs"):
        raise ValueError(
            f"system {decoded.name!r} (task {decoded.task_name}) writes no graph: give a"
            " dag_transformer"
        )
    ids = list(range(len(scored.dataset)))
    batches = make_batches(ids, [scored.dataset.num_tokens(i) for i in ids], batch_size)
    entries = [
        best[0]
        for batch in batches
        for best in scored.generator.generate(scored.models, scored.collate(batch))
    ]
    possible = [entry for entry in entries if entry["log_likelihood"] > float("-inf")]
    if not possible:
        raise ValueError(
            f"system {scored.name!r}: every reference is longer than its graph; raise"
            " --dag-decode-upsample-scale"
        )
    passing: List[float] = []
    token: List[float] = []
    own = [
        scores
        for batch in batches
        for scores in score_translations(decoded.generator, decoded.collate(batch))
    ]
    for batch in batches:
        for document in decoded.generator.describe_graphs(decoded.models, decoded.collate(batch)):
            for vertex in document["vertices"][1:-1]:
                passing.append(vertex["passing"])
                token.append(vertex["tokens"][0]["probability"])
    return GraphStatistics(
        name=scored.name,
        sentences=len(possible),
        without=len(entries) - len(possible),
        path_nll=-mean(entry["path_log_prob"] for entry in possible),
        token_nll=-mean(entry["token_log_prob"] for entry in possible),
        nll=-mean(entry["log_likelihood"] for entry in possible),
        own_path_nll=-mean(scores.path_log_prob for scores in own),
        own_token_nll=-mean(scores.token_log_prob for scores in own),
        own_nll=-mean(scores.log_likelihood for scores in own),
        passing=passing,
        token=token,
    )


def markdown(results: Sequence[GraphStatistics]) -> str:
    """References with shares of sharp vertices, a summary of Figure 1; then the model's own
    translations, Table 3."""
    likelihoods = ["System", "−log P(a\\|x)", "−log P(y\\|a,x)", "−log P(y\\|x)"]
    shares = ["vertices passed > 0.5", "best token > 0.9", "without a path"]
    references, translations = [], []
    for own in results:
        name = in_markdown(own.name)
        figures = (own.path_nll, own.token_nll, own.nll)
        likely = mean(value > 0.5 for value in own.passing)
        sharp = mean(value > 0.9 for value in own.token)
        references.append([
            name, *(f"{value:.2f}" for value in figures), f"{100 * likely:.1f}%",
            f"{100 * sharp:.1f}%", f"{own.without} of {own.sentences + own.without}",
        ])  # fmt: skip
        figures = (own.own_path_nll, own.own_token_nll, own.own_nll)
        translations.append([name, *(f"{value:.2f}" for value in figures)])
    return (
        table([*likelihoods, *shares], references)
        + "\nNatural logarithms, means over the sentences whose reference has a path; vertices"
        " between the first and the last.\n\nOf their own translations, repeats kept:\n\n"
        + table(likelihoods, translations)
    )


def draw(results: Sequence[GraphStatistics]) -> Figure:
    """Figure 1: how the passing probabilities and the best tokens' probabilities are
    distributed."""
    figure = Figure(figsize=(9, 3.6), dpi=150, layout="constrained")
    edges = [step / 20 for step in range(21)]
    titles = (
        ("passing", "probability that a path passes the vertex"),
        ("token", "probability of the vertex' best token"),
    )
    for axes, (field, label) in zip(figure.subplots(1, 2), titles):
        for result in results:
            values = getattr(result, field)
            weights = [100 / len(values)] * len(values)
            axes.hist(
                values, edges, weights=weights, histtype="step", linewidth=1.8,
                label=plain(result.name),
            )  # fmt: skip
        axes.set(xlabel=label, ylabel="vertices (%)", yscale="log")
        axes.legend()
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_data_arguments(parser, "valid")
    add_system_argument(parser, "repeat for each model", action="append", required=True)
    add_out_argument(parser, "table, figures and picture")
    return parser


def run(options: argparse.Namespace) -> None:
    """Measures every model and writes the results.

    Raises:
        ValueError: models, options and files that do not fit each other.
    """
    results = []
    for text in options.system:
        spec = replace(parse_system(text), engine="torch")
        logger.info("measuring %s", spec.name)
        scored = FairseqSystem(scoring(spec), data_arguments(options))
        results.append(collect(scored, FairseqSystem(spec, data_arguments(options))))
    report(options.out, "graph_statistics", markdown(results), results, draw(results))


main = command(build_parser, run)
