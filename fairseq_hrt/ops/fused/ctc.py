"""The best alignment of :mod:`..ctc` as one Triton kernel. In PyTorch it takes a thousand small
operations, which the host launches more slowly than a GPU computes them."""

from typing import Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# Threads of a program: 32 a warp.
WARPS = 1


@triton.jit(do_not_specialize=["positions", "states"])
def _best_states_kernel(
    emitted,
    skips,
    lengths,
    target_lengths,
    rows,
    steps,
    path,
    scores,
    positions,
    states,
    STATES: tl.constexpr,
):
    """Writes the best path of one sentence and its log-probability.

    Args:
        emitted, skips, lengths, target_lengths: log-probabilities of the states, which states may
            be skipped, and lengths; see :func:`best_states`.
        rows: [B, 2, S], working memory: the best scores of two positions.
        steps: [B, T, S], working memory: by how many states each best path advanced, 0 to 2.
        path: [B, T], the result: index of the state at each position.
        scores: [B], the result: log-probability of the path.
        positions, states: T and S.
        STATES: S rounded up to a power of 2.
    """
    sentence = tl.program_id(0).to(tl.int64)
    last = tl.minimum(tl.load(lengths + sentence), positions).to(tl.int32)
    end = tl.minimum(2 * tl.load(target_lengths + sentence), states - 1).to(tl.int32)
    state = tl.arange(0, STATES)
    inside = state < states
    emitted += sentence * positions * states
    steps += sentence * positions * states
    rows += sentence * 2 * states
    may_skip = tl.load(skips + sentence * states + state, mask=inside & (state >= 2), other=0) > 0
    own = tl.load(emitted + state, mask=inside, other=float("-inf"))
    best = tl.where(state < 2, own, float("-inf"))
    for position in range(1, last):
        # Two rows take turns: one barrier separates writing and reading both.
        row = rows + (position % 2) * states
        tl.store(row + state, best, mask=inside)
        tl.debug_barrier()
        one = tl.load(row + state - 1, mask=inside & (state >= 1), other=float("-inf"))
        two = tl.load(row + state - 2, mask=may_skip, other=float("-inf"))
        # The smallest of several equal steps. NaN is never better, so that states stay inside.
        step = tl.where(one > best, 1, 0)
        best = tl.where(one > best, one, best)
        step = tl.where(two > best, 2, step)
        best = tl.where(two > best, two, best)
        tl.store(steps + position * states + state, step.to(tl.int8), mask=inside)
        best += tl.load(emitted + position * states + state, mask=inside, other=float("-inf"))
    word = tl.maximum(end - 1, 0)
    blank_last = tl.max(tl.where(state == end, best, float("-inf")), 0)
    word_last = tl.max(tl.where(state == word, best, float("-inf")), 0)
    tl.store(scores + sentence, tl.where(word_last > blank_last, word_last, blank_last))
    current = tl.where(word_last > blank_last, word, end)
    tl.debug_barrier()
    for back in range(0, last):
        position = last - 1 - back
        tl.store(path + sentence * positions + position, current.to(tl.int64))
        step = tl.load(steps + position * states + current, mask=position > 0, other=0)
        current -= step.to(tl.int32)


def best_states(
    emitted: Tensor, skips: Tensor, lengths: Tensor, target_lengths: Tensor
) -> Tuple[Tensor, Tensor]:
    """The best path through the S = 2 n + 1 states ``_ y_1 _ y_2 _ … y_n _`` (``_`` is the blank),
    and its log-probability.

    Args:
        emitted: ``[B, T, S]``, log-probability of each state's token, -inf behind the last state.
        skips: BoolTensor ``[B, S]``, whether a state may follow the state two places before it.
        lengths, target_lengths: LongTensors ``[B]``, positions and target words of each sentence.

    Returns:
        (index of the state at each position, LongTensor ``[B, T]``, 0 behind the last position;
        log-probability of the path, ``[B]``).
    """
    batch, positions, states = emitted.shape
    path = lengths.new_zeros(batch, positions)
    scores = emitted.new_empty(batch)
    rows = emitted.new_empty(batch, 2, states)
    steps = torch.empty(emitted.shape, dtype=torch.int8, device=emitted.device)
    with torch.cuda.device_of(emitted):
        _best_states_kernel[(batch,)](
            emitted.contiguous(), skips.contiguous().view(torch.uint8), lengths.contiguous(),
            target_lengths.contiguous(), rows, steps, path, scores, positions, states,
            STATES=triton.next_power_of_2(states), num_warps=WARPS,
        )  # fmt: skip
    return path, scores
