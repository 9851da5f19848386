"""The end of a greedy step: the chosen words become the next input and an entry of the log."""

import torch
from torch import Tensor

from .support import early, on_device, power_of_two, usable

# Rows of a batch that the kernel takes at once.
ROWS_AT_ONCE = 1024


def close_step_reference(
    best: Tensor,
    words: Tensor,
    *,
    tokens: Tensor,
    numbers: Tensor,
    ids: Tensor,
    is_open: Tensor,
    done: Tensor,
    eos: int,
) -> None:
    """Records the choice of z words in each of B rows by PyTorch's own functions instead of a
    kernel; the arguments, and what is written to them, are those of :func:`close_step`."""
    tokens.copy_(words)
    numbers.index_copy_(0, done, best[None])
    ids.index_copy_(0, done, words[None])
    is_open.logical_and_(words.ne(eos).all(1))
    done.add_(1)


def close_step(
    best: Tensor,
    words: Tensor,
    *,
    tokens: Tensor,
    numbers: Tensor,
    ids: Tensor,
    is_open: Tensor,
    done: Tensor,
    eos: int,
) -> None:
    """Records the choice of z words in each of B rows, in one kernel.

    Args:
        best, words: log-probabilities and ids of the chosen words, ``[B, z]``.
        tokens: LongTensor ``[B, z]``, is set to ``words``.
        numbers, ids: the record of all steps, ``[steps, B, z]``; ``best`` and ``words`` of all
            rows, open or closed, are written to index ``done``.
        is_open: BoolTensor ``[B]``, becomes False in rows that chose ``eos``, the id of ``</s>``.
        done: LongTensor ``[1]``, the number of steps so far, is raised by 1.
    """
    buffers = (best, words, tokens, numbers, ids, is_open, done)
    if not usable(best, numbers) or not all(part.is_contiguous() for part in buffers):
        close_step_reference(
            best, words, tokens=tokens, numbers=numbers, ids=ids, is_open=is_open, done=done,
            eos=eos,
        )  # fmt: skip
        return
    rows, count = words.shape
    from .step_kernels import close_rows

    with on_device(best):
        close_rows[(1,)](
            best, words, tokens, numbers, ids, is_open.view(torch.uint8), done, rows, eos,
            COUNT=count, BLOCK=min(power_of_two(rows), ROWS_AT_ONCE), num_warps=4, **early(best),
        )  # fmt: skip
