"""Triton kernels of :mod:`.attention`; imported only where they run.

The cache has a slot for each token. A softmax is taken over blocks of slots: ``best`` is the
largest score so far, ``total`` the sum of exp(score - best), ``mixed`` that of exp(score - best) *
value.
"""

import triton
import triton.language as tl

from .linear_kernels import let_next_start, wait_for_previous


@triton.jit
def relative_rows(slot, own, distance, window):
    """Row indices, 0 to 2w, into the table of relative position vectors, for keys in the slots
    ``slot`` and a query in slot ``own``. Row w is that of distance 0; earlier keys have lower rows.

    Args:
        distance: positions between the tokens of neighbouring slots.
        window: w, at which distances are clipped; the table has 2w + 1 rows.
    """
    apart = (slot - own) * distance
    return tl.minimum(tl.maximum(apart, -window), window) + window


@triton.jit
def one_token(
    qkv,
    keys,
    values,
    position,
    relative,
    out,
    heads,
    width,
    capacity,
    position_stride,
    distance,
    window,
    scale,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.attention.attention_block` for one new token: a program computes one head of one row.

    Args:
        qkv, position, relative, out, scale: arguments of :func:`.attention.attention_block`.
        keys, values: its ``cache_k`` and ``cache_v``.
        heads, width, capacity: H, d and C, the number of slots.
        position_stride: 0 if all rows have the position ``position[0]``, 1 if each has its own.
        distance, window: positions between neighbouring slots, and the distance at which
            distances are clipped, as for :func:`relative_rows`.
        BLOCK_S: how many slots are read at a time.
        BLOCK_D: a power of two, at least d.
        EARLY: whether the next kernel may be launched before this one ends.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    program = tl.program_id(0)
    row = program // heads
    channel = tl.arange(0, BLOCK_D)
    inside = channel < width
    own = tl.load(position + row * position_stride)  # int64
    known = tl.minimum(own, capacity)
    # Row r of qkv has queries, keys and values of all heads one behind the other.
    query_place = qkv + row.to(tl.int64) * (3 * heads * width) + (program % heads) * width + channel
    query = tl.load(query_place, mask=inside, other=0.0).to(tl.float32) * scale
    new_key = tl.load(query_place + heads * width, mask=inside, other=0.0)
    new_value = tl.load(query_place + 2 * heads * width, mask=inside, other=0.0)
    start_of_cache = program.to(tl.int64) * capacity * width
    kept = inside & (own < capacity)
    tl.store(keys + start_of_cache + own * width + channel, new_key, mask=kept)
    tl.store(values + start_of_cache + own * width + channel, new_value, mask=kept)

    # The new token, from registers: what was just written need not be visible yet.
    new_key = new_key.to(tl.float32)
    if relative is not None:
        new_key += tl.load(relative + window * width + channel, mask=inside, other=0.0).to(
            tl.float32
        )
    best = tl.sum(query * new_key, 0)
    total = tl.exp(best - best)
    mixed = new_value.to(tl.float32)
    for start in range(0, known, BLOCK_S):
        slot = start + tl.arange(0, BLOCK_S)
        here = slot < known
        places = start_of_cache + slot[:, None].to(tl.int64) * width + channel[None, :]
        mask = here[:, None] & inside[None, :]
        key = tl.load(keys + places, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(values + places, mask=mask, other=0.0).to(tl.float32)
        if relative is not None:
            rows = relative_rows(slot, own, distance, window)
            key += tl.load(
                relative + rows[:, None] * width + channel[None, :], mask=mask, other=0.0
            ).to(tl.float32)
        score = tl.where(here, tl.sum(key * query[None, :], 1), float("-inf"))
        larger = tl.maximum(best, tl.max(score, 0))
        share = tl.exp(score - larger)
        keep = tl.exp(best - larger)
        total = total * keep + tl.sum(share, 0)
        mixed = mixed * keep + tl.sum(share[:, None] * value, 0)
        best = larger
    places = out + row.to(tl.int64) * (heads * width) + (program % heads) * width + channel
    tl.store(places, (mixed / total).to(out.dtype.element_ty), mask=inside)


@triton.jit
def relative_scores(
    query_start,
    relative,
    slot,
    own,
    here,
    width,
    row_width,
    distance,
    window,
    scale,
    COUNT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """What relative positions add to the scores of ``COUNT`` queries, in slots ``own``, ``own +
    1``, …: the products with their vectors for each key, ``[BLOCK_M, len(slot)]``.

    Args:
        query_start: pointer to the first query's numbers of this head.
        relative: pointer to the table of the vectors, ``[2 * window + 1, width]``.
        slot, here: the slots of the keys, and which of them are not padding.
        width: d, the numbers of a head.
        row_width: distance of neighbouring queries in memory.
        distance, window: positions between neighbouring slots, and the distance at which
            distances are clipped, as for :func:`relative_rows`.
        scale: factor of the queries.
        BLOCK_M, BLOCK_D: powers of two, at least ``COUNT`` and d.
    """
    channel = tl.arange(0, BLOCK_D)
    inside = channel < width
    asking = tl.arange(0, BLOCK_M)
    scores = tl.zeros((BLOCK_M, slot.shape[0]), tl.float32)
    for number in tl.static_range(COUNT):
        query = tl.load(query_start + number * row_width + channel, mask=inside, other=0.0)
        rows = relative_rows(slot, own + number, distance, window)
        vectors = tl.load(
            relative + rows[:, None] * width + channel[None, :],
            mask=here[:, None] & inside[None, :],
            other=0.0,
        )
        term = tl.sum(vectors.to(tl.float32) * query.to(tl.float32)[None, :], 1) * scale
        scores = tl.where((asking == number)[:, None], term[None, :], scores)
    return scores


@triton.jit
def seen_slots(visible, asking, slot, real, capacity):
    """Whether each query may see each slot, ``[BLOCK_M, len(slot)]``; True for queries that only
    pad the block, and for slots from ``capacity`` on.

    Args:
        visible: pointer to a table of bytes, one for each slot of each query.
        asking, real: numbers of the queries, and which of them are not padding.
        slot: the slots asked for.
        capacity: C, the slots of a query in the table.
    """
    table = visible + asking[:, None] * capacity
    mask = real[:, None] & (slot < capacity)[None, :]
    return tl.load(table + slot[None, :], mask=mask, other=1) != 0


@triton.jit
def some_tokens(
    qkv,
    keys,
    values,
    position,
    relative,
    visible,
    out,
    heads,
    width,
    capacity,
    position_stride,
    distance,
    window,
    scale,
    COUNT: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.attention.attention_block` for ``COUNT`` new tokens, at most ``BLOCK_M``: a program
    computes one head of one row.

    Arguments as for :func:`one_token`, and:

    Args:
        visible: which slots each new token may see, as for :func:`seen_slots`; or None: all.
        CAUSAL: whether a new token sees none of the later ones.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    program = tl.program_id(0)
    row = program // heads
    channel = tl.arange(0, BLOCK_D)
    inside = channel < width
    asking = tl.arange(0, BLOCK_M)
    real = asking < COUNT
    own = tl.load(position + row * position_stride)  # int64
    known = tl.minimum(own, capacity)
    row_width = 3 * heads * width
    query_start = qkv + row.to(tl.int64) * COUNT * row_width + (program % heads) * width
    new_places = query_start + asking[:, None] * row_width + channel[None, :]
    both = real[:, None] & inside[None, :]
    query = tl.load(new_places, mask=both, other=0.0)  # [BLOCK_M, BLOCK_D]
    new_key = tl.load(new_places + heads * width, mask=both, other=0.0)
    new_value = tl.load(new_places + 2 * heads * width, mask=both, other=0.0)
    start_of_cache = program.to(tl.int64) * capacity * width
    new_slot = own + asking
    kept_places = start_of_cache + new_slot[:, None] * width + channel[None, :]
    kept = both & (new_slot < capacity)[:, None]
    tl.store(keys + kept_places, new_key, mask=kept)
    tl.store(values + kept_places, new_value, mask=kept)

    # The new tokens among themselves, from registers: what was just written need not be visible.
    near = tl.dot(query, tl.trans(new_key), input_precision="ieee", out_dtype=tl.float32) * scale
    among = real[None, :] & (asking >= 0)[:, None]
    if CAUSAL:
        among = among & (asking[None, :] <= asking[:, None])
    if visible is not None:
        among = among & seen_slots(visible, asking, new_slot, real, capacity)
    if relative is not None:
        near += relative_scores(
            query_start, relative, new_slot, own, real, width, row_width, distance, window, scale,
            COUNT, BLOCK_M, BLOCK_D,
        )  # fmt: skip
    near = tl.where(among, near, float("-inf"))
    best = tl.max(near, 1)
    near = tl.exp(near - tl.where(best == float("-inf"), 0.0, best)[:, None])
    total = tl.sum(near, 1)
    mixed = tl.dot(
        near.to(new_value.dtype), new_value, input_precision="ieee", out_dtype=tl.float32
    )
    for start in range(0, known, BLOCK_S):
        slot = start + tl.arange(0, BLOCK_S)
        here = slot < known
        places = start_of_cache + slot[:, None].to(tl.int64) * width + channel[None, :]
        mask = here[:, None] & inside[None, :]
        key = tl.load(keys + places, mask=mask, other=0.0)
        value = tl.load(values + places, mask=mask, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee", out_dtype=tl.float32) * scale
        seen = here[None, :] & (asking >= 0)[:, None]
        if visible is not None:
            seen = seen & seen_slots(visible, asking, slot, real, capacity)
        if relative is not None:
            score += relative_scores(
                query_start, relative, slot, own, here, width, row_width, distance, window, scale,
                COUNT, BLOCK_M, BLOCK_D,
            )  # fmt: skip
        score = tl.where(seen, score, float("-inf"))
        larger = tl.maximum(best, tl.max(score, 1))
        # -inf as long as everything was hidden.
        finite = tl.where(larger == float("-inf"), 0.0, larger)
        share = tl.exp(score - finite[:, None])
        keep = tl.exp(best - finite)
        total = total * keep + tl.sum(share, 1)
        mixed = mixed * keep[:, None]
        mixed = tl.dot(
            share.to(value.dtype), value, mixed, input_precision="ieee", out_dtype=tl.float32
        )
        best = larger
    out_places = out + (row.to(tl.int64) * COUNT + asking[:, None]) * (heads * width)
    out_places += (program % heads) * width + channel[None, :]
    tl.store(out_places, (mixed / total[:, None]).to(out.dtype.element_ty), mask=both)


@triton.jit
def one_query(
    queries,
    keys,
    values,
    bias,
    out,
    heads,
    width,
    source,
    per_sentence,
    scale,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    EARLY: tl.constexpr,
):
    """:func:`.attention.cross_attention`: a program computes one head of one query.

    Args:
        queries, keys, values, bias, out, scale: arguments of :func:`.attention.cross_attention`.
        heads, width, source: H, d and S.
        per_sentence: the number of queries of a sentence, N * q.
        BLOCK_S: how many source tokens are read at a time.
        BLOCK_D: a power of two, at least d.
        EARLY: whether the next kernel may be launched before this one ends.
    """
    let_next_start(EARLY)
    wait_for_previous(EARLY)
    program = tl.program_id(0)
    query_number = program // heads
    head = program % heads
    sentence = query_number // per_sentence
    channel = tl.arange(0, BLOCK_D)
    inside = channel < width
    place = query_number.to(tl.int64) * (heads * width) + head * width + channel
    query = tl.load(queries + place, mask=inside, other=0.0).to(tl.float32) * scale
    start_of_keys = (sentence.to(tl.int64) * heads + head) * source * width
    best = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    mixed = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, source, BLOCK_S):
        slot = start + tl.arange(0, BLOCK_S)
        here = slot < source
        places = start_of_keys + slot[:, None].to(tl.int64) * width + channel[None, :]
        mask = here[:, None] & inside[None, :]
        key = tl.load(keys + places, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(values + places, mask=mask, other=0.0).to(tl.float32)
        score = tl.sum(key * query[None, :], 1)
        if bias is not None:
            score += tl.load(bias + sentence.to(tl.int64) * source + slot, mask=here, other=0.0).to(
                tl.float32
            )
        score = tl.where(here, score, float("-inf"))
        larger = tl.maximum(best, tl.max(score, 0))
        # -inf as long as everything was hidden.
        finite = tl.where(larger == float("-inf"), 0.0, larger)
        share = tl.exp(score - finite)
        keep = tl.exp(best - finite)
        total = total * keep + tl.sum(share, 0)
        mixed = mixed * keep + tl.sum(share[:, None] * value, 0)
        best = larger
    # A sentence without tokens, as rows of padding have: zeros; a NaN stays one.
    mixed = mixed / tl.where(total == 0.0, 1.0, total)
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=inside)
