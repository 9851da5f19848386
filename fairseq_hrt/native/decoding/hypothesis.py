"""A finished translation, as both engines return it."""

from dataclasses import dataclass, field
from typing import Any, Iterable, List, NamedTuple, Optional


class Graph(NamedTuple):
    """The graph in which a translation is a path (dag).

    Attributes:
        tokens: int32 ``[L]``, the token of each vertex.
        scores: float32 ``[L]``, the tokens' log-probabilities.
        links: float32 ``[L, L]``, the probabilities P(v | u) that vertex v follows u.
        path: the vertex of each token of the translation, without the start, vertex 0.
    """

    tokens: Any
    scores: Any
    links: Any
    path: List[int]


@dataclass
class Hypothesis:
    """One finished translation.

    Attributes:
        tokens: dictionary ids, ``</s>`` last.
        score: the score by which hypotheses are ranked, higher is better; None if scores were not
            asked for.
        positional_scores: log-probability of each token; empty without scores.
        token_steps: decoder pass (1 = first) in which each token became final.
        steps: decoder passes that the sentence needed.
        history: dictionary ids of the partial translation after each decoder pass, with ``<unk>``
            in positions that are still open; empty unless asked for.
        token_directions: the number, from 0, of the direction that wrote each token (bidirectional;
            else empty).
        token_vertices: the vertex of each token in the graph (dag; else empty).
        alignment: index, from 0, of the source token that each token is aligned with; empty unless
            asked for.
        graph: the graph, if asked for (dag).
    """

    tokens: List[int]
    score: Optional[float]
    positional_scores: List[float]
    token_steps: List[int] = field(default_factory=list)
    steps: int = 0
    history: List[List[int]] = field(default_factory=list)
    token_directions: List[int] = field(default_factory=list)
    token_vertices: List[int] = field(default_factory=list)
    alignment: List[int] = field(default_factory=list)
    graph: Optional[Graph] = field(default=None, compare=False)


def best_first(hypotheses: Iterable[Hypothesis]) -> List[Hypothesis]:
    """Sorts hypotheses by descending score; those with equal scores keep their order."""
    return sorted(hypotheses, key=lambda one: -(one.score or 0.0))
