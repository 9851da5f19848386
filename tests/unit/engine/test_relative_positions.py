"""Relative position vectors, looked up by slot instead of by pair of positions."""

import pytest
import torch

from fairseq_hrt.engine.relative_positions import EvenDistances, relative_index


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("count, total", [(1, 1), (1, 5), (3, 3), (4, 7), (6, 6)])
def test_vectors_of_evenly_spaced_tokens(stride, count, total):
    """The table of slots gives what the index of every pair of positions gives."""
    torch.manual_seed(0)
    table, queries = torch.randn(9, 5), torch.randn(2, 3, count, 5)
    even = EvenDistances(table, stride, 11)
    positions = torch.arange(total) * stride
    vectors = table[relative_index(positions[total - count :], positions, 4)]
    expected = torch.einsum("rhqd,qtd->rhqt", queries, vectors)
    assert_close(even.products(queries, total, None, count), expected)
    assert_close(even.behind(total), vectors[-1])
    chosen = torch.arange(0, count, 2)
    assert_close(even.products(queries[:, :, chosen], total, chosen, count), expected[:, :, chosen])
