"""A Transformer whose options are the fields of a configuration of its own."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field

import torch
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
    return OwnTransformer.build_model(Namespace(**{**TINY, "max_target_positions": 64, **options}), task)


def test_the_decoder_gets_the_whole_configuration(tiny):
    model = build(tiny, own_size=7)
    assert isinstance(model.decoder, OwnDecoder) and model.decoder.own.in_features == 7
    assert build(tiny).decoder.own.in_features == 3
    assert isinstance(model.decoder.cfg, OwnConfig) and len(model.decoder.dictionary) == 18
    # Values below the surface, which fairseq loses of a configuration that it registers itself.
    assert [len(side.layers) for side in (model.encoder, model.decoder)] == [2, 2]
    assert model.encoder.layers[0].fc1.out_features == 24 and model.decoder.layers[0].self_attn.num_heads == 4


def test_options_are_those_of_the_configuration():
    parser = ArgumentParser()
    OwnTransformer.add_args(parser)
    # What nobody gives is left to the architecture.
    assert set(vars(parser.parse_args([])).values()) == {None, False}
    given = parser.parse_args(["--own-size", "5", "--decoder-layers", "4", "--encoder-embed-dim", "32"])
    assert (given.own_size, given.decoder_layers, given.encoder_embed_dim) == (5, 4, 32)
