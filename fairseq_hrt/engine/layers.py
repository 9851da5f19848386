"""fairseq's Transformer layers for inference, with fused projections.

fairseq's modules are written for training: most of the time of a decoding step goes into dozens of
small Python steps in each call of its attention. The weights here share memory with the module's
(see :mod:`.shared_weights`).
"""

from typing import Any, Callable, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ..ops import at_least_float32
from .linear import PackedLinear
from .recurrence import recur
from .shared_weights import fuse_rows

# A module of fairseq, which is not typed: an attribute of nn.Module would be ``Tensor | Module`` to
# a type checker.
FairseqModule = Any


class UnsupportedModelError(ValueError):
    """A model has a part that the engine does not support; the message names it and an
    alternative."""


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """softmax(queries keys^T + bias) values, for queries that are already scaled.

    Two batched products are several times faster on a CPU than ``scaled_dot_product_attention`` for
    the few queries of a decoding step, and relative positions make the bias dense anyway. On a GPU
    one kernel replaces four.

    Args:
        queries: ``[G, q, d]``; G is any flattened batch.
        keys, values: ``[G, T, d]``.
        bias: broadcastable to ``[G, q, T]``; -inf hides a key.

    Returns:
        ``[G, q, d]``.
    """
    if queries.is_cuda and queries.dtype.itemsize < 4:
        # The kernel takes [B, H, q, d]: here one sentence of G heads.
        mask = None if bias is None else bias.expand(*queries.shape[:2], keys.size(1))[None]
        parts = (queries[None], keys[None], values[None])
        return F.scaled_dot_product_attention(*parts, attn_mask=mask, scale=1.0)[0]  # [G, q, d]
    keys = keys.transpose(1, 2)  # [G, d, T]
    scores = torch.bmm(queries, keys) if bias is None else torch.baddbmm(bias, queries, keys)
    # The softmax of half-precision scores is taken in float32, as in fairseq.
    weights = torch.softmax(scores, -1, dtype=at_least_float32(scores.dtype))  # [G, q, T]
    return torch.bmm(weights.to(values.dtype), values)  # [G, q, d]


def _merge_heads(mixed: Tensor, rows: int, heads: int) -> Tensor:
    """Puts the heads side by side: ``[R * H, q, d]`` → ``[R, q, H * d]``."""
    _, count, width = mixed.shape
    if count == 1:
        # The memory layout is the same: a view will do.
        return mixed.view(rows, 1, heads * width)  # [R, 1, D]
    return mixed.view(rows, heads, count, width).transpose(1, 2).reshape(rows, count, heads * width)


