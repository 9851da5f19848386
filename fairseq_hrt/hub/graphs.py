"""A graph of the runtime as plain data, as the dag family writes its own."""

from typing import Any, Dict, List, Sequence

import numpy as np

from ..runtime.engine import Result


def describe_graph(result: Result, words: Sequence[str], *, least: float = 0.01) -> Dict[str, Any]:
    """The graph of a translation: the document of ``fairseq-hrt graph``, each vertex with its most probable word alone.

    Args:
        result: decoded with graphs.
        words: of the target dictionary.
        least: links less probable than this are left out, unless they are on the path.
    """
    graph = result.graph
    assert graph is not None
    path = [0, *graph.path]
    steps, passing = set(zip(path, path[1:])), passing_probabilities(graph.links)
    vertices = [
        {
            "vertex": vertex, "passing": float(passing[vertex]), "chosen": vertex in path,
            "tokens": [{"token": words[token], "probability": float(np.exp(score))}],
        }
        for vertex, (token, score) in enumerate(zip(graph.tokens.tolist(), graph.scores))
    ]  # fmt: skip
    shown = {(int(u), int(v)) for u, v in zip(*np.nonzero(graph.links >= least))} | steps
    links: List[Dict[str, Any]] = [
        {"from": u, "to": v, "probability": float(graph.links[u, v]), "chosen": (u, v) in steps} for u, v in sorted(shown)
    ]
    # As a dictionary writes it: without </s>.
    translation = " ".join(words[token] for token in result.tokens[:-1])
    return {"vertices": vertices, "links": links, "translation": translation, "score": result.score}


def passing_probabilities(links: np.ndarray) -> np.ndarray:
    """The probability of each vertex that a path through ``links`` ``[L, L]`` passes it: ``[L]``."""
    passing = np.zeros(len(links))
    passing[0] = 1.0
    for vertex in range(len(links)):
        passing += passing[vertex] * links[vertex]
    return passing
