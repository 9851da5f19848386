/* Keys and values into a cache, four tokens by 16 channels at a time. Included by the files with
 * vectors_avx512.h. */

/* Four squares: the channels of a row of `rows` [4][ld] lie in one of them. The last of `count`
 * rows stands for those behind it. */
static INLINE void put_squares(const float *rows, ptrdiff_t ld, int32_t count, float *to) {
    vf a = f_load(rows), b = f_load(rows + (count > 1 ? 1 : count - 1) * ld),
       c = f_load(rows + (count > 2 ? 2 : count - 1) * ld),
       d = f_load(rows + (count > 3 ? 3 : count - 1) * ld);
    vf ab = _mm512_shuffle_f32x4(a, b, 0x44), cd = _mm512_shuffle_f32x4(c, d, 0x44);
    f_store(to, _mm512_shuffle_f32x4(ab, cd, 0x88));
    f_store(to + 16, _mm512_shuffle_f32x4(ab, cd, 0xdd));
    ab = _mm512_shuffle_f32x4(a, b, 0xee), cd = _mm512_shuffle_f32x4(c, d, 0xee);
    f_store(to + 32, _mm512_shuffle_f32x4(ab, cd, 0x88));
    f_store(to + 48, _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

static void put(const fh_cache *cache, int32_t at, int32_t rows, const float *keys, ptrdiff_t ldk,
                const float *values, ptrdiff_t ldv) {
    size_t width = (size_t)cache->width, dimension = (size_t)cache->heads * width;
    if (rows < 2 || at % FH_SQUARE || width % 16) {
        fh_cache_put(cache, at, rows, keys, ldk, values, ldv);
        return;
    }
    for (int32_t r = 0, count; r < rows; r += count) {
        size_t token = (size_t)(at + r), place = token % FH_BLOCK;
        float *start = cache->data + token / FH_BLOCK * 2 * FH_BLOCK * dimension,
              *to = start + fh_key_place(width, place, 0);
        const float *key = keys + r * ldk;
        count = rows - r < FH_SQUARE ? rows - r : FH_SQUARE;
        for (size_t c = 0; c < dimension; c += width, to += FH_BLOCK * width)
            for (size_t i = 0; i < width; i += 16)
                put_squares(key + c + i, ldk, count, to + i * FH_SQUARE);
        for (int32_t t = 0; t < count; t++) {
            const float *value = values + (r + t) * ldv;
            to = start + FH_BLOCK * dimension + (place + (size_t)t) * width;
            for (size_t c = 0; c < dimension; c += width, to += FH_BLOCK * width)
                for (size_t i = 0; i < width; i += 16) f_store(to + i, f_load(value + c + i));
        }
    }
}
