/* Attention on cached keys and values. Included by each operations_*.c.
 *
 * Keys lie in blocks of FH_BLOCK tokens, so scores of W tokens are one vector; the sum over a
 * head's width is four chains (channel modulo 4). Values are mixed W channels at a time, in two
 * chains (even and odd tokens). QUERIES queries that see the same tokens share the loads, with sums
 * in the same order, so that a query's result is the same alone. */

#define BLOCK_VECTORS (FH_BLOCK / W)

/* One query and FH_BLOCK vectors that lie transposed [width][FH_BLOCK]: their products. */
static INLINE void block_products(const float *query, const float *block, int32_t width,
                                  vf products[BLOCK_VECTORS]) {
    for (int b = 0; b < BLOCK_VECTORS; b++) {
        vf s = f_zero(), t = s, u = s, v = s;
        const float *at = block + b * W;
        int32_t c = 0;
        for (; c + 4 <= width; c += 4, at += 4 * FH_BLOCK) {
            s = f_fma(f_all(query[c]), f_load(at), s);
            t = f_fma(f_all(query[c + 1]), f_load(at + FH_BLOCK), t);
            u = f_fma(f_all(query[c + 2]), f_load(at + 2 * FH_BLOCK), u);
            v = f_fma(f_all(query[c + 3]), f_load(at + 3 * FH_BLOCK), v);
        }
        if (c < width) s = f_fma(f_all(query[c]), f_load(at), s);
        if (c + 1 < width) t = f_fma(f_all(query[c + 1]), f_load(at + FH_BLOCK), t);
        if (c + 2 < width) u = f_fma(f_all(query[c + 2]), f_load(at + 2 * FH_BLOCK), u);
        products[b] = f_add(f_add(s, t), f_add(u, v));
    }
}

static INLINE void head_scores(const float *keys, size_t step, int32_t width, const float *query,
                               int32_t tokens, float *out) {
    vf scale = f_all(1.f / sqrtf((float)width));
    for (int32_t t = 0; t < tokens; t += FH_BLOCK, keys += step) {
        vf products[BLOCK_VECTORS];
        block_products(query, keys, width, products);
        for (int b = 0; b < BLOCK_VECTORS; b++) f_store(out + t + b * W, f_mul(products[b], scale));
    }
}

#define CHAINS(q) vf s##q = f_zero(), t##q = s##q, u##q = s##q, v##q = s##q;
#define CHANNEL(chain, offset)                                                                     \
    {                                                                                              \
        vf key = f_load(at + (offset) * FH_BLOCK);                                                 \
        KEEP(key)                                                                                  \
        QUERY_EACH(chain, offset)                                                                  \
    }
#define CHANNEL_OF(chain, q, offset)                                                               \
    chain##q = f_fma(f_all(query[(q) * ldq + c + (offset)]), key, chain##q);
