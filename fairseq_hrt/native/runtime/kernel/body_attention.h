/* Attention on cached keys and values. Included by each operations_*.c.
 *
 * Keys lie in squares of four tokens by four channels (see fh_cache), so the score of a token is
 * four chains (channel modulo 4), in neighbouring lanes; the scores of W tokens are four vectors,
 * joined at the end. Values are mixed W channels at a time, in two chains (even and odd tokens).
 * QUERIES queries that see the same tokens share the loads, with sums in the same order, so that a
 * query's result is the same alone. */

enum { SHARE = W / FH_SQUARE }; /* tokens of one vector of sums */

/* The four channels of a query from c on, zeros behind its width. */
static INLINE vf query_square(const float *query, int32_t c, int32_t width) {
    if (c + FH_SQUARE <= width) return f_four(query + c);
    float four[FH_SQUARE] = {0};
    memcpy(four, query + c, (size_t)(width - c) * sizeof *query);
    return f_four(four);
}

/* Products of one query and W keys, of the first `sums` times W / 4 at least. */
static INLINE vf few_products(const float *query, const float *keys, int32_t width, int sums) {
    size_t high = fh_key_width(width);
    const float *at1 = keys + fh_key_place(high, SHARE, 0),
                *at2 = keys + fh_key_place(high, 2 * SHARE, 0),
                *at3 = keys + fh_key_place(high, 3 * SHARE, 0);
    vf s = f_zero(), t = s, u = s, v = s;
    for (int32_t c = 0; c < width; c += FH_SQUARE) {
        vf own = query_square(query, c, width);
        s = f_fma(own, f_load(keys + c * FH_SQUARE), s);
        if (sums > 1) t = f_fma(own, f_load(at1 + c * FH_SQUARE), t);
        if (sums > 2) u = f_fma(own, f_load(at2 + c * FH_SQUARE), u);
        if (sums > 3) v = f_fma(own, f_load(at3 + c * FH_SQUARE), v);
    }
    return f_joined(s, t, u, v);
}
static INLINE vf some_products(const float *query, const float *keys, int32_t width,
                               int32_t tokens) {
    if (tokens > 3 * SHARE) return few_products(query, keys, width, 4);
    if (tokens > 2 * SHARE) return few_products(query, keys, width, 3);
    return few_products(query, keys, width, tokens > SHARE ? 2 : 1);
}

static INLINE void head_scores(const float *keys, size_t step, int32_t width, const float *query,
                               int32_t tokens, float *out) {
    vf scale = f_all(1.f / sqrtf((float)width));
    for (int32_t t = 0; t < tokens; t += W) {
        const float *at = keys + (size_t)(t / FH_BLOCK) * step +
                          fh_key_place(fh_key_width(width), (size_t)(t % FH_BLOCK), 0);
        f_store(out + t, f_mul(some_products(query, at, width, tokens - t), scale));
    }
}

#define CHAINS(q) vf s##q = f_zero(), t##q = s##q, u##q = s##q, v##q = s##q;
#define SQUARES(q)                                                                                 \
    {                                                                                              \
        vf own = query_square(query + (q) * ldq, c, width);                                        \
        s##q = f_fma(own, a, s##q);                                                                \
        if (sums > 1) t##q = f_fma(own, b, t##q);                                                  \
        if (sums > 2) u##q = f_fma(own, d, u##q);                                                  \
        if (sums > 3) v##q = f_fma(own, e, v##q);                                                  \
    }
#define CHAINS_JOINED(q) f_store(out + (q) * ldo, f_mul(f_joined(s##q, t##q, u##q, v##q), scale));
#if QUERIES == 4
#define ALL_QUERIES(X) X(0) X(1) X(2) X(3)
#else
#define ALL_QUERIES(X) X(0) X(1)
#endif
/* Scores of QUERIES queries, ldq floats apart, for the first `sums` times W / 4 of W keys; the
 * others are zero, and their memory, which may hold anything, is not read. out: ldo floats apart.
 */
static INLINE void shared_products(const float *query, ptrdiff_t ldq, const float *keys,
                                   int32_t width, int sums, vf scale, float *out, ptrdiff_t ldo) {
    size_t high = fh_key_width(width), second = fh_key_place(high, SHARE, 0),
           third = fh_key_place(high, 2 * SHARE, 0), fourth = fh_key_place(high, 3 * SHARE, 0);
    ALL_QUERIES(CHAINS)
    for (int32_t c = 0; c < width; c += FH_SQUARE, keys += FH_SQUARE * FH_SQUARE) {
        vf a = f_load(keys), b = a, d = a, e = a;
        KEEP(a)
        if (sums > 1) {
            b = f_load(keys + second);
            KEEP(b)
        }
        if (sums > 2) {
            d = f_load(keys + third);
            KEEP(d)
        }
        if (sums > 3) {
            e = f_load(keys + fourth);
            KEEP(e)
        }
        ALL_QUERIES(SQUARES)
    }
    ALL_QUERIES(CHAINS_JOINED)
}
/* head_scores of QUERIES queries. */
static INLINE void shared_scores(const float *keys, size_t step, int32_t width, const float *query,
                                 ptrdiff_t ldq, int32_t tokens, float *out, ptrdiff_t ldo) {
    vf scale = f_all(1.f / sqrtf((float)width));
    for (int32_t t = 0; t < tokens; t += W, out += W) {
        const float *at = keys + (size_t)(t / FH_BLOCK) * step +
                          fh_key_place(fh_key_width(width), (size_t)(t % FH_BLOCK), 0);
        if (tokens - t > 3 * SHARE)
            shared_products(query, ldq, at, width, 4, scale, out, ldo);
        else if (tokens - t > 2 * SHARE)
            shared_products(query, ldq, at, width, 3, scale, out, ldo);
        else if (tokens - t > SHARE)
            shared_products(query, ldq, at, width, 2, scale, out, ldo);
        else
            shared_products(query, ldq, at, width, 1, scale, out, ldo);
    }
}

