"""Every option of fairseq's Transformer changes a model, or is refused as its training begins."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerModel
from omegaconf import OmegaConf

from fairseq_hrt.native.families import FAMILIES
from fairseq_hrt.training import ConfiguredTransformer
from fairseq_hrt.training.model_options import flat_names
from fairseq_hrt.training.transformer_options import (
    READ,
    READ_WHEN,
    as_config,
    flat_values,
    refuse_extras,
    refuse_unread,
)

DEFAULTS = flat_values(TransformerConfig())
MODELS = ["transformer", "marian_transformer"] + [one.model for one in FAMILIES if one.model]
# What is read, but not by a model of this process: by FSDP, by apex's normalisation, by fairseq's
# task, and by packages that are not installed.
ELSEWHERE = {
    "min_params_to_wrap", "export", "quant_noise_scalar", "encoder_xformers_att_config",
    "decoder_xformers_att_config", "base_layers", "encoder_layers_to_keep",
    "decoder_layers_to_keep",
}  # fmt: skip
VALUES = {
    "activation_fn": "gelu", "adaptive_softmax_cutoff": "5", "encoder_embed_dim": 20,
    "decoder_embed_dim": 20, "decoder_attention_heads": 2, "encoder_attention_heads": 4,
    "quant_noise_pq_block_size": 4,
}  # fmt: skip
# Options that others need.
BESIDE = {
    "no_decoder_final_norm": dict(decoder_normalize_before=True),
    "adaptive_softmax_factor": dict(adaptive_softmax_cutoff="5"),
    "adaptive_softmax_dropout": dict(adaptive_softmax_cutoff="5"),
    "quant_noise_pq_block_size": dict(quant_noise_pq=0.1),
}


def other_value(name):
    default = DEFAULTS[name]
    if name in VALUES:
        return VALUES[name]
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else 0.25 if default is not None else "given"


def what_it_is(tiny, architecture, **options):
    """All that a model consists of: numbers, switches and functions of its modules, and its
    parameters; ValueError if its training would not begin."""
    args = tiny.arguments(architecture, **options)
    kind = ARCH_MODEL_REGISTRY[architecture]
    values = flat_values(as_config(args, getattr(kind, "config", TransformerConfig)))
    refuse_unread(values)
    if issubclass(kind, ConfiguredTransformer):
        refuse_extras(values, training=True)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    torch.manual_seed(1)
    model, found = kind.build_model(args, task), {}
    for place, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, (int, float, bool, str)) and name != "_incremental_state_id":
                found[place, name] = value
            elif callable(value):
                found[place, name] = getattr(value, "__qualname__", type(value).__name__)
    for name, value in model.named_parameters():
        found[name] = value.shape, float(value.sum())
    return found


@pytest.mark.parametrize("architecture", MODELS)
def test_every_option_changes_the_model_or_is_refused(tiny, tmp_path, architecture):
    words = tmp_path / "words"
    words.write_text("1 16\nw0 " + " ".join(["1"] * 16) + "\n")
    plain = what_it_is(tiny, architecture)
    assert plain == what_it_is(tiny, architecture)
    for name in flat_names(TransformerConfig):
        if name in ELSEWHERE:
            continue
        value = words if name.endswith("embed_path") else other_value(name)
        changes = []
        for beside in ({}, BESIDE.get(name, {})):
            try:
                before = what_it_is(tiny, architecture, **beside) if beside else plain
                after = what_it_is(tiny, architecture, **beside, **{name: value})
            except ValueError as error:
                assert "--" in str(error), (name, error)
                continue
            assert before != after, name
            changes.append(name)
        assert changes or architecture != "transformer" or name not in READ


def test_an_option_that_is_not_listed_is_refused():
    assert not READ & set(READ_WHEN) and READ | set(READ_WHEN) <= set(DEFAULTS)
    for name in set(DEFAULTS) - READ - set(READ_WHEN):
        with pytest.raises(
            ValueError, match=f"^--{name.replace('_', '-')}.*no Transformer of fair"
        ):
            refuse_unread({**DEFAULTS, name: 7})
    refuse_unread({**DEFAULTS, "decoder_embed_dim": 20, "decoder_input_dim": 20})


@pytest.mark.parametrize("architecture", MODELS[1:])
def test_parts_that_the_families_lack_are_refused(tiny, architecture):
    for name, value in (
        ("adaptive_softmax_cutoff", "5"), ("base_layers", 1), ("cross_self_attention", True),
        ("decoder_xformers_att_config", "{}"), ("encoder_xformers_att_config", "{}"),
        ("no_cross_attention", True), ("quant_noise_pq", 0.1), ("quant_noise_scalar", 0.1),
    ):  # fmt: skip
        message = f"^--{name.replace('_', '-')}: only fairseq's own Transformers support this"
        with pytest.raises(ValueError, match=message):
            what_it_is(tiny, architecture, **{name: value})


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("name, value", [
    ("activation_fn", "gelu"), ("attention_dropout", 0.2), ("decoder_layerdrop", 0.2),
    ("dropout", 0.2), ("encoder_layers", 4), ("encoder_normalize_before", True),
    ("layernorm_embedding", True), ("no_scale_embedding", True),
    ("share_decoder_input_output_embed", True),
])  # fmt: skip
def test_options_of_all_models_are_accepted(tiny, architecture, name, value):
    assert what_it_is(tiny, architecture, **{name: value})


@pytest.mark.parametrize("architecture", MODELS[1:])
def test_noise_in_training_is_no_matter_of_a_trained_model(tiny, architecture):
    kind = ARCH_MODEL_REGISTRY[architecture]
    args = tiny.arguments(architecture, quant_noise_pq=0.1, quant_noise_scalar=0.1)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    assert kind.build_model(args, task)


@pytest.mark.parametrize("options, message", [
    (dict(no_token_positional_embeddings=True, encoder_learned_pos=True),
     "--encoder-learned-pos has an effect only with positions: leave --no-token-pos"),
    (dict(relu_dropout=0.1, activation_dropout=0.2),
     "--relu-dropout 0.1 has an effect only with --activation-dropout 0"),
    (dict(adaptive_softmax_factor=2), "has an effect only with --adaptive-softmax-cutoff"),
    (dict(tie_adaptive_proj=True), "has an effect only with --tie-adaptive-weights"),
    (dict(quant_noise_pq_block_size=4), "has an effect only with --quant-noise-pq other than 0"),
    (dict(base_shuffle=0), "has an effect only with --base-layers other than 0"),
])  # fmt: skip
def test_options_without_effect_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        refuse_unread({**DEFAULTS, **options})


def test_no_preset_is_refused(tiny):
    presets = [
        name
        for name, kind in ARCH_MODEL_REGISTRY.items()
        if kind is TransformerModel or name.startswith(tuple(MODELS[1:]))
    ]
    assert len(presets) > 20
    for name in presets:
        args = tiny.arguments(name)
        config = getattr(ARCH_MODEL_REGISTRY[name], "config", TransformerConfig)
        refuse_unread(flat_values(as_config(args, config)))
        assert flat_values(as_config(OmegaConf.create(vars(args)), config)) == flat_values(
            as_config(args, config)
        )
