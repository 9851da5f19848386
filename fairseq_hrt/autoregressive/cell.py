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
    c_t = f_t ⊙ c_(t-1) + (1 - f_t) ⊙ W x_t, starting from zeros.

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
        x: Tensor,
        incremental_state: Optional[Dict[str, Any]] = None,
        padding: Optional[Tensor] = None,
    ) -> Tensor:
        """The state after each token, ``[T, B, D]``.

        Args:
            x: ``[T, B, D]``, the vectors of T tokens.
            incremental_state: fairseq's cache, updated in place; the tokens follow those of earlier
                calls with the same cache. None: they begin the sentence.
            padding: BoolTensor ``[B, T]``, True for tokens that do not change the state.
        """
        # [T, B, D] -> [B, T, D]
        x = x.transpose(0, 1)  # [B, T, D]
        forget, candidate = torch.sigmoid(self.forget(x)), self.candidate(x)  # [B, T, D] each
        if padding is not None:
            forget = forget.masked_fill(padding.unsqueeze(-1), 1.0)
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
        return states.transpose(0, 1)  # [T, B, D]

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

    def forward(
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        **ignored: Any,
    ) -> Tuple[Tensor, Optional[Tensor], None]:
        """fairseq's forward pass of a decoder layer.

        Args:
            x: ``[T, B, D]``.
            encoder_out: ``[S, B, D]``.
            encoder_padding_mask: BoolTensor ``[B, S]``, True for padding.
            incremental_state: fairseq's cache of earlier tokens, updated in place; None: the tokens
                begin the sentence.
            self_attn_mask: ignored, since a recurrence is causal.
            self_attn_padding_mask: BoolTensor ``[B, T]``, True for padding.
            need_attn, need_head_weights: ask for the attention to the source, the latter for that
                of each head, as in fairseq's layer.

        Returns:
            (output ``[T, B, D]``, the attention to the source or None, None).
        """
        residual = x
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        x = self.dropout_module(F.relu(self.cell(x, incremental_state, self_attn_padding_mask)))
        x = self.residual_connection(x, residual)
        if not self.normalize_before:
            x = self.self_attn_layer_norm(x)
        attention = None
        if self.encoder_attn is not None and encoder_out is not None:
            residual = x
            if self.normalize_before:
                x = self.encoder_attn_layer_norm(x)
            x, attention = self.encoder_attn(
                query=x,
                key=encoder_out,
                value=encoder_out,
                key_padding_mask=encoder_padding_mask,
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn
                or need_head_weights
                or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
            )
            x = self.residual_connection(self.dropout_module(x), residual)
            if not self.normalize_before:
                x = self.encoder_attn_layer_norm(x)
        residual = x
        if self.normalize_before:
            x = self.final_layer_norm(x)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        x = self.residual_connection(self.dropout_module(self.fc2(x)), residual)
        if not self.normalize_before:
            x = self.final_layer_norm(x)
        return x, attention, None
