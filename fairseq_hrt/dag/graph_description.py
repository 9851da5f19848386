"""A decoded graph as plain data, and in the language of GraphViz."""

from typing import Any, Dict, List, Sequence, Set, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..decoding import Hypothesis
from ..ops import passing_probabilities
from .graph import Graphs


def describe(
    graphs: Graphs,
    found: Sequence[Hypothesis],
    dictionary: Dictionary,
    *,
    tokens: int = 5,
    least: float = 0.01,
) -> List[Dict[str, Any]]:
    """The graphs of a batch.

    Args:
        graphs: of the batch.
        found: the translation of each sentence, whose path is marked.
        dictionary: of the target.
        tokens: most probable tokens listed at each vertex.
        least: links less probable than this are left out, unless they are on the path.

    Returns:
        For each sentence ``{"vertices": [{"vertex", "passing", "tokens": [{"token", "probability"}], "chosen"}], "links": [{"from", "to",
        "probability", "chosen"}], "translation", "score"}``, numbers and strings only. ``passing`` is the probability that a path
        passes the vertex.
    """
    best = graphs.log_probs().topk(min(tokens, len(dictionary)), 2)
    ends, passing = graphs.end_scores().exp().tolist(), passing_probabilities(graphs.links, graphs.lengths).tolist()
    documents = []
    for row, (hypothesis, size) in enumerate(zip(found, graphs.lengths.tolist())):
        path = [0, *hypothesis.token_vertices]
        listed = [
            [{"token": dictionary[token], "probability": probability} for token, probability in zip(*pairs)]
            for pairs in zip(best.indices[row, :size].tolist(), best.values[row, :size].exp().tolist())
        ]
        listed[0] = [{"token": dictionary[graphs.bos], "probability": ends[row][0]}]
        listed[-1] = [{"token": dictionary[graphs.eos], "probability": ends[row][1]}]
        vertices = [
            {"vertex": vertex, "passing": passing[row][vertex], "tokens": listed[vertex], "chosen": vertex in path}
            for vertex in range(size)
        ]
        documents.append(
            {
                "vertices": vertices,
                "links": _links(graphs.links[row, :size, :size].exp(), set(zip(path, path[1:])), least),
                "translation": dictionary.string(torch.tensor(hypothesis.tokens)),
                "score": hypothesis.score,
            }
        )
    return documents


def _links(probabilities: Tensor, steps: Set[Tuple[int, int]], least: float) -> List[Dict[str, Any]]:
    """Links that are probable enough, and those of the path, from ``[L, L]``."""
    shown = {tuple(pair) for pair in (probabilities >= least).nonzero().tolist()} | steps
    rows = probabilities.tolist()
    return [{"from": u, "to": v, "probability": rows[u][v], "chosen": (u, v) in steps} for u, v in sorted(shown)]


def to_dot(document: Dict[str, Any], *, least: float = 0.05) -> str:
    """The graph of :func:`describe` for GraphViz: vertices that are passed with at least this probability, and the path.

    Args:
        document: from :func:`describe`.
        least: vertices and links below are left out.
    """
    shown = {v["vertex"] for v in document["vertices"] if v["chosen"] or v["passing"] >= least}
    lines = ["digraph translation {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    for vertex in document["vertices"]:
        if vertex["vertex"] in shown:
            words = "\\n".join(_escaped(f"{t['token']} {t['probability']:.2f}") for t in vertex["tokens"][:3])
            colour = ', color="firebrick", penwidth=2' if vertex["chosen"] else ""
            lines.append(f'  v{vertex["vertex"]} [label="{words}\\np={vertex["passing"]:.2f}"{colour}];')
    for link in document["links"]:
        both = link["from"] in shown and link["to"] in shown
        if both and (link["chosen"] or link["probability"] >= least):
            colour = ', color="firebrick"' if link["chosen"] else ""
            width = 0.5 + 3 * link["probability"]
            lines.append(
                f'  v{link["from"]} -> v{link["to"]} [label="{link["probability"]:.2f}", penwidth={width:.2f}{colour}];'
            )
    return "\n".join([*lines, "}", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
