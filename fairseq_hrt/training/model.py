"""What the families' models have in common: a configuration of their own around fairseq's
Transformer."""

from argparse import ArgumentParser, Namespace
from typing import Any, ClassVar, Dict, List, Optional

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from .config import ConventionsConfig
from .conventions import (
    add_output_bias,
    conventions_of,
    follow_conventions,
    require_same_conventions,
)


class ConfiguredTransformer(TransformerModelBase):
    """A Transformer whose options are the fields of a configuration.

    It is registered without ``dataclass=``: fairseq-train silently loses nested values of a
    TransformerConfig registered that way. Options that fairseq-hydra-train reads from YAML get the
    names of the command line where presets are filled in (:mod:`.presets`).

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
            plain: Any = OmegaConf.to_container(args, resolve=True)
            args = Namespace(**plain)
        cfg = cls.config.from_namespace(args)
        for side in ("encoder", "decoder"):
            # As a text, with --model-overrides, it prunes a trained model; fairseq 0.12.2 cannot
            # read the list of its own option.
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

    def load_state_dict(
        self,
        state_dict: Dict[str, Tensor],
        strict: bool = True,
        model_cfg: Any = None,
        args: Optional[Namespace] = None,
    ) -> Any:
        """fairseq's; what a checkpoint lacks and the family can add is added
        (``upgrade_state_dict_named`` of the decoders).

        Raises:
            ValueError: they were trained with other conventions than this model is built with
                (:mod:`.conventions`).
            RuntimeError: other parameters than this model's, on one line. None of them is left out
                in silence: a model that is started from another one keeps all that it had learnt.
        """
        theirs = require_same_conventions(state_dict, self.cfg, self.encoder.padding_idx)
        self.decoder.parent_starts_from_zeros = theirs.zero_start
        try:
            return super().load_state_dict(state_dict, strict, model_cfg, args)
        except RuntimeError as error:
            difference = _difference(state_dict, self.state_dict())
            if not difference:
                raise
            raise RuntimeError(
                f"not the parameters of this {type(self).__name__}: {difference}; a model starts"
                " from an autoregressive one or one of its own family, of the same sizes"
            ) from error


def refuse_extras(cfg: Any, architecture: str) -> None:
    """Refuses parts of fairseq's decoder that the decoder of a family does not have.

    Raises:
        ValueError: the configuration asks for one.
    """
    if (
        cfg.adaptive_softmax_cutoff is not None
        or cfg.cross_self_attention
        or cfg.quant_noise.pq > 0
    ):
        raise ValueError(
            f"{architecture} supports neither --adaptive-softmax-cutoff nor"
            " --cross-self-attention nor --quant-noise-pq; leave them out"
        )


def _difference(found: Dict[str, Tensor], wanted: Dict[str, Tensor]) -> str:
    """How the parameters of a checkpoint differ from a model's: empty, or a few of their names."""
    shapes = [
        f"{name} {list(found[name].shape)} instead of {list(value.shape)}"
        for name, value in wanted.items()
        if name in found and found[name].shape != value.shape
    ]
    told = (
        ("the model has no place for", [name for name in found if name not in wanted]),
        ("the checkpoint lacks", [name for name in wanted if name not in found]),
        ("size mismatch:", shapes),
    )
    return ", ".join(f"{what} {_some(names)}" for what, names in told if names)


def _some(names: List[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
