"""A decoded graph as plain data, the output of ``fairseq-hrt graph``."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

# The least probability of a link that is shown.
LEAST = 0.01


def describe_graph(
    vertices: Sequence[Sequence[Tuple[str, float]]],
    links: np.ndarray,
    path: Sequence[int],
    *,
    translation: str,
    score: Optional[float],
) -> Dict[str, Any]:
    """Converts the graph of a translation to dictionaries, lists, numbers and strings.

    Args:
        vertices: the best words of each vertex as pairs (word, probability).
        links: ``[L, L]``, the probabilities P(v | u) that vertex v follows u; those below
            :data:`LEAST` are left out, unless they are on the path.
        path: the vertex of each token of the translation, without the start, vertex 0.
        translation: the translation, as subwords separated by spaces.
        score: the translation's score; None: not computed.

    Returns:
        ``{"vertices": [{"vertex", "passing", "tokens": [{"token", "probability"}], "chosen"}],
        "links": [{"from", "to", "probability", "chosen"}], "translation", "score"}``. ``passing``
        is the probability that a path passes the vertex, ``chosen`` whether ``path`` passes the
        vertex or takes the link.
    """
    passed = [0, *path]
    steps, passing = set(zip(passed, passed[1:])), passing_probabilities(links)
    listed = [
        {
            "vertex": vertex,
            "passing": float(passing[vertex]),
            "tokens": [
                {"token": token, "probability": probability} for token, probability in words
            ],
            "chosen": vertex in passed,
        }
        for vertex, words in enumerate(vertices)
    ]
    shown = {(int(u), int(v)) for u, v in zip(*np.nonzero(links >= LEAST))} | steps
    arrows: List[Dict[str, Any]] = [
        {"from": u, "to": v, "probability": float(links[u, v]), "chosen": (u, v) in steps}
        for u, v in sorted(shown)
    ]
    return {"vertices": listed, "links": arrows, "translation": translation, "score": score}


def passing_probabilities(links: np.ndarray) -> np.ndarray:
    """For each vertex the probability that a path from vertex 0 passes it: float64 ``[L]``.
    ``links`` ``[L, L]``: the probabilities P(v | u) that vertex v follows u, 0 unless v > u."""
    passing = np.zeros(len(links))
    passing[0] = 1.0
    for vertex in range(len(links)):
        passing += passing[vertex] * links[vertex]
    return passing