#define CHANNELS_JOINED(q)                                                                         \
    f_store(out + (q) * ldo + t + b * W, f_mul(f_add(f_add(s##q, t##q), f_add(u##q, v##q)), scale));
#if QUERIES == 4
#define QUERY_EACH(chain, offset)                                                                  \
    CHANNEL_OF(chain, 0, offset)                                                                   \
    CHANNEL_OF(chain, 1, offset) CHANNEL_OF(chain, 2, offset) CHANNEL_OF(chain, 3, offset)
#define ALL_QUERIES(X) X(0) X(1) X(2) X(3)
#else
#define QUERY_EACH(chain, offset) CHANNEL_OF(chain, 0, offset) CHANNEL_OF(chain, 1, offset)
#define ALL_QUERIES(X) X(0) X(1)
#endif
/* head_scores of QUERIES queries, ldq floats apart; out: ldo floats apart. */
static INLINE void shared_scores(const float *keys, size_t step, int32_t width, const float *query,
                                 ptrdiff_t ldq, int32_t tokens, float *out, ptrdiff_t ldo) {
    vf scale = f_all(1.f / sqrtf((float)width));
    for (int32_t t = 0; t < tokens; t += FH_BLOCK, keys += step)
        for (int b = 0; b < BLOCK_VECTORS; b++) {
            const float *at = keys + b * W;
            int32_t c = 0;
            ALL_QUERIES(CHAINS)
            for (; c + 4 <= width; c += 4, at += 4 * FH_BLOCK) {
                CHANNEL(s, 0) CHANNEL(t, 1) CHANNEL(u, 2) CHANNEL(v, 3)
            }
            if (c < width) CHANNEL(s, 0)
            if (c + 1 < width) CHANNEL(t, 1)
            if (c + 2 < width) CHANNEL(u, 2)
            ALL_QUERIES(CHANNELS_JOINED)
        }
}

static INLINE size_t cache_step(const fh_cache *cache) {
    return (size_t)cache->heads * FH_BLOCK * (size_t)(cache->width + (cache->width + 15) / 16 * 16);
}

static void scores(const fh_cache *cache, int32_t head, const float *query, int32_t tokens,
                   float *out) {
    head_scores(cache->data + (size_t)head * (size_t)cache->width * FH_BLOCK, cache_step(cache),
                cache->width, query, tokens, out);
}

/* Up to four vectors of channels of the mix of values; mask as in fh_attention (NULL: all seen). */
static INLINE void mix_channels(const float *values, size_t step, int32_t wide,
                                const float *weights, int32_t tokens, const uint8_t *mask,
                                int vectors, vf *mix) {
    vf even[4], odd[4];
    for (int i = 0; i < vectors; i++) even[i] = odd[i] = f_zero();
    for (int32_t first = 0; first < tokens; first += FH_BLOCK, values += step) {
        int32_t count = tokens - first < FH_BLOCK ? tokens - first : FH_BLOCK, t = 0;
        const float *at = values;
        if (mask) {
            for (; t < count; t++, at += wide) {
                if (!mask[first + t]) continue; /* what is hidden may hold anything */
                vf p = f_all(weights[first + t]), *to = t % 2 ? odd : even;
                for (int i = 0; i < vectors; i++) to[i] = f_fma(p, f_load(at + i * W), to[i]);
            }
            continue;
        }
        for (; t + 2 <= count; t += 2, at += 2 * wide) {
            vf p = f_all(weights[first + t]), q = f_all(weights[first + t + 1]);
            for (int i = 0; i < vectors; i++) even[i] = f_fma(p, f_load(at + i * W), even[i]);
            for (int i = 0; i < vectors; i++) odd[i] = f_fma(q, f_load(at + wide + i * W), odd[i]);
        }
        if (t < count) {
            vf p = f_all(weights[first + t]);
            for (int i = 0; i < vectors; i++) even[i] = f_fma(p, f_load(at + i * W), even[i]);
        }
    }
    for (int i = 0; i < vectors; i++) mix[i] = f_add(even[i], odd[i]);
}

#define MIX(N)                                                                                     \
    {                                                                                              \
        vf mix[N];                                                                                 \
        if (mask)                                                                                  \
            mix_channels(values + c, step, wide, weights, tokens, mask, N, mix);                   \
        else                                                                                       \
            mix_channels(values + c, step, wide, weights, tokens, NULL, N, mix);                   \
        for (int i = 0; i < N; i++, c += W) {                                                      \
            if (c + W <= width)                                                                    \
                f_store(out + c, mix[i]);                                                          \
            else if (c < width)                                                                    \
                f_store_part(out + c, width - c, mix[i]);                                          \
        }                                                                                          \
    }
static INLINE void head_mix(const float *values, size_t step, int32_t width, const float *weights,
                            int32_t tokens, const uint8_t *mask, float *out) {
    int32_t wide = (width + 15) / 16 * 16, c = 0;
    while (wide - c >= 4 * W) MIX(4)
    while (wide - c >= 2 * W) MIX(2)
    while (wide - c >= W) MIX(1)
}

#define SUMS(q) vf even##q[2] = {f_zero(), f_zero()}, odd##q[2] = {f_zero(), f_zero()};
#define EVEN(q)                                                                                    \
    {                                                                                              \
        vf p = f_all(weights[(q) * ldw + first + t]);                                              \
        even##q[0] = f_fma(p, x, even##q[0]), even##q[1] = f_fma(p, y, even##q[1]);                \
    }
#define ODD(q)                                                                                     \
    {                                                                                              \
        vf p = f_all(weights[(q) * ldw + first + t + 1]);                                          \
        odd##q[0] = f_fma(p, x, odd##q[0]), odd##q[1] = f_fma(p, y, odd##q[1]);                    \
    }
#define SUMS_JOINED(q)                                                                             \
    for (int i = 0; i < pair; i++) {                                                               \
        vf mix = f_add(even##q[i], odd##q[i]);                                                     \
        int32_t channel = c + i * W;                                                               \
        if (channel + W <= width)                                                                  \
            f_store(out + (q) * ldo + channel, mix);                                               \
        else if (channel < width)                                                                  \
            f_store_part(out + (q) * ldo + channel, width - channel, mix);                         \
    }
/* head_mix of QUERIES queries, two vectors of channels at a time (the padded width is a multiple of
 * 16). */
static INLINE void shared_mix(const float *values, size_t step, int32_t width, const float *weights,
                              ptrdiff_t ldw, int32_t tokens, float *out, ptrdiff_t ldo) {
    int32_t wide = (width + 15) / 16 * 16;
    for (int32_t c = 0; c < width; c += 2 * W) {
        int pair = wide - c >= 2 * W ? 2 : 1;
        int32_t next = pair == 2 ? W : 0;
        const float *block = values + c;
        ALL_QUERIES(SUMS)
        for (int32_t first = 0; first < tokens; first += FH_BLOCK, block += step) {
            int32_t count = tokens - first < FH_BLOCK ? tokens - first : FH_BLOCK, t = 0;
            const float *at = block;
            for (; t + 2 <= count; t += 2, at += 2 * wide) {
                vf x = f_load(at), y = f_load(at + next);
                KEEP(x)
                KEEP(y) ALL_QUERIES(EVEN) x = f_load(at + wide), y = f_load(at + wide + next);
                KEEP(x) KEEP(y) ALL_QUERIES(ODD)
            }
            if (t < count) {
                vf x = f_load(at), y = f_load(at + next);
                KEEP(x) KEEP(y) ALL_QUERIES(EVEN)
            }
        }
        ALL_QUERIES(SUMS_JOINED)
    }
}

/* Adds the products with the vectors of the keys' distances (numbers of rows of the table, lowest
 * to highest) to the scores. */
static INLINE void add_relative(const fh_relative *relative, const float *query,
                                const int32_t *distances, int32_t lowest, int32_t highest,
                                int32_t tokens, float *products, float *out) {
    vf scale = f_all(1.f / sqrtf((float)relative->width));
    for (int32_t d = lowest / FH_BLOCK * FH_BLOCK; d <= highest; d += FH_BLOCK) {
        vf block[BLOCK_VECTORS];
        block_products(query, relative->data + (size_t)d * (size_t)relative->width, relative->width,
                       block);
        for (int b = 0; b < BLOCK_VECTORS; b++)
            f_store(products + d + b * W, f_mul(block[b], scale));
    }
    for (int32_t t = 0; t < tokens; t++) out[t] += products[distances[t]];
}

/* The tokens that query r sees: the first `tokens`, and of these only those of *mask unless that is
 * NULL. */
static INLINE int32_t seen_tokens(const fh_attention *a, int32_t r, const uint8_t **mask) {
    int32_t tokens = a->tokens;
    if (a->visible)
        tokens = a->visible[r] < 0 ? 0 : a->visible[r] < tokens ? a->visible[r] : tokens;
    *mask = a->mask ? a->mask + r * a->ldm : NULL;
    if (*mask) {
        while (tokens > 0 && !(*mask)[tokens - 1]) tokens--;
        if (tokens > 0 && !memchr(*mask, 0, (size_t)tokens)) *mask = NULL;
    }
    return tokens;
}

/* Rows of the relative table for query r; *range: the lowest and the highest of them. */
static INLINE void find_distances(const fh_attention *a, int32_t r, int32_t tokens,
                                  int32_t *distances, int32_t range[2]) {
    int32_t w = a->relative->window, here = a->query_positions[r], lowest = 2 * w, highest = 0;
    for (int32_t t = 0; t < tokens; t++) {
        int32_t distance = a->key_positions[t] - here;
        distance = (distance < -w ? -w : distance > w ? w : distance) + w;
        distances[t] = distance;
        lowest = distance < lowest ? distance : lowest;
        highest = distance > highest ? distance : highest;
    }
    range[0] = lowest;
    range[1] = highest;
}

static void attend(const fh_attention *a) {
    const fh_cache *cache = a->cache;
    const fh_relative *relative = a->relative;
    int32_t width = cache->width, wide = (width + 15) / 16 * 16;
    size_t step = cache_step(cache), behind_keys = (size_t)cache->heads * FH_BLOCK * (size_t)width;
    /* An odd number of cache lines, so that the rows of scores do not share cache sets. */
    ptrdiff_t padded = (((a->tokens + FH_BLOCK - 1) / FH_BLOCK) | 1) * FH_BLOCK;
    float *score = a->scratch, *products = score + 2 * QUERIES * padded;
    int32_t *distances = (int32_t *)(void *)(score + QUERIES * padded);
    for (int32_t r = 0, count; r < a->rows; r += count) {
        const uint8_t *mask, *other;
        int32_t tokens = seen_tokens(a, r, &mask), range[QUERIES][2];
        count = 1;
        while (!mask && count < QUERIES && r + count < a->rows &&
               seen_tokens(a, r + count, &other) == tokens && !other)
            count++;
        if (count < QUERIES) count = 1;
        const float *query = a->queries + r * a->ldq;
        float *out = a->out + r * a->ldo;
        for (int32_t q = 0; q < count; q++) {
            if (a->weights)
                memset(a->weights + (r + q) * a->ldw, 0, (size_t)a->tokens * sizeof(float));
            if (!tokens)
                memset(out + q * a->ldo, 0, (size_t)cache->heads * (size_t)width * sizeof(float));
            if (relative) find_distances(a, r + q, tokens, distances + q * padded, range[q]);
        }
        for (int32_t h = 0; tokens && h < cache->heads; h++) {
            const float *keys = cache->data + (size_t)h * (size_t)width * FH_BLOCK,
                        *values = cache->data + behind_keys + (size_t)h * FH_BLOCK * (size_t)wide;
            if (count == QUERIES)
                shared_scores(keys, step, width, query + h * width, a->ldq, tokens, score, padded);
            else
                head_scores(keys, step, width, query + h * width, tokens, score);
            for (int32_t q = 0; q < count; q++) {
                float *own = score + q * padded;
                if (relative)
                    add_relative(relative, query + q * a->ldq + h * width, distances + q * padded,
                                 range[q][0], range[q][1], tokens, products, own);
                for (int32_t t = 0; mask && t < tokens; t++)
                    if (!mask[t]) own[t] = -INFINITY;
                softmax_row(own, tokens);
                for (int32_t t = 0; a->weights && t < tokens; t++)
                    a->weights[(r + q) * a->ldw + t] += own[t] / (float)cache->heads;
            }
            if (count == QUERIES)
                shared_mix(values, step, width, score, padded, tokens, out + h * width, a->ldo);
            else
                head_mix(values, step, width, score, tokens, mask, out + h * width);
        }
    }
}
