"""The four training samples of a target: the tables of the papers, the partition, batches against
single sentences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.sample import (
    skip_cmlm_input,
    training_views,
)

PAD, EOS, MASK = 1, 2, 1000
START = {2: 1002, 3: 1003, 4: 1004, 5: 1005}

# (k, N, Skip-AT input @positions, its target, Skip-CMLM input, its target), as printed in the
# design. B = <s_k>, M = mask, E = </s>, . = no loss, numbers = y_j.
TABLE = [
    (2, 1, "B", [0], "E", "M E", "1 ."),
    (2, 4, "B 2 4", [0, 2, 4], "2 4 E", "M 2 M 4 M E", "1 . 3 . E ."),
    (2, 5, "B 2 4", [0, 2, 4], "2 4 E", "M 2 M 4 M E", "1 . 3 . 5 ."),
    (3, 1, "B", [0], "E", "M M E", "1 E ."),
    (3, 3, "B 3", [0, 3], "3 E", "M M 3 M M E", "1 2 . E E ."),
    (3, 4, "B 3", [0, 3], "3 E", "M M 3 M M E", "1 2 . 4 E ."),
    (3, 5, "B 3", [0, 3], "3 E", "M M 3 M M E", "1 2 . 4 5 ."),
    (4, 3, "B", [0], "E", "M M M E", "1 2 3 ."),
    (4, 4, "B 4", [0, 4], "4 E", "M M M 4 M M M E", "1 2 3 . E E E ."),
    (4, 5, "B 4", [0, 4], "4 E", "M M M 4 M M M E", "1 2 3 . 5 E E ."),
    (2, 7, "B 2 4 6", [0, 2, 4, 6], "2 4 6 E", "M 2 M 4 M 6 M E", "1 . 3 . 5 . 7 ."),
]
every_length = pytest.mark.parametrize(
    "chunk, length", [(k, n) for k in (1, 2, 3, 4, 5) for n in range(3 * k + 3)]
)


def words(length):
    return torch.arange(11, 11 + length)


def views_of(target, chunk, *, bos=0, mask=MASK):
    """The training views of one sentence; a chunk size of 1 masks nothing."""
    targets = torch.cat([target, target.new_tensor([EOS])]).unsqueeze(0)
    return training_views(
        targets,
        torch.tensor([chunk]),
        starts=torch.tensor([bos]),
        masked=torch.zeros_like(targets, dtype=torch.bool),
        eos=EOS,
        mask=mask,
        pad=PAD,
    )


def skip_at_sample(target, chunk, *, bos):
    return [part[0] for part in views_of(target, chunk, bos=bos).causal]


def skip_cmlm_sample(target, chunk):
    return [part[0] for part in views_of(target, chunk).parallel]


def ids(text, chunk):
    special = {"B": START[chunk], "M": MASK, "E": EOS, ".": PAD}
    return [special[word] if word in special else 10 + int(word) for word in text.split()]


@pytest.mark.parametrize("chunk, length, at_in, at_places, at_out, cmlm_in, cmlm_out", TABLE)
def test_table_of_the_papers(chunk, length, at_in, at_places, at_out, cmlm_in, cmlm_out):
    tokens, positions, target = skip_at_sample(words(length), chunk, bos=START[chunk])
    assert tokens.tolist() == ids(at_in, chunk)
    assert positions.tolist() == at_places
    assert target.tolist() == ids(at_out, chunk)
    tokens, positions, target = skip_cmlm_sample(words(length), chunk)
    assert tokens.tolist() == ids(cmlm_in, chunk)
    assert positions.tolist() == list(range(1, len(tokens) + 1))
    assert target.tolist() == ids(cmlm_out, chunk)


def padded_length(length, chunk_size):
    """L, the length of a target of so many words, with ``</s>`` filled up to whole chunks."""
    return chunk_size * -(-(length + 1) // chunk_size)


@every_length
def test_samples_equal_the_loop(hrt, chunk, length):
    start = START.get(chunk, EOS)
    expected = hrt.views(words(length).tolist(), chunk, start=start, mask=MASK)
    causal = skip_at_sample(words(length), chunk, bos=start)
    parallel = skip_cmlm_sample(words(length), chunk)
    for name, view in (("causal", causal), ("parallel", parallel)):
        for part, tensor in zip(("input", "positions", "target"), view):
            assert tensor.tolist() == expected[f"{name}_{part}"], (name, part)
    assert padded_length(length, chunk) == len(expected["parallel_input"])


@every_length
def test_targets_and_loss_positions_partition_the_sentence(chunk, length):
    _, starts, _ = skip_at_sample(words(length), chunk, bos=0)
    _, positions, target = skip_cmlm_sample(words(length), chunk)
    predicted_first = (starts + chunk).tolist()
    predicted_second = positions[target.ne(PAD)].tolist()
    assert sorted(predicted_first + predicted_second) == list(
        range(1, padded_length(length, chunk) + 1)
    )


@every_length
def test_both_targets_together_give_the_sentence_back(chunk, length):
    _, _, kept = skip_at_sample(words(length), chunk, bos=0)
    tokens, _, target = skip_cmlm_sample(words(length), chunk)
    assert skip_cmlm_input(kept.tolist(), chunk, mask=MASK) == tokens.tolist()
    filled = torch.where(tokens == MASK, target, tokens).tolist()
    assert filled[: filled.index(EOS)] == words(length).tolist()
    assert set(filled[length:]) == {EOS}


def test_chunk_size_one_is_the_ordinary_transformer():
    tokens, positions, target = skip_at_sample(words(3), 1, bos=EOS)
    assert tokens.tolist() == [EOS, 11, 12, 13]
    assert positions.tolist() == [0, 1, 2, 3]
    assert target.tolist() == [11, 12, 13, EOS]
    tokens, _, target = skip_cmlm_sample(words(3), 1)
    assert tokens.tolist() == [11, 12, 13, EOS]
    assert target.tolist() == [PAD] * 4


def test_stage_two_input():
    assert skip_cmlm_input([11, EOS], 3, mask=MASK) == [MASK, MASK, 11, MASK, MASK, EOS]


@st.composite
def batches(draw):
    rows = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 17)), min_size=1, max_size=5))
    hidden = [draw(st.lists(st.booleans(), min_size=n + 1, max_size=n + 1)) for _, n in rows]
    return rows, hidden, draw(st.integers(0, 3)), draw(st.booleans())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(batches())
def test_a_batch_equals_its_sentences(hrt, batch):
    rows, hidden, extra, learn_tail = batch
    width = max(n for _, n in rows) + 1 + extra
    targets, masked = (
        torch.full((len(rows), width), PAD),
        torch.zeros(len(rows), width, dtype=torch.bool),
    )
    for row, (_, n) in enumerate(rows):
        targets[row, : n + 1] = torch.cat([words(n), torch.tensor([EOS])])
        masked[row, : n + 1] = torch.tensor(hidden[row])
    starts = [START.get(k, EOS) for k, _ in rows]
    views = training_views(
        targets,
        torch.tensor([k for k, _ in rows]),
        starts=torch.tensor(starts),
        masked=masked,
        eos=EOS,
        mask=MASK,
        pad=PAD,
        learn_tail=learn_tail,
    )
    assert views.chunk_sizes.tolist() == [k for k, _ in rows]
    for row, (k, n) in enumerate(rows):
        expected = hrt.views(words(n).tolist(), k, start=starts[row], mask=MASK)
        if k == 1:
            sentence = [*words(n).tolist(), EOS]
            expected["parallel_input"] = [MASK if h else y for h, y in zip(hidden[row], sentence)]
            expected["parallel_target"] = [y if h else PAD for h, y in zip(hidden[row], sentence)]
        if not learn_tail:
            # </s> at N + 1 is learnt, the repetitions behind it are not.
            tail = expected["parallel_target"]
            expected["parallel_target"] = tail[: n + 1] + [PAD] * (len(tail) - n - 1)
        for name, view in (("causal", views.causal), ("parallel", views.parallel)):
            length = len(expected[f"{name}_input"])
            assert view.input[row, :length].tolist() == expected[f"{name}_input"]
            assert view.positions[row, :length].tolist() == expected[f"{name}_positions"]
            assert view.target[row, :length].tolist() == expected[f"{name}_target"]
            assert (
                view.input[row, length:].eq(PAD).all() and view.target[row, length:].eq(PAD).all()
            )
    # No column of padding that no sentence needs in the longer of the two views.
    assert views.parallel.input.ne(PAD).any(0).all() or extra


def test_the_target_given_is_left_as_it_was():
    targets = torch.tensor([[11, 12, EOS], [11, EOS, PAD]])
    before = targets.clone()
    training_views(
        targets,
        torch.tensor([2, 3]),
        starts=torch.tensor([1002, 1003]),
        masked=torch.zeros_like(targets, dtype=torch.bool),
        eos=EOS,
        mask=MASK,
        pad=PAD,
    )
    assert torch.equal(targets, before)


def test_a_word_stands_at_one_position_in_all_four_samples():
    target = words(7)
    for chunk in (1, 2, 3, 4):
        for tokens, positions in (
            skip_at_sample(target, chunk, bos=0)[:2],
            skip_cmlm_sample(target, chunk)[:2],
        ):
            places = {t: p for t, p in zip(tokens.tolist(), positions.tolist()) if t in target}
            assert all(t - 10 == p for t, p in places.items())
