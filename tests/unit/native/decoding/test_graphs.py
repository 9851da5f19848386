"""Graphs as plain data, against all paths written out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.decoding.graphs import describe_graph, passing_probabilities


@settings(max_examples=25)
@given(vertices=st.integers(2, 6), seed=st.integers(0, 99), holes=st.sampled_from([0.0, 0.4]))
def test_how_often_a_vertex_is_passed(graphs, vertices, seed, holes):
    log_links = graphs.links(1, vertices, [vertices], seed=seed, holes=holes)[0]
    expected = np.zeros(vertices)
    for path in graphs.paths(vertices):
        expected[list(path)] += math.exp(graphs.score(log_links, path))
    assert passing_probabilities(log_links.exp().numpy()) == pytest.approx(expected)


def test_the_document(monkeypatch):
    links = np.array([[0, 0.995, 0.005], [0, 0, 1], [0, 0, 0]], np.float32)
    vertices = [[("a", 0.5)], [("b", 0.25)], [("</s>", 1.0)]]
    # The path leaves out vertex 1, by a link that would be too improbable to be shown.
    found = describe_graph(vertices, links, [2], translation="", score=-0.5)
    assert [(one["from"], one["to"], one["chosen"]) for one in found["links"]] == [
        (0, 1, False),
        (0, 2, True),
        (1, 2, False),
    ]
    assert [one["probability"] for one in found["links"]] == pytest.approx([0.995, 0.005, 1.0])
    assert [one["chosen"] for one in found["vertices"]] == [True, False, True]
    assert [one["passing"] for one in found["vertices"]] == pytest.approx([1, 0.995, 1])
    assert [one["tokens"][0]["token"] for one in found["vertices"]] == ["a", "b", "</s>"]
    assert [one["tokens"][0]["probability"] for one in found["vertices"]] == pytest.approx(
        [0.5, 0.25, 1.0]
    )
    assert (found["translation"], found["score"]) == ("", -0.5)
    monkeypatch.setattr("fairseq_hrt.native.decoding.graphs.LEAST", 0.996)
    longer = describe_graph(vertices, links, [1, 2], translation="b", score=-1.0)
    assert longer["translation"] == "b"
    assert [(one["from"], one["to"], one["chosen"]) for one in longer["links"]] == [
        (0, 1, True),
        (1, 2, True),
    ]
