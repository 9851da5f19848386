"""fairseq's Transformer layers as plain tensors with fused projections, and the two primitives they
are made of.

fairseq's modules are written for training: each call of its attention takes dozens of small Python
steps, which is most of the time of a decoding step. The weights here are the module's own (see
:mod:`.shared_weights`).
"""

from typing import Any, Callable, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from .linear import PackedLinear
from .recurrence import recur
from .shared_weights import fuse_rows

# A module of fairseq, which is not typed: an attribute of nn.Module would be ``Tensor | Module`` to
# a type checker.
FairseqModule = Any


class UnsupportedModelError(ValueError):
    """A model has a part that the engine does not decode; the message names the part and what to
    use instead."""


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """softmax(queries keys^T + bias) values, the queries scaled already.

    Two plain batched products: for the few queries of a decoding step they are several times faster
    on a CPU than ``scaled_dot_product_attention``, and the relative term makes the bias dense
    anyway.

    Args:
        queries: ``[G, q, d]``; G is any flattened batch.
        keys, values: ``[G, T, d]``.
        bias: broadcastable to ``[G, q, T]``; -inf hides a key.

    Returns:
        ``[G, q, d]``.
    """
    keys = keys.transpose(1, 2)
    scores = torch.bmm(queries, keys) if bias is None else torch.baddbmm(bias, queries, keys)
    # As fairseq does; see at_least_float32.
    if scores.dtype.itemsize < 4:
        return torch.bmm(torch.softmax(scores, -1, dtype=torch.float32).to(values.dtype), values)
    return torch.bmm(torch.softmax(scores, -1), values)


def _merge_heads(mixed: Tensor, rows: int, heads: int) -> Tensor:
    """``[R * H, q, d]`` → ``[R, q, H * d]``."""
    _, count, width = mixed.shape
    if count == 1:
        # Nothing changes places in memory.
        return mixed.view(rows, 1, heads * width)
    return mixed.view(rows, heads, count, width).transpose(1, 2).reshape(rows, count, heads * width)


