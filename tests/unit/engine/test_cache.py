"""The decoder's memory against lists of lists, whatever is appended, forgotten and reordered."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.cache import DecoderState, Memory

LAYERS, HEADS, WIDTH = 2, 2, 3


def make_memory(sentences, source=4):
    keys = [torch.randn(sentences, HEADS, source, WIDTH) for _ in range(LAYERS)]
    bias = torch.randn(sentences, 1, 1, source)
    return Memory(
        keys,
        [-one for one in keys],
        bias,
        torch.arange(sentences) + 1,
        torch.randn(sentences, source, 5),
    )


def make_state(sentences, beams, *, capacity=2):
    cache = torch.full((LAYERS, 2, sentences * beams, HEADS, capacity, WIDTH), float("nan"))
    positions = torch.zeros(1, capacity, dtype=torch.long)
    return DecoderState(
        make_memory(sentences),
        cache,
        positions,
        sentences=torch.arange(sentences),
    )


def take_step(state, known, count, places):
    """Appends ``count`` tokens to the state and to the lists ``known`` of each row, and compares
    them."""
    new = torch.randn(LAYERS, 2, state.rows, HEADS, count, WIDTH)
    state.reserve(state.length + count)
    stored = state.place(places)
    expected = places.expand(state.rows, count).tolist()
    for row, tokens in enumerate(known):
        tokens += [(expected[row][i], new[:, :, row, :, i]) for i in range(count)]
    for layer in range(LAYERS):
        found = state.append(layer, new[layer])
        for part, tensor in enumerate(found):
            assert tensor.shape == (state.rows * HEADS, state.length + count, WIDTH)
            for row, tokens in enumerate(known):
                for place, (_, vectors) in enumerate(tokens):
                    assert tensor[row * HEADS : (row + 1) * HEADS, place].equal(
                        vectors[layer, part]
                    )
    state.length += count
    if state.lengths is not None:
        state.lengths = state.lengths + count
    # The longest row may have gone, which nobody asks the device about.
    assert max(map(len, known)) <= state.length <= state.capacity
    assert state.lengths is not None or state.length == max(map(len, known))
    for row, tokens in enumerate(known):
        own = stored[row % len(stored), : len(tokens)].tolist()
        assert own == [position for position, _ in tokens]


@settings(max_examples=18)
@given(st.data())
def test_rows_are_lists_of_tokens(data):
    sentences, beams = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    state, known = make_state(sentences, beams), [[] for _ in range(sentences * beams)]
    here = list(range(sentences))
    for action in data.draw(
        st.lists(st.sampled_from(["step", "step", "back", "back of each", "reorder"]), max_size=8)
    ):
        if action == "step":
            count = data.draw(st.integers(1, 3))
            places = torch.tensor([[len(tokens) + i for i in range(count)] for tokens in known])
            if data.draw(st.booleans()):
                # Every row where it likes.
                take_step(state, known, count, torch.randint(50, places.shape))
                continue
            take_step(state, known, count, places[0] if state.lengths is None else places)
        elif action == "back":
            length = data.draw(st.integers(0, min(map(len, known))))
            state.rollback(length)
            known = [tokens[:length] for tokens in known]
        elif action == "back of each":
            lengths = [data.draw(st.integers(0, len(tokens))) for tokens in known]
            state.rollback(max(lengths), lengths=torch.tensor(lengths))
            known = [tokens[:length] for tokens, length in zip(known, lengths)]
        else:
            kept = data.draw(
                st.lists(st.integers(0, len(here) - 1), min_size=1, max_size=len(here), unique=True)
            )
            rows = [
                sentence * beams + data.draw(st.integers(0, beams - 1))
                for sentence in kept
                for _ in range(beams)
            ]
            alone = len(kept) == len(here) and kept == sorted(kept)
            state.reorder(torch.tensor(rows), sentences=None if alone else torch.tensor(kept))
            known, here = [list(known[row]) for row in rows], [here[sentence] for sentence in kept]
            assert state.sentences.tolist() == here and state.memory.lengths.tolist() == [
                one + 1 for one in here
            ]
        assert state.rows == len(known) == len(here) * beams
    take_step(state, known, 1, torch.tensor([[len(tokens)] for tokens in known]))


def test_some_sentences_of_a_memory():
    memory = make_memory(3)
    some = memory.select(torch.tensor([2, 0]))
    assert some.lengths.tolist() == [3, 1]
    for layer in range(LAYERS):
        keys, values = some.layer(layer)
        assert keys.equal(memory.keys[layer][[2, 0]].reshape(2 * HEADS, 4, WIDTH)) and values.equal(
            -keys
        )
    assert some.bias.equal(memory.bias[[2, 0]]) and some.encoded.equal(memory.encoded[[2, 0]])
    bare = Memory(memory.keys, memory.values, None, memory.lengths).select(torch.tensor([1]))
    assert bare.bias is None and bare.encoded is None


def test_buffers_grow_by_doubling_and_hold_no_garbage():
    state = make_state(1, 1, capacity=0)
    state.reserve(0)
    assert state.capacity == 0
    state.reserve(1)
    # Rows of different lengths meet unwritten slots: 0 times NaN would be NaN.
    assert state.capacity == 32 and state.cache.isfinite().all()
    state.reserve(33)
    assert state.capacity == 64
    state.reserve(200)
    assert state.capacity == 200


@settings(max_examples=18)
@given(st.data())
def test_states_of_recurrent_cells(data):
    """The last state of each row after any steps, rollbacks and reorderings; zeros before the first
    word."""
    rows = data.draw(st.integers(1, 4))
    cache = torch.full((LAYERS, 1, rows, 1, 1, 5), float("nan"))
    state = DecoderState(make_memory(rows), cache, torch.zeros(1, 1, dtype=torch.long))
    known = [[] for _ in range(rows)]
    for action in data.draw(
        st.lists(st.sampled_from(["step", "step", "back", "back of each", "reorder"]), max_size=8)
    ):
        if action == "step":
            count = data.draw(st.integers(1, 3))
            new = torch.randn(LAYERS, rows, count, 5)
            state.reserve(state.length + count)
            for layer in range(LAYERS):
                state.write(layer, new[layer][None, :, None])
            state.length += count
            if state.lengths is not None:
                state.lengths = state.lengths + count
            known = [[*states, *new[:, row].unbind(1)] for row, states in enumerate(known)]
        elif action == "back":
            shortest = min(map(len, known))
            state.rollback(shortest)
            known = [states[:shortest] for states in known]
        elif action == "back of each":
            lengths = [data.draw(st.integers(0, len(states))) for states in known]
            state.rollback(max(lengths), lengths=torch.tensor(lengths))
            known = [states[:length] for states, length in zip(known, lengths)]
        else:
            order = [data.draw(st.integers(0, rows - 1)) for _ in range(rows)]
            state.reorder(torch.tensor(order))
            known = [list(known[row]) for row in order]
        for layer in range(LAYERS):
            expected = torch.stack(
                [states[-1][layer] if states else torch.zeros(5) for states in known]
            )
            assert state.last_states(layer).equal(expected)
