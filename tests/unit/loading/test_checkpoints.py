"""What is taken from a checkpoint's configuration, and what is not."""

from argparse import Namespace
from collections import OrderedDict

import torch
from omegaconf import DictConfig, OmegaConf

from fairseq_hrt.loading.checkpoints import (
    _clear_embedding_files,
    architecture_name,
    read_checkpoint,
    task_name,
)


def test_names_as_fairseq_takes_them():
    assert (
        architecture_name(Namespace(_name="hrt_transformer", arch="transformer"))
        == "hrt_transformer"
    )
    assert architecture_name(Namespace(arch="transformer")) == "transformer"
    assert (
        architecture_name(Namespace(_name="transformer")) == "transformer"
        and architecture_name(None) is None
    )
    assert task_name(Namespace(task="translation", _name="other")) == "translation"
    assert task_name(DictConfig({"_name": "translation_hrt"})) == "translation_hrt"
    for made in (DictConfig, dict):
        missing = made({"task": "???" if made is DictConfig else None, "_name": "translation"})
        assert task_name(missing) == "translation" and architecture_name(made({})) is None
    assert architecture_name(DictConfig({"_name": "???", "arch": "transformer"})) == "transformer"


def test_files_of_weights_are_left_away_at_any_depth():
    inner = {"embed_path": "/x", "layers": 2}
    for config in (
        DictConfig(
            {
                "encoder_embed_path": "/x",
                "decoder_embed_path": None,
                "arch": "transformer",
                "encoder": inner,
            }
        ),
        Namespace(
            encoder_embed_path="/x",
            decoder_embed_path=None,
            arch="transformer",
            encoder=Namespace(**inner),
        ),
    ):
        _clear_embedding_files(config, {})
        assert (
            config.encoder_embed_path is None
            and config.decoder_embed_path is None
            and config.encoder.embed_path is None
        )
        assert config.arch == "transformer" and config.encoder.layers == 2


def test_files_that_the_user_names_stay():
    config = Namespace(encoder_embed_path="/mine", decoder_embed_path="/x")
    _clear_embedding_files(config, {"encoder_embed_path": "/mine"})
    assert config == Namespace(encoder_embed_path="/mine", decoder_embed_path=None)


def test_files_behind_references_and_in_dictionaries_are_left_away_too():
    config = OmegaConf.create(
        {
            "model": {"encoder": "${criterion.enc}"},
            "criterion": {"enc": {"embed_path": "/x", "layers": 2}},
        }
    )
    _clear_embedding_files(config.model, {})
    assert config.model.encoder == {"embed_path": None, "layers": 2}
    # A setter of its own must not be asked.
    shadowed = Namespace(
        encoder=OrderedDict(embed_path="/x"),
        embed_path="/x",
        **{"__setattr__": lambda *given: None},
    )
    _clear_embedding_files(shadowed, {})
    assert shadowed.encoder == {"embed_path": None} and shadowed.embed_path is None


def test_arguments_are_read_once(tmp_path):
    """fairseq makes the configuration from them again where it can, with the files that were left
    away."""
    arguments = Namespace(
        arch="transformer", task="translation", source_lang="a", target_lang="b", data="x",
        encoder_embed_path="/etc/passwd", optimizer="adam", criterion="cross_entropy",
        lr_scheduler="fixed",
    )  # fmt: skip
    history = [
        {
            "optimizer_name": "adam",
            "lr_scheduler_state": {},
            "num_updates": 0,
            "criterion_name": "x",
        }
    ]
    state = {
        "args": arguments,
        "model": {},
        "optimizer_history": history,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save({**state, "last_optimizer_state": {}}, tmp_path / "x.pt")
    found = read_checkpoint(tmp_path / "x.pt")
    assert found["args"] is None and found["cfg"].model.encoder_embed_path is None
