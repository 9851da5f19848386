"""Graphs without repeats against all paths with them."""

import itertools
import math
from collections import defaultdict
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.ops import best_printing_path, dag_best_alignment, repeats, without_repeats


def runs(path, tokens):
    """The vertices of a path where a word begins, and those where it is repeated."""
    first, again = [path[0]], []
    for before, vertex in zip(path, path[1:]):
        (again if tokens[before] == tokens[vertex] else first).append(vertex)
    return tuple(first), again


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_path_is_counted_under_the_vertices_where_its_words_begin(graphs, data):
    lengths = data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=3))
    seed, words = data.draw(st.integers(0, 999)), data.draw(st.integers(1, 4))
    links = graphs.links(len(lengths), max(lengths), lengths, seed=seed, spread=2.0, holes=0.3)
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 4 + words, links.shape[:2], generator=generator)
    tokens[:, 0] = 0
    tokens[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = 2
    scores = -3 * torch.rand(links.shape[:2], dtype=torch.double, generator=generator)
    # As if all rows were small, too.
    small = mock.patch.object(
        repeats, "LEAST_MASS", data.draw(st.sampled_from([repeats.LEAST_MASS, 2.0]))
    )
    # As if the graphs were large.
    large = mock.patch.object(repeats, "_LARGE", data.draw(st.sampled_from([repeats._LARGE, 0])))
    with small, large:
        found = without_repeats(links, tokens, scores, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        expected = defaultdict(float)
        for path in graphs.paths(length):
            first, again = runs(path, tokens[row].tolist())
            expected[first] += math.exp(
                graphs.score(links[row], path) + sum(float(scores[row, v]) for v in again)
            )
        for first, probability in expected.items():
            assert math.exp(graphs.score(found[row], first)) == pytest.approx(
                probability, abs=1e-12
            )
        # Nothing else leads to the end.
        total = sum(math.exp(graphs.score(found[row], path)) for path in graphs.paths(length))
        assert total == pytest.approx(sum(expected.values()))
        assert (found[row].exp().sum(1) < 1 + 1e-9).all() and not found[row].isnan().any()
        alone = without_repeats(
            links[row : row + 1, :length, :length], tokens[row : row + 1, :length],
            scores[row : row + 1, :length], torch.tensor([length]),
        )  # fmt: skip
        torch.testing.assert_close(alone[0], found[row, :length, :length])


def test_a_graph_without_repeats_stays_as_it_is(graphs):
    links = graphs.links(1, 7, [7])
    found = without_repeats(
        links, torch.arange(7).unsqueeze(0), torch.full((1, 7), -1.0), torch.tensor([7])
    )
    torch.testing.assert_close(found, links)
    with pytest.raises(ValueError, match="vertex_lengths"):
        without_repeats(links, torch.arange(7).unsqueeze(0), torch.zeros(1, 7), torch.tensor([8]))


@pytest.mark.parametrize("cost", [-4.0, -60.0, -800.0])
def test_long_chains_of_repeats_do_not_underflow(cost):
    """Each vertex leads to the next, all inner ones write the same word: one chain, of 58
    repeats."""
    size = 60
    links = torch.full((2, size, size), -math.inf)
    links[:, torch.arange(size - 1), torch.arange(1, size)] = 0.0
    # The other sentence has no repeats, and is not touched.
    tokens = torch.stack([torch.full((size,), 5), torch.arange(size)])
    tokens[0, 0], tokens[0, -1] = 0, 2
    found = without_repeats(links, tokens, torch.full((2, size), cost), torch.full((2,), size))
    assert found[0, 0].tolist() == links[0, 0].tolist() and torch.equal(found[1], links[1])
    for vertex in range(1, size - 1):
        assert found[0, vertex, -1] == pytest.approx(cost * (size - 2 - vertex))
        assert (found[0, vertex, :-1] == -math.inf).all()
    assert (found[:, -1] == -math.inf).all()


@settings(max_examples=18, deadline=None)
@given(data=st.data())
def test_the_best_path_that_prints_a_text(graphs, data):
    vertices = data.draw(st.lists(st.integers(2, 7), min_size=1, max_size=3))
    tokens = [data.draw(st.integers(2, length)) for length in vertices]
    seed = data.draw(st.integers(0, 999))
    links = graphs.links(
        len(vertices),
        max(vertices),
        vertices,
        seed=seed,
        spread=3.0,
        holes=data.draw(st.sampled_from([0.0, 0.5])),
    )
    match = graphs.match(len(vertices), max(tokens), max(vertices), seed=seed, spread=3.0)
    found = best_printing_path(match, links, torch.tensor(tokens), torch.tensor(vertices))
    for row, (count, length) in enumerate(zip(tokens, vertices)):
        best = (-math.inf, ())
        for path in graphs.paths(length):
            # Where the text continues: a choice of the vertices at which a new token begins.
            for begins in itertools.combinations(range(1, len(path)), count - 1):
                index = [sum(place >= begin for begin in begins) for place in range(len(path))]
                score = graphs.score(links[row], path) + sum(
                    float(match[row, i, v]) for i, v in zip(index, path)
                )
                if score > best[0]:
                    best = (score, tuple(zip(path, index)))
        expected = [-1] * max(vertices)
        for vertex, index in best[1]:
            expected[vertex] = index
        assert found[row].tolist() == expected


def test_it_is_no_worse_than_the_path_with_a_vertex_for_each_token(graphs):
    links, match = graphs.links(4, 12, [12] * 4, spread=2.0), graphs.match(4, 5, 12, spread=2.0)
    sizes = (torch.tensor([5] * 4), torch.tensor([12] * 4))

    def score(row, alignment):
        path = [v for v, index in enumerate(alignment.tolist()) if index >= 0]
        return graphs.score(links[row], path) + sum(
            float(match[row, int(alignment[v]), v]) for v in path
        )

    pairs = zip(best_printing_path(match, links, *sizes), dag_best_alignment(match, links, *sizes))
    assert all(score(row, mine) >= score(row, other) for row, (mine, other) in enumerate(pairs))
