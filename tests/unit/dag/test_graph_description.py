"""Graphs as data and for GraphViz."""

import re

from fairseq_hrt.dag.graph_description import to_dot


def vertex(number, passing, chosen, *tokens):
    return {
        "vertex": number,
        "passing": passing,
        "chosen": chosen,
        "tokens": [{"token": word, "probability": share} for word, share in tokens],
    }


def link(one, other, probability, chosen):
    return {"from": one, "to": other, "probability": probability, "chosen": chosen}


def test_to_dot():
    document = {
        "vertices": [
            vertex(0, 1.0, True, ("<s>", 1.0)),
            vertex(1, 0.5, True, ('a"b', 0.5), ("c\\", 0.25), ("d", 0.125), ("e", 0.0625)),
            vertex(2, 0.04, False, ("x", 1.0)),
            vertex(3, 0.05, False, ("y", 1.0)),
            vertex(4, 0.01, True, ("</s>", 1.0)),
        ],
        "links": [
            link(0, 1, 0.5, True),
            link(0, 2, 0.9, False),
            link(0, 3, 0.05, False),
            link(1, 3, 0.04, False),
            link(1, 4, 0.01, True),
        ],
    }
    lines = to_dot(document).splitlines()
    assert lines[0] == "digraph translation {" and lines[-1] == "}"
    shown = [re.match(r"  v(\d) \[", line)[1] for line in lines if re.match(r"  v\d \[", line)]
    assert shown == ["0", "1", "3", "4"]
    (first,) = [line for line in lines if line.startswith("  v1 [")]
    assert (
        first
        == r'  v1 [label="a\"b 0.50\nc\\ 0.25\nd 0.12\np=0.50", color="firebrick", penwidth=2];'
    )
    assert [line for line in lines if "->" in line] == [
        '  v0 -> v1 [label="0.50", penwidth=2.00, color="firebrick"];',
        '  v0 -> v3 [label="0.05", penwidth=0.65];',
        '  v1 -> v4 [label="0.01", penwidth=0.53, color="firebrick"];',
    ]  # fmt: skip
    assert len(to_dot(document, least=0.0).splitlines()) == len(lines) + 3
