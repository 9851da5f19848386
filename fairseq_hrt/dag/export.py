"""A decoded graph as plain data, and in the language of GraphViz."""

from typing import Any, Dict, List

import torch
from fairseq.data import Dictionary

from ..common.hypothesis import Hypothesis
from ..ops import passing_probabilities
from .graph import Graphs


def describe(
    graphs: Graphs, row: int, hypothesis: Hypothesis, dictionary: Dictionary, *, tokens: int = 5, least: float = 0.01
) -> Dict[str, Any]:
    """One sentence's graph.

    Args:
        graphs: of a batch.
        row: the sentence.
        hypothesis: its translation, whose path is marked.
        dictionary: of the target.
        tokens: most probable tokens listed at each vertex.
        least: links less probable than this are left out, unless they are on the path.

    Returns:
        ``{"vertices": [{"vertex", "passing", "tokens": [{"token", "probability"}], "chosen"}], "links": [{"from", "to",
        "probability", "chosen"}], "translation", "score"}``, numbers and strings only. ``passing`` is the probability that a path
        passes the vertex.
    """
    size = int(graphs.lengths[row])
    links = graphs.links[row, :size, :size]
    passing = passing_probabilities(links.unsqueeze(0), torch.tensor([size], device=links.device))[0]
    log_probs = graphs.log_probs()[row, :size]
    best = log_probs.topk(min(tokens, log_probs.size(1)), 1)
    path = [0, *hypothesis.token_vertices]
    steps = set(zip(path, path[1:]))
    ends = graphs.end_scores()[row].exp().tolist()
    vertices: List[Dict[str, Any]] = []
    for vertex in range(size):
        if vertex in (0, size - 1):
            symbol, probability = (graphs.bos, ends[0]) if vertex == 0 else (graphs.eos, ends[1])
            listed = [{"token": dictionary[symbol], "probability": probability}]
        else:
            pairs = zip(best.indices[vertex].tolist(), best.values[vertex].exp().tolist())
            listed = [{"token": dictionary[symbol], "probability": probability} for symbol, probability in pairs]
        vertices.append(
            {"vertex": vertex, "passing": float(passing[vertex]), "tokens": listed, "chosen": vertex in path}
        )
    shown = [
        {"from": u, "to": v, "probability": float(links[u, v].exp()), "chosen": (u, v) in steps}
        for u, v in (links.exp() >= least).nonzero().tolist()
    ]
    known = {(link["from"], link["to"]) for link in shown}
    shown += [
        {"from": u, "to": v, "probability": float(links[u, v].exp()), "chosen": True} for u, v in sorted(steps - known)
    ]
    return {
        "vertices": vertices,
        "links": shown,
        "translation": dictionary.string(torch.tensor(hypothesis.tokens)),
        "score": hypothesis.score,
    }


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
