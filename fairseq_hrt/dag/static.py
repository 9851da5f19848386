"""A dag from source tokens to the path in one function of fixed shapes, which a CUDA graph records.

On a GPU the cost of a small batch is that of its launches. Here encoder, decoder, links and search
are one function that reads nothing back to the host and whose shapes depend on the bucket of the
batch alone. The sizes of the graphs follow from the number of source tokens: whatever depends on
them is looked up in tables, which the host makes once for each bucket.
"""

from dataclasses import dataclass
from typing import Dict, Hashable, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor

from ..engine import Memory, TransformerEngine, at_least_float32, check_number, length_limits
from ..engine.buckets import LENGTHS, ROWS, bucket
from ..ops import CHUNK, LEAST_MASS, between_words, fixed_viterbi, follow_pointers
from .graph import GraphBuilder, PackedLinks
from .graph_size import vertices_from_source
from .paths import best_successors

#: Hides a link. Finite: a row without any link stays free of NaN.
_HIDDEN = -1e30
#: Of the links of all heads. Above, the kernels take longer than their launches.
_MOST_LINKS = 2**28


@dataclass(frozen=True)
class PathSearch:
    """How a path is found.

    Attributes:
        viterbi: the best path of every length, and the best length; False: the best links.
        weight: of the tokens' log-probabilities in the search.
        suppress: whether the links lead from each word to another word; see
            :func:`..ops.without_repeats`.
        length_beta: see :func:`..ops.joint_viterbi`.
        scale: lambda.
        max_len_a, max_len_b: of the longest translation.
        most: the most vertices.
    """

    viterbi: bool
    weight: float
    suppress: bool
    length_beta: float
    scale: float
    max_len_a: float
    max_len_b: int
    most: int

    @property
    def all_tokens(self) -> bool:
        """Whether the search looks at the tokens of all vertices."""
        return self.suppress or bool(self.weight)


class FoundPath(NamedTuple):
    """The best path of one sentence.

    Attributes:
        vertices, tokens: of the path, the first vertex included.
        parts: log-probability of each token and of the link into its vertex.
        limit: the most words before ``</s>``.
    """

    vertices: List[int]
    tokens: List[int]
    parts: List[float]
    limit: int


class _Tables(NamedTuple):
    """What depends on the number of source tokens, for all numbers up to S.

    Attributes:
        inputs: LongTensor ``[S + 1, L]``, the decoder's input.
        bias: ``[S + 1, L]``, 0 for the vertices of the graph and -inf for padding.
        last: LongTensor ``[S + 1]``, the last vertex.
        numbers: ``[S + 1, 4 * L + K]``, by vertex: 1 where links begin, else 0; the opposite; 0 for
            vertices of the graph, else ``_HIDDEN``; 0 for inner vertices, else -inf. By number of
            inner vertices: 0 if a path may have as many, else -inf.
        ahead: ``[L, L]``, 0 for links to later vertices within reach, else ``_HIDDEN``.
        vertex: LongTensor ``[L]``, 0 to L - 1.
        powers: ``[K]``, k ** beta.
        finite: whether all of these are.
        penalties: ``[P]``, subtracted from the log-probabilities of the tokens from ``first`` on.
        first: the first of these tokens.
        sizes, limits: vertices and most words, on the host.
        clamped: whether the decoder's positions cut the graph.
    """

    inputs: Tensor
    bias: Tensor
    last: Tensor
    numbers: Tensor
    ahead: Tensor
    vertex: Tensor
    powers: Tensor
    finite: bool
    penalties: Tensor
    first: int
    sizes: List[int]
    limits: List[int]
    clamped: List[bool]


