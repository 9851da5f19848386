"""The choice of words from logits of many rows: the best word of each, and a beam's continuations.

The logits are read once, as they are: no log-softmax of them is written.
"""

import math
from typing import Any, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ...ops import at_least_float32
from ..precision import log_softmax
from .output import _check_flags
from .support import early, on_device, power_of_two, usable

# The most words with a penalty; each is compared with every block of words.
MOST_PENALTIES = 16
# The most continuations of a sentence, and the most rows (beams) that it has.
MOST_FOUND = 32
# Programs that keep a GPU busy: an H100 has 132 processors.
BUSY = 256
# Words that a program takes at once, of many rows and of few.
WIDE_BLOCK, BLOCK = 4096, 1024
# A program of top_of_part writes the place of a word with 16 bits.
MOST_WORDS = 2**16
# Candidates of a sentence that are compared at once.
MOST_LANES = 4096
# Words of a row among which the reference looks for the best at once.
CHUNK = 128


def best_words_reference(
    logits: Tensor, *, temperature: float = 1.0, **rules: Any
) -> Tuple[Tensor, Tensor]:
    """The most probable allowed word of each row, with its log-probability, by PyTorch's own
    functions; ``rules`` are the further arguments of :func:`best_words`."""
    if temperature != 1.0:
        logits = logits / temperature
    return allowed_words(log_softmax(logits), **rules)


