/* Attention on cached keys and values. Included by each operations_*.c.
 *
 * Keys lie in blocks of FH_BLOCK tokens, so scores of W tokens are one vector; the sum over a head's width is four chains (channel modulo 4).
 * Values are mixed W channels at a time, in two chains (even and odd tokens). */

#define BLOCK_VECTORS (FH_BLOCK / W)

/* One query and FH_BLOCK vectors that lie transposed [width][FH_BLOCK]: their products. */
static INLINE void block_products(const float *query, const float *block, int32_t width, vf products[BLOCK_VECTORS]) {
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

static INLINE void head_scores(const float *keys, size_t step, int32_t width, const float *query, int32_t tokens, float *out) {
    vf scale = f_all(1.f / sqrtf((float)width));
    for (int32_t t = 0; t < tokens; t += FH_BLOCK, keys += step) {
        vf products[BLOCK_VECTORS];
        block_products(query, keys, width, products);
        for (int b = 0; b < BLOCK_VECTORS; b++) f_store(out + t + b * W, f_mul(products[b], scale));
    }
}

static INLINE size_t cache_step(const fh_cache *cache) {
    return (size_t)cache->heads * FH_BLOCK * (size_t)(cache->width + (cache->width + 15) / 16 * 16);
}

static void scores(const fh_cache *cache, int32_t head, const float *query, int32_t tokens, float *out) {
    head_scores(cache->data + (size_t)head * (size_t)cache->width * FH_BLOCK, cache_step(cache), cache->width, query, tokens, out);
}

/* Up to four vectors of channels of the mix of values; mask as in fh_attention (NULL: all seen). */
static INLINE void mix_channels(const float *values, size_t step, int32_t wide, const float *weights, int32_t tokens, const uint8_t *mask, int vectors, vf *mix) {
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

#define MIX(N)                                                                                  \
    {                                                                                           \
        vf mix[N];                                                                              \
        if (mask)                                                                               \
            mix_channels(values + c, step, wide, weights, tokens, mask, N, mix);                \
        else                                                                                    \
            mix_channels(values + c, step, wide, weights, tokens, NULL, N, mix);                \
        for (int i = 0; i < N; i++, c += W) {                                                   \
            if (c + W <= width)                                                                 \
                f_store(out + c, mix[i]);                                                       \
            else if (c < width)                                                                 \
                f_store_part(out + c, width - c, mix[i]);                                       \
        }                                                                                       \
    }
static INLINE void head_mix(const float *values, size_t step, int32_t width, const float *weights, int32_t tokens, const uint8_t *mask, float *out) {
    int32_t wide = (width + 15) / 16 * 16, c = 0;
    while (wide - c >= 4 * W) MIX(4)
    while (wide - c >= 2 * W) MIX(2)
    while (wide - c >= W) MIX(1)
}

/* Adds the products with the vectors of the keys' distances (numbers of rows of the table, lowest to highest) to the scores. */
static INLINE void add_relative(const fh_relative *relative, const float *query, const int32_t *distances, int32_t lowest, int32_t highest, int32_t tokens,
                                float *products, float *out) {
    vf scale = f_all(1.f / sqrtf((float)relative->width));
    for (int32_t d = lowest / FH_BLOCK * FH_BLOCK; d <= highest; d += FH_BLOCK) {
        vf block[BLOCK_VECTORS];
        block_products(query, relative->data + (size_t)d * (size_t)relative->width, relative->width, block);
        for (int b = 0; b < BLOCK_VECTORS; b++) f_store(products + d + b * W, f_mul(block[b], scale));
    }
    for (int32_t t = 0; t < tokens; t++) out[t] += products[distances[t]];
}

static void attend(const fh_attention *a) {
    const fh_cache *cache = a->cache;
    const fh_relative *relative = a->relative;
    int32_t width = cache->width, wide = (width + 15) / 16 * 16, padded = (a->tokens + FH_BLOCK - 1) / FH_BLOCK * FH_BLOCK;
    size_t step = cache_step(cache), behind_keys = (size_t)cache->heads * FH_BLOCK * (size_t)width;
    float *score = a->scratch, *products = score + 2 * (size_t)padded;
    int32_t *distances = (int32_t *)(void *)(score + padded);
    for (int32_t r = 0; r < a->rows; r++) {
        int32_t tokens = a->tokens, lowest = 0, highest = 0;
        if (a->visible) tokens = a->visible[r] < 0 ? 0 : a->visible[r] < tokens ? a->visible[r] : tokens;
        const uint8_t *mask = a->mask ? a->mask + r * a->ldm : NULL;
        const float *query = a->queries + r * a->ldq;
        float *out = a->out + r * a->ldo, *average = a->weights ? a->weights + r * a->ldw : NULL;
        if (mask) {
            while (tokens > 0 && !mask[tokens - 1]) tokens--;
            if (tokens > 0 && !memchr(mask, 0, (size_t)tokens)) mask = NULL;
        }
        if (average) memset(average, 0, (size_t)a->tokens * sizeof(float));
        if (!tokens) {
            memset(out, 0, (size_t)cache->heads * (size_t)width * sizeof(float));
            continue;
        }
        if (relative) {
            int32_t w = relative->window, here = a->query_positions[r];
            lowest = 2 * w;
            for (int32_t t = 0; t < tokens; t++) {
                int32_t distance = a->key_positions[t] - here;
                distance = (distance < -w ? -w : distance > w ? w : distance) + w;
                distances[t] = distance;
                lowest = distance < lowest ? distance : lowest;
                highest = distance > highest ? distance : highest;
            }
        }
        for (int32_t h = 0; h < cache->heads; h++) {
            const float *keys = cache->data + (size_t)h * (size_t)width * FH_BLOCK, *values = cache->data + behind_keys + (size_t)h * FH_BLOCK * (size_t)wide;
            head_scores(keys, step, width, query + h * width, tokens, score);
            if (relative) add_relative(relative, query + h * width, distances, lowest, highest, tokens, products, score);
            for (int32_t t = 0; mask && t < tokens; t++)
                if (!mask[t]) score[t] = -INFINITY;
            softmax_row(score, tokens);
            head_mix(values, step, width, score, tokens, mask, out + h * width);
            for (int32_t t = 0; average && t < tokens; t++) average[t] += score[t] / (float)cache->heads;
        }
    }
}
