"""Options from YAML reach a model's configuration under whatever name they are given, or are
refused by name."""

from argparse import Namespace
from enum import Enum

import pytest
from fairseq import options
from fairseq.dataclass.utils import interpret_dc_type
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_base import TransformerModelBase
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_hrt.training import model
from fairseq_hrt.training.model_options import flat_names, flatten_options

FAMILIES = ("hrt", "bidirectional", "dag", "ctc")
ARCHITECTURES = [f"{family}_transformer_tiny" for family in FAMILIES]


def other_value(config, path):
    """A value of an option that is not its default."""
    part = config
    for step in path[:-1]:
        part = part.__dataclass_fields__[step].default
    kind = interpret_dc_type(part.__dataclass_fields__[path[-1]].type)
    default = part.__dataclass_fields__[path[-1]].default
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(
            choice.value
            for choice in kind
            if choice.value != str(getattr(default, "value", default))
        )
    if kind is bool:
        return not default
    if kind in (int, float):
        return kind(48)
    return "x" if kind is str else [4, 5]


def configuration(monkeypatch, architecture, given):
    """What the model of an architecture would be built from."""
    # The part of a model that ctc asks.
    decoder = Namespace(rule=Namespace(copies=False))
    task = Namespace(source_dictionary=None, target_dictionary=None)

    def build(cls, cfg, task):
        return Namespace(cfg=cfg, apply=lambda function: None, decoder=decoder)

    monkeypatch.setattr(TransformerModelBase, "build_model", classmethod(build))
    # Those that are refused would reach it, too.
    monkeypatch.setattr(model, "refuse_extras", lambda options: None)
    ARCH_CONFIG_REGISTRY[architecture](given)
    return ARCH_MODEL_REGISTRY[architecture].build_model(given, task).cfg


def value_at(config, path):
    for step in path:
        config = getattr(config, step)
    return config.value if isinstance(config, Enum) else config


def written(path, value, *, nested):
    """``{"encoder": {"layers": 2}}`` or ``{"encoder_layers": 2}``."""
    if not nested or len(path) == 1:
        return {"_".join(path): value}
    return {path[0]: {path[1]: value}}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("nested", [True, False], ids=["nested", "flat"])
def test_every_option_reaches_the_model(monkeypatch, architecture, nested):
    names = flat_names(ARCH_MODEL_REGISTRY[architecture].config)
    assert {"encoder_layers", "decoder_output_dim", "quant_noise_pq", "dropout", "export"} <= set(
        names
    )
    for path in names.values():
        value = other_value(ARCH_MODEL_REGISTRY[architecture].config, path)
        given = OmegaConf.create({"_name": architecture, **written(path, value, nested=nested)})
        if path[-1] == "layers_to_keep":
            with pytest.raises(
                ValueError,
                match=f"--{path[0]}-layers-to-keep: models are pruned when they are loaded",
            ):
                configuration(monkeypatch, architecture, given)
            continue
        assert value_at(configuration(monkeypatch, architecture, given), path) == value, path


@settings(max_examples=18)
@given(data=st.data(), architecture=st.sampled_from(ARCHITECTURES))
def test_groups_and_single_names_are_the_command_line(data, architecture):
    """Whatever is given in whichever way: the configuration is that of ``fairseq-train`` with the
    same values."""
    config = ARCH_MODEL_REGISTRY[architecture].config
    names = flat_names(config)
    accepted = sorted(name for name in names if not name.endswith("layers_to_keep"))
    chosen = data.draw(st.lists(st.sampled_from(accepted), unique=True, max_size=12))
    yaml, flat = OmegaConf.create({"_name": architecture}), {}
    for name in chosen:
        flat[name] = other_value(config, names[name])
        yaml.merge_with(written(names[name], flat[name], nested=data.draw(st.booleans())))
    with pytest.MonkeyPatch.context() as patch:
        found = configuration(patch, architecture, yaml)
        expected = configuration(patch, architecture, Namespace(**flat))
    assert {name: value_at(found, path) for name, path in names.items()} == {
        name: value_at(expected, path) for name, path in names.items()
    }


def test_options_and_presets_are_those_of_the_parser(monkeypatch):
    parser = options.get_training_parser(default_task="translation_hrt")
    arguments = [
        "data",
        "--task",
        "translation_hrt",
        "--arch",
        "hrt_transformer_tiny",
        "--decoder-embed-dim",
        "96",
    ]
    parsed = options.parse_args_and_arch(parser, arguments)
    expected = configuration(monkeypatch, "hrt_transformer_tiny", parsed)
    yaml = OmegaConf.create({"_name": "hrt_transformer_tiny", "decoder": {"embed_dim": 96}})
    found = configuration(monkeypatch, "hrt_transformer_tiny", yaml)
    for path in flat_names(type(found)).values():
        assert value_at(found, path) == value_at(expected, path), path
    assert (
        found.decoder.input_dim == found.decoder.output_dim == 96 and found.encoder.embed_dim == 128
    )


def test_flattening_is_done_once_and_in_place():
    given = OmegaConf.create(
        {"_name": "new", "encoder": {"layers": "2", "_name": None}, "decoder_layers": 3}
    )
    flatten_options(given)
    assert given == {"_name": "new", "encoder_layers": 2, "decoder_layers": 3}
    flatten_options(given)
    assert given == {"_name": "new", "encoder_layers": 2, "decoder_layers": 3}
    # Values that argparse has read.
    namespace = Namespace(whatever=1)
    flatten_options(namespace)
    assert namespace == Namespace(whatever=1)


@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"encoder": {"layrs": 2}},
            r"model\.encoder_layrs: new has no such option; did you mean encoder_layers\?",
        ),
        ({"droput": 0.1}, r"model\.droput: new has no such option; did you mean dropout\?"),
        ({"zzzzzzzz": 0.1}, r"model\.zzzzzzzz: new has no such option$"),
        (
            {"encoder": {"layers": 2}, "encoder_layers": 3},
            r"model\.encoder_layers is given twice, as 2 and as 3; leave one out",
        ),
        ({"encoder": 2}, r"model\.encoder: 2 is not a group of options such as \{layers: 6\}"),
        (
            {"encoder": {"layers": "two"}},
            r"model\.encoder_layers: 'two' does not fit \(.*Integer\)",
        ),
        ({"encoder_layers": None}, r"model\.encoder_layers: None does not fit"),
        ({"activation_fn": "reglu"}, r"model\.activation_fn: 'reglu' does not fit"),
    ],
)
def test_what_does_not_fit_is_named(given, message):
    with pytest.raises(ValueError, match=message) as raised:
        flatten_options(OmegaConf.create({"_name": "new", **given}), TransformerConfig)
    assert "\n" not in str(raised.value)
