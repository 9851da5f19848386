"""Conventions are noted beside the weights, and nobody starts from weights of others without a
word."""

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.training.config import ACTIVATIONS
from fairseq_hrt.training.conventions import (
    NOTE,
    Conventions,
    SinusoidsFrom,
    leave_sinusoids_out,
    start_self_attention,
)

STUDENTS = {
    "hrt_transformer": dict(hrt_chunk_sizes=[2], hrt_relative_window=3),
    "bidirectional_transformer": {},
}
MARIANS = dict(
    activation_fn="swish", marian_first_position=0, marian_epsilon=1e-6, marian_output_bias="yes"
)
WANTED = (
    "--activation-fn swish --marian-first-position 0 --marian-epsilon 1e-06"
    " --marian-output-bias yes"
)


@settings(max_examples=12, deadline=None)
@given(
    rows=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    first=st.integers(0, 4),
    left=st.booleans(),
    size=st.integers(0, 5),
)
def test_sinusoids_from_any_position(rows, first, left, size):
    """Padding has none, on either side; the table grows; fairseq's are those from 2."""
    width, longest = 6, max(rows)
    tokens = torch.full((len(rows), longest), 1)
    for row, length in zip(tokens, rows):
        row[longest - length if left else 0 :][:length] = 7
    module = SinusoidsFrom(width, 1, size=size, first=first)
    expected = torch.zeros(*tokens.shape, width)
    frequencies = 10_000 ** -(torch.arange(3) / 2)
    for row, length in enumerate(rows):
        for place in range(length):
            angles = (first + place) * frequencies
            expected[row, place + (longest - length if left else 0)] = torch.cat(
                [angles.sin(), angles.cos()]
            )
    torch.testing.assert_close(module(tokens), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        module.slot_table(longest)[:longest], expected[rows.index(longest)], rtol=0, atol=1e-5
    )
    # fairseq's search asks for the last one of so many inputs.
    torch.testing.assert_close(module(tokens, {})[0, 0], module.slot_table(longest)[longest - 1])
    # Whatever the machine.
    angles = (first + np.arange(longest, dtype=np.float32))[:, None] * np.float32(
        np.exp(np.arange(3, dtype=np.float32) * np.float32(-np.log(1e4) / 2), dtype=np.float64)
    )
    exact = [np.sin(angles, dtype=np.float64), np.cos(angles, dtype=np.float64)]
    np.testing.assert_array_equal(
        module.slot_table(longest).numpy(), np.concatenate(exact, 1).astype(np.float32)
    )
    if first == 2:
        torch.testing.assert_close(
            module(tokens), SinusoidalPositionalEmbedding(width, 1, 30)(tokens)
        )
    assert list(module.state_dict()) == ["_float_tensor"]


@pytest.mark.parametrize("without", [
    dict(encoder_learned_pos=True, decoder_learned_pos=True),
    dict(no_token_positional_embeddings=True),
])  # fmt: skip
def test_without_sinusoids_the_first_position_may_differ(tiny, without):
    """A training refuses to be given it, so that of a checkpoint cannot be demanded."""
    start = tiny.model("marian_transformer", marian_output_bias="no", **without).state_dict()
    own = dict(activation_fn="swish", marian_epsilon=1e-6, bidirectional_directions=1)
    model = tiny.model("bidirectional_transformer", **own, **without)
    assert start[NOTE][1] == 0 and model.state_dict()[NOTE][1] == 2
    model.load_state_dict(dict(start))
    counting = {**without, "no_token_positional_embeddings": False, "encoder_learned_pos": False}
    with pytest.raises(ValueError, match="--marian-first-position 0"):
        tiny.model("bidirectional_transformer", **own, **counting).load_state_dict(dict(start))


def test_layers_that_a_training_may_drop_follow_the_activation(tiny):
    drop = dict(encoder_layerdrop=0.5, decoder_layerdrop=0.5, encoder_layers=8, decoder_layers=8)
    model = tiny.model("bidirectional_transformer", activation_fn="swish", **drop)
    layers = [*model.encoder.layers.children(), *model.decoder.layers.children()]
    assert {layer.activation_fn for layer in layers} == {torch.nn.functional.silu}


