"""The parts of a layer against fairseq's modules and PyTorch's functions."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention

from fairseq_hrt.engine.layers import (
    PackedCell,
    PackedCrossAttention,
    PackedDecoderLayer,
    PackedFeedForward,
    PackedLayer,
    PackedNorm,
    PackedSelfAttention,
    UnsupportedModelError,
    attend,
    check_attention,
)
from fairseq_hrt.engine.recurrence import recur

WIDTH, HEADS = 8, 2


def assert_close(found, expected):
    """fairseq's attention takes its softmax in float32, whatever the type of the model."""
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def make_attention(**options):
    return MultiheadAttention(WIDTH, HEADS, **options).double().eval()


def module_attention(module, queries, memory, hidden=None):
    """fairseq's attention of ``[R, q, D]`` over ``[R, T, D]``; ``hidden`` ``[R, T]``; its weights
    are averaged over heads."""
    swapped = [x.transpose(0, 1) for x in (queries, memory, memory)]
    out, weights = module(*swapped, key_padding_mask=hidden, need_weights=True)
    return out.transpose(0, 1), weights


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_attention_is_pytorchs(dtype):
    queries, keys, values = (torch.randn(3, count, 4).to(dtype) for count in (2, 5, 5))
    bias = torch.zeros(3, 1, 5, dtype=dtype)
    bias[1, :, 3:] = float("-inf")
    for given in (None, bias):
        found = attend(queries, keys, values, given)
        wide = [x.double() for x in (queries, keys, values)]
        mask = None if given is None else given.double()
        expected = F.scaled_dot_product_attention(*wide, attn_mask=mask, scale=1.0)
        precision = {torch.float16: 1e-2, torch.bfloat16: 1e-1}.get(dtype, 1e-5)
        assert found.dtype is dtype
        torch.testing.assert_close(found.double(), expected, rtol=precision, atol=precision)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_self_attention_is_fairseqs(bias):
    module = make_attention(self_attention=True)
    bare = make_attention(self_attention=True, bias=False)
    for name, parameter in module.named_parameters():
        # A module without biases computes what zeros give; fairseq's own fast path does not take
        # one.
        parameter.copy_(dict(bare.named_parameters()).get(name, torch.randn_like(parameter) * bias))
    packed, x = (
        PackedSelfAttention(module if bias else bare, reorder=False),
        torch.randn(3, 5, WIDTH).double(),
    )
    hidden = torch.arange(5) >= torch.tensor([[5], [3], [1]])
    mask = torch.zeros(3, 1, 1, 5).double().masked_fill(hidden[:, None, None], float("-inf"))
    assert_close(packed(x, mask), module_attention(module, x, x, hidden)[0])
    assert_close(packed(x, None), module_attention(module, x, x)[0])
    # The same for chosen tokens, of which the others are seen only.
    chosen = torch.tensor([0, 3])
    queries, memorable = packed.project(x, chosen)
    every, same = packed.project(x)
    assert_close(queries, every[:, :, chosen])
    assert_close(memorable, same)
    keys, values = memorable.flatten(1, 2)
    assert_close(packed.combine(queries, keys, values, mask), packed(x, mask)[:, chosen])
    assert_close(
        packed.combine(queries[:1], keys[:HEADS], values[:HEADS], mask[:1]),
        packed(x, mask)[:1, chosen],
    )


