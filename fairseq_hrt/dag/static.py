"""The best paths of dag from source tokens, in one function of fixed shapes that a CUDA graph
records.

On a GPU a small batch costs as much as the launches of its kernels. Here encoder, decoder, links
and search are one function that reads nothing back to the host. Its shapes depend on the bucket of
the batch alone, the sizes to which it is padded. The sizes of the graphs follow from the number of
source tokens: whatever depends on them is looked up in tables, which the host makes once for each
bucket.
"""

from functools import cache, partial
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor

from ..engine import TransformerEngine
from ..engine.buckets import LENGTHS, ROWS, bucket
from ..engine.fused import best_words
from ..ops import CHUNK, between_words, fixed_viterbi
from .graph import GraphBuilder, PackedLinks
from .paths import best_successors
from .static_result import FoundPath, read_paths
from .static_tables import PathSearch, Tables, make_tables, table_size

#: The most links, over all heads, of a batch that is decoded by a CUDA graph: in larger ones the
#: kernels take longer than their launches. Greedy search, which has the fewest launches and without
#: a CUDA graph needs no padding, has a lower limit.
_MOST_LINKS, _MOST_LINKS_GREEDY = 2**28, 2**25


class StaticPaths:
    """Finds the best paths of batches by a function of fixed shapes, which a CUDA graph records for
    each size to which batches are padded; see this module's text.

    Args:
        builder: builds the graphs, with one model.
        search: the settings of the search for paths.
    """

    def __init__(self, builder: GraphBuilder, search: PathSearch) -> None:
        self.builder, self.search = builder, search
        # Function from a padded source length to the padded number of vertices.
        self._size = cache(lambda width: table_size(width, search, builder.decoders[0]))

    @property
    def engine(self) -> TransformerEngine:
        """The engine of the only model."""
        return self.builder.ensemble.engines[0]

    @property
    def _links(self) -> PackedLinks:
        return self.builder.links[0]

    @property
    def _follows(self) -> bool:
        """Whether :meth:`paths` also finds the best link of each vertex: greedy and lookahead need
        nothing else, and viterbi needs it where the reach of links is limited, so that there may be
        no path within the length limit."""
        return not self.search.viterbi or bool(self._links.reach)

    def graph_refusal(self, tokens: Tensor) -> Optional[str]:
        """Why the recorded function cannot decode this batch of sources ``[B, S]``, in words for
        the log; None: it can."""
        batch, width = tokens.shape
        decoder = self.builder.decoders[0]
        if len(self.builder.ensemble.engines) > 1:
            return "an ensemble of models"
        if decoder.length_head is not None:
            return "--dag-upsample-base predict, with which sizes depend on what was encoded"
        if not self.engine.encoder_layers:
            return "an encoder that is not fairseq's own"
        if self.engine.recurrent or self.engine.window:
            return "a decoder with recurrent cells or relative positions"
        if batch > ROWS[-1] or width > LENGTHS[-1]:
            return f"more than {ROWS[-1]} sentences or {LENGTHS[-1]} source tokens"
        size = self._size(self._width(width))
        links = bucket(batch, ROWS) * self._links.heads * size**2
        search = self.search
        greedy = not (search.viterbi or search.weight or search.suppress)
        most = _MOST_LINKS_GREEDY if greedy else _MOST_LINKS
        if links > most:
            return f"a batch of large graphs (more than {most:,} links)"
        if not self._tables_of(tokens).finite:
            return f"--dag-decode-length-beta {self.search.length_beta}: powers of lengths overflow"
        return None

    def find(self, tokens: Tensor) -> Optional[Tuple[List[FoundPath], bool]]:
        """The best path of each sentence.

        Args:
            tokens: LongTensor ``[B, S]``, padded on either side.

        Returns:
            (paths, whether a graph was cut to the decoder's positions); None if the batch must be
            decoded without the recorded function, since probabilities of repetitions underflow in a
            sentence or no path is within its length limit.
        """
        batch, width = tokens.shape
        ensemble, rows, pad = self.builder.ensemble, bucket(batch, ROWS), self.engine.pad
        padded = F.pad(tokens, (self._width(width) - width, 0, 0, rows - batch), value=pad)
        ensemble.counters.encoder_calls += 1
        ensemble.counters.decoder_calls += 1
        # The table of source positions moves in memory when a longer sentence needs more rows.
        source = self.engine.embed_source.table
        address = 0 if source is None else source.data_ptr()
        with ensemble.graphs.lock:
            tables = self._tables_of(tokens)
            ensemble.counters.decoder_tokens += rows * tables.size
            # Has the tables' id, so that tables and recorded function are dropped together.
            key = (self, padded.shape, address, id(tables))
            found = ensemble.graphs.run(key, partial(self.paths, tables), padded)[0]
            return read_paths(found[:batch].cpu(), self.search, tables, follows=self._follows)

    # ------------------------------------------------------------------ buckets

    def _width(self, width: int) -> int:
        """The source length to which sources of ``width`` tokens are padded: the next one in
        LENGTHS, but at most the number of learned positions, if the encoder has these."""
        source, most = self.engine.embed_source, LENGTHS[-1]
        if source.table is not None and isinstance(source.module, LearnedPositionalEmbedding):
            most = source.table.size(0)
        return max(width, min(bucket(width, LENGTHS), most))

    def _tables_of(self, tokens: Tensor) -> Tables:
        """The tables for the source length to which a batch ``[B, S]`` is padded; made at its
        first use and kept beside the recorded functions, which read their memory."""
        source, graphs = self.engine.embed_source, self.builder.ensemble.graphs
        # All source positions are reserved at once, so that addresses stay; learned ones all exist.
        learned = isinstance(source.module, LearnedPositionalEmbedding)
        source.reserve(1 if learned else LENGTHS[-1])
        width, device, dtype = self._width(tokens.size(1)), tokens.device, self.engine.dtype

        def make() -> Tables:
            decoder = self.builder.decoders[0]
            self.engine.embed.reserve(self._size(width))
            return make_tables(width, self.search, decoder, device=device, dtype=dtype)

        with graphs.lock:
            return graphs.keep((self, "tables", width, device, dtype), make)

    # ------------------------------------------------------------------ on the device

    def paths(self, tables: Tables, tokens: Tensor) -> Tuple[Tensor]:
        """The recorded function: encodes sources, and finds their paths.

        Args:
            tables: those for S source tokens.
            tokens: LongTensor ``[B, S]``, already padded to one of the recorded shapes; rows of
                padding alone are decoded as if they were the first sentence.

        Returns:
            One tensor ``[B, …]`` with the columns of :func:`.static_result.sections`: integers, and
            floating-point numbers as integers of the same bits.
        """
        search, engine = self.search, self.engine
        size = tables.size
        if tokens.size(0) > 1:
            empty = tokens.eq(engine.pad).all(1, keepdim=True)  # [B, 1]
            tokens = torch.where(empty, tokens[:1], tokens)
        memory = engine.encode_static(tokens)
        inputs = tables.inputs.index_select(0, memory.lengths)  # [B, L]
        # [B, L] four times, and [B, K]
        begins, ends, hidden, interior, allowed = tables.numbers.index_select(
            0, memory.lengths
        ).split([size] * 4 + [len(tables.powers)], 1)
        features = engine.step(  # [B, L, D]
            engine.start(memory),
            inputs,
            tables.positions,
            visible=tables.visible.index_select(0, memory.lengths).unsqueeze(1),  # [B, 1, L]
            causal=False,
            remember=False,
        )
        packed = self._links
        if len(packed.table) == 1:
            projected = F.linear(features, packed.weight, packed.table[0])  # [B, L, 2 * D + H]
        else:
            projected = F.linear(features, packed.weight) + packed.table[:size]
        chances = packed.probabilities(projected, tables.ahead + hidden.unsqueeze(1), begins)
        forced = tables.forced.index_select(0, memory.lengths)  # [B, L]
        scores, words = self._best_tokens(features, forced)  # [B, L] each
        links = counted = chances.log()
        ids, numbers = [memory.lengths.unsqueeze(1), words], [chances.sum((1, 2)).unsqueeze(1)]
        if search.suppress:
            links, counted, mass = _between_words(chances, words, scores, search.weight)
            numbers.append((mass + ends).amin(1, keepdim=True))
        numbers.append(scores)
        weighted = scores if search.weight else None
        if search.viterbi:
            found = fixed_viterbi(
                links,
                weighted,
                last=tables.last.index_select(0, memory.lengths),
                interior=interior,
                allowed=allowed,
                powers=tables.powers,
            )
            ids.append(found.paths)
            steps = torch.add(found.paths[:, 1:], found.paths[:, :-1], alpha=size)  # [B, T - 1]
            numbers += [
                counted.flatten(1).gather(1, steps),
                torch.maximum(found.totals, found.direct),
            ]
            # Where no path is within the limit, the best links are followed.
            weighted = None
        if self._follows:
            following = best_successors(links, weighted, search.weight)  # [B, L]
            ids.append(following)
            numbers.append(counted.gather(2, following.unsqueeze(2)).squeeze(2))
        return (_packed(ids, numbers),)

    def _best_tokens(self, features: Tensor, forced: Tensor) -> Tuple[Tensor, Tensor]:
        """The best token of each vertex: (log-probabilities, tokens), each ``[B, L]``.

        Args:
            features: ``[B, L, D]``, the decoder's output.
            forced: LongTensor ``[B, L]``, the only token that a vertex may write; -1: any.
        """
        output = self.engine.output
        count = max(1, CHUNK // output.weight.size(0))
        found = [
            best_words(output(part), penalties=self.builder.penalties, forced=own)
            for part, own in zip(features.flatten(0, 1).split(count), forced.flatten().split(count))
        ]
        # [B * L] -> [B, L] each
        best, token = (
            (torch.cat(parts) if len(parts) > 1 else parts[0]).view(forced.shape)
            for parts in zip(*found)
        )
        return best, token


def _between_words(
    chances: Tensor, words: Tensor, scores: Tensor, weight: float
) -> Tuple[Tensor, Tensor, Tensor]:
    """Links between different words, summed over repetitions; see :func:`..ops.between_words`.

    Args:
        chances: ``[B, L, L]``, P(v | u).
        words, scores: ``[B, L]``, the best token of each vertex and its log-probability.
        weight: the power to which the search raises the probabilities of repeated tokens.

    Returns:
        (log-probabilities ``[B, L, L]`` for the search, with ``weight``; log-probabilities
        ``[B, L, L]`` for the translation's score, with weight 1; ``[B, L]``, the sum of each row's
        probabilities, the smaller of the sums with either weight).
    """
    plain = between_words(chances, words, scores.exp())
    mass, counted = plain.sum(2), plain.log()
    if weight == 1.0:
        return counted, counted, mass
    weighed = between_words(chances, words, (weight * scores).exp())
    return weighed.log(), counted, torch.minimum(mass, weighed.sum(2))


def _packed(ids: List[Tensor], numbers: List[Tensor]) -> Tensor:
    """The integers ``ids`` and the bits of the floating-point ``numbers`` side by side in one
    integer tensor ``[B, …]``, so that one transfer brings all to the host."""
    whole = torch.cat(numbers, 1)
    bits = torch.int32 if whole.element_size() == 4 else torch.int64
    return torch.cat([torch.cat(ids, 1).to(bits), whole.view(bits)], 1)
