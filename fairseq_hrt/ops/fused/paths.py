"""One step of :func:`..fixed_shapes.fixed_viterbi` as one kernel, which reads each link once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Vertices of a tile, [to, from], and warps.
TILE = (8, 256, 4)


@triton.jit
def _step_kernel(edges, before, reached, parents, size, TO: tl.constexpr, FROM: tl.constexpr):
    """Writes, for the vertices v of one block of one sentence, the maximum over u of ``before[u]``
    + ``edges[v, u]``, and the u that has it.

    Args:
        edges: [B, L, L], from u (last dimension) to v, -inf unless u < v.
        before: [B, L], scores of the vertices u.
        reached, parents: [B, L], the results: the maxima, and the vertices u.
        size: L.
        TO, FROM: vertices v of a block, and vertices u read at a time.
    """
    sentence = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    vertex = block * TO + tl.arange(0, TO)
    inside = vertex < size
    rows = edges + (sentence * size + vertex.to(tl.int64)[:, None]) * size
    top = tl.full((TO,), float("-inf"), before.dtype.element_ty)
    parent = tl.zeros((TO,), tl.int64)
    # No link leads backwards.
    for start in range(0, tl.minimum((block + 1) * TO, size), FROM):
        source = start + tl.arange(0, FROM)
        known = source < size
        score = tl.load(before + sentence * size + source, mask=known, other=float("-inf"))
        link = tl.load(
            rows + source[None, :], mask=inside[:, None] & known[None, :], other=float("-inf")
        )
        best, place = tl.max(score[None, :] + link, 1, return_indices=True)
        # NaN is never better, so that parents are vertices all the same.
        better = best > top
        parent = tl.where(better, place.to(tl.int64) + start, parent)
        top = tl.where(better, best, top)
    tl.store(reached + sentence * size + vertex, top, mask=inside)
    tl.store(parents + sentence * size + vertex, parent, mask=inside)


def fill(edges: Tensor, best: Tensor, parents: Tensor) -> None:
    """Fills ``best`` and ``parents`` in place, for all path lengths k but the first one.

    Args:
        edges: ``[B, L, L]``, from u (last dimension) to v, -inf unless u < v.
        best: ``[K, B, L]``; ``best[k - 1]`` are the best scores up to v as the k-th inner vertex of
            a path; ``best[0]`` is given.
        parents: LongTensor ``[K, B, L]``, the vertex before v on that path; ``parents[0]`` is left
            alone.
    """
    batch, size = edges.shape[:2]
    after, before, warps = TILE
    grid = (batch, triton.cdiv(size, after))
    with torch.cuda.device_of(edges):
        for step in range(1, len(best)):
            _step_kernel[grid](
                edges, best[step - 1], best[step], parents[step], size,
                TO=after, FROM=before, num_warps=warps,
            )  # fmt: skip
