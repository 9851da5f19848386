"""Reads on the host what the one function of :class:`.static.StaticPaths` has found."""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..engine import check_number
from ..ops import LEAST_MASS
from .static_tables import PathSearch, Tables


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


def sections(
    search: PathSearch, tables: Tables, *, follows: bool
) -> Tuple[Dict[str, int], Dict[str, int]]:
    """The columns of the result, in order: integers, and numbers behind them.

    ======  ====================================================================
    length  source tokens
    words   the token of each vertex; scores: its log-probability
    path    vertices, the first one repeated on the left; along: the links
            between them
    next    the best vertex after each vertex; links: the link to it
    total   the sum of all links; NaN if one is
    mass    the least sum of a row of links between words
    inside  -inf if no path is within the limit
    ======  ====================================================================

    Args:
        search: how paths are found.
        tables: of the bucket.
        follows: whether the best links may be followed.
    """
    # T, or no column.
    width = len(tables.powers) + 2 if search.viterbi else 0
    following = tables.size if follows else 0
    ids = dict(length=1, words=tables.size, path=width, next=following)
    numbers = dict(
        total=1,
        mass=int(search.suppress),
        scores=tables.size,
        along=max(width - 1, 0),
        inside=int(search.viterbi),
        links=following,
    )
    return ids, numbers


def read_paths(
    packed: Tensor, search: PathSearch, tables: Tables, *, follows: bool
) -> Optional[Tuple[List[FoundPath], bool]]:
    """The best path of each sentence; see :meth:`.static.StaticPaths.find`.

    Args:
        packed: the result ``[B, …]``, on the host.
        search, tables, follows: see :func:`sections`.

    Raises:
        NumericalError: a link of the graph is NaN.
    """
    kinds = sections(search, tables, follows=follows)
    count = sum(kinds[0].values())
    bits = packed[:, count:].contiguous()
    values = bits.view(torch.float32 if bits.dtype == torch.int32 else torch.float64)
    found: Dict[str, Tensor] = {}
    for section, part in zip(kinds, (packed[:, :count].long(), values)):
        found.update(zip(section, part.split(list(section.values()), 1)))
    check_number(float(found["total"].sum()))
    if search.suppress and bool((found["mass"] < LEAST_MASS).any()):
        return None
    lengths = found["length"].squeeze(1)  # [B]
    last = torch.tensor(tables.sizes)[lengths] - 1  # [B]
    vertices, links = found["path"], found["along"]  # [B, T], [B, T - 1]
    outside = found["inside"] == float("-inf")  # [B, 1], or no column
    if follows:
        followed = _followed(found["next"], found["links"], last)
        if not search.viterbi:
            vertices, links = followed
        elif bool(outside.any()):
            vertices, links = _instead(outside, vertices, links, followed)
    elif bool(outside.any()):
        return None
    words, parts = found["words"].gather(1, vertices), found["scores"].gather(1, vertices)
    parts[:, 1:] += links
    rows = (vertices.tolist(), words.tolist(), parts.tolist(), lengths.tolist(), last.tolist())
    paths = [
        _path(own, tokens, scores, tables.limits[length], end)
        for own, tokens, scores, length, end in zip(*rows)
    ]
    return paths, any(tables.clamped[length] for length in lengths.tolist())


def _followed(following: Tensor, links: Tensor, last: Tensor) -> Tuple[Tensor, Tensor]:
    """The walk along the best links, on the host.

    Args:
        following: LongTensor ``[B, L]``, the vertex after each vertex.
        links: ``[B, L]``, log-probability of the link to it.
        last: LongTensor ``[B]``.

    Returns:
        (vertices, LongTensor ``[B, T]``, the last one repeated; links between them
        ``[B, T - 1]``).
    """
    current, end = torch.zeros_like(last).unsqueeze(1), last.unsqueeze(1)  # [B, 1] each
    vertices, steps = [current], []
    for _ in range(following.size(1) - 1):
        steps.append(links.gather(1, current))
        current = torch.where(current == end, end, following.gather(1, current))
        vertices.append(current)
        if bool((current == end).all()):
            break
    return torch.cat(vertices, 1), torch.cat(steps, 1)


def _instead(
    none: Tensor, vertices: Tensor, links: Tensor, followed: Tuple[Tensor, Tensor]
) -> Tuple[Tensor, Tensor]:
    """``followed`` where there is no other path (``none`` ``[B, 1]``), both padded to the same
    length."""
    width = max(vertices.size(1), followed[0].size(1))
    others = width - followed[0].size(1)
    # Repeated first vertices stand on the left, repeated last ones on the right.
    own = (
        F.pad(vertices, (width - vertices.size(1), 0)),
        F.pad(links, (width - 1 - links.size(1), 0)),
    )
    walked = torch.cat([followed[0], followed[0][:, -1:].expand(-1, others)], 1)
    return (
        torch.where(none, walked, own[0]),
        torch.where(none, F.pad(followed[1], (0, others)), own[1]),
    )


def _path(
    vertices: List[int], words: List[int], parts: List[float], limit: int, last: int
) -> FoundPath:
    """One path without repeated vertices.

    Raises:
        NumericalError: it does not lead forwards to the last vertex.
    """
    kept = [
        place for place, vertex in enumerate(vertices) if not place or vertex != vertices[place - 1]
    ]
    path = [vertices[place] for place in kept]
    if path[-1] != last or any(vertex >= after for vertex, after in zip(path, path[1:])):
        check_number(float("nan"))
    return FoundPath(
        path, [words[place] for place in kept], [parts[place] for place in kept], limit
    )
