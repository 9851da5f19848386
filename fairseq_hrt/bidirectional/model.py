"""Model ``bidirectional_transformer`` and its presets."""

from typing import Any, Optional

from fairseq.models import register_model
from torch import Tensor

from ..training import COMMON_PRESETS, ConfiguredTransformer, register_presets
from .config import BidirectionalModelConfig
from .decoder import BidirectionalDecoder
from .sample import SlotSample


@register_model("bidirectional_transformer")
class BidirectionalTransformerModel(ConfiguredTransformer):
    """A Transformer that writes a block of words per step: from both ends of the sentence, or from
    left to right, or from both ends of several segments."""

    config = BidirectionalModelConfig
    decoder_class = BidirectionalDecoder

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Optional[Tensor] = None,
        slots: Optional[SlotSample] = None,
        learnt: Optional[Tensor] = None,
        **options: Any,
    ) -> Any:
        """The forward pass of a training batch in slots, the order of writing; without ``slots``
        that of fairseq's Transformer.

        Args:
            src_tokens: LongTensor ``[B, S]``.
            slots: the targets of the batch.
            learnt: the result of ``slots.learnt``, if the caller has it. None: it is computed here,
                and the host waits for the device before the encoder is launched.

        Returns:
            With ``slots``: logits ``[n, V]`` of the n slots with a target, row by row. Only these
            reach the output projection, the most expensive layer. Without: what fairseq's
            Transformer returns.
        """
        if slots is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        if learnt is None:
            learnt = slots.learnt(self.decoder.padding_idx)
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        features, _ = self.decoder(
            slots.input,
            encoder_out=encoder_out,
            features_only=True,
            # No layer is asked for its attention to the source, which takes kernels of its own.
            alignment_layer=-1,
        )
        # [n, D] -> [n, V]
        return self.decoder.output_layer(features.flatten(0, 1).index_select(0, learnt))


register_presets("bidirectional_transformer", COMMON_PRESETS)
