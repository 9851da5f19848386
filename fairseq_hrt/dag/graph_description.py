"""A decoded graph as plain data, and as a GraphViz document."""

from typing import Any, Dict, List, Sequence

import torch
from fairseq.data import Dictionary

from ..native.decoding import Hypothesis, describe_graph
from .graph import Graphs


def describe(
    graphs: Graphs,
    found: Sequence[Hypothesis],
    dictionary: Dictionary,
    *,
    tokens: int = 5,
) -> List[Dict[str, Any]]:
    """The graphs of a batch as plain data.

    Args:
        graphs: the graphs.
        found: the translation of each sentence; the path that it was decoded along is marked.
        dictionary: the target dictionary.
        tokens: how many of its best tokens each vertex lists.

    Returns:
        For each sentence a dictionary of its vertices, links, translation and score, see
        :func:`~..native.decoding.describe_graph`.
    """
    best = graphs.log_probs().topk(min(tokens, len(dictionary)), 2)
    ends = graphs.end_scores().exp().tolist()
    documents = []
    for row, (hypothesis, size) in enumerate(zip(found, graphs.lengths.tolist())):
        listed = [
            [(dictionary[token], probability) for token, probability in zip(*pairs)]
            for pairs in zip(
                best.indices[row, :size].tolist(), best.values[row, :size].exp().tolist()
            )
        ]
        listed[0] = [(dictionary[graphs.bos], ends[row][0])]
        listed[-1] = [(dictionary[graphs.eos], ends[row][1])]
        documents.append(
            describe_graph(
                listed,
                graphs.links[row, :size, :size].exp().cpu().numpy(),
                hypothesis.token_vertices,
                translation=dictionary.string(torch.tensor(hypothesis.tokens)),
                score=hypothesis.score,
            )
        )
    return documents


def to_dot(document: Dict[str, Any], *, least: float = 0.05) -> str:
    """The GraphViz source (DOT) of a graph.

    Args:
        document: the graph, a dictionary from :func:`describe`.
        least: vertices and links less probable than this are left out, unless they are on the path
            that the translation was decoded along.
    """
    shown = {v["vertex"] for v in document["vertices"] if v["chosen"] or v["passing"] >= least}
    lines = ["digraph translation {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    for vertex in document["vertices"]:
        if vertex["vertex"] in shown:
            words = "\\n".join(
                _escaped(f"{t['token']} {t['probability']:.2f}") for t in vertex["tokens"][:3]
            )
            colour = ', color="firebrick", penwidth=2' if vertex["chosen"] else ""
            lines.append(
                f'  v{vertex["vertex"]} [label="{words}\\np={vertex["passing"]:.2f}"{colour}];'
            )
    for link in document["links"]:
        both = link["from"] in shown and link["to"] in shown
        if both and (link["chosen"] or link["probability"] >= least):
            colour = ', color="firebrick"' if link["chosen"] else ""
            width = 0.5 + 3 * link["probability"]
            lines.append(
                f'  v{link["from"]} -> v{link["to"]} [label="{link["probability"]:.2f}",'
                f" penwidth={width:.2f}{colour}];"
            )
    return "\n".join([*lines, "}", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
