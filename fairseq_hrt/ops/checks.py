"""Argument checks and masks of all dynamic programs."""

from typing import Optional

import torch
from torch import Tensor

_BROKEN = "the model's weights are broken or overflow in half precision"


def check(
    links: Tensor,
    vertex_lengths: Tensor,
    match: Optional[Tensor] = None,
    lengths: Optional[Tensor] = None,
) -> None:
    """Raises ValueError for arguments that would silently give wrong results: wrong shapes or
    lengths, or NaN; the message names the argument."""
    batch, size = links.shape[:2]
    if links.dim() != 3 or links.size(2) != size:
        raise ValueError(f"links has the shape {list(links.shape)}: it must be [B, L, L]")
    if vertex_lengths.shape != (batch,):
        raise ValueError(
            f"vertex_lengths has the shape {list(vertex_lengths.shape)}: it must be [{batch}]"
        )
    # A sum with a NaN is NaN; _explain then finds out whether it is inside the lengths.
    suspicions = [(vertex_lengths < 2).any(), (vertex_lengths > size).any(), links.sum().isnan()]
    if match is not None and lengths is not None:
        if match.dim() != 3 or match.size(0) != batch or match.size(2) != size:
            raise ValueError(
                f"match has the shape {list(match.shape)}, links {list(links.shape)}: expected [B,"
                " T, L]"
            )
        if lengths.shape != (batch,):
            raise ValueError(
                f"target_lengths has the shape {list(lengths.shape)}: it must be [{batch}]"
            )
        suspicions += [(lengths < 2).any(), (lengths > match.size(1)).any(), match.sum().isnan()]
    # One transfer from the device instead of six.
    if bool(torch.stack(suspicions).any()):
        _explain(links, vertex_lengths, match, lengths)


def _explain(
    links: Tensor, vertex_lengths: Tensor, match: Optional[Tensor], lengths: Optional[Tensor]
) -> None:
    """Raises ValueError naming the wrong argument; NaN outside the lengths is allowed."""
    batch, size = links.shape[:2]
    if bool((vertex_lengths < 2).any()) or bool((vertex_lengths > size).any()):
        raise ValueError(
            f"vertex_lengths {vertex_lengths.tolist()} must be {batch} numbers from 2 to {size}"
        )
    if (
        match is not None
        and lengths is not None
        and (bool((lengths < 2).any()) or bool((lengths > match.size(1)).any()))
    ):
        raise ValueError(
            f"target_lengths {lengths.tolist()} must be {batch} numbers from 2 to {match.size(1)}"
        )
    if bool((links.isnan() & pairs_inside(links, vertex_lengths)).any()):
        raise ValueError(f"links holds NaN: {_BROKEN}")
    if match is not None and lengths is not None:
        vertices = torch.arange(size, device=links.device) < vertex_lengths.unsqueeze(1)  # [B, L]
        tokens = torch.arange(match.size(1), device=links.device) < lengths.unsqueeze(1)  # [B, T]
        if bool((match.isnan() & tokens.unsqueeze(2) & vertices.unsqueeze(1)).any()):
            raise ValueError(f"match holds NaN: {_BROKEN}")


def pairs_inside(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """Pairs of valid vertices: BoolTensor ``[B, L, L]``."""
    inside = torch.arange(links.size(1), device=links.device) < vertex_lengths.unsqueeze(1)
    return inside.unsqueeze(2) & inside.unsqueeze(1)  # [B, L, L]


def only_inside(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """``links`` with -inf for all pairs with a padding vertex."""
    return links.masked_fill(~pairs_inside(links, vertex_lengths), float("-inf"))


def probabilities(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """exp(links) between valid vertices, 0 elsewhere; float32 at least."""
    dtype = torch.float32 if links.dtype.itemsize < 4 else links.dtype
    return only_inside(links.to(dtype), vertex_lengths).exp()
