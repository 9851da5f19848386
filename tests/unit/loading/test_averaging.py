"""Averages equal fairseq's arithmetic; the right checkpoints are chosen."""

import weakref
from argparse import Namespace

import pytest
import torch
from small_checkpoints import save

from fairseq_hrt.loading import averaging
from fairseq_hrt.loading.averaging import average, best_checkpoints, last_checkpoints


def test_the_mean(tmp_path):
    values = [1.0, 2.0, 6.5]
    for number, value in enumerate(values):
        save(tmp_path / f"{number}.pt", value, update=number)
    state = average([tmp_path / f"{number}.pt" for number in range(3)])
    torch.testing.assert_close(state["model"]["w"], torch.tensor(values).sum().div(3).expand(2))
    assert (
        state["model"]["count"].item() == 3 and state["optimizer_history"][-1]["num_updates"] == 2
    )
    assert state["last_optimizer_state"] is None


def test_half_precision_is_summed_in_single(tmp_path):
    for number in range(3):
        save(tmp_path / f"{number}.pt", 40000.0, dtype=torch.float16)
    model = average([tmp_path / f"{number}.pt" for number in range(3)])["model"]
    assert model["w"].dtype == torch.float32 and model["w"].tolist() == [40000.0] * 2


class State(dict):
    """A checkpoint that can be asked whether it is still held."""


def test_one_checkpoint_is_held_at_a_time(tmp_path, monkeypatch):
    read, known = averaging.read_checkpoint, []

    def watched(path, **options):
        assert not any(state() for state in known)
        state = State(read(path, **options))
        known.append(weakref.ref(state))
        return state

    for number in range(3):
        save(tmp_path / f"{number}.pt", 1.0)
    monkeypatch.setattr(averaging, "read_checkpoint", watched)
    average([tmp_path / f"{number}.pt" for number in range(3)])
    assert len(known) == 3


def test_other_models_are_refused(tmp_path):
    save(tmp_path / "a.pt", 1.0)
    save(tmp_path / "b.pt", 1.0, extra=torch.zeros(1))
    with pytest.raises(ValueError, match="b.pt.*extra"):
        average([tmp_path / "a.pt", tmp_path / "b.pt"])


