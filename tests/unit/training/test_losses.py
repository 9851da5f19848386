"""The loss of a large vocabulary in one pass, against fairseq's and against finite differences."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.families import FAMILIES
from fairseq_hrt.ops import gather
from fairseq_hrt.training.losses import check_label_smoothing, smoothed_cross_entropy

OF_FAMILIES = [(family.task, loss) for family in FAMILIES for loss in family.losses]


@pytest.mark.parametrize("task, loss", OF_FAMILIES, ids=str)
def test_a_loss_needs_the_task_of_its_family(task, loss):
    """Told before a batch is loaded."""
    config = CRITERION_DATACLASS_REGISTRY[loss]()
    for other in (Namespace(cfg=None), Namespace(cfg=None, family="autoregressive")):
        with pytest.raises(ValueError, match=f"{loss}.* needs the .* of --task {task}: give"):
            CRITERION_REGISTRY[loss].build_criterion(config, other)


SIZES = {
    "rows": st.integers(0, 9),
    "size": st.integers(2, 7),
    "epsilon": st.sampled_from([0.0, 0.1, 0.7]),
    "block": st.integers(1, 30),
}


def example(rows, size, dtype=torch.float64):
    generator = torch.Generator().manual_seed(rows * 10 + size)
    logits = 3 * torch.randn(rows, size, generator=generator, dtype=torch.float64)
    return logits.to(dtype).requires_grad_(), torch.randint(size, (rows,), generator=generator)


@given(**SIZES)
def test_losses_and_gradients_are_those_of_fairseq(rows, size, epsilon, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "BLOCK", block)
        logits, target = example(rows, size)
        weights = torch.arange(1, rows + 1, dtype=torch.float64)
        loss, nll = smoothed_cross_entropy(logits, target, epsilon)
        (gradient,) = torch.autograd.grad((loss * weights).sum(), logits)
    expected, expected_nll = label_smoothed_nll_loss(
        logits.log_softmax(-1), target, epsilon, reduce=False
    )
    (expected_gradient,) = torch.autograd.grad((expected.flatten() * weights).sum(), logits)
    torch.testing.assert_close(loss, expected.flatten())
    torch.testing.assert_close(nll, expected_nll.flatten())
    torch.testing.assert_close(gradient, expected_gradient)
    assert not nll.requires_grad


def test_gradients_are_finite_differences():
    logits, target = example(4, 5)
    assert torch.autograd.gradcheck(
        lambda values: smoothed_cross_entropy(values, target, 0.3)[0], logits
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_is_summed_in_single_precision(dtype):
    logits, target = example(3, 5000, dtype)
    loss, nll = smoothed_cross_entropy(logits, target, 0.1)
    loss.sum().backward()
    exact = logits.detach().double().requires_grad_()
    expected, _ = label_smoothed_nll_loss(exact.log_softmax(-1), target, 0.1, reduce=False)
    expected.sum().backward()
    assert loss.dtype == nll.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected.flatten(), rtol=1e-5, atol=1e-5)
    assert logits.grad.dtype == dtype
    torch.testing.assert_close(
        logits.grad.double(), exact.grad, rtol=torch.finfo(dtype).eps, atol=1e-6
    )


def test_logits_that_exponentials_cannot_hold():
    logits = torch.tensor([[1000.0, 0.0, -1000.0]], requires_grad=True)
    loss, nll = smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)
    loss.sum().backward()
    assert nll.tolist() == loss.tolist() == [1000.0]
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0]]


def test_nothing_of_the_size_of_the_vocabulary_is_kept_besides_the_logits():
    """The memory that a large vocabulary costs: the logits, once."""
    logits, target = example(6, 40)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor
    ):
        smoothed_cross_entropy(logits, target, 0.1)
    assert sorted(tensor.numel() for tensor in kept) == [6, 240]


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 1.5])
def test_label_smoothing_is_a_share(epsilon):
    with pytest.raises(ValueError, match=f"--label-smoothing {epsilon} must lie in"):
        check_label_smoothing(epsilon)
