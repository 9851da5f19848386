"""The base class of the families' models: fairseq's Transformer with options and conventions of its
own."""

from argparse import ArgumentParser, Namespace
from typing import Any, ClassVar, Dict, Optional

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..native.families import BY_NAME
from .config import ConventionsConfig
from .conventions import (
    add_output_bias,
    conventions_of,
    follow_conventions,
    require_same_conventions,
)
from .transformer_options import as_config, flat_values, refuse_extras


class ConfiguredTransformer(TransformerModelBase):
    """A Transformer whose options are the fields of a dataclass of this package.

    Models are registered without fairseq's argument ``dataclass=``, with which fairseq-train
    silently loses nested values of a TransformerConfig. Options from the YAML of
    fairseq-hydra-train are renamed to those of the command line by :mod:`.presets`.

    Attributes:
        config: the dataclass with the family's options.
        decoder_class: the family's decoder; called with configuration, target dictionary and word
            embedding.
    """

    config: ClassVar[Any]
    decoder_class: ClassVar[Any]

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, cls.config(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> Any:
        cfg = as_config(args, cls.config)
        refuse_extras(flat_values(cfg))
        for side in ("encoder", "decoder"):
            # As text in --model-overrides it prunes a trained model; the list that its own option
            # gives cannot be read by fairseq 0.12.2.
            if isinstance(getattr(cfg, side).layers_to_keep, list):
                raise ValueError(
                    f"--{side}-layers-to-keep: models are pruned when they are loaded;"
                    f" give --{side}-layers"
                )
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Dictionary, embed_tokens: nn.Embedding) -> Any:
        encoder = super().build_encoder(cfg, src_dict, embed_tokens)
        if isinstance(cfg, ConventionsConfig):
            follow_conventions(cfg, encoder)
            note = conventions_of(cfg, encoder.padding_idx).note(encoder.padding_idx)
            if note is not None:
                encoder.register_buffer("conventions", note)
        return encoder

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Dictionary, embed_tokens: nn.Embedding) -> Any:
        decoder = cls.decoder_class(cfg, tgt_dict, embed_tokens)
        if isinstance(cfg, ConventionsConfig):
            follow_conventions(cfg, decoder)
            add_output_bias(cfg, decoder.output_projection)
        return decoder

    def forward(self, *args: Any, **options: Any) -> Any:
        """fairseq's forward pass.

        Raises:
            ValueError: the model is being trained by another task, whose batches lack the entries
                that the family's criterion reads.
        """
        family = BY_NAME[self.decoder.family]
        if self.training and family.losses:
            raise ValueError(
                f"another task would train a {family.model} as an ordinary Transformer: give --task"
                f" {family.task} and --criterion {' or '.join(family.losses)}"
            )
        return super().forward(*args, **options)

    def load_state_dict(
        self,
        state_dict: Dict[str, Tensor],
        strict: bool = True,
        model_cfg: Any = None,
        args: Optional[Namespace] = None,
    ) -> Any:
        """Loads the parameters of a checkpoint; parameters that it lacks may be added by the
        family's decoder (``upgrade_state_dict_named``).

        Raises:
            ValueError: the weights were trained with other conventions (:mod:`.conventions`).
            RuntimeError: names or shapes of the parameters are not this model's; none is left out
                silently.
        """
        theirs = require_same_conventions(state_dict, self.cfg, self.encoder.padding_idx)
        self.decoder.parent_starts_from_zeros = theirs.zero_start
        return super().load_state_dict(state_dict, strict, model_cfg, args)
