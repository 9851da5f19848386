"""Searches in fixed shapes, against the ordinary ones."""

import math

import pytest
import torch

from fairseq_hrt.ops import between_words, fixed_viterbi, joint_viterbi, without_repeats
from fairseq_hrt.ops.fixed_shapes import follow_pointers


def masked(mask, dtype=torch.float64):
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def fixed(links, scores, lengths, limits, beta, *, count=None):
    """:func:`fixed_viterbi` with the arguments of :func:`joint_viterbi`."""
    vertex, last = torch.arange(links.size(1)), lengths - 1
    inner = (vertex > 0) & (vertex < last.unsqueeze(1))
    number = torch.arange(1, (count or int(limits.max())) + 1)
    where = dict(device=links.device, dtype=links.dtype)
    return fixed_viterbi(
        links,
        None if scores is None else scores,
        last=last.to(links.device),
        interior=masked(~inner).to(**where),
        allowed=masked(number > limits.unsqueeze(1)).to(**where),
        powers=(number.double() ** beta).to(**where),
    )


def rows(paths):
    """Lists of vertices, without the repeated first ones."""
    return [[0, *[vertex for vertex in path if vertex > 0]] for path in paths.tolist()]


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("beta", [-1.0, 0.0, 1.0, 1.7])
@pytest.mark.parametrize("holes", [0.0, 0.5])
def test_viterbi(graphs, holes, beta, scored):
    lengths, limits = torch.tensor([9, 5, 2, 7, 3]), torch.tensor([6, 1, 2, 3, 4])
    for seed in range(4):
        links = graphs.links(5, 9, lengths.tolist(), seed=seed, spread=2.0, holes=holes)
        scores = -torch.rand(5, 9, dtype=torch.float64) if scored else torch.zeros(5, 9).double()
        expected = joint_viterbi(scores, links, lengths, max_interior=limits, length_beta=beta)
        found = fixed(links, scores if scored else None, lengths, limits, beta)
        best = torch.where(found.totals == -math.inf, found.direct + scores[:, :1], found.totals)
        torch.testing.assert_close(best.squeeze(1), expected.scores)
        for path, wanted, total in zip(rows(found.paths), expected.paths.tolist(), best):
            if total > -math.inf:
                assert path == [vertex for vertex in wanted if vertex >= 0]


def test_unused_lengths_change_nothing(graphs):
    lengths, limits = torch.tensor([7, 4]), torch.tensor([3, 2])
    links = graphs.links(2, 7, [7, 4])
    found, wide = (fixed(links, None, lengths, limits, 1.0, count=count) for count in (3, 9))
    assert rows(found.paths) == rows(wide.paths)


@pytest.mark.parametrize("reach", [2, 8])
def test_repetitions(graphs, reach):
    generator = torch.Generator().manual_seed(1)
    for seed in range(4):
        links = graphs.links(3, 8, [8, 6, 2], seed=seed)
        vertex = torch.arange(8)
        links = links.masked_fill(vertex - vertex.unsqueeze(1) > reach, -math.inf)
        tokens = torch.randint(0, 3, (3, 8), generator=generator)
        scores = -torch.rand(3, 8, generator=generator, dtype=torch.float64)
        expected = without_repeats(links, tokens, scores, torch.tensor([8, 6, 2]))
        found = between_words(links.exp(), tokens, scores.exp())
        torch.testing.assert_close(found, expected.exp())


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 12])
def test_pointers(count):
    pointers = torch.tensor([[2, 1, 3, 5, 4, 5], [1, 2, 3, 4, 5, 5]])
    found = follow_pointers(pointers, torch.tensor([[0], [3]]), count)
    for row, start, path in zip(pointers.tolist(), (0, 3), found.tolist()):
        for vertex in path:
            assert vertex == start
            start = row[start]
