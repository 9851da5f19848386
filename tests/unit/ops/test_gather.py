"""Log-probabilities of given tokens, gathered piece by piece."""

import pytest
import torch

from fairseq_hrt.ops import gather, gather_log_probs, gather_with_largest


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 40, gather.CHUNK])
@pytest.mark.parametrize("kept", [0, gather.KEPT])
@pytest.mark.parametrize("block", [1, 25, 10**6])
def test_gathered_log_probabilities(with_bias, chunk, kept, block, monkeypatch):
    for name, value in (("BLOCK", block), ("CHUNK", chunk), ("KEPT", kept)):
        monkeypatch.setattr(gather, name, value)
    torch.manual_seed(0)
    features = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True) if with_bias else None
    targets = torch.randint(0, 11, (2, 3))
    found = gather_log_probs(features, weight, targets, bias=bias)
    logits = torch.nn.functional.linear(features, weight, bias)
    expected = (
        logits.log_softmax(-1).gather(2, targets.unsqueeze(1).expand(-1, 5, -1)).transpose(1, 2)
    )
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    inputs = [tensor for tensor in (features, weight, bias) if tensor is not None]
    mine = torch.autograd.grad((found * upstream).sum(), inputs)
    for a, b in zip(mine, torch.autograd.grad((expected * upstream).sum(), inputs)):
        torch.testing.assert_close(a, b)
    again, largest = gather_with_largest(features, weight, targets, bias=bias)
    torch.testing.assert_close(again, expected)
    torch.testing.assert_close(largest, logits.log_softmax(-1).amax(2))


def test_gathering_in_half_precision():
    torch.manual_seed(0)
    features, weight = torch.randn(2, 5, 8) * 20, torch.randn(50, 8) * 20
    targets = torch.randint(0, 50, (2, 3))
    exact = gather_log_probs(features, weight, targets)
    half = gather_log_probs(features.bfloat16(), weight.bfloat16(), targets)
    assert half.dtype == torch.float32 and torch.isfinite(half).all()
    torch.testing.assert_close(half, exact, rtol=0.05, atol=30.0)


@pytest.mark.parametrize("block", [1, 20, 10**6])
def test_the_largest_beside_them(block, monkeypatch):
    monkeypatch.setattr(gather, "BLOCK", block)
    torch.manual_seed(1)
    features, weight, bias = (
        torch.randn(2, 5, 4, requires_grad=True),
        torch.randn(11, 4, requires_grad=True),
        torch.randn(11),
    )
    targets = torch.randint(0, 11, (2, 3))
    log_probs = torch.nn.functional.linear(features, weight, bias).log_softmax(-1)
    match, largest = gather_with_largest(features, weight, targets, bias=bias)
    torch.testing.assert_close(match, gather_log_probs(features, weight, targets, bias=bias))
    torch.testing.assert_close(largest, log_probs.amax(-1))
    assert not match.requires_grad and not largest.requires_grad


def test_no_more_logits_at_a_time_than_a_chunk_holds(monkeypatch):
    features, weight, targets = (
        torch.randn(2, 5, 4),
        torch.randn(11, 4),
        torch.zeros(2, 1, dtype=torch.long),
    )
    monkeypatch.setattr(gather, "CHUNK", 35)
    # Half of what the cache holds.
    monkeypatch.setattr(gather, "BLOCK", 17)
    sizes, original = [], torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional,
        "linear",
        lambda *given: sizes.append(original(*given).numel()) or original(*given),
    )
    for program in (gather_log_probs, gather_with_largest):
        sizes.clear()
        program(features, weight, targets)
        assert sizes == [33, 33, 33, 11]


@pytest.mark.parametrize("most, kept", [(110, 110), (109, 0)])
def test_logits_of_small_batches_are_kept_for_the_gradient(monkeypatch, most, kept):
    monkeypatch.setattr(gather, "KEPT", most)
    features, weight, held = torch.randn(2, 5, 4, requires_grad=True), torch.randn(11, 4), []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: held.append(tensor) or tensor, lambda tensor: tensor
    ):
        gather_log_probs(features, weight, torch.zeros(2, 1, dtype=torch.long))
    assert sum(tensor.numel() for tensor in held if tensor.shape == (10, 11)) == kept


def test_kept_logits_serve_one_backward_pass():
    features, weight = torch.randn(2, 5, 4, requires_grad=True), torch.randn(11, 4)
    found = gather_log_probs(features, weight, torch.zeros(2, 1, dtype=torch.long)).sum()
    found.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.backward()


def test_gathering_under_autocast_has_the_gradients_of_half_precision():
    torch.manual_seed(0)
    features, weight = (
        torch.randn(2, 5, 8, requires_grad=True),
        torch.randn(50, 8, requires_grad=True),
    )
    targets = torch.tensor([[3, 3, 7], [0, 49, 3]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gather_log_probs(features, weight, targets)
        gradients = torch.autograd.grad(found.sum(), (features, weight))
    exact = torch.autograd.grad(
        gather_log_probs(features, weight, targets).sum(), (features, weight)
    )
    assert found.dtype == torch.float32
    for one, other in zip(gradients, exact):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.1)


def test_gathering_where_exponentials_overflow():
    features, weight = torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[1000.0], [0.0], [-1000.0]])
    found = gather_log_probs(features.requires_grad_(), weight, torch.tensor([[1, 2]]))
    assert found.tolist() == [[[-1000.0, -1000.0], [-2000.0, 0.0]]]
    found.sum().backward()
    assert features.grad.flatten().tolist() == [-3000.0, 1000.0]
