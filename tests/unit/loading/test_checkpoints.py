"""What is taken from a checkpoint's configuration, and what is not."""

from argparse import Namespace

from omegaconf import DictConfig

from fairseq_hrt.loading.checkpoints import _leave_files_away, architecture_name, task_name


def test_names_as_fairseq_takes_them():
    assert architecture_name(Namespace(_name="hrt_transformer", arch="transformer")) == "hrt_transformer"
    assert architecture_name(Namespace(arch="transformer")) == "transformer"
    assert architecture_name(Namespace(_name="transformer")) == "transformer" and architecture_name(None) is None
    assert task_name(Namespace(task="translation", _name="other")) == "translation"
    assert task_name(DictConfig({"_name": "translation_hrt"})) == "translation_hrt"


def test_files_of_weights_are_left_away_at_any_depth():
    inner = {"embed_path": "/x", "layers": 2}
    for config in (
        DictConfig({"encoder_embed_path": "/x", "decoder_embed_path": None, "arch": "transformer", "encoder": inner}),
        Namespace(encoder_embed_path="/x", decoder_embed_path=None, arch="transformer", encoder=Namespace(**inner)),
    ):
        _leave_files_away(config, {})
        assert config.encoder_embed_path is None and config.decoder_embed_path is None and config.encoder.embed_path is None
        assert config.arch == "transformer" and config.encoder.layers == 2


def test_files_that_the_user_names_stay():
    config = Namespace(encoder_embed_path="/mine", decoder_embed_path="/x")
    _leave_files_away(config, {"encoder_embed_path": "/mine"})
    assert config == Namespace(encoder_embed_path="/mine", decoder_embed_path=None)