static INLINE size_t cache_step(const fh_cache *cache) {
    return (size_t)cache->heads * FH_BLOCK *
           (fh_key_width(cache->width) + (size_t)((cache->width + 15) / 16 * 16));
}

static void scores(const fh_cache *cache, int32_t head, const float *query, int32_t tokens,
                   float *out) {
    head_scores(cache->data + (size_t)head * fh_key_width(cache->width) * FH_BLOCK,
                cache_step(cache), cache->width, query, tokens, out);
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
    size_t high = fh_key_width(relative->width);
    for (int32_t d = lowest / W * W; d <= highest; d += W)
        f_store(products + d,
                f_mul(some_products(query, relative->data + fh_key_place(high, (size_t)d, 0),
                                    relative->width, highest + 1 - d),
                      scale));
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

/* From scores to weights, [tokens], of one head of query r; distances, range: of find_distances. */
static INLINE void weigh(const fh_attention *a, int32_t r, const float *query, int32_t tokens,
                         const uint8_t *mask, const int32_t *distances, const int32_t range[2],
                         float *products, float *score) {
    if (a->relative)
        add_relative(a->relative, query, distances, range[0], range[1], tokens, products, score);
    for (int32_t t = 0; mask && t < tokens; t++)
        if (!mask[t]) score[t] = -INFINITY;
    softmax_row(score, tokens);
    for (int32_t t = 0; a->weights && t < tokens; t++)
        a->weights[r * a->ldw + t] += score[t] / (float)a->cache->heads;
}

/* queries [rows][heads][width] -> out [rows][heads][width], see fh_attention. A block of the cache
 * holds keys [heads][16 / 4][padded width / 4][4][4], then values [heads][16][wide]. */
static void attend(const fh_attention *a) {
    const fh_cache *cache = a->cache;
    const fh_relative *relative = a->relative;
    int32_t width = cache->width, wide = (width + 15) / 16 * 16, heads = cache->heads;
    size_t step = cache_step(cache), each = FH_BLOCK * fh_key_width(width);
    const float *keys = cache->data, *values = keys + (size_t)heads * each;
    /* An odd number of cache lines, so that the rows of scores do not share cache sets. */
    ptrdiff_t padded = (((a->tokens + FH_BLOCK - 1) / FH_BLOCK) | 1) * FH_BLOCK;
    /* scores and distances: [QUERIES][padded] */
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
            if (!tokens) memset(out + q * a->ldo, 0, (size_t)heads * (size_t)width * sizeof(float));
            if (relative) find_distances(a, r + q, tokens, distances + q * padded, range[q]);
        }
        /* Lines of scores are those of several queries of a head, or of several heads of a query:
         * either way each part is done for all of them, as one alone would wait for itself. */
        int32_t next = count == QUERIES ? 1 : QUERIES;
        for (int32_t h = 0; tokens && h < heads; h += next) {
            int32_t lines = next == 1 ? QUERIES : heads - h < QUERIES ? heads - h : QUERIES;
            if (next == 1)
                shared_scores(keys + (size_t)h * each, step, width, query + h * width, a->ldq,
                              tokens, score, padded);
            for (int32_t i = 0; next > 1 && i < lines; i++)
                head_scores(keys + (size_t)(h + i) * each, step, width, query + (h + i) * width,
                            tokens, score + i * padded);
            for (int32_t i = 0; i < lines; i++) {
                int32_t q = next == 1 ? i : 0, head = next == 1 ? h : h + i;
                weigh(a, r + q, query + q * a->ldq + head * width, tokens, mask,
                      distances + q * padded, range[q], products, score + i * padded);
            }
            const float *mixed = values + (size_t)h * FH_BLOCK * (size_t)wide;
            if (next == 1)
                shared_mix(mixed, step, width, score, padded, tokens, out + h * width, a->ldo);
            for (int32_t i = 0; next > 1 && i < lines; i++)
                head_mix(mixed + (size_t)i * FH_BLOCK * (size_t)wide, step, width,
                         score + i * padded, tokens, mask, out + (h + i) * width);
        }
    }
}