class PackedNorm:
    """A layer normalisation with the weights of ``norm``."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.shape, self.weight, self.bias, self.eps = (
            norm.normalized_shape,
            norm.weight,
            norm.bias,
            norm.eps,
        )

    def __call__(self, x: Tensor) -> Tensor:
        # F.layer_norm calls this, too, after a search for tensor subclasses.
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class PackedFeedForward:
    """The feed-forward block fc2(activation(fc1(x))) of a fairseq layer. ``reorder`` permits faster
    copies of the weights, see :class:`PackedLinear`."""

    def __init__(self, layer: FairseqModule, *, reorder: bool) -> None:
        # ReLU in place: the inner vectors are used nowhere else.
        self.activation: Callable[[Tensor], Tensor] = (
            torch.relu_ if layer.activation_fn is F.relu else layer.activation_fn
        )
        self.inner = PackedLinear(layer.fc1.weight, layer.fc1.bias, reorder=reorder)
        self.outer = PackedLinear(layer.fc2.weight, layer.fc2.bias, reorder=reorder)

    def __call__(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class PackedSelfAttention:
    """Self-attention with one matrix product for queries, keys and values, and with relative
    position vectors if the module has such (``relative_keys``).

    The attribute ``memorable`` projects to keys and values, the part that is cached.

    Args:
        attention: fairseq's module.
        reorder: permits faster copies of the weights, see :class:`PackedLinear`.
    """

    def __init__(self, attention: FairseqModule, *, reorder: bool) -> None:
        check_attention(attention)
        parts = [attention.q_proj, attention.k_proj, attention.v_proj]
        weight = fuse_rows([part.weight for part in parts])  # [3 * D, D]
        bias = None if parts[0].bias is None else fuse_rows([part.bias for part in parts])
        width = weight.size(1)
        biases = (None, None) if bias is None else (bias[:width], bias[width:])  # [D], [2 * D]
        self.all = PackedLinear(weight, bias, reorder=reorder)
        self.query = PackedLinear(weight[:width], biases[0], reorder=reorder)
        self.memorable = PackedLinear(weight[width:], biases[1], reorder=reorder)
        self.heads, self.scale = attention.num_heads, attention.head_dim**-0.5
        self.output = PackedLinear(
            attention.out_proj.weight, attention.out_proj.bias, reorder=reorder
        )
        table = getattr(attention, "relative_keys", None)
        self.relative_keys: Optional[Tensor] = None if table is None else table.detach()
        self.relative_keys_transposed = torch.empty(0) if table is None else table.detach().t()

    def project(self, x: Tensor, chosen: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Projects ``[R, q, D]`` to scaled queries ``[R, H, q', d]`` of the chosen tokens, and keys
        and values ``[2, R, H, q, d]`` of all tokens.

        Args:
            chosen: LongTensor ``[q']``, the tokens that need queries; None: all, with one product.
        """
        if chosen is None:
            fused = self._heads(self.all(x), 3)  # [3, R, H, q, d]
            return fused[0].mul_(self.scale), fused[1:]  # [R, H, q, d], [2, R, H, q, d]
        queries = self.query(x.index_select(1, chosen)).mul_(self.scale)  # [R, q', D]
        return self._heads(queries, 1)[0], self._heads(self.memorable(x), 2)

    def _heads(self, fused: Tensor, parts: int) -> Tensor:
        """Splits projections into heads: ``[R, q, parts * D]`` → ``[parts, R, H, q, d]``."""
        return fused.view(*fused.shape[:2], parts, self.heads, -1).permute(2, 0, 3, 1, 4)

    def __call__(self, x: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Self-attention of ``[R, q, D]`` without a cache; ``bias`` broadcasts to
        ``[R, H, q, q]``."""
        queries, memorable = self.project(x)
        keys, values = memorable.flatten(1, 2)  # [R * H, q, d] each
        return self.combine(queries, keys, values, bias)

    def relative_bias(self, queries: Tensor, index: Tensor) -> Tensor:
        """What relative positions add to the scores: the product of each query and its relative
        position vector for each key.

        Args:
            queries: ``[R, H, q, d]``, scaled.
            index: rows of the table of these vectors, LongTensor ``[1 or R, q, T]``.

        Returns:
            ``[R, H, q, T]``.
        """
        rows, heads, count, width = queries.shape
        # mm, as matmul needs longer to choose its kernel than to multiply. [R * H * q, 2w + 1]
        by_distance = torch.mm(queries.reshape(-1, width), self.relative_keys_transposed)
        by_distance = by_distance.view(rows, heads, count, -1)  # [R, H, q, 2w + 1]
        return by_distance.gather(
            3, index.unsqueeze(1).expand(*by_distance.shape[:3], index.size(2))
        )

    def combine(
        self, queries: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor]
    ) -> Tensor:
        """The attention of q queries in each of R rows to T keys, and its output projection.

        Args:
            queries: ``[R, H, q, d]``, scaled; H heads of d = D / H numbers.
            keys, values: ``[R * H, T, d]``.
            bias: added to the attention's scores, ``[1 or R, 1 or H, 1 or q, T]``, or None.

        Returns:
            ``[R, q, D]``.
        """
        rows, heads, count, width = queries.shape
        if bias is not None and bias.size(0) == bias.size(1) == 1:
            # [1 or q, T], the same for all rows and heads: the product broadcasts it.
            bias = bias[0, 0]
        elif bias is not None:
            bias = bias.expand(rows, heads, *bias.shape[2:]).reshape(rows * heads, *bias.shape[2:])
        mixed = attend(queries.reshape(rows * heads, count, width), keys, values, bias)
        return self.output(_merge_heads(mixed, rows, heads))  # [R, q, D]


class PackedCrossAttention:
    """Attention over the encoded source.

    The N beams of a sentence are N times as many queries for one source, which is never copied.

    Args:
        attention: fairseq's module.
        reorder: permits faster copies of the weights, see :class:`PackedLinear`.
    """

    def __init__(self, attention: FairseqModule, *, reorder: bool) -> None:
        check_attention(attention)
        parts = [attention.k_proj, attention.v_proj]
        bias = None if parts[0].bias is None else fuse_rows([part.bias for part in parts])
        self.memory = PackedLinear(
            fuse_rows([part.weight for part in parts]), bias, reorder=reorder
        )
        self.query = PackedLinear(attention.q_proj.weight, attention.q_proj.bias, reorder=reorder)
        self.heads, self.scale = attention.num_heads, attention.head_dim**-0.5
        self.output = PackedLinear(
            attention.out_proj.weight, attention.out_proj.bias, reorder=reorder
        )

    def remember(self, encoded: Tensor) -> Tuple[Tensor, Tensor]:
        """Projects the encoded source ``[B, S, D]`` to keys and values ``[B, H, S, d]``."""
        fused = self.memory(encoded)  # [B, S, 2 * D]
        batch, width = encoded.shape[:2]
        keys, values = (
            fused.view(batch, width, 2, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        )
        return keys, values  # [B, H, S, d] each

    def __call__(self, x: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Attention of ``[R, q, D]`` to keys and values ``[B * H, S, d]``: ``[R, q, D]``; ``bias``
        is ``[B, 1, 1, S]`` or None."""
        queries, bias = self._queries(x, keys, bias)  # [B * H, N * q, d], [B * H, 1, S]
        mixed = attend(queries, keys, values, bias)  # [B * H, N * q, d]
        # reshape: with d = 1 the merged heads keep strides that view() refuses.
        return self.output(
            _merge_heads(mixed, keys.size(0) // self.heads, self.heads).reshape(x.shape)
        )

    def weights(self, x: Tensor, keys: Tensor, bias: Optional[Tensor]) -> Tensor:
        """The attention weights of ``__call__``, which has the same arguments, averaged over the
        heads: ``[R, q, S]``."""
        queries, bias = self._queries(x, keys, bias)
        source = keys.size(1)  # S
        # With the identity as values [B * H, S, S], attend() returns the weights.
        each = torch.eye(source, dtype=keys.dtype, device=keys.device).expand(keys.size(0), -1, -1)
        mixed = attend(queries, keys, each, bias)  # [B * H, N * q, S]
        return mixed.view(-1, self.heads, *mixed.shape[1:]).mean(1).view(*x.shape[:2], source)

    def _queries(
        self, x: Tensor, keys: Tensor, bias: Optional[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """(the scaled queries ``[B * H, N * q, d]`` of ``x`` ``[R, q, D]``, ``bias`` as ``[B * H,
        1, S]`` or None); arguments as for ``__call__``."""
        heads, (rows, _, width) = self.heads, keys.shape
        # [R, q, D] -> [B, N * q, H, d] -> [B * H, N * q, d]
        queries = (
            self.query(x)
            .mul_(self.scale)
            .view(rows // heads, -1, heads, width)
            .transpose(1, 2)
            .reshape(rows, -1, width)  # [B * H, N * q, d]
        )
        if bias is not None:
            bias = bias.expand(-1, heads, -1, -1).reshape(rows, 1, -1)  # [B * H, 1, S]
        return queries, bias


class PackedCell:
    """The recurrent ``cell`` of a decoder layer, Marian's SSRU (:mod:`.recurrence`), with one
    matrix product for gates and candidate states; ``reorder`` permits faster copies of the weights,
    see :class:`PackedLinear`."""

    def __init__(self, cell: FairseqModule, *, reorder: bool) -> None:
        self.all = PackedLinear(
            fuse_rows([cell.forget.weight, cell.candidate.weight]), None, reorder=reorder
        )
        self.bias = cell.forget.bias

    def states(self, x: Tensor, before: Tensor) -> Tensor:
        """The state after each token, ``[R, q, D]``.

        Args:
            x: ``[R, q, D]``, the layer's vectors of the tokens.
            before: ``[R, D]``, the state before the first token.
        """
        forget, candidate = self.all(x).chunk(2, -1)  # [R, q, D] each
        return recur(torch.sigmoid(forget + self.bias), candidate, before)


class PackedLayer:
    """An encoder layer, and the base of a decoder layer: self-attention (or a recurrent cell) and
    feed-forward, in residual blocks with pre- or post-norm.

    Args:
        layer: fairseq's module.
        reorder: permits faster copies of the weights, see :class:`PackedLinear`.
    """

    def __init__(self, layer: FairseqModule, *, reorder: bool = False) -> None:
        for name in ("attn_ln", "c_attn", "ffn_layernorm", "w_resid"):
            if getattr(layer, name, None) is not None:
                raise UnsupportedModelError(
                    f"a layer has {name} (NormFormer scaling), which the decoder engine does not"
                    " support; decode this model with --task translation"
                )
        self.before: bool = layer.normalize_before
        self.cell = PackedCell(layer.cell, reorder=reorder) if hasattr(layer, "cell") else None
        if self.cell is None:
            self.attention = PackedSelfAttention(layer.self_attn, reorder=reorder)
        self.attention_norm = PackedNorm(layer.self_attn_layer_norm)
        self.feed_forward = PackedFeedForward(layer, reorder=reorder)
        self.final_norm = PackedNorm(layer.final_layer_norm)

    def block(
        self,
        x: Tensor,
        norm: PackedNorm,
        inner: Callable[[Tensor], Tensor],
        chosen: Optional[Tensor] = None,
    ) -> Tensor:
        """A residual block of ``[R, q, D]``: x + inner(norm(x)) with pre-norm, norm(x + inner(x))
        with post-norm.

        Args:
            chosen: LongTensor ``[q']``, indices of the tokens for which ``inner`` computes vectors,
                so that the block returns ``[R, q', D]``; None: all.
        """
        kept = x if chosen is None else x.index_select(1, chosen)  # [R, q', D]
        if self.before:
            return kept + inner(norm(x))
        return norm(kept + inner(x))


class PackedDecoderLayer(PackedLayer):
    """A decoder layer: a :class:`PackedLayer`, which has the same arguments, with attention to the
    source (``cross``)."""

    def __init__(self, layer: FairseqModule, *, reorder: bool = False) -> None:
        super().__init__(layer, reorder=reorder)
        if getattr(layer, "encoder_attn", None) is None:
            raise UnsupportedModelError(
                "the decoder has layers without encoder attention: it is not a translation model;"
                " give an encoder-decoder model"
            )
        self.cross = PackedCrossAttention(layer.encoder_attn, reorder=reorder)
        self.cross_norm = PackedNorm(layer.encoder_attn_layer_norm)


def all_layers(side: FairseqModule) -> List[FairseqModule]:
    """All layers of the encoder or decoder ``side``; a layer that is used in several places is
    listed once for each. Iterating over ``side.layers`` leaves out random ones while a model with
    layer drop is trained."""
    return [side.layers[number] for number in range(len(side.layers))]


def check_attention(attention: FairseqModule) -> None:
    """Refuses attention variants whose result differs from the plain formula.

    Raises:
        UnsupportedModelError: the attention is such a variant; the message names it.
    """
    found: List[str] = []
    if getattr(attention, "bias_k", None) is not None:
        found.append("add_bias_kv")
    if getattr(attention, "add_zero_attn", False):
        found.append("add_zero_attn")
    if getattr(attention, "use_xformers", False):
        found.append("xformers")
    if isinstance(attention, MultiheadAttention) and type(attention) is not MultiheadAttention:
        found.append(type(attention).__name__)
    if found:
        raise UnsupportedModelError(
            f"the attention uses {', '.join(found)}, which the decoder engine does not support; "
            "decode this model with --task translation"
        )
