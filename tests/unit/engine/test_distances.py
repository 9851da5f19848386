"""The two ways in which distances enter attention, against the sum over all pairs of tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.distances import Distances
from fairseq_hrt.engine.layers import PackedSelfAttention, attend
from fairseq_hrt.engine.relative_positions import EvenDistances, relative_index
from fairseq_hrt.hrt.attention import RelativeSelfAttention

WINDOW, HEADS, WIDTH = 3, 2, 4


@pytest.fixture(scope="module")
def attention():
    module = RelativeSelfAttention(HEADS * WIDTH, HEADS, dropout=0.0, window=WINDOW).double()
    with torch.no_grad():
        module.relative_keys.normal_()
    return PackedSelfAttention(module, reorder=False)


def scores_by_pairs(attention, queries, keys, positions, places, bias):
    """q (k + r) + bias of every query and key; ``positions`` of all tokens, ``places`` of those
    that ask."""
    rows, heads, _, width = queries.shape
    distances = [[[other - own[place] for other in own] for place in places] for own in positions]
    vectors = attention.relative_keys[torch.tensor(distances).clamp(-WINDOW, WINDOW) + WINDOW]
    # [R, H, 1, T, d] + [R, 1, q, T, d]
    found = torch.einsum(
        "rhqd,rhqtd->rhqt", queries, keys.view(rows, heads, 1, -1, width) + vectors.unsqueeze(1)
    )
    return found if bias is None else found + bias


@settings(max_examples=12)
@given(
    rows=st.integers(1, 2),
    cached=st.integers(0, 4),
    count=st.integers(1, 3),
    stride=st.integers(1, 3),
    data=st.data(),
)
def test_every_pair_of_tokens(attention, rows, cached, count, stride, data):
    total = cached + count
    chosen = torch.tensor(
        data.draw(
            st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True).map(sorted)
        )
    )
    chosen = data.draw(st.sampled_from([None, chosen]))
    new = range(cached, total) if chosen is None else [cached + int(one) for one in chosen]
    queries = torch.randn(rows, HEADS, len(new), WIDTH).double()
    keys, values = torch.randn(2, rows * HEADS, total, WIDTH).double()
    bias = data.draw(st.sampled_from([None, torch.randn(rows, 1, len(new), total).double()]))
    even = torch.arange(total) * stride
    odd = torch.tensor(
        data.draw(st.lists(st.permutations(range(total)), min_size=rows, max_size=rows))
    )
    table = EvenDistances(attention.relative_keys, stride, 9)
    for way, positions in (
        (Distances(count, tables=[table, table]), even.expand(rows, total)),
        (
            Distances(count, index=relative_index(even[cached:], even, WINDOW)[None]),
            even.expand(rows, total),
        ),
        (Distances(count, index=relative_index(odd[:, cached:], odd, WINDOW)), odd),
    ):
        given_bias = None if bias is None else bias.clone()
        found_keys, found_bias = way.apply(attention, 1, queries, keys, given_bias, chosen)
        expected = scores_by_pairs(attention, queries, keys, positions.tolist(), new, bias)
        flat = (
            None
            if found_bias is None
            else found_bias.expand(rows, HEADS, len(new), total).flatten(0, 1)
        )
        found = attend(queries.flatten(0, 1), found_keys, values, flat)
        torch.testing.assert_close(found, expected.flatten(0, 1).softmax(-1) @ values)
        assert bias is None or given_bias.equal(bias), "the mask is used by the next layer"
