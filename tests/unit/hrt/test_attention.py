"""Relative self-attention against Eq. 4 written as loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.attention import RelativeSelfAttention, attention_pattern

WIDTH, HEADS = 8, 2
SIZE = WIDTH // HEADS


def build(window, seed=0):
    torch.manual_seed(seed)
    module = RelativeSelfAttention(WIDTH, HEADS, dropout=0.0, window=window).double()
    if window:
        torch.nn.init.normal_(module.relative_keys)
    return module


def run(module, x, positions, padding, causal, window):
    """[B, T, D] -> [B, T, D]."""
    pattern = attention_pattern(positions, padding, causal=causal, window=window, like=x)
    y = x.transpose(0, 1)
    return module(y, y, y, attn_mask=pattern)[0].transpose(0, 1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 99),
)
def test_equals_the_loop(hrt, lengths, stride, window, causal, seed):
    module = build(window, seed)
    width = max(lengths)
    x = torch.randn(len(lengths), width, WIDTH, dtype=torch.double)
    inside = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
    positions = stride * torch.arange(width) * inside
    result = run(module, x, positions, ~inside, causal, window)
    assert result.isfinite().all()
    for b, length in enumerate(lengths):
        q, k, v = (p(x[b, :length]) for p in (module.q_proj, module.k_proj, module.v_proj))
        heads = [
            hrt.attention(
                *(t[:, h * SIZE : (h + 1) * SIZE] for t in (q, k, v)),
                [stride * i for i in range(length)],
                module.relative_keys,
                (lambda i, j: j <= i) if causal else (lambda i, j: True),
            )
            for h in range(HEADS)
        ]
        torch.testing.assert_close(
            result[b, :length], module.out_proj(torch.cat(heads, -1)), rtol=1e-9, atol=1e-9
        )


def weights_by_distance(window, changed, positions):
    """How much the weight of each pair grows when row `changed` of the table does; queries are
    constant."""
    module = build(window)
    length = len(positions)
    x = torch.ones(1, length, WIDTH, dtype=torch.double)
    padding = torch.zeros(1, length, dtype=torch.bool)
    with torch.no_grad():
        module.v_proj.weight.zero_()
        module.q_proj.weight.copy_(torch.eye(WIDTH))
        module.q_proj.bias.zero_()
        module.relative_keys.zero_()
        module.relative_keys[changed] = 50.0
        # Attention to key j alone shows as the value j: put the place into the value's first
        # channel.
        module.v_proj.bias.zero_()
        module.v_proj.weight[0, 0] = 1.0
        module.out_proj.weight.copy_(torch.eye(WIDTH))
        module.out_proj.bias.zero_()
        module.k_proj.weight.zero_()
        module.q_proj.weight[:, 0] = 0.0
        module.q_proj.weight[0, 1] = 1.0
        x[0, :, 0] = torch.arange(length)
    return run(module, x, torch.tensor([positions]), padding, False, window)[0, :, 0].tolist()


def test_sign_a_negative_distance_is_the_left_neighbour():
    # Row window - 1 is distance j - i = -1.
    seen = weights_by_distance(3, 3 - 1, [0, 1, 2, 3])
    assert seen[1:] == pytest.approx([0, 1, 2])
    assert seen[0] == pytest.approx(1.5)  # no left neighbour: all alike


def test_sign_a_positive_distance_is_the_right_neighbour():
    seen = weights_by_distance(3, 3 + 1, [0, 1, 2, 3])
    assert seen[:3] == pytest.approx([1, 2, 3])


def test_distances_behind_the_window_are_clipped():
    # Distance -2 and everything farther left share the outermost row of window 2.
    seen = weights_by_distance(2, 0, [0, 1, 2, 3, 4, 5])
    assert seen[2:] == pytest.approx([0, 0.5, 1.0, 1.5])


def test_distances_are_those_of_the_positions_not_of_the_slots():
    # Positions 0, 3, 6: the neighbouring slot is three words away.
    assert weights_by_distance(4, 4 - 3, [0, 3, 6])[1:] == pytest.approx([0, 1])
    assert weights_by_distance(4, 4 - 1, [0, 3, 6]) == pytest.approx([1, 1, 1])


def test_gradient_reaches_the_table_from_zero():
    module = build(2)
    torch.nn.init.zeros_(module.relative_keys)
    x = torch.randn(1, 4, WIDTH, dtype=torch.double)
    run(
        module, x, torch.arange(4).unsqueeze(0), torch.zeros(1, 4, dtype=torch.bool), True, 2
    ).square().sum().backward()
    # Causal: distances 0, -1 and -2 occur, positive ones do not.
    assert module.relative_keys.grad.abs().sum(1).gt(0).tolist() == [True, True, True, False, False]


def test_values_do_not_carry_relative_positions():
    module = build(2)
    with torch.no_grad():
        module.v_proj.weight.zero_()
        module.v_proj.bias.copy_(torch.arange(WIDTH))
    x = torch.randn(1, 5, WIDTH, dtype=torch.double)
    result = run(
        module, x, torch.arange(5).unsqueeze(0), torch.zeros(1, 5, dtype=torch.bool), False, 2
    )
    torch.testing.assert_close(
        result[0], module.out_proj(torch.arange(WIDTH).double()).expand(5, -1)
    )


def test_starts_at_zero_and_is_absent_without_a_window():
    assert RelativeSelfAttention(WIDTH, HEADS, dropout=0.0, window=16).relative_keys.shape == (
        33,
        SIZE,
    )
    assert not RelativeSelfAttention(WIDTH, HEADS, dropout=0.0, window=16).relative_keys.any()
    assert (
        "relative_keys"
        not in RelativeSelfAttention(WIDTH, HEADS, dropout=0.0, window=0).state_dict()
    )


def test_attention_dropout_acts_in_training_only():
    module = RelativeSelfAttention(WIDTH, HEADS, dropout=0.5, window=2).double()
    x, positions = torch.randn(1, 6, WIDTH, dtype=torch.double), torch.arange(6).unsqueeze(0)
    padding = torch.zeros(1, 6, dtype=torch.bool)
    assert not torch.equal(
        run(module, x, positions, padding, True, 2), run(module, x, positions, padding, True, 2)
    )
    module.eval()
    assert torch.equal(
        run(module, x, positions, padding, True, 2), run(module, x, positions, padding, True, 2)
    )


def test_wrong_shapes_and_calls_are_refused():
    with pytest.raises(ValueError, match="10.*--decoder-attention-heads 4"):
        RelativeSelfAttention(10, 4, dropout=0.0, window=2)
    x = torch.randn(3, 1, WIDTH, dtype=torch.double)
    with pytest.raises(ValueError, match="AttentionPattern"):
        build(2)(x, x, x)