@given(
    activation=st.sampled_from(ACTIVATIONS), first=st.integers(0, 9999),
    epsilon=st.sampled_from([1e-12, 1e-6, 1e-5, 0.3]), zero=st.booleans(),
)  # fmt: skip
def test_notes(activation, first, epsilon, zero):
    """They survive half precision, as they are integers; fairseq's conventions need none."""
    own = Conventions(activation, first, epsilon, zero)
    note = own.note(1)
    if note is None:
        assert (first, epsilon, zero) == (2, 1e-5, False) and activation != "swish"
    else:
        assert note.dtype == torch.long and Conventions.read(note) == own._replace(
            epsilon=pytest.approx(epsilon)
        )


@pytest.mark.parametrize(
    "note",
    [
        torch.zeros(4),
        torch.zeros(3).long(),
        torch.tensor([99, 0, 1, 0]),
        torch.tensor([0, -1, 1, 0]),
    ],
)
def test_damaged_notes(tiny, note):
    model = tiny.model("marian_transformer")
    with pytest.raises(ValueError, match="encoder.conventions is damaged"):
        model.load_state_dict({**model.state_dict(), NOTE: note})


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(marian_first_position=-1),
            "--marian-first-position -1 must be at least 0 and below 10000",
        ),
        (dict(marian_first_position=10_000), "--marian-first-position 10000"),
        (dict(marian_epsilon=0.0), "--marian-epsilon 0.0 must be above 0 and below 1"),
        (dict(marian_epsilon=float("nan")), "--marian-epsilon nan"),
    ],
)
def test_values_that_no_model_has(tiny, options, message):
    with pytest.raises(ValueError, match=message):
        tiny.model("marian_transformer", **options)


@pytest.mark.parametrize("arch", STUDENTS)
@pytest.mark.parametrize("cell", ["attention", "ssru"])
@torch.no_grad()
def test_students_start_from_marians_models(tiny, arch, cell, caplog):
    """With the same options; what they take over computes what it computed. Self-attention starts
    anew in the place of cells."""
    teacher = tiny.model("marian_transformer", marian_cell=cell)
    student = tiny.model(arch, seed=2, **MARIANS, **STUDENTS[arch])
    fresh = {name: value.clone() for name, value in student.state_dict().items()}
    student.load_state_dict(dict(teacher.state_dict()))
    sample, kept = tiny.sample([5, 3]), student.state_dict()
    found, expected = (
        model.encoder(**sample["net_input"])["encoder_out"][0] for model in (student, teacher)
    )
    assert found.equal(expected)
    for name, value in teacher.state_dict().items():
        if ".cell." not in name and name != NOTE and not name.endswith("_float_tensor"):
            assert kept[name].equal(value), name
    anew = [
        name for name in kept if "decoder" in name and ".self_attn." in name and "_proj." in name
    ]
    assert len(anew) == 16 and all(
        kept[name].equal(fresh[name]) == (cell == "ssru") for name in anew
    )
    assert ("recurrent cells (SSRU): self-attention starts anew; the encoder" in caplog.text) == (
        cell == "ssru"
    )
    assert "begins with a vector of zeros, this model's with the embedding of </s>" in caplog.text
    if arch == "hrt_transformer":
        assert (
            not kept["decoder.embed_special.weight"][1:].any()
            and kept["decoder.embed_special.weight"][0].any()
        )
    # It reads its own files again, without a warning.
    caplog.clear()
    tiny.model(arch, seed=3, **MARIANS, **STUDENTS[arch]).load_state_dict(dict(kept))
    assert not caplog.text


