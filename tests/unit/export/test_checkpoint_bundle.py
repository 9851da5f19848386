"""Bundles that are made, or are not."""

import errno
import os
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tiny_models import write_checkpoint, write_dictionaries

from fairseq_hrt.export import checkpoint_bundle
from fairseq_hrt.native.bundles import bundle as bundles


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A checkpoint beside its dictionaries."""
    place = tmp_path_factory.mktemp("parts")
    write_dictionaries(place)
    return write_checkpoint(place / "checkpoint.pt", place, "autoregressive")


def make(place, checkpoint, **changes):
    values = dict(tokenizer="space", subwords="none", codes=None)
    return checkpoint_bundle.make_bundle(
        place, [checkpoint], checkpoint.parent, **{**values, **changes}
    )


class FullDisk:
    """A path to which nothing can be written any more."""

    def __call__(self, *given, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failure, error, message", [
    ("codes", ValueError, "no.codes is not a file"),
    ("copy", OSError, "No space left on device: '.*/new/b'"),
    ("save", OSError, "new/b/model.pt cannot be written"),
    ("check", ValueError, "new/b/codes is empty"),
    ("interrupt", KeyboardInterrupt, None),
    ("exit", SystemExit, None),
])  # fmt: skip
def test_a_bundle_that_fails_leaves_nothing_and_can_be_repeated(
    tmp_path, parts, monkeypatch, failure, error, message
):
    place, changes = tmp_path / "new" / "b", {}

    def check(folder):
        assert folder.parent == place.parent and (folder / "bundle.json").is_file()
        raise {"check": ValueError(f"{folder}/codes is empty"), "exit": SystemExit(1)}.get(
            failure, KeyboardInterrupt()
        )

    if failure == "codes":
        changes = {"codes": tmp_path / "no.codes", "subwords": "subword-nmt"}
    elif failure in ("check", "interrupt", "exit"):
        changes = {"check": check}
    with monkeypatch.context() as patch:
        if failure == "copy":
            patch.setattr(bundles.shutil, "copyfile", FullDisk())
        elif failure == "save":
            # As PyTorch's writer reports a full disk.
            def save(state, path):
                Path(path).write_bytes(b"half")
                raise RuntimeError(
                    "PytorchStreamWriter failed writing file data/0: file write failed"
                )

            patch.setattr(torch, "save", save)
        with pytest.raises(error, match=message):
            make(place, parts, **changes)
    assert not (tmp_path / "new").exists()
    assert make(place, parts).folder == place and [
        path.name for path in place.parent.iterdir()
    ] == ["b"]
    with pytest.raises(ValueError, match="exists already"):
        make(place, parts)


@pytest.mark.parametrize("runtime", [None, "float32"])
def test_an_option_without_effect_is_not_packed(tmp_path, parts, runtime):
    options = {"lenpen": "0.6", "unnormalized": "true"}
    with pytest.raises(ValueError, match="^--lenpen 0.6 has an effect only with"):
        checkpoint_bundle.pack(
            tmp_path / "new", [parts], parts.parent, task="translation_autoregressive",
            tokenizer="space", subwords="none", options=options, runtime=runtime, lines=["a b"],
        )  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_a_folder_that_appears_meanwhile_is_left_alone(tmp_path, parts):
    def check(folder):
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "other").touch()

    with pytest.raises(ValueError, match="/b cannot be made: .*does it exist already"):
        make(tmp_path / "b", parts, check=check)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "b",
        "b/other",
    ]


def test_what_a_killed_bundle_left_goes(tmp_path, parts):
    (tmp_path / "b.hrt-0123abcd.partial").mkdir()
    make(tmp_path / "b", parts)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("updates, shown", [(7, 7), ("7", None), ([1], None), (True, None)])
def test_the_card_counts_updates_in_numbers(updates, shown):
    config = OmegaConf.create(
        {
            "model": {"_name": "x"},
            "criterion": None,
            "optimization": {"lr": [0.1]},
            "dataset": {},
            "common": {},
        }
    )
    card = checkpoint_bundle.training_card(
        {"cfg": config, "optimizer_history": [{"num_updates": updates}]}
    )
    assert card["updates"] == shown and card["architecture"] == "x" and card["lr"] == [0.1]


def test_languages_that_nothing_names_are_asked_for(tmp_path):
    """As of a checkpoint that fairseq alone has trained without ``-s`` and ``-t``."""
    config, checkpoint = OmegaConf.create({"source_lang": None}), tmp_path / "a.pt"
    with pytest.raises(ValueError, match=r"a\.pt nor the file names .* tell the source language"):
        checkpoint_bundle.languages_of(config, tmp_path, checkpoint, (None, None))
    given = checkpoint_bundle.languages_of(config, tmp_path, checkpoint, ("en", "de"))
    assert given == ("en", "de")
