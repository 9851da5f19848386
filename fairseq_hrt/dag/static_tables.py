"""The tables that :class:`.static.StaticPaths` makes for each source length to which batches are
padded: every value that depends on the number of source tokens alone."""

from dataclasses import dataclass
from typing import List, NamedTuple

import torch
from torch import Tensor

from ..engine import length_limits
from ..ops import at_least_float32
from .decoder import DagDecoder
from .links import HIDDEN


@dataclass(frozen=True)
class PathSearch:
    """The settings of a search for paths.

    Attributes:
        viterbi: True: find the best path of every length, then choose the best length; False:
            follow the best link of each vertex.
        weight: weight of the tokens' log-probabilities beside those of the links.
        suppress: whether to search the graph of :func:`..ops.without_repeats`, whose links lead
            from each word to a different word.
        length_beta: exponent of the number of inner vertices, by whose power a path's score is
            divided; see :func:`..ops.joint_viterbi`.
        scale: lambda, the vertices per source token.
        max_len_a, max_len_b: a and b: a translation of x source tokens has at most a * x + b words.
        most: the most vertices of a graph.
    """

    viterbi: bool
    weight: float
    suppress: bool
    length_beta: float
    scale: float
    max_len_a: float
    max_len_b: int
    most: int


class Tables(NamedTuple):
    """Values that depend on the number of source tokens, of which batches have at most S. Tables
    ``[S + 1, …]`` have a row for each number of source tokens from 0 to S.

    Attributes:
        inputs: LongTensor ``[S + 1, L]``, the decoder's input tokens.
        forced: LongTensor ``[S + 1, L]``, the only token that a vertex may write; -1 for inner
            vertices, which may write any.
        visible: BoolTensor ``[S + 1, L]``, the vertices of the graph; the others are padding.
        positions: LongTensor ``[L]``, 0, 1, 2, …, the decoder's positions.
        last: LongTensor ``[S + 1]``, index of the last vertex.
        numbers: ``[S + 1, 4 * L + K]``, five tables side by side. Four have a column per vertex: 1
            where links begin, else 0; 1 where none begin, else 0; 0 for vertices of the graph, else
            ``HIDDEN``; 0 for inner vertices, else -inf. The fifth has a column for each number 1 …
            K of inner vertices: 0 if a path may have as many, else -inf.
        ahead: ``[L, L]``, 0 for links to later vertices within reach, else ``HIDDEN``.
        powers: ``[K]``, k ** ``length_beta`` for k = 1 … K inner vertices.
        finite: whether all ``powers`` are finite.
        sizes, limits: lists with the vertices of a graph, and the most words of a translation, for
            0 to S source tokens.
        clamped: list with whether the graph was cut to ``most`` vertices, for 0 to S source tokens.
    """

    inputs: Tensor
    forced: Tensor
    visible: Tensor
    positions: Tensor
    last: Tensor
    numbers: Tensor
    ahead: Tensor
    powers: Tensor
    finite: bool
    sizes: List[int]
    limits: List[int]
    clamped: List[bool]

    @property
    def size(self) -> int:
        """L, the vertices of a padded graph."""
        return self.ahead.size(0)


def table_size(width: int, search: PathSearch, decoder: DagDecoder) -> int:
    """L, the number of vertices to which graphs of up to ``width`` source tokens are padded."""
    return _padded(_wanted(width, search, decoder), search)


def _wanted(width: int, search: PathSearch, decoder: DagDecoder) -> Tensor:
    """The number of vertices for 0 to ``width`` source tokens, ``[width + 1]``."""
    lengths = torch.arange(width + 1)
    return decoder.rule.of_source(
        lengths, torch.full(lengths.shape, search.scale, dtype=torch.double)
    )


def _padded(wanted: Tensor, search: PathSearch) -> int:
    size = min(int(wanted.max()), search.most)
    # Attention and matrix units want multiples of 8.
    return max(size, min(-(-size // 8) * 8, search.most))


def make_tables(
    width: int,
    search: PathSearch,
    decoder: DagDecoder,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Tables:
    """Makes the tables for up to ``width`` source tokens.

    Args:
        width: S, the source length to which batches are padded.
        search: the settings of the search.
        decoder: the model's decoder.
        device, dtype: the model's device and the dtype of its weights.
    """
    lengths = torch.arange(width + 1)
    wanted = _wanted(width, search, decoder)  # [S + 1]
    sizes, size = wanted.clamp(max=search.most), _padded(wanted, search)
    limits = length_limits(
        lengths, max_len_a=search.max_len_a, max_len_b=search.max_len_b, capacity=size + 1
    )
    # At most twice as many words as the scale implies: L / lambda.
    interior = torch.minimum((2 * sizes / search.scale).long(), limits).clamp(min=1)
    number = torch.arange(1, max(min(int(interior.max()), size - 2), 1) + 1)  # [K]
    wide = at_least_float32(dtype)
    powers = number.to(wide) ** search.length_beta
    vertex, last = torch.arange(size), (sizes - 1).unsqueeze(1)  # [L], [S + 1, 1]
    inputs = decoder.vertex_inputs(sizes, size)  # [S + 1, L]
    ahead = vertex - vertex.unsqueeze(1)
    possible = (ahead > 0) & (ahead <= (decoder.links.reach or size))  # [L, L]
    numbers = [
        (vertex < last).to(wide),
        (vertex >= last).to(wide),
        _masked(vertex > last, HIDDEN, wide),
        _masked((vertex == 0) | (vertex >= last), float("-inf"), wide),
        _masked(number > interior.unsqueeze(1), float("-inf"), wide),
    ]
    return Tables(
        inputs=inputs.to(device),
        # The first vertex emits <s> and the last one </s>, which are their inputs.
        forced=inputs.masked_fill(inputs == decoder.special["unk"], -1).to(device),
        visible=(vertex <= last).to(device),
        positions=vertex.to(device),
        last=last.squeeze(1).to(device),
        numbers=torch.cat(numbers, 1).to(device),
        ahead=_masked(~possible, HIDDEN, wide).to(device),
        powers=powers.to(device),
        finite=bool(powers.isfinite().all()),
        sizes=sizes.tolist(),
        limits=limits.tolist(),
        clamped=(wanted > sizes).tolist(),
    )


def _masked(mask: Tensor, value: float, dtype: torch.dtype) -> Tensor:
    """A tensor of the shape of ``mask``: ``value`` where ``mask`` is True, else 0."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, value)
