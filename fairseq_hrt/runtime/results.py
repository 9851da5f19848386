"""What the kernel has found, as Python objects; everything is copied."""

from dataclasses import dataclass, field
from typing import Any, List, NamedTuple, Optional

import numpy as np

from ..decoding_rules import without_repeated_ngrams
from . import binding
from .options import DecodeOptions


class Graph(NamedTuple):
    """The graph that a translation is a path of (dag).

    Attributes:
        tokens: int32 ``[L]``, what each vertex writes.
        scores: float32 ``[L]``, its log-probability.
        links: float32 ``[L, L]``, P(v | u).
        path: the vertex of each token of the translation.
    """

    tokens: np.ndarray
    scores: np.ndarray
    links: np.ndarray
    path: List[int]


@dataclass
class Result:
    """One hypothesis.

    Attributes:
        tokens: dictionary ids, ``</s>`` last.
        score: what hypotheses are ranked by; None without scores.
        positional_scores: log-probability of each token; empty without scores.
        steps: decoder passes that the sentence needed.
        token_steps: the pass (1 = first) in which each token was fixed.
        alignment: place in the source of each token, where alignments were asked for.
        graph: where graphs were asked for.
    """

    tokens: List[int]
    score: Optional[float]
    positional_scores: List[float]
    steps: int
    token_steps: List[int] = field(default_factory=list)
    alignment: List[int] = field(default_factory=list)
    graph: Optional[Graph] = field(default=None, compare=False)


def read_results(found: binding.Results, options: DecodeOptions) -> List[List[Result]]:
    """The hypotheses of each sentence, best first."""
    scores = options.scores
    results: List[List[Result]] = []
    number = 0
    for sentence in range(found.sentences):
        best = []
        for _ in range(found.counts[sentence]):
            start = found.starts[number]
            end = start + found.lengths[number]
            best.append(
                Result(
                    tokens=found.tokens[start:end],
                    score=found.scores[number] if scores else None,
                    positional_scores=found.positional[start:end] if scores else [],
                    steps=found.steps[number],
                    token_steps=found.token_steps[start:end],
                    alignment=found.places[start:end] if options.alignments else [],
                    graph=_graph(found, number, found.places[start:end]) if options.graphs else None,
                )
            )
            number += 1
        results.append(best)
    return results


def _graph(found: binding.Results, number: int, path: List[int]) -> Graph:
    """The graph of a hypothesis, copied."""
    size, vertex, link = found.graph_sizes[number], found.vertex_starts[number], found.link_starts[number]

    def copy(values: Any, start: int, count: int, kind: Any) -> np.ndarray:
        return np.array(values[start : start + count], kind)

    links = copy(found.links, link, size * size, np.float32).reshape(size, size)
    return Graph(
        copy(found.vertex_tokens, vertex, size, np.int32), copy(found.vertex_scores, vertex, size, np.float32), links, path
    )


def deduplicate(result: Result) -> None:
    """Collapses repeated n-grams; scores are those of the search."""
    kept = without_repeated_ngrams(result.tokens[:-1])
    kept.append(len(result.tokens) - 1)
    for name in ("tokens", "positional_scores", "token_steps", "alignment"):
        values = getattr(result, name)
        setattr(result, name, [values[place] for place in kept] if values else values)
