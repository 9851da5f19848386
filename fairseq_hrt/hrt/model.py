"""Model ``hrt_transformer`` and its presets."""

from typing import Any, Dict, Optional, Sequence

import torch
from fairseq.models import register_model
from torch import Tensor

from ..training import COMMON_PRESETS, ConfiguredTransformer, register_presets
from .config import HRTModelConfig
from .decoder import HRTDecoder
from .sample import TrainingViews


@register_model("hrt_transformer")
class HRTTransformerModel(ConfiguredTransformer):
    """A Transformer for hybrid-regressive translation: the same decoder writes every K-th token
    from left to right, and then all others at once."""

    config = HRTModelConfig
    decoder_class = HRTDecoder

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Optional[Tensor] = None,
        views: Optional[TrainingViews] = None,
        learnt: Optional[Sequence[Tensor]] = None,
        **options: Any,
    ) -> Any:
        """Encodes each sentence once and decodes both of its training samples; without ``views``
        the forward pass of fairseq's Transformer.

        Args:
            src_tokens: LongTensor ``[B, S]``.
            views: the training samples; None: ``prev_output_tokens`` are decoded.
            learnt: the results of :meth:`~.sample.SampleView.learnt` for ``views.causal`` and
                ``views.parallel``, if the caller has them. None: they are computed here, and the
                host waits for the device before the encoder is launched.

        Returns:
            Logits ``[n, V]`` of the n targets that are not padding, row by row, the causal view
            before the parallel one. Only these n positions reach the output projection, the most
            expensive layer. Without ``views`` what fairseq's Transformer returns.
        """
        if views is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        if learnt is None:
            pad = self.decoder.padding_idx
            learnt = views.causal.learnt(pad), views.parallel.learnt(pad)
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        pair = (views.causal, True, learnt[0]), (views.parallel, False, learnt[1])
        features = [  # [n of the view, D] each
            self.decoder.view_features(view, encoder_out, causal=causal)
            .flatten(0, 1)
            .index_select(0, places)
            for view, causal, places in pair
        ]
        return self.decoder.output_layer(torch.cat(features))  # [n, V]


_DEEP: Dict[str, Any] = dict(embed=512, ffn=2048, heads=8, pre_norm=True)

register_presets(
    "hrt_transformer",
    {
        **COMMON_PRESETS,
        "e6d1": dict(layers=(6, 1), **_DEEP),
        "e12d1": dict(layers=(12, 1), **_DEEP),
        "e20d1": dict(layers=(20, 1), **_DEEP),
    },
)
