"""Named architectures: sizes by fairseq's names, and who has the last word on them."""

from argparse import Namespace

import pytest

from fairseq_hrt.training import presets
from fairseq_hrt.training.presets import COMMON_PRESETS, preset, register_presets


def test_a_preset_names_what_fairseq_reads():
    assert preset(embed=8, ffn=16, heads=2, layers=(3, 1), dropout=0.2) == {
        "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2,
        "encoder_layers": 3, "decoder_embed_dim": 8, "decoder_ffn_embed_dim": 16,
        "decoder_attention_heads": 2, "decoder_layers": 1, "decoder_input_dim": 8,
        "decoder_output_dim": 8, "dropout": 0.2,
    }  # fmt: skip
    pre_norm = preset(embed=8, ffn=16, heads=2, layers=(1, 1), pre_norm=True)
    assert pre_norm["encoder_normalize_before"] is pre_norm["decoder_normalize_before"] is True


@pytest.fixture
def registered(monkeypatch):
    found = {}
    monkeypatch.setattr(
        presets,
        "register_model_architecture",
        lambda model, name: lambda fill: found.update({name: (model, fill)}),
    )
    register_presets(
        "new", {**COMMON_PRESETS, "own": dict(embed=24, ffn=32, heads=4, layers=(2, 5))}
    )
    return found


def filled(registered, name, **given):
    args = Namespace(**given)
    registered[name][1](args)
    return args


def test_the_model_itself_is_the_base_size(registered):
    assert set(registered) == {"new", "new_own", *(f"new_{name}" for name in COMMON_PRESETS)}
    assert {model for model, _ in registered.values()} == {"new"}
    assert filled(registered, "new") == filled(registered, "new_wmt_en_de")
    assert filled(registered, "new_own").decoder_layers == 5


def test_the_command_line_goes_before_the_preset(registered):
    args = filled(registered, "new_own", decoder_layers=2, dropout=0.5)
    assert (args.decoder_layers, args.encoder_layers, args.dropout) == (2, 2, 0.5)


@pytest.mark.parametrize(
    "given, expected",
    [
        (dict(), (24, 24, 24)),
        (dict(decoder_embed_dim=12), (12, 12, 12)),
        (dict(decoder_embed_dim=12, decoder_output_dim=7), (12, 12, 7)),
        (dict(decoder_input_dim=7), (24, 7, 24)),
    ],
)
def test_input_and_output_are_as_wide_as_the_decoder(registered, given, expected):
    args = filled(registered, "new_own", **given)
    assert (args.decoder_embed_dim, args.decoder_input_dim, args.decoder_output_dim) == expected


def test_sizes_share_no_embeddings():
    """fairseq's switch for it could not be taken back on the command line."""
    assert not any("share" in name for sizes in COMMON_PRESETS.values() for name in preset(**sizes))
