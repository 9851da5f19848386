"""Loaded bundles, of a tiny model with random weights: devices, caches, folders with odd names."""

import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.hub import bundle as bundles
from fairseq_hrt.hub import translator
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
    original = translator.TextPipeline
    monkeypatch.setattr(translator, "TextPipeline", lambda recipe: made.append(recipe) or original(recipe))
    model.score(["a b"] * 20, ["A B"] * 20)
    model.score(["a"], ["A"])
    assert [(recipe.source_lang, recipe.target_lang) for recipe in made] == [("en", "de")]


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