def allowed_words(
    log_probs: Tensor,
    *,
    penalties: Optional[Mapping[int, float]] = None,
    eos: int = 0,
    forbid_eos: Optional[Tensor] = None,
    only_eos: Optional[Tensor] = None,
    forced: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """The most probable allowed word of each row of ``log_probs`` ``[M, V]``, which is changed in
    place: (log-probabilities, words), ``[M]`` each; further arguments as for :func:`best_words`."""
    ends = None if only_eos is None else log_probs[:, eos].clone()  # [M]
    given: Optional[Tensor] = None
    if forced is not None:
        given = log_probs.gather(1, forced.clamp(min=0).unsqueeze(1)).squeeze(1)  # [M]
    for word, penalty in (penalties or {}).items():
        log_probs[:, word].sub_(penalty)
    if forbid_eos is not None:
        log_probs.select(1, eos).masked_fill_(forbid_eos, float("-inf"))
    best, token = log_probs.max(1)  # [M] each
    if forced is not None and given is not None:
        bound = forced >= 0  # [M]
        token, best = torch.where(bound, forced, token), torch.where(bound, given, best)
    if only_eos is not None and ends is not None:
        token = token.masked_fill(only_eos, eos)
        best = torch.where(only_eos, ends, best)
    return best, token


def best_words(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    penalties: Optional[Mapping[int, float]] = None,
    eos: int = 0,
    forbid_eos: Optional[Tensor] = None,
    only_eos: Optional[Tensor] = None,
    forced: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """The most probable allowed word of each row, with its log-probability.

    The softmax is that of all words. Of equally probable words the first is chosen.

    Args:
        logits: ``[M, V]``; they are not changed.
        temperature: divides the logits, rounded to their type.
        penalties: {id of a word: number subtracted from its log-probability}; infinity forbids the
            word.
        eos: id of ``</s>``, for ``forbid_eos`` and ``only_eos``.
        forbid_eos: BoolTensor ``[M]``, rows that must not choose ``</s>``.
        only_eos: BoolTensor ``[M]``, rows whose choice is ``</s>``, whatever ``forbid_eos`` is.
        forced: LongTensor ``[M]``, the word that a row has to choose; negative: none. ``only_eos``
            takes precedence. Penalties do not apply to a forced word.

    Returns:
        log_prob: float32 ``[M]`` (float64 for float64 logits); NaN if any logit of the row is NaN.
        token: LongTensor ``[M]``; always an id of the vocabulary.

    Raises:
        ValueError: flags of another shape or type.
    """
    rows, words = logits.shape
    flags = _flags(rows, forbid_eos=forbid_eos, only_eos=only_eos)
    if forced is not None and (forced.dtype != torch.int64 or forced.shape != (rows,)):
        raise ValueError(
            f"forced is {forced.dtype} {tuple(forced.shape)}; give a LongTensor [{rows}]"
        )
    penalised = {word: float(number) for word, number in (penalties or {}).items() if number}
    if not rows or len(penalised) > MOST_PENALTIES or not usable(logits):
        return best_words_reference(
            logits, temperature=temperature, penalties=penalties, eos=eos, forbid_eos=forbid_eos,
            only_eos=only_eos, forced=forced,
        )  # fmt: skip
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    block = min(WIDE_BLOCK if 2 * rows > BUSY else BLOCK, max(power_of_two(words), 128))
    part, splits = _parts(words, block, BUSY // rows)
    device = logits.device
    token = torch.empty(rows, dtype=torch.int64, device=device)
    log_prob = torch.empty(rows, device=device)
    whole = splits == 1
    parts = None if whole else torch.empty((3, rows, splits), device=device)
    picks = None if whole else torch.empty((rows, splits), dtype=torch.int32, device=device)
    tops, peaks, sums = (log_prob, None, None) if parts is None else parts.unbind(0)
    from .output_kernels import choose_of_blocks
    from .search_kernels import best_of_part

    with on_device(logits):
        best_of_part[(rows * splits,)](
            logits, None if forced is None else forced.contiguous(), *flags,
            tops, picks, peaks, sums, token,
            logits.stride(0), words, part, splits, float(temperature), eos,
            PENALISED=tuple(penalised),
            PENALTIES=tuple(penalised.values()),
            COUNT=len(penalised),
            BLOCK=block,
            ALIGN=_alignment(logits),
            SCALED=temperature != 1.0,
            WHOLE=whole,
            num_warps=8 if block == WIDE_BLOCK else 4,
        )  # fmt: skip
        if not whole:
            choose_of_blocks[(rows,)](
                tops, picks, peaks, sums, token, log_prob, words, splits,
                BLOCK=power_of_two(splits), num_warps=1, **early(logits),
            )  # fmt: skip
    return log_prob, token


def best_continuations_reference(
    logits: Tensor,
    totals: Tensor,
    *,
    count: int,
    temperature: float = 1.0,
    pad: int,
    eos: int,
    unk: int,
    unkpen: float = 0.0,
    forbid_eos: Optional[Tensor] = None,
    only_eos: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """The best next words of the N hypotheses of each sentence, by PyTorch's own functions;
    arguments and result as for :func:`best_continuations`, equal scores in any order."""
    if temperature != 1.0:
        logits = logits / temperature
    vocabulary = logits.size(1)
    log_probs = log_softmax(logits).unflatten(0, totals.shape)  # [B, N, V]
    log_probs.select(2, pad).fill_(float("-inf"))
    if unkpen:
        log_probs.select(2, unk).sub_(unkpen)
    ends = log_probs.select(2, eos)  # [B, N]
    if forbid_eos is not None:
        forbidden = forbid_eos if only_eos is None else forbid_eos & ~only_eos
        ends.masked_fill_(forbidden.unsqueeze(1), float("-inf"))
    if only_eos is None:
        log_probs.add_(totals.unsqueeze(2))
    else:
        ending = ends + totals  # [B, N]
        # A sentence at its limit can only end.
        before = totals.masked_fill(only_eos.unsqueeze(1), float("-inf"))
        log_probs.add_(before.unsqueeze(2)).select(2, eos).copy_(ending)
    scores, flat = largest(log_probs.flatten(1), count)  # [B, count] each
    return scores, flat % vocabulary, flat // vocabulary


def largest(values: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """The ``count`` largest values of each row and their columns, ``[B, count]`` each, largest
    first; NaN comes first.

    These values lie in the chunks with the largest maxima, so only such chunks have to be sorted.

    Args:
        values: ``[B, M]``, contiguous.
    """
    batch, size = values.shape
    chunks = size // CHUNK
    if chunks <= 2 * count:
        return values.topk(count)
    whole = values[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))  # [B, chunks, CHUNK]
    best = whole.amax(2).topk(count).indices  # [B, count]
    columns = (best.unsqueeze(2) * CHUNK + torch.arange(CHUNK, device=values.device)).flatten(1)
    if chunks * CHUNK < size:
        rest = torch.arange(chunks * CHUNK, size, device=values.device)
        columns = torch.cat([columns, rest.expand(batch, -1)], 1)  # [B, candidates]
    found, places = values.gather(1, columns).topk(count)
    return found, columns.gather(1, places)


def best_continuations(
    logits: Tensor,
    totals: Tensor,
    *,
    count: int,
    temperature: float = 1.0,
    pad: int,
    eos: int,
    unk: int,
    unkpen: float = 0.0,
    forbid_eos: Optional[Tensor] = None,
    only_eos: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """The best next words of the N hypotheses of each sentence, in two kernels.

    A score is the total of the hypothesis plus the log-probability of the word, under the rules of
    :func:`.output.choose`.

    Args:
        logits: ``[B * N, V]``; they are not changed.
        totals: ``[B, N]``, float32 unless the logits are float64; -inf for hypotheses that have no
            continuation.
        count: how many continuations of each sentence to find, at most N * V.
        temperature: divides the logits, rounded to their type.
        pad, eos, unk: ids of the special words, all different.
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        forbid_eos: BoolTensor ``[B]``, sentences that must not end yet.
        only_eos: BoolTensor ``[B]``, sentences that have to end, whatever ``forbid_eos`` is.

    Returns:
        scores: ``[B, count]``, largest first; equal ones in the order of their hypotheses, then of
            their words. NaN precedes all: the first is NaN if any logit or total of the sentence
            is. -inf where fewer continuations are allowed.
        tokens: LongTensor ``[B, count]``, the words; always ids of the vocabulary.
        parents: LongTensor ``[B, count]``, the hypotheses that they continue, 0 to N - 1.

    Raises:
        ValueError: flags or totals of another shape or type.
    """
    batch, beams = totals.shape
    flags = _flags(batch, forbid_eos=forbid_eos, only_eos=only_eos)
    (rows, words), dtype = logits.shape, at_least_float32(logits.dtype)
    if rows != batch * beams or totals.dtype != dtype:
        raise ValueError(
            f"totals are {totals.dtype} {tuple(totals.shape)} for {rows} rows of {logits.dtype};"
            f" give {dtype} [B, N] with B * N = {rows}"
        )
    if not rows or max(count, beams) > MOST_FOUND or beams * words >= 2**31 or not usable(logits):
        return best_continuations_reference(
            logits, totals, count=count, temperature=temperature, pad=pad, eos=eos, unk=unk,
            unkpen=unkpen, forbid_eos=forbid_eos, only_eos=only_eos,
        )  # fmt: skip
    logits, totals = logits if logits.stride(1) == 1 else logits.contiguous(), totals.contiguous()
    device, half = logits.device, logits.itemsize == 2
    block = min(2 * BLOCK if 4 * rows > BUSY else BLOCK, max(power_of_two(words), 128))
    height = power_of_two(beams)
    # A longer list of candidates is searched more slowly than it is made.
    most = max((MOST_LANES // height - 2) // count, 1)
    wanted = min(-(-4 * BUSY // rows), most)
    part, splits = _parts(words, block, max(wanted, -(-words // MOST_WORDS)))
    lanes = power_of_two(splits * count + 2)
    key = torch.int32 if half else torch.int64
    # Below the key of every number.
    least = -(2**31) if half else -(2**62)
    places = power_of_two(count)
    keys = torch.empty((rows, splits, count), dtype=key, device=device)
    peaks, sums = torch.empty((2, rows, splits), device=device).unbind(0)
    scores = torch.empty((batch, count), device=device)
    tokens, parents = torch.empty((2, batch, count), dtype=torch.int64, device=device).unbind(0)
    allowed = unkpen != math.inf
    from .search_kernels import top_of_part, top_of_sentence

    with on_device(logits):
        top_of_part[(rows * splits,)](
            logits, keys, peaks, sums, logits.stride(0), words, part, splits, float(temperature),
            pad, eos, unk,
            COUNT=count, PLACES=places, BLOCK=block, ALIGN=_alignment(logits),
            SCALED=temperature != 1.0, HALF=half, LEAST=least, num_warps=4,
        )  # fmt: skip
        top_of_sentence[(batch,)](
            logits, totals, *flags, keys, peaks, sums, scores, tokens, parents,
            logits.stride(0), words, part, splits, float(temperature), eos, unk,
            float(unkpen) if allowed else 0.0,
            BEAMS=beams, COUNT=count, ROWS=height, PARTS=power_of_two(splits), LANES=lanes,
            PLACES=places, SCALED=temperature != 1.0, WITH_UNK=allowed, HALF=half, LEAST=least,
            num_warps=min(max(height * lanes // 256, 1), 8),
        )  # fmt: skip
    return scores, tokens, parents


def _flags(rows: int, **flags: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
    """Returns the flags (None stays None) as bytes, which the kernels read.

    Raises:
        ValueError: a flag is not a BoolTensor ``[rows]``; the message names it.
    """
    _check_flags(rows, **{name: flag for name, flag in flags.items() if flag is not None})
    return tuple(
        None if flag is None else flag.contiguous().view(torch.uint8) for flag in flags.values()
    )


def _parts(words: int, block: int, wanted: int) -> Tuple[int, int]:
    """(number of words in a part, number of parts) if a row of ``words`` words is split into about
    ``wanted`` equal parts; a part is a multiple of ``block`` words."""
    blocks = -(-words // block)
    part = -(-blocks // min(max(wanted, 1), blocks)) * block
    return part, -(-words // part)


def _alignment(logits: Tensor) -> int:
    """The largest power of two, at most 16, that divides both V and the distance of neighbouring
    rows of ``logits`` ``[M, V]`` in memory."""
    return math.gcd(logits.stride(0), logits.size(1), 16)
