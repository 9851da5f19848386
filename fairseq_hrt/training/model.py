"""What the families' models have in common: a configuration of their own around fairseq's Transformer."""

from argparse import ArgumentParser
from typing import Any, ClassVar

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.tasks import FairseqTask
from torch import nn


class ConfiguredTransformer(TransformerModelBase):
    """A Transformer whose options are the fields of a configuration.

    It is registered without ``dataclass=``: fairseq 0.12.2 silently loses nested values of a TransformerConfig registered that way.

    Attributes:
        config: of the family.
        decoder_class: takes the configuration, the target dictionary and the embedding.
    """

    config: ClassVar[Any]
    decoder_class: ClassVar[Any]

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, cls.config(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> Any:
        return super().build_model(cls.config.from_namespace(args), task)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Dictionary, embed_tokens: nn.Embedding) -> Any:
        return cls.decoder_class(cfg, tgt_dict, embed_tokens)