@torch.no_grad()
def test_a_student_computes_as_its_teacher(tiny):
    """From the second word on, where the start is fairseq's: the whole decoder, positions,
    epsilons, activation and bias."""
    teacher = tiny.model("marian_transformer", marian_zero_start="no")
    sample, tokens = tiny.sample([5, 3]), torch.tensor([[2, 7, 8, 4], [2, 4, 4, 9]])
    expected = teacher.decoder(tokens, encoder_out=teacher.encoder(**sample["net_input"]))[0]
    for arch, options in (
        ("hrt_transformer", dict(hrt_chunk_sizes=[2], hrt_relative_window=0)),
        ("bidirectional_transformer", dict(bidirectional_directions=1)),
    ):
        student = tiny.model(arch, seed=2, **MARIANS, **options)
        student.load_state_dict(dict(teacher.state_dict()))
        found = student.decoder(tokens, encoder_out=student.encoder(**sample["net_input"]))[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("missing", MARIANS)
@pytest.mark.parametrize("arch", STUDENTS)
def test_other_conventions_are_named(tiny, arch, missing):
    """Each of them; nothing is loaded into a model that would compute something else."""
    teacher = tiny.model("marian_transformer")
    options = {name: value for name, value in MARIANS.items() if name != missing}
    student = tiny.model(arch, **options, **STUDENTS[arch])
    with pytest.raises(
        ValueError,
        match=f"weights were trained with {WANTED}: build this model with the same options",
    ) as raised:
        student.load_state_dict(dict(teacher.state_dict()))
    assert "\n" not in str(raised.value)


def test_fairseqs_conventions_are_named_likewise(tiny):
    fairseqs = (
        "--activation-fn relu --marian-first-position 2 --marian-epsilon 1e-05"
        " --marian-output-bias no"
    )
    state = tiny.model().state_dict()
    for arch in (*STUDENTS, "marian_transformer"):
        more = " --marian-zero-start no" if arch == "marian_transformer" else ""
        with pytest.raises(ValueError, match=f"trained with {fairseqs}{more}: "):
            tiny.model(arch, **MARIANS, **STUDENTS.get(arch, {})).load_state_dict(dict(state))


def test_who_has_none_of_these_options_says_so(tiny):
    state = tiny.model("marian_transformer").state_dict()
    with pytest.raises(
        ValueError, match=f"{WANTED}: this architecture does not have these options"
    ):
        tiny.model("dag_transformer").load_state_dict(dict(state))
    with pytest.raises(RuntimeError, match="encoder.conventions"):
        tiny.model().load_state_dict(dict(state))
    with pytest.raises(
        ValueError, match="--marian-zero-start yes: build this model with the same options"
    ):
        tiny.model("marian_transformer", marian_zero_start="no").load_state_dict(dict(state))
    with pytest.raises(RuntimeError, match="has no place for decoder.layers.0.cell"):
        ssru = tiny.model("marian_transformer", marian_cell="ssru").state_dict()
        tiny.model("marian_transformer").load_state_dict(dict(ssru))


def test_decoders_without_cells_stay_as_they_are(tiny):
    state = tiny.model().state_dict()
    before = dict(state)
    start_self_attention(state, Namespace(), "decoder")
    assert state.keys() == before.keys()


@pytest.mark.parametrize("sort", [torch.float32, torch.float16])
def test_only_tables_of_sinusoids_are_left_out(sort, caplog):
    """With the frequencies of Hugging Face's Marian, behind a row of padding; a table that was
    learned stays for whoever refuses it."""
    angles = torch.arange(9)[:, None] * 10000 ** (-torch.arange(0, 8, 2) / 8)  # [9, 4]
    table = torch.cat([angles.sin(), angles.cos()], 1)  # [9, 8]
    table = torch.cat([torch.zeros(1, 8), table]).to(sort)
    learned = table.clone()
    learned[4, 2] += 0.3
    for weights, stays in ((table, False), (learned, True)):
        state = {"decoder.embed_positions.weight": weights, "decoder.other": torch.ones(1)}
        leave_sinusoids_out(state, torch.nn.Linear(1, 1), "decoder")
        assert ("decoder.embed_positions.weight" in state) == stays and "decoder.other" in state
    assert caplog.text.count("a table of sinusoids, which is left out") == 1
