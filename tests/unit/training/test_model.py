"""A Transformer whose options are the fields of a configuration of its own."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from tiny_weights import TINY

from fairseq_hrt.training.model import ConfiguredTransformer


@dataclass
class OwnConfig(TransformerConfig):
    own_size: int = field(default=3, metadata={"help": "an option of this family"})


class OwnDecoder(TransformerDecoderBase):
    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        self.own = torch.nn.Linear(cfg.own_size, 1)


class OwnTransformer(ConfiguredTransformer):
    config = OwnConfig
    decoder_class = OwnDecoder


def build(tiny, **options):
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary(14))
    return OwnTransformer.build_model(
        Namespace(**{**TINY, "max_target_positions": 64, **options}), task
    )


def test_the_decoder_gets_the_whole_configuration(tiny):
    model = build(tiny, own_size=7)
    assert isinstance(model.decoder, OwnDecoder) and model.decoder.own.in_features == 7
    assert build(tiny).decoder.own.in_features == 3
    assert isinstance(model.decoder.cfg, OwnConfig) and len(model.decoder.dictionary) == 18
    # Values below the surface, which fairseq loses of a configuration that it registers itself.
    assert [len(side.layers) for side in (model.encoder, model.decoder)] == [2, 2]
    assert (
        model.encoder.layers[0].fc1.out_features == 24
        and model.decoder.layers[0].self_attn.num_heads == 4
    )


def test_options_are_those_of_the_configuration():
    parser = ArgumentParser()
    OwnTransformer.add_args(parser)
    # Options that nobody gives are left to the architecture.
    assert set(vars(parser.parse_args([])).values()) == {None, False}
    given = parser.parse_args(
        ["--own-size", "5", "--decoder-layers", "4", "--encoder-embed-dim", "32"]
    )
    assert (given.own_size, given.decoder_layers, given.encoder_embed_dim) == (5, 4, 32)


# A model, and options that change its parameters.
STARTS = {
    "teacher": ("transformer", {}),
    "HRT": ("hrt_transformer", {}),
    "HRT without relative positions": ("hrt_transformer", {"hrt_relative_window": 0}),
    "IBDecoder": ("bidirectional_transformer", {}),
    "IMDecoder": ("bidirectional_transformer", {"bidirectional_directions": 4}),
    "DAG": ("dag_transformer", {}),
    "DAG with a length head": ("dag_transformer", {"dag_upsample_base": "predict"}),
}
KEYS = r"decoder\.layers\.0\.self_attn\.relative_keys and 1 more"
# Things that a start would lose, or has too few of. IBDecoder's parameters
# are those of a Transformer.
LOST = {
    "HRT": r"the model has no place for decoder\.special_chunk_sizes and 3 more",
    "HRT without relative positions": (
        r"the model has no place for decoder\.special_chunk_sizes and 1 more"
    ),
    "IMDecoder": r"the model has no place for decoder\.embed_positions\.directions;",
    "DAG": r"the model has no place for decoder\.links\.",
    "DAG with a length head": r"the model has no place for decoder\.(links|length_head)\.",
}
WITHIN = {
    ("HRT", "HRT without relative positions"): f"the model has no place for {KEYS}",
    ("HRT without relative positions", "HRT"): f"the checkpoint lacks {KEYS}",
    ("IMDecoder", "IBDecoder"): "the checkpoint has vectors for 4 directions",
    (
        "DAG with a length head",
        "DAG",
    ): r"the model has no place for decoder\.length_head\.output\.weight and 1 more",
}


def refusal(start, model):
    """Why a model cannot start from another one; None: it can."""
    if STARTS[start][0] == STARTS[model][0]:
        return WITHIN.get((start, model))
    return LOST.get(start)


def of_a_family(tiny, name, **sizes):
    architecture, options = STARTS[name]
    args = Namespace(**{**TINY, **options, **sizes})
    ARCH_CONFIG_REGISTRY[architecture](args)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    return ARCH_MODEL_REGISTRY[architecture].build_model(args, task)


@pytest.mark.parametrize("model", [name for name in STARTS if name != "teacher"])
@pytest.mark.parametrize("start", STARTS)
def test_a_model_starts_from_what_it_can_keep_whole(tiny, start, model):
    """All of the start is kept, or its refusal names on one line what does not fit."""
    start_state, own = of_a_family(tiny, start).state_dict(), of_a_family(tiny, model)
    expected = refusal(start, model)
    if expected is None:
        own.load_state_dict(dict(start_state))
        found = own.state_dict()
        for name, value in start_state.items():
            if not name.endswith("_float_tensor"):
                assert found[name].equal(value), name
        return
    with pytest.raises((RuntimeError, ValueError), match=expected) as raised:
        own.load_state_dict(dict(start_state))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("start", STARTS)
def test_an_ordinary_transformer_starts_likewise(tiny, start):
    """fairseq's own class, with fairseq's own words."""
    teacher, state = of_a_family(tiny, "teacher"), of_a_family(tiny, start).state_dict()
    if start in LOST:
        with pytest.raises(
            RuntimeError, match=LOST[start].split(" for ")[1].split(" and ")[0].rstrip(";")
        ):
            teacher.load_state_dict(dict(state))
    else:
        teacher.load_state_dict(dict(state))


ALL, SIDE = "--share-all-embeddings", "--share-decoder-input-output-embed"


@pytest.mark.parametrize(
    "start, shared, advice",
    [
        ({}, "share_all_embeddings", f"leave {ALL} out"),
        ({}, "share_decoder_input_output_embed", f"leave {SIDE} out"),
        ({"share_decoder_input_output_embed": True}, "share_all_embeddings",
         f"give {SIDE} instead of {ALL}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["teacher", "IBDecoder"])
def test_different_embeddings_do_not_overwrite_each_other(tiny, name, start, shared, advice):
    state = of_a_family(tiny, "teacher", **start).state_dict()
    sharing, apart = (of_a_family(tiny, name, **{shared: given}) for given in (True, False))
    message = f"differ in the checkpoint and are one tensor in this model: {advice}"
    with pytest.raises(RuntimeError, match=message):
        sharing.load_state_dict(dict(state))
    # Copies of one tensor, as an average has them; and what is one becomes several.
    copies = {key: value.clone() for key, value in sharing.state_dict().items()}
    for model in (sharing, apart):
        model.load_state_dict(dict(copies))


def test_other_sizes_are_named(tiny):
    model, other = of_a_family(tiny, "HRT"), of_a_family(tiny, "teacher", decoder_ffn_embed_dim=32)
    message = (
        r"HRTTransformerModel: the checkpoint has --decoder-ffn-embed-dim 32 \(this model 24\)"
    )
    with pytest.raises(RuntimeError, match=message):
        model.load_state_dict(dict(other.state_dict()))


def test_what_is_no_difference_of_parameters_stays_an_error(tiny, monkeypatch):
    model = of_a_family(tiny, "IBDecoder")
    monkeypatch.setattr(
        torch.nn.Module,
        "load_state_dict",
        lambda *_, **__: (_ for _ in ()).throw(RuntimeError("out of memory")),
    )
    with pytest.raises(RuntimeError, match="^out of memory$"):
        model.load_state_dict(dict(model.state_dict()))


@pytest.mark.parametrize(
    "name, flags",
    [
        ("HRT", "--task translation_hrt and --criterion hrt_loss"),
        ("IBDecoder", "--task translation_bidirectional and --criterion bidirectional_loss"),
        ("DAG", "--task translation_dag and --criterion dag_nll_loss or dag_fuzzy_loss"),
    ],
)
def test_another_task_does_not_train_it(tiny, name, flags):
    model, tokens = of_a_family(tiny, name), torch.tensor([[5, 6, 2]])
    with pytest.raises(ValueError, match=flags):
        model(tokens, torch.tensor([3]), tokens)
    # fairseq's own tools may read it.
    assert model.eval()(tokens, torch.tensor([3]), tokens)[0].shape[:2] == (1, 3)
