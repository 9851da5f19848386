"""What the families' models have in common: a configuration of their own around fairseq's Transformer."""

from argparse import ArgumentParser, Namespace
from typing import Any, ClassVar

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from torch import nn


class ConfiguredTransformer(TransformerModelBase):
    """A Transformer whose options are the fields of a configuration.

    It is registered without ``dataclass=``: fairseq-train silently loses nested values of a TransformerConfig registered that way. What
    fairseq-hydra-train reads from YAML gets the names of the command line where presets are filled in (:mod:`.presets`).

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
        if isinstance(args, DictConfig):
            args = Namespace(**OmegaConf.to_container(args, resolve=True))
        cfg = cls.config.from_namespace(args)
        for side in ("encoder", "decoder"):
            # As a text, with --model-overrides, it prunes a trained model; fairseq 0.12.2 cannot read the list of its own option.
            if isinstance(getattr(cfg, side).layers_to_keep, list):
                raise ValueError(f"--{side}-layers-to-keep: a model is pruned when it is loaded, not trained so; give --{side}-layers")
        return super().build_model(cfg, task)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Dictionary, embed_tokens: nn.Embedding) -> Any:
        return cls.decoder_class(cfg, tgt_dict, embed_tokens)
