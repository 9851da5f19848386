"""The recurrent cell: step by step as at once, reordered, with padding, in training."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.autoregressive.cell import RecurrentDecoderLayer, SSRUCell


def make_cell(width=6, seed=0):
    torch.manual_seed(seed)
    cell = SSRUCell(width).double()
    torch.nn.init.normal_(cell.forget.bias)
    return cell


def one_by_one(cell, x):
    """c = f c + (1 - f) z, and relu(c), written out: ``[T, B, D]`` -> ``[T, B, D]``."""
    state, found = torch.zeros_like(x[0]), []
    for vector in x:
        forget = torch.sigmoid(vector @ cell.forget.weight.t() + cell.forget.bias)
        state = forget * state + (1 - forget) * (vector @ cell.candidate.weight.t())
        found.append(state.relu())
    return torch.stack(found)


@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(1, 3),
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 9),
)
def test_in_any_pieces(rows, cuts, seed):
    cell, x = make_cell(seed=seed), torch.randn(sum(cuts), rows, 6).double()
    expected = one_by_one(cell, x)
    torch.testing.assert_close(cell(x, x, x)[0], expected)
    incremental, done, found = {}, 0, []
    for count in cuts:
        part = x[done : done + count]
        found.append(cell(part, part, part, incremental_state=incremental)[0])
        done += count
    torch.testing.assert_close(torch.cat(found), expected)


def test_beams_that_change_places():
    cell, x = make_cell(), torch.randn(4, 3, 6).double()
    incremental = {}
    cell(x[:2], x[:2], x[:2], incremental_state=incremental)
    order = torch.tensor([2, 2, 0, 1])
    cell.reorder_incremental_state(incremental, order)
    rest = x[2:, order]
    found, _ = cell(rest, rest, rest, incremental_state=incremental)
    torch.testing.assert_close(found, one_by_one(cell, x)[2:, order])
    # Nothing is remembered yet.
    assert cell.reorder_incremental_state({}, order) == {}


def test_padding_leaves_the_state(tiny):
    """On the left it stays zeros; on the right it stays what it was."""
    cell, x = make_cell(), torch.randn(5, 2, 6).double()
    padding = torch.tensor([[True, True, False, False, False], [False, False, False, True, True]])
    found, _ = cell(x, x, x, padding)
    assert not found[:2, 0].any()
    torch.testing.assert_close(found[2:, 0], one_by_one(cell, x[2:, :1])[:, 0])
    torch.testing.assert_close(found[:3, 1], one_by_one(cell, x[:3, 1:])[:, 0])
    torch.testing.assert_close(found[3:, 1], found[2:3, 1].expand(2, -1))


def test_gradients():
    cell = make_cell(3)
    x = torch.randn(6, 2, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: cell(x, x, x)[0], (x,))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_layer_has_a_cell_in_the_place_of_self_attention(tiny, pre_norm):
    model = tiny.model("marian_transformer", marian_cell="ssru", decoder_normalize_before=pre_norm)
    layer = model.decoder.layers[0]
    assert type(layer) is RecurrentDecoderLayer
    copied = copy.deepcopy(layer)
    assert copied.self_attn is copied.cell is not layer.cell
    copied.cell = copy.deepcopy(layer.cell)
    assert copied.self_attn is copied.cell
    names = {name for name in layer.state_dict() if name.startswith(("cell.", "self_attn."))}
    assert names == {"cell.forget.weight", "cell.forget.bias", "cell.candidate.weight"}
    x, source = torch.randn(4, 2, 16).double(), torch.randn(3, 2, 16).double()
    norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm

    def block(x, norm, inner):
        return x + inner(norm(x)) if pre_norm else norm(x + inner(x))

    with torch.no_grad():
        expected = block(x, norms[0], lambda y: one_by_one(layer.cell, y))
        expected = block(expected, norms[1], lambda y: layer.encoder_attn(y, source, source)[0])
        expected = block(
            expected, norms[2], lambda y: layer.fc2(torch.nn.functional.silu(layer.fc1(y)))
        )
        found, attention, nothing = layer(x, source, need_attn=True)
        # fairseq's softmax is in single precision.
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        assert attention.shape == (2, 4, 3) and nothing is None
        assert layer(x, source, need_head_weights=True)[1].shape == (4, 2, 4, 3)
