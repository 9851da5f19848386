"""Checks of arguments, and masks, for all dynamic programs."""

import functools
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Callable, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from .products import at_least_float32

_BROKEN = (
    "the model's weights are broken or overflow in half precision; try an earlier checkpoint, or"
    " leave --fp16 out"
)


class PostponedChecks:
    """Checks of tensors on a GPU, whose results the host reads later together with other values;
    made by :func:`postponed_checks`."""

    def __init__(self) -> None:
        self._found: List[Tuple[Tensor, Callable[[], None]]] = []

    def add(self, suspicious: Tensor, explain: Callable[[], None]) -> None:
        self._found.append((suspicious, explain))

    def suspicious(self, device: torch.device) -> Tensor:
        """Whether any check seems to fail, a BoolTensor ``[]`` that the host has not waited for;
        without checks it is False, on ``device``. If it is True, call :meth:`explain`."""
        flags = [flag for flag, _ in self._found] or [torch.zeros((), device=device).bool()]
        return torch.stack(flags).any()

    def explain(self) -> None:
        """Raises the error of the first check that fails, if any does."""
        for _, explain in self._found:
            explain()


_postponed: ContextVar[Optional[PostponedChecks]] = ContextVar("postponed", default=None)


@contextmanager
def postponed_checks() -> Iterator[PostponedChecks]:
    """Within this block, checks of tensors on a GPU do not make the host wait for the GPU. They are
    collected in the object that is yielded: the caller later reads its ``suspicious`` and, if that
    is True, calls its ``explain``. Checks of tensors on the CPU raise at once."""
    checks = PostponedChecks()
    token = _postponed.set(checks)
    try:
        yield checks
    finally:
        _postponed.reset(token)


def suspect(suspicious: Tensor, explain: Callable[[], None]) -> None:
    """Calls ``explain``, which raises an error, if the BoolTensor ``suspicious`` ``[]`` is True. In
    a block of :func:`postponed_checks`, a check of a tensor on a GPU is only recorded there."""
    later = _postponed.get()
    if later is not None and suspicious.device.type != "cpu":
        later.add(suspicious, explain)
    elif bool(suspicious):
        explain()


def check(
    links: Tensor,
    vertex_lengths: Tensor,
    match: Optional[Tensor] = None,
    lengths: Optional[Tensor] = None,
) -> None:
    """Raises ValueError for arguments that would silently give wrong results: wrong shapes or
    lengths, or NaN; the message names the argument.

    Args:
        links: ``[B, L, L]``, log P(v | u).
        vertex_lengths: LongTensor ``[B]``, vertices of each graph.
        match: ``[B, T, L]``, log P(y_i | v); None: neither ``match`` nor ``lengths`` is checked.
        lengths: LongTensor ``[B]``, tokens of each target; None: as with ``match``.
    """
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
                f"match has the shape {list(match.shape)}: it must be [B, T, L] with B = {batch}"
                f" and L = {size}, as links has"
            )
        if lengths.shape != (batch,):
            raise ValueError(
                f"target_lengths has the shape {list(lengths.shape)}: it must be [{batch}]"
            )
        suspicions += [(lengths < 2).any(), (lengths > match.size(1)).any(), match.sum().isnan()]
    # One transfer from the device instead of six.
    suspect(
        torch.stack(suspicions).any(),
        functools.partial(_explain, links.detach(), vertex_lengths, _detached(match), lengths),
    )


def _detached(match: Optional[Tensor]) -> Optional[Tensor]:
    return None if match is None else match.detach()


def _explain(
    links: Tensor, vertex_lengths: Tensor, match: Optional[Tensor], lengths: Optional[Tensor]
) -> None:
    """Raises ValueError naming the first argument that has a length out of range or NaN, if there
    is one; NaN at padding (beyond ``vertex_lengths`` or ``lengths``) is allowed. For the arguments
    see :func:`check`."""
    batch, size = links.shape[:2]
    if bool((vertex_lengths < 2).any()) or bool((vertex_lengths > size).any()):
        raise ValueError(
            f"vertex_lengths {vertex_lengths.tolist()} must be {batch} numbers from 2 to L = {size}"
        )
    if (
        match is not None
        and lengths is not None
        and (bool((lengths < 2).any()) or bool((lengths > match.size(1)).any()))
    ):
        raise ValueError(
            f"target_lengths {lengths.tolist()} must be {batch} numbers from 2 to T ="
            f" {match.size(1)}"
        )
    if bool((links.isnan() & pairs_inside(links, vertex_lengths)).any()):
        raise ValueError(f"links holds NaN: {_BROKEN}")
    if match is not None and lengths is not None:
        vertices = torch.arange(size, device=links.device) < vertex_lengths.unsqueeze(1)  # [B, L]
        tokens = torch.arange(match.size(1), device=links.device) < lengths.unsqueeze(1)  # [B, T]
        if bool((match.isnan() & tokens.unsqueeze(2) & vertices.unsqueeze(1)).any()):
            raise ValueError(f"match holds NaN: {_BROKEN}")


def pairs_inside(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """Whether both vertices of a pair (u, v) are below ``vertex_lengths`` ``[B]``, so that neither
    is padding: BoolTensor of the shape of ``links``, ``[B, L, L]``."""
    inside = torch.arange(links.size(1), device=links.device) < vertex_lengths.unsqueeze(1)
    return inside.unsqueeze(2) & inside.unsqueeze(1)  # [B, L, L]


def only_inside(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """``links`` ``[B, L, L]`` with -inf for all links to or from padding; ``vertex_lengths``
    ``[B]`` are the vertices of each graph."""
    return links.masked_fill(~pairs_inside(links, vertex_lengths), float("-inf"))


def probabilities(links: Tensor, vertex_lengths: Tensor) -> Tensor:
    """exp(``links``) ``[B, L, L]``, 0 for links to or from padding (vertices beyond
    ``vertex_lengths`` ``[B]``); float32 at least."""
    return only_inside(links.to(at_least_float32(links.dtype)), vertex_lengths).exp()
