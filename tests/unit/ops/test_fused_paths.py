"""The kernel of a step of Viterbi's search in fixed shapes, against PyTorch's operations."""

import math

import pytest
import torch
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.ops import fixed_shapes

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import paths

pytestmark = pytest.mark.parametrize("device", DEVICES)


def steps(graphs, device, dtype, *, size=21, broken=False):
    """best and parents of 6 lengths in a batch of 3."""
    lengths = [size, 13, 2]
    links = graphs.links(3, size, lengths, spread=2.0, holes=0.2, dtype=dtype)
    if broken:
        links[0, 3:6] = math.nan
    scores = -torch.rand(3, size, generator=torch.Generator().manual_seed(2), dtype=dtype)
    vertex = torch.arange(size)
    outside = (vertex == 0) | (vertex >= torch.tensor(lengths).unsqueeze(1) - 1)
    onto = scores.masked_fill(outside, -math.inf)
    given = [tensor.to(device) for tensor in (links, scores, onto)]
    best, parents = fixed_shapes._best_of_each_length(*given, 6)
    return best, parents[1:]


@pytest.mark.parametrize("tile", [(8, 32, 4), (4, 4, 4), (32, 8, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps(graphs, device, dtype, tile, monkeypatch):
    monkeypatch.setattr(paths, "TILE", tile)
    expected, before = steps(graphs, device, dtype)
    called = []
    fill = paths.fill
    monkeypatch.setattr(paths, "fill", lambda *given: called.append(fill(*given)))
    use_kernels(monkeypatch)
    found, parents = steps(graphs, device, dtype)
    assert called
    torch.testing.assert_close(found, expected)
    possible = expected[1:] > -math.inf
    assert torch.equal(parents[possible], before[possible])
    assert int(parents.min()) >= 0 and int(parents.max()) < 21


def test_parents_of_nan_are_vertices(graphs, device, monkeypatch):
    use_kernels(monkeypatch)
    _, parents = steps(graphs, device, torch.float32, broken=True)
    assert int(parents.min()) >= 0 and int(parents.max()) < 21
