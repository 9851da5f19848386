"""The vocabulary's losses in one pass, against PyTorch in float64."""

import pytest
import torch
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.ops import gather_log_probs, gather_with_largest

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import vocabulary

pytestmark = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    use_kernels(monkeypatch)
    # Several blocks of words and of targets at this size.
    monkeypatch.setattr(vocabulary, "BLOCK", 16)
    monkeypatch.setattr(vocabulary, "PART", 4)


def arguments(device, dtype=torch.float16, *, with_bias=False, words=37):
    torch.manual_seed(3)
    features = torch.randn(2, 5, 8).to(device, dtype).requires_grad_()
    weight = torch.randn(words, 8).to(device, dtype).requires_grad_()
    bias = torch.randn(words).to(device, dtype).requires_grad_() if with_bias else None
    # The first sentence has a word three times, of which two lie in different parts.
    targets = torch.tensor([[4, 9, 4, 36, 0, 4], [1, 2, 3, 4, 5, 35]], device=device)
    return features, weight, bias, targets


def reference(features, weight, bias, targets):
    """match ``[B, T, L]`` and largest ``[B, L]`` in float64 from the same rounded logits."""
    # The product has the shape of the program's, so that a GPU rounds it in the same way.
    logits = torch.nn.functional.linear(features.flatten(0, 1), weight, bias).double()
    log_probs = logits.view(*features.shape[:2], -1).log_softmax(-1)
    wanted = targets.unsqueeze(1).expand(-1, features.size(1), -1)
    return log_probs.gather(2, wanted).transpose(1, 2), log_probs.amax(2)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gathered_log_probabilities(device, dtype, with_bias, monkeypatch):
    features, weight, bias, targets = arguments(device, dtype, with_bias=with_bias)
    expected, best = reference(features, weight, bias, targets)
    # 74: chunks of two vertices, of which the last of the first sentence has one of the second.
    for chunk in (vocabulary.CHUNK, 74, 1):
        monkeypatch.setattr(vocabulary, "CHUNK", chunk)
        found = gather_log_probs(features, weight, targets, bias=bias)
        assert found.dtype == torch.float32 and found.is_contiguous()
        near = dict(rtol=1e-5, atol=1e-5 if device == "cpu" or chunk > 74 else 0.1)
        torch.testing.assert_close(found.double(), expected, **near)
        again, largest = gather_with_largest(features, weight, targets, bias=bias)
        assert torch.equal(again, found) and not again.requires_grad
        torch.testing.assert_close(largest.double(), best, **near)


def test_a_target_that_is_the_best_word_equals_it_exactly(device):
    features, weight, bias, _ = arguments(device)
    logits = torch.nn.functional.linear(features.flatten(0, 1), weight, bias)  # [B * L, V]
    targets = logits.argmax(1).view(features.shape[:2])  # [B, L]
    match, largest = gather_with_largest(features, weight, targets, bias=bias)
    assert torch.equal(match.diagonal(dim1=1, dim2=2), largest)


@pytest.mark.parametrize("kept", [0, 111, vocabulary.KEPT])
@pytest.mark.parametrize("chunk", [None, 111])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients(device, dtype, chunk, kept, monkeypatch):
    monkeypatch.setattr(vocabulary, "KEPT", kept)
    if chunk is not None:
        # 111: three vertices at a time, the first three kept for the gradient with KEPT 111.
        monkeypatch.setattr(vocabulary, "CHUNK", chunk)
    features, weight, bias, targets = arguments(device, dtype, with_bias=True)
    inputs = [features, weight, bias]
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected, _ = reference(*wide, targets)
    upstream = torch.randn(expected.shape, dtype=torch.float64, device=device)
    truth = torch.autograd.grad((expected * upstream).sum(), wide)
    found = gather_log_probs(features, weight, targets, bias=bias)
    own = torch.autograd.grad((found * upstream).sum(), inputs)
    # Logits and their gradients are rounded to half precision.
    tolerance = 0.01 if dtype == torch.float16 else 0.08
    for tensor, gradient, exact in zip(inputs, own, truth):
        assert gradient.dtype == tensor.dtype and gradient.shape == tensor.shape
        scale = exact.abs().amax()
        torch.testing.assert_close(
            gradient / scale, (exact / scale).to(dtype), rtol=0, atol=tolerance
        )


def test_kept_logits_serve_one_backward_pass(device):
    features, weight, bias, targets = arguments(device)
    found = gather_log_probs(features, weight, targets, bias=bias).sum()
    found.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.backward()


def test_logits_that_overflow_are_not_hidden(device):
    """What the dynamic programs refuse by name: NaN."""
    features, weight, bias, targets = arguments(device)
    with torch.no_grad():
        features[0, 1] = 60000.0
    found = gather_log_probs(features, weight, targets, bias=bias)
    assert found[0, :, 1].isnan().all() and not found[0, :, 0].isnan().any()


def test_a_word_outside_the_vocabulary_is_not_read(device):
    features, weight, bias, targets = arguments(device)
    targets[0, 1], targets[1, 2] = 37, -1
    found = gather_log_probs(features, weight, targets, bias=bias)
    assert found.isnan().sum() == 2 * 5 and found[0, 1].isnan().all() and found[1, 2].isnan().all()


def test_blocks_of_impossible_words(device):
    features, weight, _, targets = arguments(device)
    bias = torch.zeros(37, device=device, dtype=torch.float16)
    bias[:20] = -float("inf")
    targets = targets.clamp(min=20)
    found = gather_log_probs(features, weight, targets, bias=bias)
    expected, _ = reference(features, weight, bias, targets)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_full_precision_is_computed_by_pytorch(device, monkeypatch):
    monkeypatch.setattr(vocabulary, "_score", None)
    features, weight, bias, targets = arguments(device, torch.float32)
    expected, _ = reference(features, weight, bias, targets)
    found = gather_log_probs(features, weight, targets, bias=bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_under_autocast_the_logits_are_half_precision(device):
    features, weight, _, targets = arguments(device, torch.float32)
    with torch.autocast(device, dtype=torch.bfloat16):
        found = gather_log_probs(features, weight, targets)
    assert type(found.grad_fn).__name__ == "TargetLogProbsBackward"
    gradients = torch.autograd.grad(found.sum(), (features, weight))
    exact, _ = reference(features, weight, None, targets)
    truth = torch.autograd.grad(exact.sum(), (features, weight))
    for gradient, expected in zip(gradients, truth):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, expected.float(), rtol=0.05, atol=0.3)
