"""Reads on the host the paths that the recorded function of :class:`.static.StaticPaths` found."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from torch import Tensor

from ..engine import check_number
from ..ops import LEAST_MASS
from .static_tables import PathSearch, Tables


class FoundPath(NamedTuple):
    """The best path of one sentence.

    Attributes:
        vertices: the path's vertices, the first one included.
        tokens: the token of each of these vertices.
        parts: for each of these vertices the log-probability of its token plus that of the link
            into it.
        limit: the most words that the translation may have before ``</s>``.
    """

    vertices: List[int]
    tokens: List[int]
    parts: List[float]
    limit: int


def sections(
    search: PathSearch, tables: Tables, *, follows: bool
) -> Tuple[Dict[str, int], Dict[str, int]]:
    """The sections of a row of the result of :meth:`.static.StaticPaths.paths`, as {name: number of
    columns} in order: (sections of integers, sections of floating-point numbers behind them).

    ======  ====================================================================
    length  number of source tokens
    words   the best token of each vertex; scores: its log-probability
    path    vertices of the best path, the first one repeated on the left;
            along: log-probabilities of the links between them
    next    the vertex to which each vertex has its best link; links: the
            log-probability of that link
    total   the sum of the probabilities of all links; NaN if one is NaN
    mass    the least of the sums of each vertex's links to other words
    inside  -inf if no path is within the length limit
    ======  ====================================================================

    Args:
        search: the settings of the search.
        tables: the tables for the source length to which the batch is padded.
        follows: whether the result has the sections next and links.
    """
    # T, the vertices of a path with its padding; 0 without viterbi.
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
    """Reads the best path of each sentence. Returns (paths, whether a graph was cut to the
    decoder's positions); None if no result can be used, see :meth:`.static.StaticPaths.find`.

    Args:
        packed: the recorded function's result ``[B, …]``, on the host.
        search, tables, follows: the search's settings, the tables of the padded source length, and
            whether the best links were found; see :func:`sections`.

    Raises:
        NumericalError: a link of the graph is NaN.
    """
    kinds = sections(search, tables, follows=follows)
    columns = packed.numpy()
    count = sum(kinds[0].values())
    number = np.float32 if columns.dtype == np.int32 else np.float64
    numbers = np.ascontiguousarray(columns[:, count:]).view(number)
    found: Dict[str, Any] = {}
    for section, part in zip(kinds, (columns[:, :count], numbers)):
        begin = 0
        for name, width in section.items():
            found[name] = part[:, begin : begin + width]
            begin += width
    check_number(float(found["total"].sum()))
    if search.suppress and bool((found["mass"] < LEAST_MASS).any()):
        return None
    outside = found["inside"] == -np.inf  # [B, 1], or no column
    if not follows and bool(outside.any()):
        return None
    paths, lengths = [], found["length"][:, 0].tolist()
    for row, length in enumerate(lengths):
        last = tables.sizes[length] - 1
        if search.viterbi and not outside[row, 0]:
            vertices = found["path"][row].tolist()
            start = vertices.count(0) - 1
            vertices, into = vertices[start:], found["along"][row, start:]
        else:
            vertices = _followed(found["next"][row].tolist(), last)
            into = found["links"][row, vertices[:-1]]
        if [vertices[0], vertices[-1]] != [0, last] or vertices != sorted(set(vertices)):
            # The path does not lead forwards from the first to the last vertex.
            check_number(float("nan"))
        parts = found["scores"][row, vertices]
        parts[1:] += into
        words = found["words"][row, vertices].tolist()
        paths.append(FoundPath(vertices, words, parts.tolist(), tables.limits[length]))
    return paths, any(tables.clamped[length] for length in lengths)


def _followed(following: List[int], last: int) -> List[int]:
    """The path from vertex 0 to ``last`` that follows the best link of each vertex;
    ``following[u]`` is the vertex after u."""
    vertices = [0]
    while vertices[-1] < last and len(vertices) <= last:
        vertices.append(following[vertices[-1]])
    return vertices
