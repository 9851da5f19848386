"""A finished translation, whichever engine has found it."""

from dataclasses import dataclass, field
from typing import Any, Iterable, List, NamedTuple, Optional


class Graph(NamedTuple):
    """The graph that a translation is a path of (dag).

    Attributes:
        tokens: int32 ``[L]``, what each vertex writes.
        scores: float32 ``[L]``, its log-probability.
        links: float32 ``[L, L]``, P(v | u).
        path: the vertex of each token of the translation.
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
        score: what hypotheses are ranked by; higher is better; None where scores were not asked
            for.
        positional_scores: log-probability of each token; empty without scores.
        token_steps: decoder pass (1 = first) in which each token was fixed.
        steps: decoder passes that the sentence needed.
        history: the partial translations after each step, if asked for; ``<unk>`` stands for an
            open position.
        token_directions: direction that wrote each token, where there are several.
        token_vertices: where tokens are written into a graph, the vertex of each.
        alignment: if asked for, the source token that each token looks at, counted from 0.
        graph: if asked for.
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
    """Hypotheses in the order of their scores; those that tie keep theirs."""
    return sorted(hypotheses, key=lambda one: -(one.score or 0.0))
