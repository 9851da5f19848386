"""What the kernel has found, as Python objects; everything is copied."""

from typing import Any, List

import numpy as np

from ..decoding import Graph, Hypothesis
from ..options import DecodingOptions
from . import binding


def read_results(found: binding.Results, options: DecodingOptions) -> List[List[Hypothesis]]:
    """The hypotheses of each sentence, best first."""
    scores = options.scores
    results: List[List[Hypothesis]] = []
    number = 0
    for sentence in range(found.sentences):
        best = []
        for _ in range(found.counts[sentence]):
            start = found.starts[number]
            end = start + found.lengths[number]
            best.append(
                Hypothesis(
                    tokens=found.tokens[start:end],
                    score=found.scores[number] if scores else None,
                    positional_scores=found.positional[start:end] if scores else [],
                    steps=found.steps[number],
                    token_steps=found.token_steps[start:end],
                    alignment=(
                        found.places[start:end]
                        if options.alignments or options.print_alignment
                        else []
                    ),
                    graph=(
                        _graph(found, number, found.places[start:end]) if options.graphs else None
                    ),
                )
            )
            number += 1
        results.append(best)
    return results


def _graph(found: binding.Results, number: int, path: List[int]) -> Graph:
    """The graph of a hypothesis, copied."""
    size, vertex, link = (
        found.graph_sizes[number],
        found.vertex_starts[number],
        found.link_starts[number],
    )

    def copy(values: Any, start: int, count: int, kind: Any) -> np.ndarray:
        return np.array(values[start : start + count], kind)

    links = copy(found.links, link, size * size, np.float32).reshape(size, size)
    return Graph(
        copy(found.vertex_tokens, vertex, size, np.int32),
        copy(found.vertex_scores, vertex, size, np.float32),
        links,
        path,
    )
