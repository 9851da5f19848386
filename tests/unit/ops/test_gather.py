"""Log-probabilities of given tokens, gathered piece by piece."""

import pytest
import torch

from fairseq_hrt.ops import gather_log_probs


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 40, 10**6])
def test_gathered_log_probabilities(with_bias, chunk):
    torch.manual_seed(0)
    features = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True) if with_bias else None
    targets = torch.randint(0, 11, (2, 3))
    found = gather_log_probs(features, weight, targets, bias=bias, chunk=chunk)
    logits = torch.nn.functional.linear(features, weight, bias)
    expected = logits.log_softmax(-1).gather(2, targets.unsqueeze(1).expand(-1, 5, -1)).transpose(1, 2)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    inputs = [tensor for tensor in (features, weight, bias) if tensor is not None]
    mine = torch.autograd.grad((found * upstream).sum(), inputs)
    for a, b in zip(mine, torch.autograd.grad((expected * upstream).sum(), inputs)):
        torch.testing.assert_close(a, b)


def test_gathering_in_half_precision():
    torch.manual_seed(0)
    features, weight = torch.randn(2, 5, 8) * 20, torch.randn(50, 8) * 20
    targets = torch.randint(0, 50, (2, 3))
    exact = gather_log_probs(features, weight, targets)
    half = gather_log_probs(features.bfloat16(), weight.bfloat16(), targets)
    assert half.dtype == torch.float32 and torch.isfinite(half).all()
    torch.testing.assert_close(half, exact, rtol=0.05, atol=30.0)
