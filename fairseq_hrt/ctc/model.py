"""Model ``ctc_transformer`` and its presets."""

from typing import Any, NamedTuple, Optional

import torch
from fairseq.models import register_model
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..ops import at_least_float32, ctc_best_alignment
from ..training import (
    COMMON_PRESETS,
    ConfiguredTransformer,
    Purpose,
    hash_uniform,
    register_presets,
    same_random_numbers_afterwards,
)
from .config import CtcModelConfig
from .decoder import CtcDecoder
from .sample import CtcSample


class Glancing(NamedTuple):
    """Glancing: in training some positions, drawn at random, read the target.

    Attributes:
        share: the expected number of these positions divided by the number of positions that are
            predicted wrongly.
        seed: seed of the random choice.
    """

    share: float
    seed: int


class CtcOutput(NamedTuple):
    """The model's output for a training batch.

    Attributes:
        log_probs: ``[B, T, V]``, of all tokens at all positions; float32 or float64.
        wrong: number of positions whose best token is not that of the target's best alignment,
            LongTensor ``[B]``; None without glancing.
        shown: number of positions that read the target, LongTensor ``[B]``; None without glancing.
    """

    log_probs: Tensor
    wrong: Optional[Tensor] = None
    shown: Optional[Tensor] = None


@register_model("ctc_transformer")
class CtcTransformerModel(ConfiguredTransformer):
    """A Transformer whose decoder writes all positions in one pass."""

    config = CtcModelConfig
    decoder_class = CtcDecoder

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "CtcTransformerModel":
        model = super().build_model(args, task)
        source, target = task.source_dictionary, task.target_dictionary
        if model.decoder.rule.copies and source.symbols != target.symbols:
            raise ValueError(
                f"--ctc-inputs {model.decoder.inputs} reads source tokens by the target dictionary:"
                " it needs one dictionary for both languages (fairseq-preprocess"
                " --joined-dictionary), or give --ctc-inputs unk"
            )
        return model

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Optional[Tensor] = None,
        ctc: Optional[CtcSample] = None,
        glancing: Optional[Glancing] = None,
        **options: Any,
    ) -> Any:
        """The :class:`CtcOutput` of a training batch; without ``ctc`` the output of fairseq's
        Transformer.

        Args:
            src_tokens: LongTensor ``[B, S]``.
            ctc: inputs and targets of the batch.
            glancing: after a first pass without gradient, some positions read the word that the
                best alignment of the target puts there. Both passes share the encoder's output and
                the dropout masks. None: one ordinary pass.
        """
        if ctc is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        inputs, wrong, shown = ctc.inputs, None, None  # [B, T]
        words = self.decoder.embed_tokens.weight  # [V, D]
        vectors = self.decoder.input_vectors(src_tokens, inputs.size(1), words)  # [B, T, D] or None
        if glancing is not None:
            with torch.no_grad(), same_random_numbers_afterwards(src_tokens.device):
                log_probs = self._log_probs(inputs, encoder_out, vectors)
                aligned, scores = ctc_best_alignment(  # [B, T], [B]
                    log_probs, ctc.targets, ctc.lengths, ctc.target_lengths,
                    blank=self.decoder.blank,
                )  # fmt: skip
            place = torch.arange(inputs.size(1), device=inputs.device)  # [T]
            possible = (scores > float("-inf")).unsqueeze(1)  # [B, 1]
            inside = (place < ctc.lengths.unsqueeze(1)) & possible  # [B, T]
            differs = inside & (log_probs.argmax(2) != aligned)  # [B, T]
            wrong = differs.sum(1)  # [B]
            drawn = hash_uniform(  # [B, T]
                glancing.seed, ctc.update, ctc.ids.unsqueeze(1), Purpose.GLANCED_POSITION, place
            )
            chance = glancing.share * wrong / ctc.lengths  # [B]
            chosen = inside & (drawn < chance.unsqueeze(1))
            inputs, shown = torch.where(chosen, aligned, inputs), chosen.sum(1)
            if vectors is not None:
                seen = torch.embedding(words, aligned)  # [B, T, D]
                vectors = torch.where(chosen.unsqueeze(2), seen, vectors)
        return CtcOutput(self._log_probs(inputs, encoder_out, vectors), wrong, shown)

    def _log_probs(
        self, inputs: Tensor, encoder_out: Any, vectors: Optional[Tensor] = None
    ) -> Tensor:
        logits, _ = self.decoder(inputs, encoder_out=encoder_out, vectors=vectors)  # [B, T, V]
        # The type as an argument: CUDA's kernels then read half precision, without a wide copy.
        return torch.log_softmax(logits, -1, dtype=at_least_float32(logits.dtype))


register_presets("ctc_transformer", COMMON_PRESETS)
