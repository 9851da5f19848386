"""Loaded bundles, of a tiny model with random weights: devices, caches, folders with odd names."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import SIZES, write_bundle

import fairseq_hrt
from fairseq_hrt.hub import bundle, translator
from fairseq_hrt.hub.translator import choose_device


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
    assert model.translate(lines) == fairseq_hrt.from_pretrained(plain, device="cpu").translate(lines)
    monkeypatch.chdir(folder.parent)
    assert fairseq_hrt.from_pretrained(folder.name, device="cpu").translate(lines) == model.translate(lines)


def test_a_byte_order_mark_changes_nothing(model):
    assert model.translate("\ufeffa b") == model.translate("a b") == model.translate("a\ufeff b")


def test_decoders_of_many_options_are_not_all_kept(model, monkeypatch):
    monkeypatch.setattr(translator, "DECODERS", 2)
    built, original = [], translator.build_generator
    monkeypatch.setattr(translator, "build_generator", lambda *given: built.append(1) or original(*given))
    first = model.translate("a b", max_len_b=5)
    for length in (6, 7, 8):
        model.translate("a b", max_len_b=length)
        assert model.translate("a b", max_len_b=5) == first
    assert len(model._tasks) == 2 and len(built) == 4, "what is used again and again stays"


def test_scoring_prepares_its_text_once(folder, monkeypatch):
    model, made = fairseq_hrt.from_pretrained(folder, device="cpu"), []
    original = bundle.TextPipeline
    monkeypatch.setattr(bundle, "TextPipeline", lambda *given: made.append(given[0]) or original(*given))
    model.score(["a b"] * 20, ["A B"] * 20)
    model.score(["a"], ["A"])
    assert [(recipe.source_lang, recipe.target_lang) for recipe in made] == [("en", "de")]


def test_pairs_with_an_empty_line_have_no_score(model):
    found = model.score(["a b", "", "a", "a b c"], ["A", "A", " ", "A B"])
    assert [one.score is None for one in found] == [False, True, True, False]
    assert [(one.source, one.text) for one in found] == [("a b", "A"), ("", "A"), ("a", " "), ("a b c", "A B")]
    assert found[3].score == pytest.approx(model.score(["a b c"], ["A B"])[0].score, abs=1e-5)


def test_what_is_scored_together_has_similar_lengths(model, monkeypatch):
    batches, original = [], model._collate

    def collate(dataset):
        batches.append([len(dataset[number]["source"]) for number in range(len(dataset))])
        return original(dataset)

    monkeypatch.setattr(model, "_collate", collate)
    model.score(["a", "a b c", "a b", "a b c d"], ["A"] * 4, batch_size=2)
    assert batches == [[5, 4], [3, 2]]


def test_lines_are_cut_where_the_model_ends(tmp_path):
    sizes = [*SIZES, "--max-source-positions=6", "--max-target-positions=30"]
    model = fairseq_hrt.from_pretrained(write_bundle(tmp_path / "short", "autoregressive", sizes=sizes).folder, device="cpu")
    task = model._decoder({})[0]
    assert [len(piece) for piece in model._pieces("a b c d e", task)] == [5]
    pieces = model._pieces("a b c d e f g", task)
    assert [model._tensor(piece).tolist() for piece in pieces] == [[4, 5, 6, 7, 8, 2], [9, 10, 2]]
    assert model.prepare("a b c d e f g") == pieces and [piece.start for piece in pieces] == [0, 5]
    # Each piece's unknown words are replaced by its own.
    assert re.fullmatch("a( a)* b( b)*", model.translate("a a a a a b b", unkpen=-1000, replace_unk=True, max_len_b=4))
    model.score(["a b c d e"], ["A"])
    with pytest.raises(ValueError, match="the source of pair 1 has 7 subwords with </s>, the model takes 6"):
        model.score(["a", "a b c d e f"], ["A", "A"])


def test_nothing_is_given_to_a_translation(model):
    with pytest.raises(ValueError, match="prefix_size=2: no translation begins with given words"):
        model.translate("a b", prefix_size=2)
    with pytest.raises(ValueError, match=r"score_reference=true rates given translations: use score\(\)"):
        model.translate("a b", score_reference=True)
    assert model.translate("a b", prefix_size=0, score_reference=False) == model.translate("a b")


def test_fairseqs_own_task_replaces_no_unknown_words(folder):
    with pytest.raises(ValueError, match="--replace-unk: --task translation cannot do it"):
        fairseq_hrt.from_pretrained(folder, device="cpu", task="translation", replace_unk=True)


def test_options_of_the_training_hold_for_its_own_task(tmp_path):
    sizes = [*SIZES, "--max-source-positions=7"]
    hrt, other = (
        fairseq_hrt.from_pretrained(write_bundle(tmp_path / family, family, sizes=sizes).folder, device="cpu")
        for family in ("hrt", "autoregressive")
    )
    assert hrt._decoder({})[0].cfg.max_source_positions == 7 and other._decoder({})[0].cfg.max_source_positions == 1024
    assert hrt._decoder({"max_source_positions": 5})[0].cfg.max_source_positions == 5


@pytest.mark.parametrize("name, message", [
    ("foo", "'foo' is unknown: give cpu, cuda or cuda:N"), ("cpu:x", "'cpu:x' is unknown"), ("meta", "'meta' is unknown"), ("", "'' is"),
    ("cuda", "finds no GPU here"), ("cuda:3", "finds no GPU here"),
])  # fmt: skip
def test_devices_that_are_not_there(folder, monkeypatch, name, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        fairseq_hrt.from_pretrained(folder, device=name)


def test_devices_that_are_there(monkeypatch):
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device(None).type == "cuda" and choose_device("cuda:1").index == 1
    with pytest.raises(ValueError, match="finds 2 GPUs here"):
        choose_device("cuda:2")
