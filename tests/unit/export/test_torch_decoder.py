"""Bundles on PyTorch's engine: devices, caches, folders with odd names."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from tiny_models import SIZES, write_bundle

import fairseq_hrt
from fairseq_hrt.export import torch_decoder
from fairseq_hrt.export.torch_decoder import device_named
from fairseq_hrt.native.bundles.decoder import Wanted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A bundle in a folder whose name fairseq would take apart."""
    place = tmp_path_factory.mktemp("bundle")
    write_bundle(place / "plain", "autoregressive")
    return Path(shutil.copytree(place / "plain", place / "a:b c" / "d:e"))


@pytest.fixture(scope="module")
def model(folder):
    return fairseq_hrt.from_pretrained(folder, device="cpu")


def test_names_with_colons(folder, model, tmp_path, monkeypatch):
    plain = tmp_path / "plain"
    plain.symlink_to(folder)
    lines = ["a b c", "", "j i"]
    assert model.translate(lines) == fairseq_hrt.from_pretrained(plain, device="cpu").translate(
        lines
    )
    monkeypatch.chdir(folder.parent)
    assert fairseq_hrt.from_pretrained(folder.name, device="cpu").translate(
        lines
    ) == model.translate(lines)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_decodes_with_one_thread_or_refuses(model):
    expected, threads = model.translate("a b"), torch.get_num_threads()
    torch.set_num_threads(1)
    # As if another thread were decoding.
    with model.decoder._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                alike = model.translate("a b") == expected
                torch.set_num_threads(2)
                with pytest.raises(RuntimeError, match="do not survive a fork: .* threads=1 on"):
                    model.translate("a b")
                os._exit(0 if alike else 1)
            finally:
                os._exit(2)
    torch.set_num_threads(threads)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_decoders_of_many_options_are_not_all_kept(model, monkeypatch):
    monkeypatch.setattr(torch_decoder, "DECODERS", 2)
    freed = []
    monkeypatch.setattr(
        torch_decoder, "free_dropped", lambda: freed.append(len(model.decoder._kept))
    )
    built, original = [], torch_decoder.build_generator
    monkeypatch.setattr(
        torch_decoder, "build_generator", lambda *given: built.append(1) or original(*given)
    )
    first = model.translate("a b", max_len_b=5)
    for length in (6, 7, 8):
        model.translate("a b", max_len_b=length)
        assert model.translate("a b", max_len_b=5) == first
    assert len(model.decoder._kept) == 2 and len(built) == 4, "what is used again and again stays"
    assert set(freed) == {2}


def test_an_option_of_training_changes_no_translation(tmp_path):
    folder = write_bundle(tmp_path / "hrt", "hrt").folder
    model = fairseq_hrt.from_pretrained(folder, device="cpu", engine="torch")
    for options, message in (
        (dict(hrt_curriculum_steps=9), "--hrt-curriculum-steps 9: an option of training, which"),
        (dict(seed=5), "--seed 5: this search draws nothing at random"),
    ):
        with pytest.raises(ValueError, match=message):
            model.translate("a b", **options)


def test_the_description_tells_how_batches_were_decoded(folder):
    model = fairseq_hrt.from_pretrained(folder, device="cpu")
    model.translate("a b")
    plain = model.describe()
    assert plain == "PyTorch: float32 weights, cpu"
    for options in ({}, {"no_repeat_ngram_size": 2}, {"beam": 2}):
        model.translate("a b", **options)
        list(model.decoder._kept.values())[-1].generator.uses_graphs = True
        model.translate(["a b", "b"], batch_size=1, **options)
    assert model.describe() == (
        f"{plain}, with CUDA graphs, without CUDA graphs because of --no-repeat-ngram-size"
    )


def test_what_is_scored_together_has_similar_lengths(model, monkeypatch):
    batches, original = [], model.decoder._collated

    def collate(dataset):
        batches.append([len(dataset[number]["source"]) for number in range(len(dataset))])
        return original(dataset)

    monkeypatch.setattr(model.decoder, "_collated", collate)
    model.score(["a", "a b c", "a b", "a b c d"], ["A"] * 4, batch_size=2)
    assert batches == [[5, 4], [3, 2]]


def test_nothing_is_given_to_a_translation(model):
    with pytest.raises(ValueError, match="prefix_size=2: there are no target lines"):
        model.translate("a b", prefix_size=2)
    with pytest.raises(
        ValueError, match=r"score_reference=true rates given translations: use score\(\)"
    ):
        model.translate("a b", score_reference=True)
    assert model.translate("a b", prefix_size=0, score_reference=False) == model.translate("a b")


@pytest.mark.parametrize("name", ["num_shards", "lm_path", "constraints", "max_tokens_valid"])
def test_options_of_other_parts_of_fairseq_are_refused(model, name):
    with pytest.raises(ValueError, match=f"options: --{name.replace('_', '-')} has no effect here"):
        model.translate("a b", **{name: 2})


def test_what_is_chosen_when_models_are_loaded(model):
    with pytest.raises(ValueError, match="retain_dropout=true: it takes effect when a model is"):
        model.translate("a b", retain_dropout=True)


def test_fairseqs_own_task_replaces_no_unknown_words(folder):
    with pytest.raises(
        ValueError, match="--replace-unk: the task translation does not align words"
    ):
        fairseq_hrt.from_pretrained(folder, device="cpu", task="translation", replace_unk=True)


def test_fairseqs_own_task_aligns_no_words(folder):
    """It left alignments empty without a word."""
    with pytest.raises(
        ValueError, match="--alignments: the task translation does not align words.*--set"
    ):
        fairseq_hrt.from_pretrained(
            folder, device="cpu", task="translation", print_alignment="hard"
        ).translate("a b")


def test_options_of_the_training_hold_for_its_own_task(tmp_path):
    sizes = [*SIZES, "--max-source-positions=7"]
    hrt, other = (
        fairseq_hrt.from_pretrained(
            write_bundle(tmp_path / family, family, sizes=sizes).folder, device="cpu"
        )
        for family in ("hrt", "autoregressive")
    )

    def longest(model, **options):
        prepared = model.decoder.prepare(
            {**model.defaults, **options}, Wanted(32), frozenset(options)
        )
        return prepared.task.cfg.max_source_positions, model.decoder.longest(prepared)[0]

    assert longest(hrt) == (7, 7) and longest(hrt, max_source_positions="5") == (5, 5)
    assert longest(other) == (
        1024,
        7,
    ), "a teacher was trained with another task, and has no more positions"


@pytest.mark.parametrize("name, message", [
    ("foo", "'foo' is unknown: give cpu, cuda or cuda:N"), ("cpu:x", "'cpu:x' is unknown"),
    ("meta", "'meta' is unknown"), ("", "'' is"), ("cuda", "finds no GPU here"),
    ("cuda:3", "finds no GPU here"),
])  # fmt: skip
def test_devices_that_are_not_there(folder, monkeypatch, name, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        fairseq_hrt.from_pretrained(folder, device=name)


def test_devices_that_are_there(monkeypatch):
    assert device_named("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_named(None).type == "cuda" and device_named("cuda:1").index == 1
    with pytest.raises(ValueError, match="finds 2 GPUs here"):
        device_named("cuda:2")
