"""Marian's recurrent decoder layers: a Simpler Simple Recurrent Unit (SSRU) replaces
self-attention."""

from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from ..engine import recur
from .config import MarianModelConfig

_STATE = "state"


class SSRUCell(FairseqIncrementalState, nn.Module):
    """Simpler Simple Recurrent Unit (Kim et al. 2019). Forget gate: f_t = σ(W_f x_t + b_f); state:
    c_t = f_t ⊙ c_(t-1) + (1 - f_t) ⊙ W x_t, starting from zeros; output: relu(c_t).

    Args:
        width: D, the width of inputs and states.
    """

    # Untyped methods of fairseq's base class.
    get_incremental_state: Callable[..., Any]
    set_incremental_state: Callable[..., Any]

    def __init__(self, width: int) -> None:
        super().__init__()
        self.forget = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width, bias=False)
        for layer in (self.forget, self.candidate):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.forget.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, None]:
        """The output for each token, with the arguments that fairseq's decoder layer gives to
        self-attention.

        Args:
            query: ``[T, B, D]``, the vectors of T tokens; ``key`` and ``value`` are the same.
            key_padding_mask: BoolTensor ``[B, T]``, True for tokens that do not change the state.
            incremental_state: fairseq's cache, updated in place; the tokens follow those of earlier
                calls with the same cache. None: they begin the sentence.
            need_weights, attn_mask: ignored; a recurrence is causal.

        Returns:
            (output ``[T, B, D]``, None instead of the attention weights).
        """
        x = query.transpose(0, 1)  # [B, T, D]
        forget, candidate = torch.sigmoid(self.forget(x)), self.candidate(x)  # [B, T, D] each
        if key_padding_mask is not None:
            forget = forget.masked_fill(key_padding_mask.unsqueeze(-1), 1.0)
        kept = (
            None
            if incremental_state is None
            else self.get_incremental_state(incremental_state, _STATE)
        )
        states = recur(  # [B, T, D]
            forget, candidate, torch.zeros_like(x[:, 0]) if kept is None else kept["cell"]
        )
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, _STATE, {"cell": states[:, -1]})
        return F.relu(states.transpose(0, 1)), None  # [T, B, D]

    def _get_input_buffer(self, incremental_state: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """Called by fairseq's decoder layer for the keys of earlier steps, of which there are
        none."""
        return {}

    def reorder_incremental_state(
        self, incremental_state: Dict[str, Any], new_order: Tensor
    ) -> Dict[str, Any]:
        """Replaces the cached state of the batch by its rows ``new_order``, LongTensor ``[B']``,
        and returns the cache; called by fairseq's search."""
        kept = self.get_incremental_state(incremental_state, _STATE)
        if kept is not None:
            kept = {"cell": kept["cell"].index_select(0, new_order)}
            incremental_state = self.set_incremental_state(incremental_state, _STATE, kept)
        return incremental_state


class RecurrentDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer with an SSRU instead of self-attention: x + relu(state of the SSRU),
    with the layer's pre- or post-norm."""

    def __init__(self, cfg: MarianModelConfig, no_encoder_attn: bool = False) -> None:
        super().__init__(cfg, no_encoder_attn)
        del self.self_attn
        self.cell = SSRUCell(self.embed_dim)

    @property
    def self_attn(self) -> SSRUCell:
        """What fairseq's forward pass calls: the cell, which is saved under its own name alone."""
        return self.cell
