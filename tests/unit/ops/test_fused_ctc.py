"""The kernel of the best alignment of CTC, against PyTorch's operations."""

import math

import pytest
import torch
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.ops.ctc import ctc_best_alignment

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import ctc

pytestmark = pytest.mark.parametrize("device", DEVICES)


def batch(device, dtype, *, words=3, broken=False):
    """Sentences of 9 positions and 5 target words at most, some of which fit just so or not."""
    generator = torch.Generator().manual_seed(4)
    logits = 3 * torch.randn(6, 9, words, generator=generator, dtype=dtype)
    if broken:
        logits[:, 4] = math.nan
    targets = torch.randint(1, words, (6, 5), generator=generator)
    targets[1] = torch.tensor([1, 1, 2, 2, 1])
    lengths, counts = torch.tensor([9, 7, 1, 6, 9, 4]), torch.tensor([4, 5, 1, 0, 2, 5])
    given = logits.log_softmax(2), targets, lengths, counts
    return [tensor.to(device) for tensor in given]


def counted(monkeypatch):
    """The calls of the kernel from now on."""
    called, own = [], ctc.best_states
    monkeypatch.setattr(ctc, "best_states", lambda *given: called.append(1) or own(*given))
    use_kernels(monkeypatch)
    return called


@pytest.mark.parametrize("words", [3, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_best_alignment(device, dtype, words, monkeypatch):
    given = batch(device, dtype, words=words)
    expected = ctc_best_alignment(*given, blank=0)
    called = counted(monkeypatch)
    tokens, scores = ctc_best_alignment(*given, blank=0)
    assert called
    possible = expected[1] > -math.inf
    assert torch.equal(scores, expected[1]) and 0 < int(possible.sum()) < 6
    assert torch.equal(tokens[possible], expected[0][possible])


def test_tensors_that_are_not_contiguous(device, monkeypatch):
    log_probs, targets, *lengths = batch(device, torch.float32)
    expected = ctc_best_alignment(log_probs, targets, *lengths, blank=0)
    counted(monkeypatch)
    spread = [torch.stack([each, each], 1)[:, 0] for each in lengths]
    columns = targets.t().contiguous().t()
    found = ctc_best_alignment(
        log_probs.transpose(0, 2).contiguous().transpose(0, 2), columns, *spread, blank=0
    )
    assert torch.equal(found[1], expected[1])
    possible = expected[1] > -math.inf
    assert torch.equal(found[0][possible], expected[0][possible])


def test_nan_stays_within_the_target(device, monkeypatch):
    given = batch(device, torch.float32, broken=True)
    counted(monkeypatch)
    tokens, _ = ctc_best_alignment(*given, blank=0)
    assert int(tokens.min()) >= 0 and int(tokens.max()) < 3