class StaticPaths:
    """Finds the paths of batches; see this module's text.

    Args:
        builder: of the graphs, for one model.
        search: how paths are found.
    """

    def __init__(self, builder: GraphBuilder, search: PathSearch) -> None:
        self.builder, self.search = builder, search
        self._tables: Dict[Hashable, _Tables] = {}

    @property
    def engine(self) -> TransformerEngine:
        """The only engine."""
        return self.builder.ensemble.engines[0]

    @property
    def _links(self) -> PackedLinks:
        return self.builder.links[0]

    def obstacle(self, tokens: Tensor) -> Optional[str]:
        """Why this batch ``[B, S]`` cannot be decoded in this way; None: it can."""
        batch, width = tokens.shape
        decoder = self.builder.decoders[0]
        if len(self.builder.ensemble.engines) > 1:
            return "an ensemble of models"
        if decoder.length_head is not None:
            return "--dag-upsample-base predict, with which sizes depend on what was encoded"
        if not self.engine.encoder_layers:
            return "an encoder that is not fairseq's own"
        if self.engine.recurrent or self.engine.distances is not None:
            return "a decoder with recurrent cells or relative positions"
        if batch > ROWS[-1] or width > LENGTHS[-1]:
            return f"more than {ROWS[-1]} sentences or {LENGTHS[-1]} source tokens"
        tables = self._tables_of(tokens)
        links = bucket(batch, ROWS) * self._links.heads * len(tables.vertex) ** 2
        if links > _MOST_LINKS:
            return f"a batch of large graphs ({links:,} links; at most {_MOST_LINKS:,})"
        if not tables.finite:
            return f"--dag-decode-length-beta {self.search.length_beta}, which overflows"
        return None

    def find(self, tokens: Tensor) -> Optional[Tuple[List[FoundPath], bool]]:
        """The best path of each sentence.

        Args:
            tokens: LongTensor ``[B, S]``, padded on either side.

        Returns:
            (paths, whether a graph was cut to the decoder's positions); None if there are sentences
            that need arithmetic of another kind: repetitions whose probabilities underflow, or no
            path within the limit.
        """
        tables = self._tables_of(tokens)
        batch, width = tokens.shape
        ensemble, rows, pad = self.builder.ensemble, bucket(batch, ROWS), self.engine.pad
        padded = F.pad(tokens, (self._width(width) - width, 0, 0, rows - batch), value=pad)
        ensemble.counters.encoder_calls += 1
        ensemble.counters.decoder_calls += 1
        ensemble.counters.decoder_tokens += rows * len(tables.vertex)
        # Positions of the source get new addresses if a longer sentence has needed more of them.
        source = self.engine.embed_source.table
        address = 0 if source is None else source.data_ptr()
        with ensemble.graphs.lock:
            found = ensemble.graphs.run((self, padded.shape, address), self.paths, padded)[0]
            return self._read(found[:batch].cpu(), tables)

    # ------------------------------------------------------------------ buckets

    def _width(self, width: int) -> int:
        """The source length to which ``width`` is padded. Learned positions may end earlier than
        the bucket."""
        source, most = self.engine.embed_source, LENGTHS[-1]
        if source.table is not None and isinstance(source.module, LearnedPositionalEmbedding):
            most = source.table.size(0)
        return max(width, min(bucket(width, LENGTHS), most))

    def _tables_of(self, tokens: Tensor) -> _Tables:
        """The tables of a batch's bucket, made at its first use: their memory has to stay."""
        source = self.engine.embed_source
        # All at once, so that addresses stay; learned positions are always all there.
        learned = isinstance(source.module, LearnedPositionalEmbedding)
        source.reserve(1 if learned else LENGTHS[-1])
        width = self._width(tokens.size(1))
        key = (width, tokens.device, self.engine.dtype)
        if key not in self._tables:
            self._tables[key] = self._make_tables(width, tokens.device)
            self.engine.embed.reserve(len(self._tables[key].vertex))
        return self._tables[key]

    def _make_tables(self, width: int, device: torch.device) -> _Tables:
        search, decoder = self.search, self.builder.decoders[0]
        lengths = torch.arange(width + 1)
        scales = torch.full(lengths.shape, search.scale, dtype=torch.double)
        # [S + 1] each
        wanted = vertices_from_source(lengths + decoder.count_bos, scales)
        sizes = wanted.clamp(max=search.most)
        size = int(sizes.max())
        # Attention and matrix units want multiples of 8.
        size = max(size, min(-(-size // 8) * 8, search.most))
        limits = length_limits(
            lengths, max_len_a=search.max_len_a, max_len_b=search.max_len_b, capacity=size + 1
        )
        interior = torch.minimum((2 * sizes / search.scale).long(), limits).clamp(min=1)
        vertex, last = torch.arange(size), (sizes - 1).unsqueeze(1)
        special = decoder.special
        inputs = torch.where(vertex < last, special["unk"], special["pad"])  # [S + 1, L]
        inputs = inputs.masked_fill(vertex == last, special["eos"])
        inputs[:, 0] = special["bos"]
        count = max(min(int(interior.max()), size - 2), 1)
        dtype = at_least_float32(self.engine.dtype)
        number = torch.arange(1, count + 1)
        powers = number.to(dtype) ** search.length_beta
        begins = (vertex < last).to(dtype)
        zeros = torch.zeros(begins.shape, dtype=dtype)
        bias = zeros.masked_fill(vertex > last, float("-inf"))
        numbers = torch.cat(
            [
                begins,
                1 - begins,
                zeros.masked_fill(vertex > last, _HIDDEN),
                zeros.masked_fill((vertex == 0) | (vertex >= last), float("-inf")),
                torch.zeros(len(lengths), count, dtype=dtype).masked_fill(
                    number > interior.unsqueeze(1), float("-inf")
                ),
            ],
            1,
        )
        distance, reach = vertex - vertex.unsqueeze(1), self._links.reach or size
        ahead = torch.zeros(size, size, dtype=dtype)
        ahead = ahead.masked_fill((distance < 1) | (distance > reach), _HIDDEN)
        penalised = self.builder.penalties
        first = min(penalised)
        penalties = torch.zeros(max(penalised) - first + 1, dtype=dtype)
        for token, penalty in penalised.items():
            penalties[token - first] = penalty
        return _Tables(
            inputs=inputs.to(device),
            bias=bias.to(device=device, dtype=self.engine.dtype),
            last=last.squeeze(1).to(device),
            numbers=numbers.to(device),
            ahead=ahead.to(device),
            vertex=vertex.to(device),
            powers=powers.to(device),
            finite=bool(powers.isfinite().all()),
            penalties=penalties.to(device),
            first=first,
            sizes=sizes.tolist(),
            limits=limits.tolist(),
            clamped=(wanted > sizes).tolist(),
        )

    # ------------------------------------------------------------------ on the device

    def paths(self, tokens: Tensor) -> Tuple[Tensor]:
        """The recorded function.

        Args:
            tokens: LongTensor ``[B, S]`` of a bucket's shape; rows of padding are decoded as the
                first sentence.

        Returns:
            One tensor ``[B, 2 * T + 1 + T + E]`` of integers with as many bits as the numbers have:
            vertices and tokens of the path, source tokens; then the bits of floating-point numbers:
            log-probabilities of the path, and those that :meth:`_read` checks. The last vertex, or
            the first, may be repeated.
        """
        search, engine = self.search, self.engine
        tables = self._tables[self._width(tokens.size(1)), tokens.device, engine.dtype]
        size = len(tables.vertex)
        if tokens.size(0) > 1:
            empty = tokens.eq(engine.pad).all(1, keepdim=True)  # [B, 1]
            tokens = torch.where(empty, tokens[:1], tokens)
        memory = engine.encode_static(tokens)
        inputs = tables.inputs.index_select(0, memory.lengths)  # [B, L]
        last = tables.last.index_select(0, memory.lengths)  # [B]
        # [B, L] four times, and [B, K]
        begins, ends, hidden, interior, allowed = tables.numbers.index_select(
            0, memory.lengths
        ).split([size] * 4 + [len(tables.powers)], 1)
        bias = tables.bias.index_select(0, memory.lengths)[:, None, None]  # [B, 1, 1, L]
        features = _vertex_features(engine, memory, inputs, bias)  # [B, L, D]
        chances = self._probabilities(features, tables.ahead + hidden.unsqueeze(1), begins)
        scores, words = self._best_tokens(features, inputs, tables)  # [B, L] each
        links = counted = chances.log()
        checks = [chances.sum((1, 2)).unsqueeze(1)]
        if search.suppress:
            links, counted, mass = _between_words(chances, words, scores, search.weight)
            checks.append((mass + ends).amin(1, keepdim=True))
        weighted = scores if search.weight else None
        if search.viterbi:
            width = max(len(tables.powers) + 2, size if self._links.reach else 0)
            found = fixed_viterbi(
                links,
                weighted,
                last=last,
                interior=interior,
                allowed=allowed,
                powers=tables.powers,
                width=width,
            )
            path, nowhere = found.paths, torch.maximum(found.totals, found.direct)
            if self._links.reach:
                # A short reach makes paths long: none may be within the limit.
                instead = _best_links(links, None, 1.0, tables.vertex, width)
                path = torch.where(nowhere == float("-inf"), instead, path)
            else:
                checks.append(nowhere)
        else:
            path = _best_links(links, weighted, search.weight, tables.vertex, size)
        return (_packed(path, words, scores, counted, memory.lengths, checks),)

    def _probabilities(self, features: Tensor, hidden: Tensor, begins: Tensor) -> Tensor:
        """P(v | u), ``[B, L, L]``, as :class:`PackedLinks` computes it.

        Args:
            features: ``[B, L, D]``.
            hidden: ``[B, L, L]``, 0 for possible links, else ``_HIDDEN`` or less.
            begins: ``[B, L]``, 1 for vertices where links begin, else 0.
        """
        links, (batch, size, width) = self._links, features.shape
        dtype = at_least_float32(features.dtype)
        if len(links.table) == 1:
            projected = F.linear(features, links.weight, links.table[0])  # [B, L, 2 * D + H]
        else:
            projected = F.linear(features, links.weight) + links.table[:size]
        # [B, L, 2 * D] -> [2, B, H, L, d]
        split = projected[:, :, : 2 * width].view(batch, size, 2, links.heads, -1)
        split = split.permute(2, 0, 3, 1, 4)
        both = torch.empty(split.shape, dtype=dtype, device=split.device)
        queries, keys = both.copy_(split).flatten(1, 2)  # [B * H, L, d] each
        gates = torch.softmax(projected[:, :, 2 * width :], -1, dtype=dtype)  # [B, L, H]
        gates = (gates * begins.unsqueeze(2)).transpose(1, 2).unsqueeze(3)  # [B, H, L, 1]
        # [B * H, L, L] -> [B, H, L, L]
        scores = torch.bmm(queries, keys.transpose(1, 2)).view(batch, links.heads, size, size)
        scores = torch.add(hidden.unsqueeze(1), scores, alpha=queries.size(2) ** -0.5)
        return torch.softmax(scores, -1).mul_(gates).sum(1)  # [B, L, L]

    def _best_tokens(
        self, features: Tensor, inputs: Tensor, tables: _Tables
    ) -> Tuple[Tensor, Tensor]:
        """The best token of each vertex: (log-probabilities, tokens), each ``[B, L]``; see
        :meth:`Graphs.best_tokens`."""
        penalised = slice(tables.first, tables.first + len(tables.penalties))
        found: List[Tuple[Tensor, ...]] = []
        output = self.engine.output
        count = max(1, CHUNK // output.weight.size(0))
        flat = inputs.view(-1, 1)  # [B * L, 1]
        for part, own in zip(features.flatten(0, 1).split(count), flat.split(count)):
            dtype = at_least_float32(part.dtype)
            log_probs = torch.log_softmax(output(part), -1, dtype=dtype)  # [n, V]
            # The first vertex emits <s> and the last one </s>, which are their inputs.
            given = log_probs.gather(1, own).squeeze(1)  # [n]
            log_probs[:, penalised].sub_(tables.penalties)
            found.append((given, *log_probs.max(1)))
        # [B * L] -> [B, L] each
        given, best, token = (
            (torch.cat(parts) if len(parts) > 1 else parts[0]).view(inputs.shape)
            for parts in zip(*found)
        )
        inner = inputs.eq(self.builder.decoders[0].special["unk"])  # [B, L]
        return torch.where(inner, best, given), torch.where(inner, token, inputs)

    # ------------------------------------------------------------------ on the host

    def _read(self, packed: Tensor, tables: _Tables) -> Optional[Tuple[List[FoundPath], bool]]:
        """What :meth:`paths` has found, on the host; see :meth:`find`.

        Raises:
            NumericalError: a link or a token of the graph is NaN.
        """
        suppress = self.search.suppress
        tested = self.search.viterbi and not self._links.reach
        width = (packed.size(1) - 2 - suppress - tested) // 3  # T
        ids = packed[:, : 2 * width + 1].tolist()
        bits = packed[:, 2 * width + 1 :].contiguous()
        numbers = bits.view(torch.float32 if bits.dtype == torch.int32 else torch.float64)
        parts, checks = numbers[:, :width].tolist(), numbers[:, width:].tolist()
        for total, *_ in checks:
            check_number(total)
        if suppress and any(check[1] < LEAST_MASS for check in checks):
            return None
        if tested and any(check[-1] == float("-inf") for check in checks):
            return None
        found = []
        for row, scores in zip(ids, parts):
            length, vertices = row[-1], row[:width]
            kept = [
                place for place in range(width)
                if not place or vertices[place] != vertices[place - 1]
            ]  # fmt: skip
            path = [vertices[place] for place in kept]
            if path[-1] != tables.sizes[length] - 1:
                check_number(float("nan"))
            words = [row[width + place] for place in kept]
            own = [scores[place] for place in kept]
            found.append(FoundPath(path, words, own, tables.limits[length]))
        return found, any(tables.clamped[row[-1]] for row in ids)


def _between_words(
    chances: Tensor, words: Tensor, scores: Tensor, weight: float
) -> Tuple[Tensor, Tensor, Tensor]:
    """Links between different words, of the search and of the score, and the least mass of each
    row: ``[B, L, L]`` twice and ``[B, L]``."""
    plain = between_words(chances, words, scores.exp())
    mass, counted = plain.sum(2), plain.log()
    if weight == 1.0:
        return counted, counted, mass
    weighed = between_words(chances, words, (weight * scores).exp())
    return weighed.log(), counted, torch.minimum(mass, weighed.sum(2))


def _best_links(
    links: Tensor, scores: Optional[Tensor], weight: float, vertex: Tensor, width: int
) -> Tensor:
    """The path along the best links: LongTensor ``[B, width]``, the last vertex repeated."""
    best = best_successors(links, scores, weight)  # [B, L]
    # A vertex without links is the last one, or a NaN has misled the search: both stay.
    return follow_pointers(torch.maximum(best, vertex), best.new_zeros(len(best), 1), width)


def _packed(
    path: Tensor,
    words: Tensor,
    scores: Tensor,
    counted: Tensor,
    lengths: Tensor,
    checks: List[Tensor],
) -> Tensor:
    """The result of :meth:`StaticPaths.paths` as one tensor, for one transfer."""
    links = torch.add(path[:, 1:], path[:, :-1], alpha=scores.size(1))
    parts = scores.gather(1, path)  # [B, T]
    parts[:, 1:].add_(counted.flatten(1).gather(1, links))
    ids = torch.cat([path, words.gather(1, path), lengths.unsqueeze(1)], 1)  # [B, 2 * T + 1]
    numbers = torch.cat([parts, *checks], 1)  # [B, T + E]
    bits = torch.int32 if numbers.element_size() == 4 else torch.int64
    return torch.cat([ids.to(bits), numbers.view(bits)], 1)


def _vertex_features(
    engine: TransformerEngine, memory: Memory, inputs: Tensor, bias: Tensor
) -> Tensor:
    """One pass of the decoder over all vertices ``[B, L]``: ``[B, L, D]``; ``bias``
    ``[B, 1, 1, L]`` hides padding."""
    x = engine.embed(inputs, None)  # [B, L, D]
    for number, layer in enumerate(engine.layers):
        keys, values = memory.layer(number)  # [B * H, S, d] each
        x = layer.block(x, layer.attention_norm, lambda y: layer.attention(y, bias))  # noqa: B023 - called at once
        x = layer.block(
            x,
            layer.cross_norm,
            lambda y: layer.cross(y, keys, values, memory.bias),  # noqa: B023 - called at once
        )
        x = layer.block(x, layer.final_norm, layer.feed_forward)
    if engine.norm is not None:
        x = engine.norm(x)
    return x if engine.project_out is None else F.linear(x, engine.project_out)  # [B, L, D]
