"""Passing probabilities and expected n-gram matches against all paths."""

import math
from collections import Counter

import pytest
import torch

from fairseq_hrt.ops import fuzzy_alignment
from fairseq_hrt.ops.checks import probabilities
from fairseq_hrt.ops.fuzzy import passing_probabilities

VERTICES, TOKENS = (7, 5, 2), (5, 6, 2)


def batch(graphs, *, seed=0, spread=1.0, words=3, dtype=torch.float64):
    """Few words, so that n-grams repeat; equal words have equal rows of ``match``."""
    links = graphs.links(3, 7, VERTICES, seed=seed, spread=spread)
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(4, 4 + words, (3, 6), generator=generator)
    targets[:, 0] = 0
    table = (
        torch.randn(3, 7, 4 + words, generator=generator, dtype=torch.float64)
        .mul(spread)
        .log_softmax(2)
    )
    for row, count in enumerate(TOKENS):
        targets[row, count - 1] = 2
        targets[row, count:] = 1
    match = table.gather(2, targets.unsqueeze(1).expand(-1, 7, -1)).transpose(1, 2)
    return (
        match.to(dtype),
        links.to(dtype),
        targets,
        torch.tensor(TOKENS),
        torch.tensor(VERTICES),
        table,
    )


def enumerate_fuzzy(graphs, links, table, target, length, order):
    """(precision, expected length, matches): expectations over all paths and, for each path, over
    its vertices' words."""
    grams = Counter(tuple(target[i : i + order]) for i in range(len(target) - order + 1))
    expected, produced, expected_length = Counter(), 0.0, 0.0
    for path in graphs.paths(length):
        mass = math.exp(graphs.score(links, path))
        expected_length += mass * len(path)
        produced += mass * max(len(path) - order + 1, 0)
        for start in range(len(path) - order + 1):
            for gram in grams:
                emitted = sum(float(table[path[start + i], gram[i]]) for i in range(order))
                expected[gram] += mass * math.exp(emitted)
    hits = sum(min(expected[gram], count) for gram, count in grams.items())
    return (hits / produced if produced else 0.0), expected_length, hits


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_all_paths(graphs, order, spread):
    for seed in range(4):
        match, links, targets, tokens, vertices, table = batch(graphs, seed=seed, spread=spread)
        found = fuzzy_alignment(match, links, targets, tokens, vertices, order=order)
        for row, (count, length) in enumerate(zip(TOKENS, VERTICES)):
            target = targets[row, :count].tolist()
            precision, expected_length, hits = enumerate_fuzzy(
                graphs, links[row], table[row], target, length, order
            )
            brevity = min(1.0, math.exp(1 - count / expected_length))
            assert float(found.expected_length[row]) == pytest.approx(expected_length, abs=1e-10)
            assert float(found.precision[row]) == pytest.approx(precision, abs=1e-10)
            assert float(found.brevity_penalty[row]) == pytest.approx(brevity, abs=1e-10)
            assert float(found.score[row]) == pytest.approx(brevity * precision, abs=1e-10)
            assert float(found.recall[row]) == pytest.approx(
                hits / max(count - order + 1, 1), abs=1e-10
            )


def test_clipping_counts_repeated_grams_once(graphs):
    """A graph that repeats one word matches a target that has it once only once."""
    links = torch.full((1, 6, 6), -math.inf, dtype=torch.float64)
    for vertex in range(5):
        links[0, vertex, vertex + 1] = 0.0
    targets = torch.tensor([[0, 5, 2]])
    match = torch.full((1, 3, 6), -math.inf, dtype=torch.float64)
    match[0, 0, 0] = match[0, 2, 5] = 0.0
    match[0, 1, 1:5] = 0.0
    found = fuzzy_alignment(match, links, targets, torch.tensor([3]), torch.tensor([6]), order=1)
    assert (
        float(found.precision[0]) == pytest.approx(3 / 6) and float(found.brevity_penalty[0]) == 1.0
    )


def test_gradcheck(graphs):
    # Without the last sentence, whose length is expected exactly: the brevity penalty has a kink
    # there.
    match, links, targets, tokens, vertices = (part[:2] for part in batch(graphs, seed=3)[:5])
    allowed = links > -math.inf
    free = links.masked_fill(~allowed, 0.0).requires_grad_()

    def function(scores, values):
        found = fuzzy_alignment(
            scores, values.masked_fill(~allowed, -math.inf), targets, tokens, vertices
        )
        return found.score, found.expected_length

    assert torch.autograd.gradcheck(function, (match.requires_grad_(), free))


def test_targets_shorter_than_the_order_and_a_batch_of_one(graphs):
    match, links, targets, tokens, vertices, _ = batch(graphs)
    match.requires_grad_()
    found = fuzzy_alignment(match[2:], links[2:], targets[2:], tokens[2:], vertices[2:], order=4)
    assert found.score.tolist() == [0.0]
    found = fuzzy_alignment(
        match[2:, :2], links[2:], targets[2:, :2], tokens[2:], vertices[2:], order=4
    )
    found.score.sum().backward()
    assert found.score.tolist() == [0.0] and torch.isfinite(match.grad).all()
    with pytest.raises(ValueError, match="order 0"):
        fuzzy_alignment(match, links, targets, tokens, vertices, order=0)


def test_other_precisions(graphs):
    exact = fuzzy_alignment(*batch(graphs, spread=5.0)[:5])
    single = fuzzy_alignment(*batch(graphs, spread=5.0, dtype=torch.float32)[:5])
    torch.testing.assert_close(single.score.double(), exact.score, rtol=1e-4, atol=1e-4)
    half = fuzzy_alignment(*batch(graphs, spread=5.0, dtype=torch.float16)[:5])
    assert half.score.dtype == torch.float32 and torch.isfinite(half.score).all()


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)]
)
def test_passing_probabilities(graphs, dtype, tolerance):
    links = graphs.links(3, 7, VERTICES, spread=2.0)
    found = passing_probabilities(probabilities(links.to(dtype), torch.tensor(VERTICES)))
    for row, length in enumerate(VERTICES):
        expected = torch.zeros(7, dtype=torch.float64)
        for path in graphs.paths(length):
            for vertex in path:
                expected[vertex] += math.exp(graphs.score(links[row], path))
        torch.testing.assert_close(found[row].double(), expected, rtol=0, atol=tolerance)
        assert float(found[row, 0]) == 1.0
        assert float(found[row, length - 1]) == pytest.approx(1.0, abs=tolerance), (
            "every path ends at the last vertex"
        )


def test_links_that_do_not_lead_forward_are_refused(graphs):
    links = graphs.links(1, 5, [5])
    links[0, 3, 1] = -1.0
    with pytest.raises(ValueError, match="leads backwards"):
        passing_probabilities(links.exp())
