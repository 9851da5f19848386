"""fairseq's Transformer decoder without the causal mask."""

from typing import Any, Dict

from fairseq.data import Dictionary
from torch import nn

from ..engine import ParallelDecoder
from ..training import refuse_extras
from .config import CtcModelConfig
from .sample import InputRule


class CtcDecoder(ParallelDecoder):
    """Writes a word or a blank, ``<s>``, at each position, in one pass.

    Attributes:
        blank: id of the blank.
        inputs: ``--ctc-inputs``.
        rule: makes its inputs.
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
        self.inputs = str(cfg.ctc_inputs)
        self.rule = InputRule(
            scale=float(cfg.ctc_upsample_scale), copies=self.inputs != "unk",
            most=self.max_positions(), pad=dictionary.pad(), unk=dictionary.unk(),
        )  # fmt: skip

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        return dict(upsample=self.rule.scale, position_inputs=self.inputs)
