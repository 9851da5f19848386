"""The graphs of a batch in decoding; token probabilities are computed only for the vertices where a
search needs them."""

import itertools
from dataclasses import dataclass
from typing import Iterator, List, Mapping, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..engine import EngineEnsemble, Memory, TransformerEngine, log_mean, log_softmax
from ..ops import CHUNK, at_least_float32
from .links import HIDDEN, LinkPredictor, allowed_links


class PackedLinks:
    """A :class:`LinkPredictor` for inference: queries, keys and gates come from one matrix product
    of the decoder's features, and what position vectors add to it from a table made beforehand."""

    def __init__(self, predictor: LinkPredictor) -> None:
        self.predictor = predictor
        self.heads, self.reach = predictor.heads, predictor.reach
        self.weight, self.table = torch.empty(0), torch.empty(0)

    @torch.no_grad()
    @torch.inference_mode(False)
    def refresh(self) -> None:
        """Copies the predictor's present weights, in place if possible, since recorded CUDA graphs
        read the copy at its first address."""
        for name, new in zip(("weight", "table"), self.predictor.packed(self.predictor.size)):
            old: Tensor = getattr(self, name)
            if (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device):
                old.copy_(new)
            else:
                setattr(self, name, new)

    def __call__(self, features: Tensor, vertex_lengths: Tensor) -> Tensor:
        """The probabilities P(v | u) of links, ``[B, L, L]``, where :meth:`LinkPredictor.forward`
        returns their logarithms.

        Args:
            features: ``[B, L, D]``, the decoder's output.
            vertex_lengths: LongTensor ``[B]``, vertices of each graph.
        """
        allowed = allowed_links(features.size(1), vertex_lengths, self.reach)  # [B, L, L]
        hidden = torch.zeros(
            allowed.shape, dtype=at_least_float32(features.dtype), device=features.device
        ).masked_fill_(~allowed, HIDDEN)  # [B, L, L]
        # [B, L, 2 * D + H]
        projected = F.linear(features, self.weight) + self.table[: features.size(1)]
        return self.probabilities(projected, hidden, allowed.any(2).to(hidden))

    def probabilities(self, projected: Tensor, hidden: Tensor, begins: Tensor) -> Tensor:
        """The probabilities P(v | u) of links, ``[B, L, L]``.

        Args:
            projected: ``[B, L, 2 * D + H]``, the queries, keys and gates.
            hidden: ``[B, L, L]``, 0 for possible links, else ``HIDDEN`` (a large negative number)
                or less.
            begins: ``[B, L]``, 1 for vertices where links begin, else 0.
        """
        batch, size = projected.shape[:2]
        pairs, gates = projected.split((projected.size(2) - self.heads, self.heads), 2)
        # [B, L, 2 * D] -> [2, B, H, L, d]
        pairs = pairs.view(batch, size, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        # One copy, which also converts.
        copied = torch.empty(pairs.shape, dtype=hidden.dtype, device=pairs.device).copy_(pairs)
        queries, keys = copied.flatten(1, 2)  # [B * H, L, d] each
        gates = torch.softmax(gates, -1, dtype=hidden.dtype)  # [B, L, H]
        gates = (gates * begins.unsqueeze(2)).transpose(1, 2).unsqueeze(3)  # [B, H, L, 1]
        # [B * H, L, L] -> [B, H, L, L]
        scores = torch.bmm(queries, keys.transpose(1, 2)).view(batch, self.heads, size, size)
        scores = torch.add(hidden.unsqueeze(1), scores, alpha=queries.size(2) ** -0.5)
        return torch.softmax(scores, -1).mul_(gates).sum(1)  # [B, L, L]


@dataclass
class Graphs:
    """The graphs of a batch.

    Attributes:
        links: ``[B, L, L]``, log P(v | u) of the link from vertex u to vertex v.
        lengths: LongTensor ``[B]``, L, the number of vertices of each sentence.
        features: the decoder's output ``[B, L, D]``, one tensor for each model of the ensemble.
        engines: the engine of each model, which computes logits from its features.
        penalties: {token: number subtracted from its log-probability at inner vertices}; infinity
            forbids it.
        bos, eos: ids of the tokens that the first and the last vertex emit.
    """

    links: Tensor
    lengths: Tensor
    features: List[Tensor]
    engines: List[TransformerEngine]
    penalties: Mapping[int, float]
    bos: int
    eos: int

    @property
    def last(self) -> Tensor:
        """The last vertex of each sentence: LongTensor ``[B]``."""
        return self.lengths - 1

    def best_tokens(self, chosen: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """The best token of each vertex: (log-probabilities, tokens), each ``[B, L]``. The first
        vertex emits ``<s>``, the last ``</s>``. If ``chosen``, BoolTensor ``[B, L]``, is given,
        other vertices are not computed and hold 0."""
        if chosen is None:
            chosen = torch.ones(self.links.shape[:2], dtype=torch.bool, device=self.links.device)
        pieces = self._in_pieces([features[chosen] for features in self.features])
        found = [piece.max(1) for piece in pieces]
        best, best_token = (torch.cat(parts) for parts in zip(*found))  # [n] each
        scores = torch.zeros(chosen.shape, dtype=best.dtype, device=best.device)  # [B, L]
        tokens = torch.zeros(chosen.shape, dtype=torch.long, device=best.device)
        scores[chosen], tokens[chosen] = best, best_token
        return self._ends(scores, tokens)

    def log_probs(self) -> Tensor:
        """Log-probabilities of all tokens at all vertices, penalties subtracted: ``[B, L, V]``."""
        return self._penalised(self._log_probs(self.features))

    def probabilities(self, weight: float = 1.0) -> Tensor:
        """P(token | vertex) ** weight of all tokens at all vertices, penalties included:
        ``[B, L, V]``. Computed in pieces, so that only one tensor of this size is in memory.
        """
        pieces = self._in_pieces()
        first = next(pieces)  # [n, V]
        whole = first.new_empty(self.links.size(0) * self.links.size(1), first.size(1))
        place = 0
        for piece in itertools.chain([first], pieces):
            # weight * -inf = -inf: forbidden tokens have probability 0 under any positive weight.
            whole[place : place + len(piece)] = (piece if weight == 1 else piece * weight).exp()
            place += len(piece)
        return whole.view(*self.links.shape[:2], -1)  # [B, L, V]

    def top_tokens(self, count: int) -> Tuple[Tensor, Tensor]:
        """The ``count`` best tokens of each vertex, best first: (log-probabilities, tokens), each
        ``[B, L, count]``."""
        found = [piece.topk(min(count, piece.size(1)), 1) for piece in self._in_pieces()]
        shape = (*self.links.shape[:2], -1)
        scores, tokens = (torch.cat(parts).view(shape) for parts in zip(*found))
        return scores, tokens

    def _in_pieces(self, features: Optional[List[Tensor]] = None) -> Iterator[Tensor]:
        """Yields penalised log-probabilities ``[n, V]`` of n vertices at a time, of all vertices or
        of those with the given ``features`` ``[N, D]`` of each model."""
        features = features or self.features
        count = max(1, CHUNK // self.engines[0].output.weight.size(0))
        for parts in zip(*(own.flatten(0, -2).split(count) for own in features)):
            yield self._penalised(self._log_probs(list(parts)))

    def end_scores(self) -> Tensor:
        """log P(<s> | first vertex) and log P(</s> | last vertex): ``[B, 2]``."""
        rows = torch.arange(len(self.lengths), device=self.lengths.device)  # [B]
        found = self._log_probs(
            [torch.stack([part[:, 0], part[rows, self.last]], 1) for part in self.features]
        )
        return torch.stack([found[:, 0, self.bos], found[:, 1, self.eos]], 1)  # [B, 2]

    def _ends(self, scores: Tensor, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        ends = self.end_scores().to(scores.dtype)
        rows = torch.arange(len(self.lengths), device=self.lengths.device)
        scores[:, 0], scores[rows, self.last] = ends.unbind(1)
        tokens[:, 0], tokens[rows, self.last] = self.bos, self.eos
        return scores, tokens

    def _log_probs(self, features: List[Tensor]) -> Tensor:
        """Log-probabilities ``[..., V]`` for ``features`` ``[..., D]`` of each model: the logarithm
        of the models' mean probability."""
        return log_mean(
            [log_softmax(engine.logits(part)) for engine, part in zip(self.engines, features)]
        )

    def _penalised(self, log_probs: Tensor) -> Tensor:
        for token, penalty in self.penalties.items():
            log_probs[..., token] -= penalty
        return log_probs


class GraphBuilder:
    """Builds graphs by one decoder pass of each model of an ensemble.

    Args:
        ensemble: dag_transformer models.
        penalties: {token: number subtracted from its log-probability at inner vertices}.
    """

    def __init__(self, ensemble: EngineEnsemble, penalties: Mapping[int, float]) -> None:
        self.ensemble, self.penalties = ensemble, penalties
        self.decoders = [engine.model.decoder for engine in ensemble.engines]
        self.links = [PackedLinks(decoder.links) for decoder in self.decoders]

    def refresh(self, *, static_weights: bool) -> None:
        """Copies the models' weights of the links: at the first call, after a change of device or
        dtype and, unless ``static_weights`` promises that they do not change, at every call."""
        for links, decoder in zip(self.links, self.decoders):
            weight = decoder.links.query.weight
            moved = not links.weight.numel() or (links.weight.device, links.weight.dtype) != (
                weight.device,
                weight.dtype,
            )
            if moved or not static_weights:
                links.refresh()

    def build(self, memories: List[Memory], vertex_lengths: Tensor) -> Graphs:
        """The graphs of a batch. ``memories`` are its encoded sources, one :class:`Memory` for each
        model; ``vertex_lengths``, LongTensor ``[B]``, the number of vertices of each graph."""
        decoder = self.decoders[0]
        tokens = decoder.vertex_inputs(vertex_lengths)  # [B, L]
        size = tokens.size(1)
        positions = torch.arange(size, device=tokens.device)  # [L]
        visible = None
        if bool((vertex_lengths < size).any()):
            visible = (positions < vertex_lengths.unsqueeze(1)).unsqueeze(1)  # [B, 1, L]
        self.ensemble.reserve_positions(size)
        counters = self.ensemble.counters
        features: List[Tensor] = []
        averaged: Optional[Tensor] = None
        for engine, memory, links in zip(self.ensemble.engines, memories, self.links):
            counters.decoder_calls += 1
            counters.decoder_tokens += tokens.numel()
            state = engine.start(memory)
            own = engine.step(  # [B, L, D]
                state, tokens, positions, visible=visible, causal=False, remember=False
            )
            probabilities = links(own, vertex_lengths)  # [B, L, L]
            features.append(own)
            averaged = probabilities if averaged is None else averaged + probabilities
        assert averaged is not None, "an ensemble has a model"
        return Graphs(
            links=(averaged / len(features) if len(features) > 1 else averaged).log(),
            lengths=vertex_lengths,
            features=features,
            engines=self.ensemble.engines,
            penalties=self.penalties,
            bos=decoder.special["bos"],
            eos=decoder.special["eos"],
        )