class PackedNorm:
    """A layer normalisation; ``None`` where the model has none."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.shape, self.weight, self.bias, self.eps = (
            norm.normalized_shape,
            norm.weight,
            norm.bias,
            norm.eps,
        )

    def __call__(self, x: Tensor) -> Tensor:
        # F.layer_norm calls this after looking for subclasses of tensors.
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class PackedFeedForward:
    """fc2(activation(fc1(x)))."""

    def __init__(self, layer: FairseqModule, *, reorder: bool) -> None:
        # In place: nobody else sees the inner vectors.
        self.activation: Callable[[Tensor], Tensor] = (
            torch.relu_ if layer.activation_fn is F.relu else layer.activation_fn
        )
        self.inner = PackedLinear(layer.fc1.weight, layer.fc1.bias, reorder=reorder)
        self.outer = PackedLinear(layer.fc2.weight, layer.fc2.bias, reorder=reorder)

    def __call__(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class PackedSelfAttention:
    """Self-attention with one product for queries, keys and values, and optional relative keys."""

    def __init__(self, attention: FairseqModule, *, reorder: bool) -> None:
        check_attention(attention)
        parts = [attention.q_proj, attention.k_proj, attention.v_proj]
        weight = fuse_rows([part.weight for part in parts])
        bias = None if parts[0].bias is None else fuse_rows([part.bias for part in parts])
        width = weight.size(1)
        biases = (None, None) if bias is None else (bias[:width], bias[width:])
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
        """Scaled queries ``[R, H, q', d]`` of the chosen tokens, keys and values
        ``[2, R, H, q, d]`` of all ``[R, q, D]``.

        Args:
            chosen: LongTensor ``[q']``; None: every token asks, and one product computes all three.
        """
        if chosen is None:
            fused = self._heads(self.all(x), 3)
            return fused[0].mul_(self.scale), fused[1:]
        queries = self.query(x.index_select(1, chosen)).mul_(self.scale)
        return self._heads(queries, 1)[0], self._heads(self.memorable(x), 2)

    def _heads(self, fused: Tensor, parts: int) -> Tensor:
        """``[R, q, parts * D]`` → ``[parts, R, H, q, d]``."""
        return fused.view(*fused.shape[:2], parts, self.heads, -1).permute(2, 0, 3, 1, 4)

    def __call__(self, x: Tensor, bias: Optional[Tensor]) -> Tensor:
        """``[R, q, D]`` attends itself; ``bias`` broadcasts to ``[R, H, q, q]``."""
        queries, memorable = self.project(x)
        keys, values = memorable.flatten(1, 2)
        return self.combine(queries, keys, values, bias)

    def relative_bias(self, queries: Tensor, index: Tensor) -> Tensor:
        """q R^T of each query for each key.

        Args:
            queries: ``[R, H, q, d]``, scaled.
            index: rows of the relative table, LongTensor ``[1 or R, q, T]``.

        Returns:
            ``[R, H, q, T]``.
        """
        rows, heads, count, width = queries.shape
        # One flat product: matmul would spend more time on finding that out than on the product.
        by_distance = torch.mm(queries.reshape(-1, width), self.relative_keys_transposed)
        by_distance = by_distance.view(rows, heads, count, -1)
        return by_distance.gather(
            3, index.unsqueeze(1).expand(*by_distance.shape[:3], index.size(2))
        )

    def combine(
        self, queries: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor]
    ) -> Tensor:
        """Attention of scaled queries ``[R, H, q, d]`` over keys ``[R * H, T, d]`` and the output
        projection: ``[R, q, D]``.

        ``bias`` is ``[1 or R, 1 or H, 1 or q, T]``.
        """
        rows, heads, count, width = queries.shape
        if bias is not None and bias.size(0) == bias.size(1) == 1:
            # The same for all rows and heads: the product broadcasts it.
            bias = bias[0, 0]
        elif bias is not None:
            bias = bias.expand(rows, heads, *bias.shape[2:]).reshape(rows * heads, *bias.shape[2:])
        mixed = attend(queries.reshape(rows * heads, count, width), keys, values, bias)
        return self.output(_merge_heads(mixed, rows, heads))


class PackedCrossAttention:
    """Attention over the encoded source. Beams of a sentence are further queries of it: the source
    is never copied."""

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
        """``[B, S, D]`` → keys and values ``[B, H, S, d]``."""
        fused = self.memory(encoded)
        batch, width = encoded.shape[:2]
        keys, values = (
            fused.view(batch, width, 2, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        )
        return keys, values

    def __call__(self, x: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor]) -> Tensor:
        """``[R, q, D]`` attends ``[B * H, S, d]``; ``bias`` is ``[B, 1, 1, S]`` or None."""
        queries, bias = self._queries(x, keys, bias)
        mixed = attend(queries, keys, values, bias)
        # Heads of width 1 are merged without a copy, into strides that no view takes.
        return self.output(
            _merge_heads(mixed, keys.size(0) // self.heads, self.heads).reshape(x.shape)
        )

    def weights(self, x: Tensor, keys: Tensor, bias: Optional[Tensor]) -> Tensor:
        """What the attention of ``__call__`` falls on, averaged over the heads: ``[R, q, S]``."""
        queries, bias = self._queries(x, keys, bias)
        source = keys.size(1)
        # Values that copy the weights themselves.
        each = torch.eye(source, dtype=keys.dtype, device=keys.device).expand(keys.size(0), -1, -1)
        mixed = attend(queries, keys, each, bias)
        return mixed.view(-1, self.heads, *mixed.shape[1:]).mean(1).view(*x.shape[:2], source)

    def _queries(
        self, x: Tensor, keys: Tensor, bias: Optional[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Scaled queries ``[B * H, N * q, d]`` of ``[R, q, D]``, and the bias ``[B * H, 1, S]``."""
        heads, (rows, _, width) = self.heads, keys.shape
        # [R, q, D] -> [B, N * q, H, d] -> [B * H, N * q, d]
        queries = (
            self.query(x)
            .mul_(self.scale)
            .view(rows // heads, -1, heads, width)
            .transpose(1, 2)
            .reshape(rows, -1, width)
        )
        if bias is not None:
            bias = bias.expand(-1, heads, -1, -1).reshape(rows, 1, -1)
        return queries, bias


class PackedCell:
    """A recurrent unit (SSRU) with one product for gates and candidates."""

    def __init__(self, cell: FairseqModule, *, reorder: bool) -> None:
        self.all = PackedLinear(
            fuse_rows([cell.forget.weight, cell.candidate.weight]), None, reorder=reorder
        )
        self.bias = cell.forget.bias

    def states(self, x: Tensor, before: Tensor) -> Tensor:
        """The states after each token.

        Args:
            x: ``[R, q, D]``.
            before: ``[R, D]``, the states before the first token.

        Returns:
            ``[R, q, D]``.
        """
        forget, candidate = self.all(x).chunk(2, -1)
        return recur(torch.sigmoid(forget + self.bias), candidate, before)


class PackedLayer:
    """One encoder layer, or what a decoder layer has of it: residual blocks, pre- or post-norm,
    around the parts above.

    Args:
        layer: fairseq's module.
        reorder: see :class:`PackedLinear`.
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
        """The residual connection around ``inner`` with its normalisation before or after.

        Args:
            chosen: LongTensor ``[q']``, the tokens that ``inner`` returns; None: all.
        """
        kept = x if chosen is None else x.index_select(1, chosen)
        if self.before:
            return kept + inner(norm(x))
        return norm(kept + inner(x))


class PackedDecoderLayer(PackedLayer):
    """One decoder layer; arguments as :class:`PackedLayer`."""

    def __init__(self, layer: FairseqModule, *, reorder: bool = False) -> None:
        super().__init__(layer, reorder=reorder)
        if getattr(layer, "encoder_attn", None) is None:
            raise UnsupportedModelError(
                "the decoder has layers without encoder attention: it is not a translation model"
            )
        self.cross = PackedCrossAttention(layer.encoder_attn, reorder=reorder)
        self.cross_norm = PackedNorm(layer.encoder_attn_layer_norm)


def check_attention(attention: FairseqModule) -> None:
    """Refuses attention variants whose result differs from the plain formula.

    Raises:
        UnsupportedModelError: naming the variant.
    """
    found: List[str] = []
    if getattr(attention, "bias_k", None) is not None:
        found.append("add_bias_kv")
    if getattr(attention, "add_zero_attn", False):
        found.append("add_zero_attn")
    if isinstance(attention, MultiheadAttention) and type(attention) is not MultiheadAttention:
        found.append(type(attention).__name__)
    if found:
        raise UnsupportedModelError(
            f"the attention uses {', '.join(found)}, which the decoder engine does not support; "
            "decode this model with --task translation"
        )
