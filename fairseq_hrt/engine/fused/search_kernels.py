"""Triton kernels of :mod:`.search`; imported only where they run.

A program reads the logits of a row, or of a part of it, once. Indices of words are int32, those of
elements of all logits int64.
"""

import triton
import triton.language as tl


@triton.jit
def scaled(value, temperature, SCALED: tl.constexpr):
    """Logits ``value`` as float32; if ``SCALED``, divided by the temperature and rounded to the
    dtype of ``value``, as PyTorch would."""
    exact = value.to(tl.float32)
    if SCALED:
        exact = (exact / temperature).to(value.dtype).to(tl.float32)
    return exact


@triton.jit
def best_of_part(  # noqa: C901 - most branches are the compiler's
    logits,
    forced,
    forbid_eos,
    only_eos,
    tops,
    picks,
    peaks,
    sums,
    tokens,
    stride,
    words,
    part,
    splits,
    temperature,
    eos,
    PENALISED: tl.constexpr,
    PENALTIES: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGN: tl.constexpr,
    SCALED: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """The best allowed word among ``part`` words of a row, for :func:`.search.best_words`.

    Args:
        logits, forced, forbid_eos, only_eos, temperature, eos: arguments of that function.
        tops, tokens: if ``WHOLE``, ``[M]``: the word's log-probability and the word are written
            there.
        tops, picks, peaks, sums: otherwise ``[M, splits]``, written for each part: the largest
            logit of an allowed word, penalties subtracted; that word; the largest logit of all
            words; and the sum of exp(logit - that largest logit).
        stride, words: distance of neighbouring rows of the logits in memory, and V.
        part, splits: the number of words in a part, and of parts in a row.
        PENALISED, PENALTIES: ``COUNT`` words, and what is subtracted from the logit of each.
        BLOCK: how many words are read at a time.
        ALIGN: a divisor of ``stride`` and ``words``, which the compiler can make use of.
        SCALED: whether the temperature differs from 1.
        WHOLE: whether a row is a single part.
    """
    place = tl.program_id(0)
    row = place // splits
    # A factor that the compiler can see lets it load several words at once.
    words = words // ALIGN * ALIGN
    source = logits + row.to(tl.int64) * (stride // ALIGN * ALIGN)
    first = (place % splits) * part
    own = tl.full((), -1, tl.int32)
    forbidden = tl.full((), 0, tl.int32)
    if forced is not None:
        own = tl.load(forced + row).to(tl.int32)
    if forbid_eos is not None:
        forbidden = tl.load(forbid_eos + row).to(tl.int32)
    if only_eos is not None:
        own = tl.where(tl.load(only_eos + row) != 0, eos, own)
    lane = tl.arange(0, BLOCK)
    peak = tl.full((), float("-inf"), tl.float32)
    best = tl.full((), float("-inf"), tl.float32)
    pick = words
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, tl.minimum(first + part, words), BLOCK):
        word = start + lane
        inside = word < words
        value = scaled(
            tl.load(source + word, mask=inside, other=float("-inf")), temperature, SCALED
        )
        top = tl.max(value, 0)
        largest = tl.maximum(peak, top)
        # -inf where all logits are: their sum is 0.
        finite = tl.where(largest == float("-inf"), 0.0, largest)
        total = total * tl.exp(peak - finite) + tl.exp(value - finite)
        peak = largest
        if own >= 0:
            value = tl.where(word == own, value, float("-inf"))
            top = tl.max(value, 0)
        else:
            # Only a block that has such words is changed.
            for i in tl.static_range(COUNT):
                if (PENALISED[i] >= start) & (PENALISED[i] < start + BLOCK):
                    value = tl.where(word == PENALISED[i], value - PENALTIES[i], value)
                    top = tl.max(value, 0)
            if (forbidden != 0) & (eos >= start) & (eos < start + BLOCK):
                value = tl.where(word == eos, float("-inf"), value)
                top = tl.max(value, 0)
        # The first block counts even where all of its words are forbidden.
        if (top > best) | (pick == words):
            best = top
            pick = tl.min(tl.where(inside & (value == top), word, words), 0)
    if own >= 0:
        # Also where its logit is -inf.
        pick = tl.where((own >= first) & (own < first + part), own, words)
    mass = tl.sum(total, 0)
    if WHOLE:
        finite = tl.where(peak == float("-inf"), 0.0, peak)
        # With a NaN nothing equals the largest; any word will do, its log-probability is NaN.
        tl.store(tokens + row, tl.minimum(pick, words - 1).to(tl.int64))
        tl.store(tops + row, (best - finite) - tl.log(mass))
    else:
        tl.store(tops + place, best)
        tl.store(picks + place, pick)
        tl.store(peaks + place, peak)
        tl.store(sums + place, mass)


@triton.jit
def ordered(bits, LARGEST: tl.constexpr):
    """Converts the bits of floating-point numbers, as signed integers, to integers that sort as the
    numbers do, -0 before 0; and back. ``LARGEST`` is the largest integer of as many bits."""
    return tl.where(bits < 0, bits ^ LARGEST, bits)


@triton.jit
def top_of_part(
    logits,
    keys,
    peaks,
    sums,
    stride,
    words,
    part,
    splits,
    temperature,
    pad,
    eos,
    unk,
    COUNT: tl.constexpr,
    PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGN: tl.constexpr,
    SCALED: tl.constexpr,
    HALF: tl.constexpr,
    LEAST: tl.constexpr,
):
    """The ``COUNT`` largest logits among ``part`` words of a row, special words left out; the first
    kernel of :func:`.search.best_continuations`.

    Args:
        logits, temperature, pad, eos, unk: arguments of that function.
        keys: ``[R, splits, COUNT]``, written, in no order: integers that sort by logit, then by
            word. The upper bits are the logit's (:func:`ordered`), the lower 16 are 65535 less the
            place of the word in the part. Up to ``LEAST + PLACES`` they mean no word.
        peaks, sums: ``[R, splits]``, written: the largest logit of all words, special ones
            included, and the sum of exp(logit - peak).
        stride, words: distance of neighbouring rows of the logits in memory, and V.
        part, splits: the number of words in a part, and of parts in a row.
        PLACES: a power of two, at least ``COUNT``.
        BLOCK, ALIGN, SCALED: as for :func:`best_of_part`.
        HALF: True if logits have 16 bits and ``keys`` 32, False if they have 32 and 64.
        LEAST: an integer below the key of every number.
    """
    place = tl.program_id(0)
    row = place // splits
    # A factor that the compiler can see lets it load several words at once.
    words = words // ALIGN * ALIGN
    source = logits + row.to(tl.int64) * (stride // ALIGN * ALIGN)
    first = (place % splits) * part
    lane = tl.arange(0, BLOCK)
    slot = tl.arange(0, PLACES)
    peak = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    # Different numbers: each insertion replaces one of them. Slots that do not exist stay.
    if HALF:
        found = tl.where(slot < COUNT, LEAST + slot, 2147483647)
    else:
        found = tl.where(slot < COUNT, LEAST + slot.to(tl.int64), 9223372036854775807)
    floor = tl.min(found, 0)
    for start in range(first, tl.minimum(first + part, words), BLOCK):
        word = start + lane
        inside = word < words
        raw = tl.load(source + word, mask=inside, other=float("-inf"))
        value = scaled(raw, temperature, SCALED)
        largest = tl.maximum(peak, tl.max(value, 0))
        finite = tl.where(largest == float("-inf"), 0.0, largest)
        total = total * tl.exp(peak - finite) + tl.exp(value - finite)
        peak = largest
        # -0 equals 0.
        value = tl.where(value == 0.0, 0.0, value)
        ordinary = inside & (word != pad) & (word != eos) & (word != unk)
        if HALF:
            bits = value.to(raw.dtype).to(tl.int16, bitcast=True).to(tl.int32)
            key = ordered(bits, 32767) * 65536 + (65535 - (word - first))
        else:
            bits = value.to(tl.int32, bitcast=True)
            key = ordered(bits, 2147483647).to(tl.int64) * 65536 + (65535 - (word - first))
        key = tl.where(ordinary, key, LEAST)
        top = tl.max(key, 0)
        while top > floor:
            found = tl.where(found == floor, top, found)
            floor = tl.min(found, 0)
            top = tl.max(tl.where(key < top, key, LEAST), 0)
    tl.store(keys + place.to(tl.int64) * COUNT + slot, found, mask=slot < COUNT)
    tl.store(peaks + place, peak)
    tl.store(sums + place, tl.sum(total, 0))


@triton.jit
def sums_of_rows(peaks, sums, row, real, splits, PARTS: tl.constexpr):
    """(the largest logit of each row, or 0 if that is -inf, and the sum of exp(logit - largest)).

    Args:
        peaks, sums: the largest logit of each part, and the sum of exp(logit - largest) in it:
            ``[R, splits]``, as :func:`top_of_part` writes them.
        row, real: numbers of the rows, and which of them are not padding.
        PARTS: a power of two, at least ``splits``.
    """
    split = tl.arange(0, PARTS)
    there = real[:, None] & (split < splits)[None, :]
    places = row[:, None] * splits + split[None, :]
    peak = tl.load(peaks + places, mask=there, other=float("-inf"))
    mass = tl.load(sums + places, mask=there, other=0.0)
    largest = tl.max(peak, 1)
    finite = tl.where(largest == float("-inf"), 0.0, largest)
    mass = tl.where(mass == 0.0, 0.0, mass * tl.exp(peak - finite[:, None]))
    return finite, tl.sum(mass, 1)


@triton.jit
def top_of_sentence(
    logits,
    totals,
    forbid_eos,
    only_eos,
    keys,
    peaks,
    sums,
    scores,
    tokens,
    parents,
    stride,
    words,
    part,
    splits,
    temperature,
    eos,
    unk,
    unkpen,
    BEAMS: tl.constexpr,
    COUNT: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    LANES: tl.constexpr,
    PLACES: tl.constexpr,
    SCALED: tl.constexpr,
    WITH_UNK: tl.constexpr,
    HALF: tl.constexpr,
    LEAST: tl.constexpr,
):
    """The best continuations of a sentence, among ``</s>``, ``<unk>`` and the words that
    :func:`top_of_part` found in its rows; the second kernel of :func:`.search.best_continuations`.

    Args:
        logits, totals, forbid_eos, only_eos, temperature, eos, unk, unkpen: arguments of that
            function.
        keys, peaks, sums: results of :func:`top_of_part`; ``PLACES``, ``HALF`` and ``LEAST`` as
            for that kernel.
        scores, tokens, parents: results of :func:`.search.best_continuations`, written.
        stride, words: distance of neighbouring rows of the logits in memory, and V.
        part, splits: the number of words in a part, and of parts in a row.
        BEAMS, COUNT: N, and how many continuations to find.
        ROWS, PARTS, LANES: powers of two, at least N, ``splits`` and ``splits * COUNT + 2``.
        SCALED, WITH_UNK: whether the temperature differs from 1, and whether ``<unk>`` is allowed.
    """
    sentence = tl.program_id(0)
    beam = tl.arange(0, ROWS)
    real = beam < BEAMS
    row = sentence.to(tl.int64) * BEAMS + beam  # [ROWS]
    before = tl.load(totals + row, mask=real, other=0.0)

    finite, mass = sums_of_rows(peaks, sums, row, real, splits, PARTS)
    lane = tl.arange(0, LANES)[None, :]
    count = splits * COUNT
    key = tl.load(
        keys + row[:, None] * count + lane, mask=real[:, None] & (lane < count), other=LEAST
    )  # [ROWS, LANES]
    local = 65535 - (key & 65535).to(tl.int32)
    if HALF:
        bits = ordered((key >> 16).to(tl.int32), 32767)
        value = bits.to(tl.int16).to(logits.dtype.element_ty, bitcast=True).to(tl.float32)
    else:
        bits = ordered((key >> 16).to(tl.int32), 2147483647)
        value = bits.to(tl.float32, bitcast=True)
    ordinary = key > LEAST + PLACES
    # Behind the words of the parts there is one lane for </s> and one for <unk>.
    is_eos = lane == count
    is_unk = lane == count + 1
    special = tl.where(is_unk, unk, eos)
    own = tl.load(
        logits + row[:, None] * stride + special,
        mask=real[:, None] & (is_eos | is_unk),
        other=float("-inf"),
    )
    value = tl.where(ordinary, value, scaled(own, temperature, SCALED))
    word = tl.where(ordinary, lane // COUNT * part + local, special)

    # NaN in the whole row if a logit is NaN, or if all are -inf.
    score = (value - finite[:, None]) - tl.log(mass)[:, None]
    score = tl.where(is_unk, score - unkpen, score) + before[:, None]
    allowed = ordinary
    if WITH_UNK:
        allowed = allowed | is_unk
    if forbid_eos is None:
        allowed = allowed | is_eos
    else:
        allowed = allowed | (is_eos & (tl.load(forbid_eos + sentence) == 0))
    if only_eos is not None:
        allowed = tl.where(tl.load(only_eos + sentence) != 0, is_eos & real[:, None], allowed)
    score = tl.where(allowed & real[:, None], score, float("-inf"))

    # Ordered by score, then by beam and word; NaN is before everything.
    rank = ordered(score.to(tl.int32, bitcast=True), 2147483647)
    rank = tl.where(score == 0.0, 0, tl.where(score != score, 2147483647, rank))
    flat = beam[:, None] * words + word
    rank = (rank.to(tl.int64) << 31) + (2147483647 - flat)
    rank = tl.where(real[:, None] & (lane < count + 2), rank, -9223372036854775807)
    rank = tl.reshape(rank, [ROWS * LANES])
    last = tl.max(rank, 0)
    out = sentence.to(tl.int64) * COUNT
    for number in range(COUNT):
        exists = last > -9223372036854775807
        pattern = ordered((last >> 31).to(tl.int32), 2147483647)
        chosen = 2147483647 - (last & 2147483647).to(tl.int32)
        chosen = tl.where(exists, chosen, 0)
        best = tl.where(exists, pattern.to(tl.float32, bitcast=True), float("-inf"))
        tl.store(scores + out + number, best)
        tl.store(tokens + out + number, (chosen % words).to(tl.int64))
        tl.store(parents + out + number, (chosen // words).to(tl.int64))
        last = tl.max(tl.where(rank < last, rank, -9223372036854775807), 0)
