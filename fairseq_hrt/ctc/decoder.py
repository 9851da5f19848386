"""fairseq's Transformer decoder without the causal mask, and the inputs of its positions."""

import logging
import math
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..engine import ParallelDecoder
from ..native.families.ctc import INPUTS
from ..ops import at_least_float32
from .config import CtcModelConfig
from .sample import InputRule

logger = logging.getLogger(__name__)

# The soft copy's temperature before training: most weight lies on the nearest source token.
FIRST_TEMPERATURE = 0.3
# λ is stored in millionths, as an integer, so that casts to half precision do not round it.
PARTS = 10**6


class SoftCopy(nn.Module):
    """The weights with which the source's vectors are averaged for each decoder position, largest
    for the nearest source tokens (Wei et al., 2019, with a learnt temperature as in Gu and Kong,
    2021).

    Position t lies at (t + 1/2) / λ of the source, token s at s + 1/2: the weights are
    softmax_s(-distance / temperature).
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.full((1,), math.log(FIRST_TEMPERATURE)))

    @property
    def temperature(self) -> Tensor:
        # Half precision is too coarse for distances; double stays.
        return self.log_temperature.to(at_least_float32(self.log_temperature.dtype)).exp()

    def forward(self, real: Tensor, scale: float, width: int) -> Tensor:
        """The weight of each source token at each decoder position, ``[B, T, S]``.

        Args:
            real: BoolTensor ``[B, S]``, True for source tokens, False for padding.
            scale: λ, decoder positions per source token.
            width: T, the number of decoder positions.
        """
        temperature = self.temperature
        token = real.cumsum(1).to(temperature) - 0.5  # [B, S]
        place = (torch.arange(width, device=real.device).to(temperature) + 0.5) / scale  # [T]
        distance = (token.unsqueeze(1) - place.view(1, -1, 1)).abs()  # [B, T, S]
        scores = (-distance / temperature).masked_fill(~real.unsqueeze(1), float("-inf"))
        return scores.softmax(2)


class CtcDecoder(ParallelDecoder):
    """Writes a word, or ``<s>`` as the blank, at each position, all in one pass.

    Attributes:
        blank: id of the blank.
        inputs: what positions read, the value of ``--ctc-inputs``.
        rule: the :class:`InputRule` that makes the decoder's inputs from a source.
        soft_copy: the :class:`SoftCopy` with ``--ctc-inputs soft-copy``, else None.
        input_rule: LongTensor ``[2]``, a buffer: the upsampling factor λ in millionths and the
            index of ``inputs`` in INPUTS. It shows whether a checkpoint was trained with another
            rule.
    """

    family = "ctc"
    only_task = "translation_ctc"

    def __init__(
        self, cfg: CtcModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        if not 0 < cfg.ctc_upsample_scale <= PARTS:
            raise ValueError(
                f"--ctc-upsample-scale {cfg.ctc_upsample_scale} must be greater than 0 and at most"
                f" {PARTS}, e.g. 3"
            )
        self.blank = dictionary.bos()
        self.inputs = str(cfg.ctc_inputs)
        self.rule = InputRule(
            scale=float(cfg.ctc_upsample_scale), copies=self.inputs != "unk",
            most=self.max_positions(), pad=dictionary.pad(), unk=dictionary.unk(),
        )  # fmt: skip
        self.soft_copy = SoftCopy() if self.inputs == "soft-copy" else None
        own = [round(PARTS * self.rule.scale), INPUTS.index(self.inputs)]
        self.register_buffer("input_rule", torch.tensor(own))
        # How the loaded checkpoint differs from this model; empty if it does not.
        self.refitted = ""

    def input_vectors(self, source: Tensor, width: int, words: Tensor) -> Optional[Tensor]:
        """The vectors that positions read instead of their tokens' embeddings, ``[B, T, D]``, not
        yet multiplied by ``embed_scale``; None if positions read tokens.

        Args:
            source: LongTensor ``[B, S]``, padded on either side.
            width: T, the number of decoder positions.
            words: ``[V, D]``, the embeddings of the dictionary's words.
        """
        if self.soft_copy is None:
            return None
        weights = self.soft_copy(source.ne(self.rule.pad), self.rule.scale, width)  # [B, T, S]
        return weights.to(words) @ torch.embedding(words, source)

    def forward(
        self, *given: Any, vectors: Optional[Tensor] = None, **options: Any
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """The forward pass of fairseq's decoder, without the causal mask.

        Args:
            given, options: the arguments of fairseq's decoder.
            vectors: ``[B, T, D]``, see :meth:`input_vectors`; the tokens then only show which
                positions are padding.
        """
        if vectors is None:
            return super().forward(*given, **options)
        # fairseq's decoder takes tokens alone: replace what its embedding returns.
        hook = self.embed_tokens.register_forward_hook(lambda *embedded: vectors)
        try:
            return super().forward(*given, **options)
        finally:
            hook.remove()

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        soft = self.soft_copy
        return dict(
            upsample=self.rule.scale,
            position_inputs=self.inputs,
            copy_temperature=0.0 if soft is None else float(soft.temperature),
        )

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Prepares a checkpoint's ``state_dict`` for this model: adds a newly initialised
        temperature if the checkpoint has none, as those of other Transformers, and warns if its
        model made the inputs of positions by another rule. Training and decoding use the rule of
        this model. Keys of the decoder begin with ``name``."""
        super().upgrade_state_dict_named(state_dict, name)
        key = f"{name}.input_rule"
        mine = _rule(self.input_rule)
        theirs = _rule(state_dict[key]) if key in state_dict else mine
        if theirs != mine:
            self.refitted = f"that model was trained with {theirs}"
            logger.warning(
                "the decoder's inputs differ from the checkpoint's: %s; this one has %s",
                self.refitted,
                mine,
            )
        state_dict[key] = self.input_rule.clone()
        key = f"{name}.soft_copy.log_temperature"
        if self.soft_copy is not None and key not in state_dict:
            state_dict[key] = self.soft_copy.log_temperature.detach().clone()
            self.refitted = self.refitted or "that model has no soft copy"
        return state_dict


def _rule(stored: Tensor) -> str:
    """The options that a checkpoint's buffer ``input_rule``, LongTensor ``[2]``, encodes, as on a
    command line: ``--ctc-upsample-scale … --ctc-inputs …``."""
    scale, kind = [*stored.flatten().tolist(), 0, 0][:2]
    inputs = INPUTS[int(kind)] if 0 <= kind < len(INPUTS) else str(kind)
    return f"--ctc-upsample-scale {scale / PARTS:g} --ctc-inputs {inputs}"
