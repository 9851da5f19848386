"""Copies the kernel's results into Python objects."""

from typing import Any, List

import numpy as np

from ..decoding import Graph, Hypothesis
from ..options.values import DecodingOptions
from . import binding


def read_results(found: binding.Results, options: DecodingOptions) -> List[List[Hypothesis]]:
    """Copies the hypotheses of each sentence, best first, from the kernel's results. ``options``
    are those of the search; scores, alignments and graphs that they do not ask for are None or
    empty."""
    scores, aligned = options.scores, options.alignments or options.print_alignment
    # Sliced once: each access to a field makes a new pointer, and each slice a copy.
    counts = found.counts[: found.sentences]
    starts, lengths, steps = (
        values[: sum(counts)] for values in (found.starts, found.lengths, found.steps)
    )
    written = starts[-1] + lengths[-1] if starts else 0
    tokens, token_steps = found.tokens[:written], found.token_steps[:written]
    results: List[List[Hypothesis]] = []
    number = 0
    for count in counts:
        best = []
        for _ in range(count):
            start = starts[number]
            end = start + lengths[number]
            best.append(
                Hypothesis(
                    tokens=tokens[start:end],
                    score=found.scores[number] if scores else None,
                    positional_scores=found.positional[start:end] if scores else [],
                    steps=steps[number],
                    token_steps=token_steps[start:end],
                    alignment=found.places[start:end] if aligned else [],
                    graph=(
                        _graph(found, number, found.places[start:end]) if options.graphs else None
                    ),
                )
            )
            number += 1
        results.append(best)
    return results


def _graph(found: binding.Results, number: int, path: List[int]) -> Graph:
    """Copies the graph of hypothesis ``number``; ``path`` has the vertex of each of its tokens."""
    size, vertex, link = (
        found.graph_sizes[number],
        found.vertex_starts[number],
        found.link_starts[number],
    )

    def copy(values: Any, start: int, count: int, kind: Any) -> np.ndarray:
        return np.array(values[start : start + count], kind)

    links = copy(found.links, link, size * size, np.float32).reshape(size, size)  # [V, V]
    return Graph(
        copy(found.vertex_tokens, vertex, size, np.int32),  # [V]
        copy(found.vertex_scores, vertex, size, np.float32),  # [V]
        links,
        path,
    )