@pytest.mark.parametrize("heads", [HEADS, WIDTH])
@pytest.mark.parametrize("beams, count", [(1, 1), (3, 1), (2, 4)])
@torch.no_grad()
def test_beams_ask_their_sentence(beams, count, heads):
    """And the source is never copied: each row of a sentence gets what a copy of it would have
    given; heads of width 1 too."""
    module = MultiheadAttention(WIDTH, heads, encoder_decoder_attention=True).double().eval()
    packed, encoded = PackedCrossAttention(module, reorder=False), torch.randn(2, 6, WIDTH).double()
    x = torch.randn(2 * beams, count, WIDTH).double()
    hidden = torch.arange(6) >= torch.tensor([[6], [4]])
    mask = torch.zeros(2, 1, 1, 6).double().masked_fill(hidden[:, None, None], float("-inf"))
    keys, values = packed.remember(encoded)
    assert keys.shape == values.shape == (2, heads, 6, WIDTH // heads)
    for given, padding in ((mask, hidden), (None, None)):
        copies = None if padding is None else padding.repeat_interleave(beams, 0)
        expected, weights = module_attention(module, x, encoded.repeat_interleave(beams, 0), copies)
        flat = keys.flatten(0, 1), values.flatten(0, 1)
        assert_close(packed(x, *flat, given), expected)
        assert_close(packed.weights(x, flat[0], given), weights)


@pytest.mark.parametrize("activation", [F.relu, F.gelu, torch.tanh])
@torch.no_grad()
def test_feed_forward(activation):
    layer = Namespace(
        activation_fn=activation, fc1=torch.nn.Linear(WIDTH, 12), fc2=torch.nn.Linear(12, WIDTH)
    )
    x = torch.randn(2, 3, WIDTH)
    before = x.clone()
    assert_close(PackedFeedForward(layer, reorder=False)(x), layer.fc2(activation(layer.fc1(x))))
    assert x.equal(before)


@pytest.mark.parametrize("before", [True, False])
@torch.no_grad()
def test_norms_stand_before_or_behind_a_block(tiny, before):
    layer = tiny.model(
        encoder_normalize_before=before, decoder_normalize_before=before
    ).encoder.layers[0]
    packed, norm, x = PackedLayer(layer), layer.final_layer_norm, torch.randn(2, 4, 16).double()
    chosen = torch.tensor([1, 3])
    expected = x + 2 * norm(x) if before else norm(x + 2 * x)
    assert_close(packed.block(x, PackedNorm(norm), lambda y: 2 * y), expected)
    assert_close(
        packed.block(x, PackedNorm(norm), lambda y: 2 * y[:, chosen], chosen), expected[:, chosen]
    )


@pytest.mark.parametrize("name", ["attn_ln", "c_attn", "ffn_layernorm", "w_resid"])
def test_scaled_layers_are_refused_by_name(tiny, name):
    layer = tiny.model().encoder.layers[0]
    setattr(layer, name, torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(UnsupportedModelError, match=f"{name} .*--task translation"):
        PackedLayer(layer)


def test_what_is_no_layer_of_a_translation_model(tiny):
    layer = tiny.model().decoder.layers[0]
    layer.encoder_attn = None
    with pytest.raises(UnsupportedModelError, match="without encoder attention"):
        PackedDecoderLayer(layer)


def test_variants_of_attention_are_refused_by_name():
    class Sparse(MultiheadAttention):
        pass

    check_attention(make_attention(self_attention=True))
    # The package need not be installed.
    other = make_attention(self_attention=True)
    other.use_xformers = True
    refused = {
        "xformers": other,
        "add_bias_kv": make_attention(self_attention=True, add_bias_kv=True),
        "add_zero_attn": make_attention(self_attention=True, add_zero_attn=True),
        "Sparse": Sparse(WIDTH, HEADS, self_attention=True),
    }
    for name, module in refused.items():
        for build in (check_attention, lambda given: PackedSelfAttention(given, reorder=False)):
            with pytest.raises(UnsupportedModelError, match=f"{name}, which .*--task translation"):
                build(module)


@torch.no_grad()
def test_recurrent_cells():
    """One product of both matrices gives what two give; the parameters stay the module's own."""
    cell = Namespace(
        forget=torch.nn.Linear(WIDTH, WIDTH), candidate=torch.nn.Linear(WIDTH, WIDTH, bias=False)
    )
    packed, x, before = (
        PackedCell(cell, reorder=False),
        torch.randn(2, 3, WIDTH),
        torch.randn(2, WIDTH),
    )
    for _ in range(2):
        expected = recur(torch.sigmoid(cell.forget(x)), cell.candidate(x), before)
        assert_close(packed.states(x, before), expected)
        # In place, as optimisers do it.
        (
            cell.candidate.weight.data.add_(1),
            cell.forget.weight.data.mul_(2),
            cell.forget.bias.data.add_(0.5),
        )
