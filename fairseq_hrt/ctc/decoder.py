"""fairseq's Transformer decoder without the causal mask."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from ..engine import NativeParts
from ..training import refuse_extras
from .config import CtcModelConfig
from .sample import InputRule


class CtcDecoder(NativeParts, TransformerDecoderBase):
    """Writes a word or a blank, ``<s>``, at each position, in one pass.

    Attributes:
        blank: id of the blank.
        rule: makes its inputs.
        only_task: the only task that can decode this model.
    """

    family = "ctc"
    only_task = "translation_ctc"

    def __init__(
        self, cfg: CtcModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        refuse_extras(cfg, "ctc_transformer")
        super().__init__(cfg, dictionary, embed_tokens)
        if not 0 < cfg.ctc_upsample_scale < float("inf"):
            raise ValueError(
                f"--ctc-upsample-scale {cfg.ctc_upsample_scale} must be greater than 0, e.g. 3"
            )
        self.blank = dictionary.bos()
        self.rule = InputRule(
            scale=float(cfg.ctc_upsample_scale), copies=str(cfg.ctc_inputs) == "copy",
            most=self.max_positions(), pad=dictionary.pad(), unk=dictionary.unk(),
        )  # fmt: skip

    def not_native(self) -> Sequence[str]:
        return ("--arch ctc_transformer",)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        features_only: bool = False,
        **options: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """fairseq's forward pass over positions ``[B, T]``: every position attends to all.

        Raises:
            ValueError: ``incremental_state`` is given: nothing is decoded step by step.
        """
        if incremental_state is not None:
            raise ValueError(
                "fairseq's own search cannot decode a ctc_transformer; use --task translation_ctc"
            )
        features, extra = self.extract_features(
            prev_output_tokens, encoder_out=encoder_out, full_context_alignment=True
        )
        return (features if features_only else self.output_layer(features)), extra
