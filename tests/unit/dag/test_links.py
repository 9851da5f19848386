"""Links against the formula, written out for every pair; gradients by finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.graph import PackedLinks
from fairseq_hrt.dag.links import LinkPredictor, allowed_links


def make_links(heads=2, width=8, *, features="feature:position", size=20, reach=None, seed=0):
    torch.manual_seed(seed)
    links = LinkPredictor(width, heads, features=features, size=size, reach=reach).double()
    for parameter in links.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return links


def naive(predictor, features, lengths):
    """Every row by itself, in Python numbers."""
    described = predictor.describe(features)
    queries, keys, gates = (
        layer(described) for layer in (predictor.query, predictor.key, predictor.gate)
    )
    batch, size, width = queries.shape
    part = width // predictor.heads
    found = torch.full((batch, size, size), -math.inf, dtype=features.dtype)
    for b in range(batch):
        for u in range(int(lengths[b]) - 1):
            ends = range(
                u + 1,
                min(int(lengths[b]), size if predictor.reach is None else u + 1 + predictor.reach),
            )
            weights = torch.softmax(gates[b, u], 0)
            row = 0
            for head in range(predictor.heads):
                place = slice(head * part, (head + 1) * part)
                scores = torch.stack(
                    [queries[b, u, place] @ keys[b, v, place] / math.sqrt(part) for v in ends]
                )
                row = row + weights[head] * torch.softmax(scores, 0)
            found[b, u, ends.start : ends.stop] = row.log()
    return found


@pytest.mark.parametrize(
    "features", ["feature:position", "feature", "position", "position:feature:sinposition"]
)
@pytest.mark.parametrize("reach", [None, 1, 3])
def test_links_equal_the_formula(features, reach):
    predictor = make_links(features=features, reach=reach)
    vectors, lengths = torch.randn(3, 7, 8, dtype=torch.double), torch.tensor([7, 2, 5])
    expected = naive(predictor, vectors, lengths)
    found = predictor(vectors, lengths)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    packed = PackedLinks(predictor)
    packed.refresh()
    torch.testing.assert_close(packed(vectors, lengths).log(), expected, rtol=0, atol=1e-10)


@given(
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=4),
    heads=st.sampled_from([1, 2, 4]),
    reach=st.sampled_from([None, 1, 2, 20]),
    spread=st.sampled_from([0.1, 1.0, 40.0]),
)
@settings(max_examples=18, deadline=None)
def test_every_row_sums_to_one_and_dead_rows_are_impossible(lengths, heads, reach, spread):
    predictor = make_links(heads, reach=reach)
    size = max(lengths) + 1
    links = predictor(
        spread * torch.randn(len(lengths), size, 8, dtype=torch.double), torch.tensor(lengths)
    )
    assert not links.isnan().any()
    for row, length in zip(links, lengths):
        assert torch.allclose(
            row[: length - 1].exp().sum(1), torch.ones(length - 1, dtype=torch.double)
        )
        assert (row[length - 1 :] == -math.inf).all()
        assert (row[:, length:] == -math.inf).all()
        assert (row.tril() == 0).logical_or(row == -math.inf).all()


def test_gradients():
    predictor = make_links(reach=4)
    lengths = torch.tensor([6, 3])
    vectors = torch.randn(2, 6, 8, dtype=torch.double, requires_grad=True)
    allowed = allowed_links(6, lengths, 4)
    weights = torch.randn(2, 6, 6, dtype=torch.double)

    def loss(inputs):
        return torch.where(allowed, predictor(inputs, lengths) * weights, 0.0).sum()

    assert torch.autograd.gradcheck(loss, (vectors,))
    grads = torch.autograd.grad(loss(vectors), list(predictor.parameters()))
    plain = torch.where(allowed, naive(predictor, vectors, lengths) * weights, 0.0).sum()
    for found, expected in zip(grads, torch.autograd.grad(plain, list(predictor.parameters()))):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_gradients_of_impossible_links_are_cut():
    """Losses hand NaN or infinite gradients to -inf entries; nothing of them may reach the
    weights."""
    predictor = make_links()
    vectors = torch.randn(2, 5, 8, dtype=torch.double, requires_grad=True)
    links = predictor(vectors, torch.tensor([5, 3]))
    links.exp().log().masked_fill(links == -math.inf, 0.0).sum().backward()
    assert vectors.grad.isfinite().all()


def test_half_precision_and_autocast_are_computed_in_single():
    predictor = make_links().float()
    vectors, lengths = torch.randn(2, 6, 8), torch.tensor([6, 4])
    expected = predictor(vectors, lengths)
    half = make_links().to(torch.bfloat16)(vectors.to(torch.bfloat16), lengths)
    assert half.dtype == torch.float32
    shown = expected > -math.inf
    assert (half[shown] - expected[shown]).abs().max() < 0.3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = predictor(vectors, lengths)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(
        mixed[shown].exp().sum(), expected[shown].exp().sum(), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("features", ["", "feature:feature", "Feature"])
def test_unknown_features(features):
    with pytest.raises(ValueError, match="--dag-link-features"):
        make_links(features=features)


def test_impossible_reach():
    with pytest.raises(ValueError, match="--dag-max-transition-length 0"):
        make_links(reach=0)


def test_first_values_of_the_positions():
    """As large as fairseq's embeddings."""
    torch.manual_seed(1)
    links = LinkPredictor(64, 4, features="feature:position", size=500, reach=None)
    assert links.position.weight.std().item() == pytest.approx(64**-0.5, rel=0.03)
