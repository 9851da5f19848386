"""Who may see whom, asked of each pair of tokens."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.engine.cache import DecoderState, Memory
from fairseq_hrt.engine.masks import visibility_bias


def make_state(lengths):
    """A state whose rows have these lengths; one number: all rows alike."""
    rows = len(lengths) if isinstance(lengths, list) else 2
    memory = Memory([], [], None, torch.ones(rows, dtype=torch.long))
    state = DecoderState(
        memory, torch.zeros(1, 2, rows, 1, 20, 1).double(), torch.zeros(1, 20, dtype=torch.long)
    )
    if isinstance(lengths, list):
        state.lengths, state.length = torch.tensor(lengths), max(lengths)
    else:
        state.length = lengths
    return state


@given(
    lengths=st.integers(0, 5) | st.lists(st.integers(0, 5), min_size=2, max_size=3),
    count=st.integers(1, 4),
    causal=st.booleans(),
    data=st.data(),
)
def test_every_pair(lengths, count, causal, data):
    state = make_state(lengths)
    total, known = state.length + count, lengths if isinstance(lengths, list) else [lengths] * 2
    shape = data.draw(
        st.sampled_from([None, (total,), (count, total), (1, 1, total), (state.rows, count, total)])
    )
    visible = None if shape is None else torch.rand(shape) < 0.7
    bias = visibility_bias(state, count, visible, causal)
    everything = torch.ones(state.rows, count, total, dtype=torch.bool)
    for row, length in enumerate(known):
        for new in range(count):
            for key in range(total):
                # New tokens stand behind the cached ones of their row; what is behind them is not
                # written yet.
                last = length + new if causal else length + count - 1
                everything[row, new, key] = key <= last
    expected = everything if visible is None else everything & visible
    if bias is None:
        assert expected.all()
    else:
        assert bias.dtype is torch.float64 and bias.dim() == 4 and bias.size(1) == 1
        found = bias[:, 0].expand(state.rows, count, total)
        assert found.eq(0).equal(expected) and found.eq(float("-inf")).equal(~expected)


def test_one_token_that_sees_everything_needs_no_mask():
    assert visibility_bias(make_state(4), 1, None, True) is None
    assert visibility_bias(make_state(0), 3, None, False) is None
