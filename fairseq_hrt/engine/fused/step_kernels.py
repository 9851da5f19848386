"""The kernel of :mod:`.step`; imported when a GPU, or Triton's interpreter, is used."""

import triton
import triton.language as tl

from .linear_kernels import let_next_start, wait_for_previous


@triton.jit
def close_rows(
    best, words, tokens, numbers, ids, is_open, done, rows, eos,
    COUNT: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """The work of :func:`.step.close_step` in one program, which raises ``done`` after all of its
    threads have read it. ``rows`` and ``COUNT`` are its B and z; ``BLOCK`` rows are handled at a
    time; with ``EARLY`` the next kernel may be launched before this one ends."""
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    step = tl.load(done)
    line = step * rows * COUNT
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        inside = row < rows
        closed = tl.zeros((BLOCK,), tl.int32)
        for place in tl.static_range(COUNT):
            at = row * COUNT + place
            word = tl.load(words + at, mask=inside, other=0)
            closed = tl.where(word == eos, 1, closed)
            tl.store(tokens + at, word, mask=inside)
            tl.store(ids + line + at, word, mask=inside)
            tl.store(numbers + line + at, tl.load(best + at, mask=inside, other=0.0), mask=inside)
        was = tl.load(is_open + row, mask=inside, other=0)
        tl.store(is_open + row, tl.where(closed != 0, 0, was).to(tl.uint8), mask=inside)
    tl.debug_barrier()
    tl.store(done, step + 1)
