"""The kernel draws the numbers of PyTorch's program, bit by bit."""

import pytest
import torch
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.hrt.training_batch import draw_chunk_sizes, draw_masks
from fairseq_hrt.training import Purpose, hash_uniform

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import hashing

pytestmark = pytest.mark.parametrize("device", DEVICES)
IDS = torch.tensor([0, 1, 7, 2**40 + 3, -5, 2**62])
PLACES = torch.arange(50)


@pytest.mark.parametrize(
    "keys",
    [
        (1, 7, IDS, 3),
        (IDS,),
        (-3, 2**62, IDS[2], 3, 4),
        (5, 2, IDS.unsqueeze(1), Purpose.MASK_ORDER, PLACES),
        (5, IDS.unsqueeze(1), 9, Purpose.WALK, PLACES),
        (IDS.unsqueeze(1), PLACES[::2]),
        (8, IDS.unsqueeze(1).expand(-1, 5), PLACES[:30].view(6, 5), 1),
        (PLACES[:6].int(), IDS, 2),
        (1, IDS[:0], 2),
    ],
    ids=range(9),
)  # fmt: skip
def test_bit_by_bit(device, keys, monkeypatch):
    expected = hash_uniform(*keys)
    launched = []
    use_kernels(monkeypatch)
    monkeypatch.setattr(
        hashing, "absorb", lambda *a, own=hashing.absorb: launched.append(a) or own(*a)
    )
    found = hash_uniform(*(k.to(device) if isinstance(k, torch.Tensor) else k for k in keys))
    assert launched and found.dtype == torch.double
    assert torch.equal(found.cpu(), expected)


def test_more_keys_than_a_launch_takes(device, monkeypatch):
    keys = (IDS, 1, 2, 3), (IDS.view(1, 2, 3), PLACES[:3])
    expected = [hash_uniform(*given) for given in keys]
    use_kernels(monkeypatch)
    for given, exact in zip(keys, expected):
        moved = (k.to(device) if isinstance(k, torch.Tensor) else k for k in given)
        assert torch.equal(hash_uniform(*moved).cpu(), exact)


def test_the_draws_of_hrt(device, monkeypatch):
    ids, lengths = torch.tensor([3, 12, 5]), torch.tensor([4, 1, 6])
    sizes = draw_chunk_sizes(5, 3, ids, 0.5, [2, 3])
    masks = draw_masks(5, 3, ids, lengths, 6)
    use_kernels(monkeypatch)
    ids, lengths = ids.to(device), lengths.to(device)
    assert torch.equal(draw_chunk_sizes(5, 3, ids, 0.5, [2, 3]).cpu(), sizes)
    assert torch.equal(draw_masks(5, 3, ids, lengths, 6).cpu(), masks)
