"""The base of decoders that write all positions in one pass."""

from typing import Any, Dict, List, Optional, Tuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from ..native.families import BY_NAME
from .native_parts import NativeParts


class ParallelDecoder(NativeParts, TransformerDecoderBase):
    """fairseq's Transformer decoder without the causal mask.

    Attributes:
        only_task: the only task that can decode this model.
    """

    only_task: str

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        features_only: bool = False,
        **options: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """fairseq's forward pass over tokens ``[B, T]``, each of which attends to all.

        Returns:
            (logits ``[B, T, V]``, or with ``features_only`` features ``[B, T, D]``; fairseq's
            further results).

        Raises:
            ValueError: ``incremental_state`` is given: nothing is decoded step by step.
        """
        if incremental_state is not None:
            raise ValueError(
                f"fairseq's own search cannot decode a {BY_NAME[self.family].model}; use --task"
                f" {self.only_task}"
            )
        # -1: no layer returns its attention to the source, for which other kernels would be needed.
        features, extra = self.extract_features(
            prev_output_tokens,
            encoder_out=encoder_out,
            full_context_alignment=True,
            alignment_layer=-1,
        )
        return (features if features_only else self.output_layer(features)), extra
