"""The recurrence of decoders without self-attention: Marian's Simpler Simple Recurrent Unit
(SSRU)."""

import torch
from torch import Tensor


def scan(forget: Tensor, fresh: Tensor, before: Tensor) -> Tensor:
    """The states c_t = f_t c_{t-1} + g_t of q tokens at once, in about log2(q) parallel passes
    instead of q.

    This is numerically stable: gates lie between 0 and 1, so that their products cannot overflow.

    Args:
        forget: ``[R, q, D]``, the gates f.
        fresh: ``[R, q, D]``, g, what is added.
        before: ``[R, D]``, the state before the first token.

    Returns:
        ``[R, q, D]``, the state after each token.
    """
    first = torch.addcmul(fresh[:, :1], forget[:, :1], before.unsqueeze(1))  # [R, 1, D]
    count, reach = fresh.size(1), 1
    states = first if count == 1 else torch.cat([first, fresh[:, 1:]], 1)  # [R, q, D]
    while reach < count:
        # states[t] holds the sum over tokens t - reach + 1 to t; adding that of token t - reach,
        # times the gates between, doubles the reach.
        later = torch.addcmul(states[:, reach:], forget[:, reach:], states[:, :-reach])
        states = torch.cat([states[:, :reach], later], 1)  # [R, q, D]
        forget = torch.cat([forget[:, :reach], forget[:, reach:] * forget[:, :-reach]], 1)
        reach *= 2
    return states


def recur(forget: Tensor, candidate: Tensor, before: Tensor) -> Tensor:
    """The states of an SSRU, c_t = f_t c_{t-1} + (1 - f_t) z_t (Kim et al. 2019, *From Research to
    Production and Back*).

    Args:
        forget: ``[R, q, D]``, f, between 0 and 1.
        candidate: ``[R, q, D]``, z.
        before: ``[R, D]``, the state before the first token.

    Returns:
        ``[R, q, D]``.
    """
    return scan(forget, (1 - forget) * candidate, before)
