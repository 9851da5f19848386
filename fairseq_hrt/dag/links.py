"""Links between vertices: a mixture of attention heads h, weighted by gates g, over the vertices
that follow (DA-Transformer, section 3.2).

S_h(u, v) = q_h(u) k_h(v) / sqrt(d),  v > u;   log P(v | u) = logsumexp_h [ log_softmax_v S_h(u, .)
+ log_softmax_h g(u) ]
"""

from typing import Any, List, Optional, Tuple

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..ops import at_least_float32

FEATURES = ("feature", "position", "sinposition")
# Hides a link if added to its score. Finite, so that a row without any link has no NaN.
HIDDEN = -1e30


class LinkPredictor(nn.Module):
    """Computes the log-probabilities of the links between vertices from the decoder's features.

    Args:
        width: D, the width of the features.
        heads: H, the number of attention heads that are mixed.
        features: what links are computed from: some of FEATURES, joined by colons; see
            ``--dag-link-features``.
        size: the most vertices of a graph.
        reach: the largest v - u of a link; None: unlimited.

    Raises:
        ValueError: unknown features, or a reach below 1.
    """

    def __init__(
        self, width: int, heads: int, *, features: str, size: int, reach: Optional[int]
    ) -> None:
        super().__init__()
        self.features: List[str] = features.split(":")
        unknown = [name for name in self.features if name not in FEATURES]
        if unknown or len(set(self.features)) < len(self.features):
            raise ValueError(
                f"--dag-link-features {features}: join some of {', '.join(FEATURES)} by colons,"
                " each once"
            )
        if reach is not None and reach < 1:
            raise ValueError(f"--dag-max-transition-length {reach} must be at least 1")
        self.heads, self.reach, self.size = heads, reach, size
        combined = width * len(self.features)
        self.query = nn.Linear(combined, width)
        self.key = nn.Linear(combined, width)
        self.gate = nn.Linear(combined, heads)
        self.position: Optional[nn.Embedding] = None
        self.sinusoids: Tensor
        if "position" in self.features:
            self.position = nn.Embedding(size, width)
            nn.init.normal_(self.position.weight, std=width**-0.5)
        if "sinposition" in self.features:
            sinusoids = SinusoidalPositionalEmbedding.get_embedding(size, width)
            self.register_buffer("sinusoids", sinusoids, persistent=False)

    def describe(self, features: Tensor) -> Tensor:
        """The input of the linear layers, ``[B, L, D * parts]``: decoder ``features``
        ``[B, L, D]`` and position vectors, concatenated as ``--dag-link-features`` lists them."""
        size = features.size(1)
        parts = {"feature": features}
        if self.position is not None:
            parts["position"] = self.position.weight[:size].expand_as(features)
        if "sinposition" in self.features:
            parts["sinposition"] = self.sinusoids[:size].to(features).expand_as(features)
        return torch.cat([parts[name] for name in self.features], -1)  # [B, L, D * parts]

    def packed(self, rows: int) -> Tuple[Tensor, Tensor]:
        """The layers of queries, keys and gates as one linear layer: its output for a vertex is the
        matrix times the decoder's features, plus the vertex's row of the table.

        Args:
            rows: number of rows of the table, one for each vertex.

        Returns:
            (matrix ``[2 D + H, D]``; table of what positions and biases add to the product,
            ``[rows, 2 D + H]``, with a single row if links do not depend on positions).
        """
        layers = (self.query, self.key, self.gate)
        # [2 D + H, D * parts]
        weight = torch.cat([layer.weight for layer in layers])
        table = torch.cat([layer.bias for layer in layers]).unsqueeze(0)
        width = self.query.out_features
        own = weight.new_zeros(len(weight), width)
        for name, part in zip(self.features, weight.split(width, 1)):
            if name == "feature":
                own = part.contiguous()
            elif name == "position" and self.position is not None:
                table = table + self.position.weight[:rows] @ part.t()
            else:
                table = table + self.sinusoids[:rows].to(part) @ part.t()
        return own, table

    def forward(self, features: Tensor, vertex_lengths: Tensor) -> Tensor:
        """log P(v | u) of the link from each vertex u to each v, ``[B, L, L]``, float32 at least;
        rows of the last vertex and of padding are -inf.

        Args:
            features: ``[B, L, D]``, the decoder's output.
            vertex_lengths: LongTensor ``[B]``, the number of vertices of each graph.
        """
        described = self.describe(features)  # [B, L, D * parts]
        dtype = at_least_float32(features.dtype)
        batch, size = features.shape[:2]
        # [B, L, D] -> [B, H, L, d]
        queries, keys = (
            layer(described).to(dtype).view(batch, size, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key)
        )
        gates = torch.log_softmax(self.gate(described).to(dtype), -1).transpose(1, 2)  # [B, H, L]
        return _MixedLinks.apply(
            queries, keys, gates, allowed_links(size, vertex_lengths, self.reach)
        )


