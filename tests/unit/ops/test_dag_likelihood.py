"""Likelihood, posteriors and best alignment against all paths."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood
from fairseq_hrt.ops import dag_likelihood as module

VERTICES, TOKENS = (7, 5, 8, 2), (4, 5, 2, 2)


def batch(
    graphs, *, spread=1.0, seed=0, dtype=torch.float64, holes=0.0, vertices=VERTICES, tokens=TOKENS
):
    links = graphs.links(
        len(vertices), max(vertices), vertices, seed=seed, spread=spread, dtype=dtype, holes=holes
    )
    match = graphs.match(
        len(vertices), max(tokens), max(vertices), seed=seed, spread=spread, dtype=dtype
    )
    return match, links, torch.tensor(tokens), torch.tensor(vertices)


@pytest.mark.parametrize("spread", [1.0, 8.0])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_all_paths(graphs, spread, holes):
    for seed in range(4):
        match, links, tokens, vertices = batch(graphs, spread=spread, seed=seed, holes=holes)
        match.requires_grad_()
        links.requires_grad_()
        found = dag_log_likelihood(match, links, tokens, vertices)
        weights = torch.tensor([1.0, 2.0, -0.5, 3.0], dtype=torch.float64)
        possible = found.detach() > -math.inf
        (weights * torch.where(possible, found, 0.0)).sum().backward()
        for row, (count, length) in enumerate(zip(tokens.tolist(), vertices.tolist())):
            truth = graphs.Enumeration(match[row].detach(), links[row].detach(), count, length)
            assert float(found[row]) == pytest.approx(truth.likelihood, abs=1e-10)
            torch.testing.assert_close(
                match.grad[row], weights[row] * truth.posterior, rtol=0, atol=1e-10
            )
            torch.testing.assert_close(
                links.grad[row], weights[row] * truth.usage, rtol=0, atol=1e-10
            )


def test_gradcheck(graphs):
    match, links, tokens, vertices = batch(graphs, vertices=(5, 4), tokens=(4, 3))
    # Finite differences need links that are possible; those that are not get no gradient at all.
    allowed = links > -math.inf
    free = links.masked_fill(~allowed, 0.0).requires_grad_()

    def function(scores, values):
        return dag_log_likelihood(scores, values.masked_fill(~allowed, -math.inf), tokens, vertices)

    assert torch.autograd.gradcheck(function, (match.requires_grad_(), free))


@pytest.mark.parametrize("spread", [1.0, 25.0])
def test_single_precision_and_peaked_distributions(graphs, spread):
    for seed in range(5):
        arguments = batch(graphs, spread=spread, seed=seed)
        exact = dag_log_likelihood(*arguments)
        single = dag_log_likelihood(arguments[0].float(), arguments[1].float(), *arguments[2:])
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=1e-4)


def test_what_leaves_the_range_of_double_precision_is_redone_by_logarithms(graphs, monkeypatch):
    """Partial paths a factor of e^1000 apart, where the unlikely one is the only one that can be
    finished."""
    called = []
    original = module._in_log_space
    monkeypatch.setattr(
        module, "_in_log_space", lambda *a: (called.append(len(a[0])), original(*a))[1]
    )
    links = graphs.links(1, 5, [5])
    links[0, 1, 4] = links[0, 1, 3] = -math.inf
    match = torch.zeros(1, 4, 5, dtype=torch.float64)
    match[0, 1, 2] = -1000.0
    match[0, 2, 2] = -math.inf
    tokens, vertices = torch.tensor([4]), torch.tensor([5])
    match.requires_grad_()
    found = dag_log_likelihood(match, links, tokens, vertices)
    found.sum().backward()
    truth = graphs.Enumeration(
        match[0].detach() + torch.tensor([0, 1000.0, 0, 0]).view(4, 1), links[0], 4, 5
    )
    assert called and float(found[0]) == pytest.approx(truth.likelihood - 1000, abs=1e-9)
    torch.testing.assert_close(match.grad[0], truth.posterior, rtol=0, atol=1e-9)


@pytest.mark.parametrize("second", [-742.0, -744.0, -700.0, -300.0])
@pytest.mark.parametrize("first", [-748.0, -745.2, -760.0, -743.0])
def test_two_paths_at_the_edge_of_double_precision(graphs, first, second):
    """One path pays at its end, the other at its beginning: e^-742 is a number of double precision,
    but one with few digits."""
    links = torch.full((1, 6, 6), -math.inf, dtype=torch.float64)
    for u, v in ((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)):
        links[0, u, v] = 0.0
    links[0, 3, 5], links[0, 0, 2] = first, second
    match = torch.zeros(1, 4, 6, dtype=torch.float64)
    match.requires_grad_()
    links.requires_grad_()
    found = dag_log_likelihood(match, links, torch.tensor([4]), torch.tensor([6]))
    expected = math.log1p(math.exp(-abs(first - second))) + max(first, second)
    assert float(found.detach()) == pytest.approx(expected, abs=1e-9)
    with torch.no_grad():
        alone = dag_log_likelihood(match, links, torch.tensor([4]), torch.tensor([6]))
    assert float(alone) == pytest.approx(expected, abs=1e-9)
    found.sum().backward()
    share = 1 / (1 + math.exp(first - second))
    assert float(match.grad[0, 1, 2]) == pytest.approx(share, abs=1e-9)
    assert float(links.grad[0, 0, 2]) == pytest.approx(share, abs=1e-9)


def without_any_path(graphs):
    """Reach 2 with too few tokens, a target that no vertex emits, and one sentence as it should
    be."""
    links = graphs.links(3, 12, [12, 12, 12])
    vertex = torch.arange(12)
    links[0] = links[0].masked_fill(vertex > vertex.unsqueeze(1) + 2, -math.inf)
    match = graphs.match(3, 5, 12)
    match[1, 2] = -math.inf
    return match, links, torch.tensor([5, 5, 5]), torch.tensor([12, 12, 12])


def test_that_no_path_exists_is_told_without_logarithms(graphs, monkeypatch):
    redone = []
    original = module._in_log_space
    monkeypatch.setattr(
        module, "_in_log_space", lambda *parts: (redone.append(len(parts[0])), original(*parts))[1]
    )
    match, links, tokens, vertices = without_any_path(graphs)
    found = dag_log_likelihood(match.requires_grad_(), links, tokens, vertices)
    assert found[:2].tolist() == [-math.inf, -math.inf]
    truth = graphs.Enumeration(match[2].detach(), links[2], 5, 12)
    assert float(found[2].detach()) == pytest.approx(truth.likelihood, abs=1e-10)
    assert sum(redone) == 0
    found[2].backward()
    assert not match.grad[:2].any()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_reachability_by_enumeration(graphs, data):
    vertices = data.draw(st.lists(st.integers(2, 7), min_size=1, max_size=3))
    tokens = [data.draw(st.integers(2, length)) for length in vertices]
    match, links, tokens_, vertices_ = batch(
        graphs, vertices=vertices, tokens=tokens, seed=data.draw(st.integers(0, 999))
    )
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    share = data.draw(st.sampled_from([0.2, 0.5, 0.8]))
    match[torch.rand(match.shape, generator=generator) < share] = -math.inf
    links[torch.rand(links.shape, generator=generator) < share / 2] = -math.inf
    found = module._has_path(match, links, tokens_, vertices_)
    for row, (count, length) in enumerate(zip(tokens, vertices)):
        truth = graphs.Enumeration(match[row], links[row], count, length)
        assert bool(found[row]) == any(score > -math.inf for score, _ in truth.terms)


def test_without_gradients_only_the_likelihood_is_computed(graphs, monkeypatch):
    match, links, tokens, vertices = batch(graphs, seed=4)
    whole, posterior, usage = module.forward_backward(match, links, tokens, vertices)
    alone, *nothing = module.forward_backward(match, links, tokens, vertices, gradients=False)
    assert (
        torch.equal(whole, alone)
        and nothing == [None, None]
        and posterior is not None
        and usage is not None
    )
    wanted, original = [], module.forward_backward

    def watched(*arguments, gradients=True):
        wanted.append(gradients)
        return original(*arguments, gradients=gradients)

    monkeypatch.setattr(module, "forward_backward", watched)
    with torch.no_grad():
        assert torch.equal(
            dag_log_likelihood(match.requires_grad_(), links, tokens, vertices), whole
        )
    dag_log_likelihood(match.detach(), links, tokens, vertices)
    dag_log_likelihood(match, links, tokens, vertices)
    assert wanted == [False, False, True]


def test_the_device_is_asked_as_often_for_long_targets_as_for_short_ones(graphs, host_reads):
    """A check of the arguments, a doubt about underflow; nothing in a loop."""
    for tokens in (4, 12):
        match, links, tokens_, vertices = batch(graphs, vertices=(14, 13), tokens=(tokens, tokens))
        match.requires_grad_()
        with host_reads() as reads:
            dag_log_likelihood(match, links, tokens_, vertices)
        assert dict(reads.counts) == {"_local_scalar_dense": 2}
        with host_reads() as reads:
            dag_best_alignment(match.detach(), links, tokens_, vertices)
        assert dict(reads.counts) == {"_local_scalar_dense": 1}


def test_half_precision_does_not_overflow(graphs):
    for dtype in (torch.float16, torch.bfloat16):
        match, links, tokens, vertices = batch(graphs, spread=20.0)
        match, links = match.to(dtype).requires_grad_(), links.to(dtype).requires_grad_()
        found = dag_log_likelihood(match, links, tokens, vertices)
        found.sum().backward()
        assert found.dtype == torch.float32 and match.grad.dtype == dtype
        assert torch.isfinite(match.grad).all() and torch.isfinite(links.grad).all()


def test_sentences_without_a_path(graphs):
    """More tokens than vertices, or no link to the end: -inf, no gradient, and the neighbours are
    not disturbed."""
    match, links, _, vertices = batch(graphs, vertices=(4, 6, 6), tokens=(6, 6, 4))
    links[2, :, 5] = -math.inf
    tokens = torch.tensor([6, 6, 4])
    match.requires_grad_()
    links.requires_grad_()
    found = dag_log_likelihood(match, links, tokens, vertices)
    assert found[0] == found[2] == -math.inf
    truth = graphs.Enumeration(match[1].detach(), links[1].detach(), 6, 6)
    assert len(truth.terms) == 1 and float(found[1]) == pytest.approx(truth.likelihood, abs=1e-10)
    found[1].backward()
    assert not match.grad[0].any() and not match.grad[2].any() and not links.grad[0].any()
    alignment = dag_best_alignment(match.detach(), links.detach(), tokens, vertices)
    assert (
        alignment[0].eq(-1).all()
        and alignment[1].tolist() == list(range(6))
        and alignment[2].eq(-1).all()
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_best_alignment(graphs, data):
    vertices = data.draw(st.lists(st.integers(2, 7), min_size=1, max_size=3))
    tokens = [data.draw(st.integers(2, length)) for length in vertices]
    match, links, tokens_, vertices_ = batch(
        graphs, vertices=vertices, tokens=tokens, seed=data.draw(st.integers(0, 999)), spread=3.0
    )
    found = dag_best_alignment(match, links, tokens_, vertices_)
    for row, (count, length) in enumerate(zip(tokens, vertices)):
        _, path = graphs.Enumeration(match[row], links[row], count, length).best
        expected = [-1] * max(vertices)
        for index, vertex in enumerate(path):
            expected[vertex] = index
        assert found[row].tolist() == expected


def test_padding_is_not_read(graphs):
    match, links, tokens, vertices = batch(graphs)
    expected = dag_log_likelihood(match, links, tokens, vertices)
    for row, (count, length) in enumerate(zip(TOKENS, VERTICES)):
        match[row, count:] = math.nan
        match[row, :, length:] = math.nan
        links[row, length:] = 5.0
        links[row, :, length:] = math.nan
    torch.testing.assert_close(dag_log_likelihood(match, links, tokens, vertices), expected)
    alone = dag_log_likelihood(match[:1, :4, :7], links[:1, :7, :7], tokens[:1], vertices[:1])
    torch.testing.assert_close(alone, expected[:1])


def test_mistakes_are_named(graphs):
    match, links, tokens, vertices = batch(graphs)
    broken = links.clone()
    broken[0, 0, 1] = math.nan
    with pytest.raises(ValueError, match="links holds NaN"):
        dag_log_likelihood(match, broken, tokens, vertices)
    with pytest.raises(ValueError, match="match holds NaN"):
        dag_log_likelihood(match * math.nan, links, tokens, vertices)
    with pytest.raises(ValueError, match="target_lengths"):
        dag_log_likelihood(match, links, tokens + 5, vertices)
    with pytest.raises(ValueError, match="vertex_lengths"):
        dag_best_alignment(match, links, tokens, vertices + 1)
