"""The label-smoothed loss in one pass, against fairseq's in float64."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.training import smoothed_cross_entropy

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import smoothed

pytestmark = pytest.mark.parametrize("device", DEVICES)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float16, 1e-3), (torch.bfloat16, 8e-3), (torch.float32, 1e-6)]
)
@pytest.mark.parametrize("words", [37, 64, 2])
def test_loss_and_gradient(device, dtype, tolerance, epsilon, words, monkeypatch):
    use_kernels(monkeypatch)
    monkeypatch.setattr(smoothed, "BLOCK", 16)
    torch.manual_seed(2)
    # Rows of a wider tensor, which are not contiguous.
    logits = (4 * torch.randn(7, words + 3)).to(device, dtype)[:, :words].requires_grad_()
    target = torch.randint(0, words, (7,), device=device)
    loss, nll = smoothed_cross_entropy(logits, target, epsilon)
    assert type(loss.grad_fn).__name__ == "SmoothedCrossEntropyBackward"
    assert loss.dtype == nll.dtype == torch.float32 and not nll.requires_grad
    wide = logits.detach().double().requires_grad_()
    exact, plain = label_smoothed_nll_loss(
        wide.log_softmax(1), target.unsqueeze(1), epsilon, reduce=False
    )
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(nll.double(), plain, rtol=1e-5, atol=1e-5)
    upstream = torch.randn(7, device=device)
    (own,) = torch.autograd.grad((loss * upstream).sum(), logits)
    (truth,) = torch.autograd.grad((exact * upstream.double()).sum(), wide)
    assert own.dtype == dtype
    torch.testing.assert_close(own.double(), truth, rtol=tolerance, atol=tolerance)


def test_nothing_to_score(device, monkeypatch):
    use_kernels(monkeypatch)
    loss, nll = smoothed_cross_entropy(
        torch.zeros(0, 9, device=device), torch.zeros(0, dtype=torch.long, device=device), 0.1
    )
    assert loss.shape == nll.shape == (0,)