def allowed_links(size: int, vertex_lengths: Tensor, reach: Optional[int]) -> Tensor:
    """Whether vertex u may link to vertex v: 0 < v - u <= ``reach`` (None: any distance), and v is
    not padding. BoolTensor ``[B, L, L]`` with L = ``size``."""
    vertex = torch.arange(size, device=vertex_lengths.device)
    ahead = vertex - vertex.unsqueeze(1)  # [L, L]
    forward = ahead > 0 if reach is None else (ahead > 0) & (ahead <= reach)
    return forward & (vertex < vertex_lengths.unsqueeze(1)).unsqueeze(1)  # [B, L, L]


class _MixedLinks(torch.autograd.Function):
    """log P(v | u), ``[B, L, L]``, as a mixture of attention heads: from queries and keys
    ``[B, H, L, d]``, log-probabilities of gates ``[B, H, L]`` and :func:`allowed_links`. Computed
    head by head, so that two or three tensors ``[B, L, L]`` are in memory, not several per head.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, gates: Tensor, allowed: Tensor) -> Tensor:
        missing = ~allowed
        with torch.autocast(queries.device.type, enabled=False):
            mixed = _head_log_probs(queries[:, 0], keys[:, 0], missing) + gates[:, 0].unsqueeze(2)
            for head in range(1, queries.size(1)):
                # [B, L, L]
                own = _head_log_probs(queries[:, head], keys[:, head], missing) + gates[
                    :, head
                ].unsqueeze(2)
                mixed = torch.logaddexp(mixed, own)
            # Rows without any link hold NaN so far.
            mixed = mixed.masked_fill_(missing, float("-inf"))  # [B, L, L]
        ctx.save_for_backward(queries, keys, gates, missing, mixed)
        return mixed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, Tensor, None]:
        queries, keys, gates, missing, mixed = ctx.saved_tensors
        of_queries, of_keys, of_gates = (
            torch.empty_like(queries),
            torch.empty_like(keys),
            torch.empty_like(gates),
        )
        scale = queries.size(3) ** -0.5
        with torch.autocast(queries.device.type, enabled=False):
            for head in range(queries.size(1)):
                own = _head_log_probs(queries[:, head], keys[:, head], missing)
                # [B, L, L], this head's share of each link's probability, times the gradient.
                share = (
                    (own + gates[:, head].unsqueeze(2))
                    .sub_(mixed)
                    .exp_()
                    .mul_(gradient)
                    .masked_fill_(missing, 0.0)
                )
                total = share.sum(2)  # [B, L]
                of_gates[:, head] = total
                share.sub_(own.exp_().masked_fill_(missing, 0.0).mul_(total.unsqueeze(2))).mul_(
                    scale
                )
                of_queries[:, head] = torch.bmm(share, keys[:, head])  # [B, L, d]
                of_keys[:, head] = torch.bmm(share.transpose(1, 2), queries[:, head])  # [B, L, d]
        return of_queries, of_keys, of_gates, None


def _head_log_probs(queries: Tensor, keys: Tensor, missing: Tensor) -> Tensor:
    """log_softmax over v of one head's scores of the links from u to v: ``[B, L, L]``.

    Args:
        queries, keys: ``[B, L, d]``.
        missing: BoolTensor ``[B, L, L]``, True where u has no link to v.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2)) * queries.size(2) ** -0.5  # [B, L, L]
    return torch.log_softmax(scores.masked_fill_(missing, float("-inf")), -1)