@pytest.mark.parametrize("kind", [Namespace, dict], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("first, second, message", [
    ({"arch": "hrt_transformer"}, {"arch": "bidirectional_transformer"},
     "b.pt.*arch is 'bidirectional_transformer' and 'hrt_"),
    # Options at their defaults are left out.
    ({"arch": "bidirectional_transformer"},
     {"arch": "bidirectional_transformer", "bidirectional_distinct_starts": True},
     "bidirectional_distinct_starts is True and False"),
    ({"arch": "dag_transformer", "dag_count_bos": True}, {"arch": "dag_transformer"},
     "dag_count_bos is False and True"),
    ({"arch": "transformer", "decoder_attention_heads": 4}, {"arch": "transformer"},
     "decoder_attention_heads is 8 and 4"),
    ({"arch": "transformer"}, {"arch": "transformer", "activation_fn": "gelu"},
     "activation_fn is.*gelu.*relu"),
    ({"arch": "transformer"}, {"arch": "transformer", "share_all_embeddings": True},
     "share_all_embeddings is True and False"),
    ({"arch": "hrt_transformer", "hrt_chunk_sizes": [2]},
     {"arch": "hrt_transformer", "hrt_chunk_sizes": [3]}, "hrt_chunk_sizes is .3. and .2."),
])  # fmt: skip
def test_equal_parameters_that_are_used_otherwise_are_refused(
    tmp_path, first, second, message, kind
):
    for name, options in (("a", first), ("b", second)):
        save(tmp_path / f"{name}.pt", 1.0, options=options, kind=kind)
    with pytest.raises(ValueError, match=message):
        average([tmp_path / "a.pt", tmp_path / "b.pt"])


@pytest.mark.parametrize("first, second", [
    # Presets of one architecture; options of training; options of decoding, which a Namespace holds
    # as well; an unknown architecture.
    ({"arch": "hrt_transformer_tiny", "dropout": 0.1}, {"arch": "hrt_transformer", "dropout": 0.2}),
    ({"arch": "bidirectional_transformer", "bidirectional_scoring": "paper"},
     {"arch": "bidirectional_transformer"}),
    ({"arch": "of_a_plugin", "activation_fn": "relu"}, {"arch": "of_a_plugin"}),
    # Of fairseq's other models; their options have no parts for the sides.
    ({"arch": "mask_predict_transformer"}, {"arch": "mask_predict_transformer", "dropout": 0.2}),
])  # fmt: skip
def test_one_model_is_averaged_however_it_is_trained_and_decoded(tmp_path, first, second):
    for name, options in (("a", first), ("b", second)):
        save(tmp_path / f"{name}.pt", 1.0, options=options)
    assert average([tmp_path / "a.pt", tmp_path / "b.pt"])["model"]["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [Namespace, dict], ids=lambda kind: kind.__name__)
def test_models_of_other_languages_are_refused(tmp_path, kind):
    there, back = (
        {"source_lang": "en", "target_lang": "de"},
        {"source_lang": "de", "target_lang": "en"},
    )
    for name, task in (("a", {"source_lang": None}), ("b", there), ("c", back)):
        save(tmp_path / f"{name}.pt", 1.0, task=task, kind=kind)
    # Values missing in one are taken from the others.
    assert average([tmp_path / "a.pt", tmp_path / "b.pt"])["model"]["w"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="c.pt.*source_lang is 'de' and 'en'"):
        average([tmp_path / f"{name}.pt" for name in "abc"])


@pytest.mark.parametrize("number", [0, 1])
def test_nan_is_named(tmp_path, number):
    for name in range(2):
        save(
            tmp_path / f"{name}.pt",
            1.0,
            v=torch.tensor([1.0, float("nan" if name == number else "-inf")]),
        )
    with pytest.raises(ValueError, match=f"{number}.pt: the parameter v contains NaN"):
        average([tmp_path / "0.pt", tmp_path / "1.pt"])


def test_a_checkpoint_without_parameters_is_refused(tmp_path):
    save(tmp_path / "a.pt", 1.0)
    state = torch.load(tmp_path / "a.pt", weights_only=False)
    torch.save({**state, "model": {}}, tmp_path / "b.pt")
    for order in ("ab", "ba"):
        with pytest.raises(ValueError, match="b.pt holds no parameters"):
            average([tmp_path / f"{name}.pt" for name in order])


@pytest.mark.parametrize("found", [last_checkpoints, best_checkpoints])
def test_a_missing_folder_is_not_an_empty_one(tmp_path, found):
    with pytest.raises(FileNotFoundError, match="none is not a folder: give the --save-dir"):
        found(tmp_path / "none", 1)


def test_last_checkpoints(tmp_path):
    for name in (
        "checkpoint2",
        "checkpoint10",
        "checkpoint9",
        "checkpoint_best",
        "checkpoint_last",
        "other3",
    ):
        (tmp_path / f"{name}.pt").touch()
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == [
        "checkpoint9.pt",
        "checkpoint10.pt",
    ]
    with pytest.raises(FileNotFoundError, match="holds 3.*4 are needed"):
        last_checkpoints(tmp_path, 4)
    for name in ("checkpoint_1_500", "checkpoint_2_1500"):
        (tmp_path / f"{name}.pt").touch()
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == [
        "checkpoint_1_500.pt",
        "checkpoint_2_1500.pt",
    ]


@pytest.mark.parametrize("maximise", [False, True])
def test_best_checkpoints(tmp_path, maximise):
    for number, metric in enumerate([30.0, 33.0, 31.0, 29.0], 1):
        save(
            tmp_path / f"checkpoint{number}.pt",
            1.0,
            update=number,
            metric=metric,
            maximise=maximise,
        )
    save(
        tmp_path / "checkpoint_best.pt",
        1.0,
        update=2 if maximise else 4,
        metric=33.0 if maximise else 29.0,
    )
    chosen = [path.name for path in best_checkpoints(tmp_path, 2)]
    assert chosen == (
        ["checkpoint2.pt", "checkpoint3.pt"] if maximise else ["checkpoint4.pt", "checkpoint1.pt"]
    )


def test_a_metric_that_is_no_number_is_never_the_best(tmp_path, caplog):
    for number, metric in enumerate([float("nan"), 3.0, float("inf"), 2.0], 1):
        save(
            tmp_path / f"checkpoint{number}.pt",
            1.0,
            update=number,
            metric=metric,
            maximise=number == 3,
        )
    assert [path.name for path in best_checkpoints(tmp_path, 2)] == [
        "checkpoint4.pt",
        "checkpoint2.pt",
    ]
    assert "checkpoint1.pt is left out: after 1 updates its metric was nan" in caplog.text
    with pytest.raises(FileNotFoundError, match="holds 2 .* a validation score, 3 are needed"):
        best_checkpoints(tmp_path, 3)


@pytest.mark.parametrize(
    "update, metric",
    [("7\x1b[2J", 1.0), ([1], 1.0), (1.5, 1.0), (1, "best"), (1, [1.0]), (2**63, 1.0)],
)
def test_what_is_no_number_is_refused(tmp_path, update, metric):
    save(tmp_path / "checkpoint1.pt", 1.0, update=update, metric=metric)
    with pytest.raises(
        ValueError, match=r"checkpoint1.pt does not hold a validation score"
    ) as error:
        best_checkpoints(tmp_path, 1)
    assert str(error.value).isprintable()


def test_an_untrusted_file_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"model": Evil()}, tmp_path / "checkpoint1.pt")
    with pytest.raises(Exception, match="(?i)allow|trust|safe"):
        average([tmp_path / "checkpoint1.pt"])
    assert not (tmp_path / "ran").exists()


def test_marks_of_a_device_are_no_parameters(tmp_path):
    """fairseq makes them of memory as it happens to be, NaN for example."""
    for number in range(2):
        mark = {"x._float_tensor": torch.tensor([float("nan")])}
        save(tmp_path / f"{number}.pt", float(number), **mark)
    mean = average([tmp_path / "0.pt", tmp_path / "1.pt"])["model"]
    assert mean["w"].tolist() == [0.5, 0.5] and mean["x._float_tensor"].item() == 0
