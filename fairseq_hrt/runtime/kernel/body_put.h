/* Keys and values into a cache, 16 tokens by 16 channels at a time. Included by the files with
 * vectors_avx512.h. */

/* to [16][16] = rows [16][ld] transposed; the last of `count` rows stands for those behind it. */
static INLINE void transpose(const float *rows, ptrdiff_t ld, int32_t count, float *to) {
    vi r[16], t[16];
    for (int i = 0; i < 16; i++) r[i] = i_load(rows + (i < count ? i : count - 1) * ld);
    /* pairs of rows, then fours, then eights, then all of them */
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; j++) {
            t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
            t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
        }
    for (int j = 0; j < 8; j++) {
        i_store(to + j * 16, _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88));
        i_store(to + (j + 8) * 16, _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd));
    }
}

enum { FEW = 4 }; /* tokens that are written faster one at a time */

static void put(const fh_cache *cache, int32_t at, int32_t rows, const float *keys, ptrdiff_t ldk,
                const float *values, ptrdiff_t ldv) {
    size_t width = (size_t)cache->width, dimension = (size_t)cache->heads * width;
    if (rows < FEW || at % FH_BLOCK || width % 16) {
        fh_cache_put(cache, at, rows, keys, ldk, values, ldv);
        return;
    }
    float *start = cache->data + (size_t)(at / FH_BLOCK) * 2 * FH_BLOCK * dimension;
    for (int32_t r = 0; r < rows; r += FH_BLOCK, start += 2 * FH_BLOCK * dimension) {
        int32_t count = rows - r < FH_BLOCK ? rows - r : FH_BLOCK;
        for (size_t c = 0; c < dimension; c += 16)
            transpose(keys + r * ldk + c, ldk, count, start + c * FH_BLOCK);
        for (int32_t t = 0; t < count; t++) {
            const float *value = values + (r + t) * ldv;
            float *to = start + FH_BLOCK * dimension + (size_t)t * width;
            for (size_t c = 0; c < dimension; c += width, to += FH_BLOCK * width)
                for (size_t i = 0; i < width; i += 16) f_store(to + i, f_load(value + c + i));
        }
    }
}
