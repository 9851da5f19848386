"""The attention that trains in bfloat16 on a CPU, against PyTorch's: weights, masks and gradients."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

EXAMPLES = Path(__file__).parents[3] / "examples" / "common"
PLAIN = F.scaled_dot_product_attention


@pytest.fixture(scope="module")
def attention():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import train_bf16

        yield train_bf16.attention
        del sys.modules["train_bf16"]


def masks():
    generator = torch.Generator().manual_seed(2)
    seen = torch.rand(2, 1, 4, 6, generator=generator) < 0.6
    seen[..., 0] = True
    return {"none": None, "bool": seen, "float": torch.zeros(2, 1, 1, 6).masked_fill(~seen[:, :, :1], float("-inf"))}


@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_it_is_that_of_pytorch(attention, mask):
    torch.manual_seed(1)
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8)
    results = []
    for function in (attention, PLAIN):
        inputs = [tensor.double().requires_grad_() for tensor in (query, key, value)]
        # Float masks have the type of the scores in PyTorch's.
        given = masks()[mask]
        given = given.double() if mask == "float" else given
        found = function(*inputs, attn_mask=given)
        results.append((found, *torch.autograd.grad((found * found).sum(), inputs)))
    # The softmax is in single precision whatever the rest is.
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def test_later_keys_are_hidden(attention):
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 1, 2, 5, 4)
    torch.testing.assert_close(attention(query, key, value, is_causal=True), PLAIN(query, key, value, is_causal=True))


def test_weights_are_dropped(attention):
    torch.manual_seed(1)
    query, key = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1000, 4)
    kept = attention(query, key, torch.eye(1000).view(1, 1, 1000, 1000), dropout_p=0.25)
    assert 0.65 < (kept > 0).double().mean() < 0.85
    torch.testing.assert_close(kept[kept > 0], torch.full_like(kept[kept > 0], 1 / 750))


def test_half_precision_stays_near(attention):
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 2, 3, 6, 8)
    half = attention(query.bfloat16(), key.bfloat16(), value.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), PLAIN(query, key, value), rtol=0.05, atol=0.05)
