"""Model ``bidirectional_transformer`` and its presets."""

from argparse import ArgumentParser
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer.transformer_base import TransformerModelBase
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..training import COMMON_PRESETS, register_presets
from .config import BidirectionalModelConfig
from .decoder import BidirectionalDecoder
from .sample import SlotSample


# No ``dataclass=``: fairseq 0.12.2 silently loses nested values of a TransformerConfig registered that way.
@register_model("bidirectional_transformer")
class BidirectionalTransformerModel(TransformerModelBase):
    """A Transformer that writes its target in several directions and several words a step."""

    config = BidirectionalModelConfig

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, BidirectionalModelConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "BidirectionalTransformerModel":
        return super().build_model(BidirectionalModelConfig.from_namespace(args), task)

    @classmethod
    def build_decoder(
        cls, cfg: BidirectionalModelConfig, tgt_dict: Dictionary, embed_tokens: nn.Embedding
    ) -> BidirectionalDecoder:
        return BidirectionalDecoder(cfg, tgt_dict, embed_tokens)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Optional[Tensor] = None,
        slots: Optional[SlotSample] = None,
        **options: Any,
    ) -> Any:
        """Logits of the learnt slots; without ``slots`` fairseq's Transformer over slot inputs.

        Args:
            src_tokens: LongTensor ``[B, S]``.
            slots: the training batch.

        Returns:
            With ``slots``: logits ``[learnt slots, V]``, row by row. Only these reach the output projection, the most
            expensive layer.
        """
        if slots is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        features, _ = self.decoder(slots.input, encoder_out=encoder_out, features_only=True)
        return self.decoder.output_layer(features[slots.target.ne(self.decoder.padding_idx)])


register_presets("bidirectional_transformer", COMMON_PRESETS)
