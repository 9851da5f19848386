"""Attention and dropout of training in bfloat16 on a CPU, against PyTorch's: weights, masks,
gradients, shares."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_hrt.compat.bfloat16_products import attention, bfloat16_products, dropout

PLAIN = F.scaled_dot_product_attention


def masks():
    generator = torch.Generator().manual_seed(2)
    seen = torch.rand(2, 1, 4, 6, generator=generator) < 0.6
    seen[..., 0] = True
    return {
        "none": None,
        "bool": seen,
        "float": torch.zeros(2, 1, 1, 6).masked_fill(~seen[:, :, :1], float("-inf")),
    }


@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_it_is_that_of_pytorch(mask):
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


def test_later_keys_are_hidden():
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 1, 2, 5, 4)
    torch.testing.assert_close(
        attention(query, key, value, is_causal=True), PLAIN(query, key, value, is_causal=True)
    )


def test_every_argument_of_pytorchs_is_taken():
    query, key, value = torch.randn(1, 4, 5, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    for options in ({"scale": 0.3}, {"enable_gqa": True, "scale": 0.3}):
        heads = query if "enable_gqa" in options else query[:, :2]
        torch.testing.assert_close(
            attention(heads, key, value, **options), PLAIN(heads, key, value, **options)
        )


def test_weights_are_dropped():
    torch.manual_seed(1)
    query, key = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1000, 4)
    kept = attention(query, key, torch.eye(1000).view(1, 1, 1000, 1000), dropout_p=0.25)
    assert 0.65 < (kept > 0).double().mean() < 0.85
    torch.testing.assert_close(kept[kept > 0], torch.full_like(kept[kept > 0], 1 / 750))


def test_half_precision_stays_near():
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 2, 3, 6, 8)
    half = attention(query.bfloat16(), key.bfloat16(), value.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), PLAIN(query, key, value), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_values_are_dropped_and_the_mean_stays(share):
    torch.manual_seed(1)
    values = torch.ones(101, 97, dtype=torch.double, requires_grad=True)
    found = dropout(values, p=share)
    assert abs((found == 0).double().mean().item() - share) < 0.02
    exact = 1 - round(share * 256) / 256
    torch.testing.assert_close(found[found > 0], torch.full_like(found[found > 0], 1 / exact))
    # What was dropped learns nothing, what was kept is scaled in both directions.
    torch.testing.assert_close(*torch.autograd.grad(found.sum(), values), found.detach())


def test_bytes_of_one_word_are_independent():
    torch.manual_seed(1)
    kept = (dropout(torch.ones(20_000, 8), p=0.5) > 0).float()
    correlations = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlations.abs().max() < 0.03


def test_a_seed_gives_the_same_mask_again():
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(torch.ones(3, 7)))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])


@pytest.mark.parametrize("options", [{"p": 0.5, "training": False}, {"p": 0}])
def test_nothing_is_dropped(options):
    values = torch.randn(3, 5)
    assert dropout(values, **options).equal(values)


def test_everything_is_dropped():
    assert dropout(torch.randn(3, 5), p=1).equal(torch.zeros(3, 5))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="give a number from 0 to 1"):
        dropout(torch.ones(2), p=share)


def test_products_are_in_bfloat16_within_and_pytorch_is_as_before_after():
    before = F.scaled_dot_product_attention, F.dropout
    matrix = torch.ones(2, 2)
    with bfloat16_products():
        assert (matrix @ matrix).dtype == torch.bfloat16
        assert (F.scaled_dot_product_attention, F.dropout) == (attention, dropout)
    assert (matrix @ matrix).dtype == torch.float32
    assert (F.scaled_dot_product_attention, F.dropout) == before


def test_pytorch_is_as_before_after_an_error():
    before = F.scaled_dot_product_attention, F.dropout
    with pytest.raises(KeyboardInterrupt), bfloat16_products():
        raise KeyboardInterrupt
    assert (F.scaled_dot_product_attention, F.dropout) == before
    assert not torch.is_autocast_enabled("cpu")
