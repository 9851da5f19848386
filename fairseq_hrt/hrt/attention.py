"""Self-attention with relative positions added to the keys: softmax(Q (K + R)^T / sqrt(d)) V (HRT,
Eq. 4).

R holds one vector for each clipped distance j - i, shared by the heads of a layer. It is
initialised with zeros, so that a model fine-tuned from an ordinary Transformer equals it before the
first update. fairseq's attention takes a fast path in training that has no such term, hence this
module; its parameters have fairseq's names.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..engine import relative_index
from ..ops import at_least_float32


class AttentionPattern(NamedTuple):
    """Which keys each query may see, and how far away these keys are.

    Attributes:
        bias: what is added to attention scores, 0 for visible keys, -inf for hidden ones:
            ``[B, 1, T, T]``, or ``[B, 1, 1, T]`` if all queries see the same keys.
        index: LongTensor ``[B, T, T]`` of (query, key): the row of the table of relative position
            vectors that belongs to their distance; None without relative positions.
    """

    bias: Tensor
    index: Optional[Tensor]  # type: ignore[assignment]  # hides the method of tuples, which nobody calls


def attention_pattern(
    positions: Tensor, padding: Tensor, *, causal: bool, window: int, like: Tensor
) -> AttentionPattern:
    """Builds the :class:`AttentionPattern` of a training batch.

    Args:
        positions: LongTensor ``[B, T]``, position of each token, increasing up to the padding.
        padding: BoolTensor ``[B, T]``, True for padding, which is on the right.
        causal: True hides the tokens to the right of each query.
        window: w; distances beyond w count as w. 0: no relative positions.
        like: a tensor whose dtype and device ``bias`` takes over.
    """
    hidden = padding[:, None, None]  # [B, 1, 1, T]
    if causal:
        width = padding.size(1)
        later = torch.ones(width, width, dtype=torch.bool, device=padding.device).triu(1)  # [T, T]
        hidden = hidden | later  # [B, 1, T, T]
    bias = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(
        hidden, float("-inf")
    )
    return AttentionPattern(bias, relative_index(positions, positions, window) if window else None)


class RelativeSelfAttention(nn.Module):
    """Multi-head self-attention with relative position vectors added to the keys.

    Args:
        width: D, the width of inputs and outputs; a multiple of ``heads``.
        heads: H.
        dropout: dropout probability of the attention weights.
        window: w; distances beyond w count as w. 0 leaves the relative term out.
    """

    def __init__(self, width: int, heads: int, *, dropout: float, window: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(
                f"--decoder-embed-dim {width} is not a multiple of --decoder-attention-heads"
                f" {heads}: change one of them"
            )
        self.num_heads, self.head_dim, self.dropout = heads, width // heads, dropout
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(width, width) for _ in range(4)
        )
        # fairseq's initialisation: gain 2 ** -0.5, as if the three were parts of one matrix.
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)
        self.relative_keys = (
            nn.Parameter(torch.zeros(2 * window + 1, self.head_dim)) if window else None
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        need_weights: bool = False,
        attn_mask: Optional[AttentionPattern] = None,
    ) -> Tuple[Tensor, None]:
        """Self-attention, with the arguments that fairseq's decoder layer gives; ``attn_mask`` is
        an :class:`AttentionPattern` in place of fairseq's mask.

        Args:
            query: ``[T, B, D]``; ``key`` and ``value`` are the same tensor.
            key_padding_mask, incremental_state: must be None.
            need_weights: ignored.
            attn_mask: required, see :func:`attention_pattern`.

        Returns:
            (output ``[T, B, D]``, None instead of the attention weights).
        """
        if attn_mask is None or incremental_state is not None or key_padding_mask is not None:
            raise ValueError(
                "relative self-attention: give an AttentionPattern as attn_mask, and neither"
                " key_padding_mask nor incremental_state"
            )
        length, batch, width = query.shape
        queries, keys, values = (
            # [T, B, D] -> [B, H, T, d]
            projection(query).view(length, batch, self.num_heads, self.head_dim).permute(1, 2, 0, 3)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries = queries * self.head_dim**-0.5
        scores = queries @ keys.transpose(2, 3)  # [B, H, T, T]
        if self.relative_keys is not None:
            by_distance = queries @ self.relative_keys.t()  # [B, H, T, 2w + 1]
            scores = scores + by_distance.gather(
                3, cast(Tensor, attn_mask.index).unsqueeze(1).expand_as(scores)
            )
        scores = scores + attn_mask.bias
        weights = torch.softmax(scores, -1, dtype=at_least_float32(scores.dtype))  # [B, H, T, T]
        weights = F.dropout(weights.to(scores.dtype), self.dropout, self.training)
        # [B, H, T, d] -> [T, B, D]
        mixed = (weights @ values).permute(2, 0, 1, 3).reshape(length, batch, width)  # [T, B, D]
        return self.out_proj(mixed), None

    def _get_input_buffer(self, incremental_state: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """The cache of earlier steps, which fairseq's decoder layer reads: always an empty
        dictionary, since this module has no cache (the decoder engine has its own)."""
        return {}
