/* Vectors of AVX2 with FMA, for the two files that differ in `dot` only. */
#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "compiler.h"

#define W 8
#define COLUMNS 2
#define QUERIES 2 /* queries that share the loads of attention */
#define KEEP(x) __asm__("" : "+x"(x));

typedef __m256 vf;
typedef __m256i vi;

static INLINE vi first_lanes(int32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static INLINE vf f_zero(void) { return _mm256_setzero_ps(); }
static INLINE vf f_all(float x) { return _mm256_set1_ps(x); }
static INLINE vf f_load(const float *x) { return _mm256_loadu_ps(x); }
static INLINE void f_store(float *x, vf v) { _mm256_storeu_ps(x, v); }
static INLINE vf f_load_part(const float *x, int32_t n, float rest) {
    vi lanes = first_lanes(n);
    return _mm256_blendv_ps(f_all(rest), _mm256_maskload_ps(x, lanes), _mm256_castsi256_ps(lanes));
}
static INLINE void f_store_part(float *x, int32_t n, vf v) {
    _mm256_maskstore_ps(x, first_lanes(n), v);
}
static INLINE vf f_add(vf x, vf y) { return _mm256_add_ps(x, y); }
static INLINE vf f_sub(vf x, vf y) { return _mm256_sub_ps(x, y); }
static INLINE vf f_mul(vf x, vf y) { return _mm256_mul_ps(x, y); }
static INLINE vf f_fma(vf x, vf y, vf z) { return _mm256_fmadd_ps(x, y, z); }
static INLINE vf f_max(vf x, vf y) { return _mm256_max_ps(x, y); } /* y if either is NaN */
static INLINE vf f_min(vf x, vf y) { return _mm256_min_ps(x, y); }
static INLINE vf f_relu(vf x) { return _mm256_max_ps(_mm256_setzero_ps(), x); }
static INLINE vf f_round(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static INLINE vf f_four(const float *x) { /* the same four floats, over and over */
    return _mm256_broadcast_ps((const __m128 *)(const void *)x);
}
/* Sums of four neighbouring lanes, (first + second) + (third + fourth): those of a, then of b, ...
 */
static INLINE vf f_joined(vf a, vf b, vf c, vf d) {
    vf ab = f_add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)),
       cd = f_add(_mm256_shuffle_ps(c, d, 0x88), _mm256_shuffle_ps(c, d, 0xdd));
    return _mm256_permutevar8x32_ps(
        f_add(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd)),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
static INLINE vf f_of(vi x) { return _mm256_cvtepi32_ps(x); }
static INLINE vf f_times_power(
    vf x, vf n) { /* x 2^n for n from -160 to 160: in two steps, so that neither power overflows */
    vi power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1),
       rest = _mm256_sub_epi32(power, half), bias = _mm256_set1_epi32(127);
    vf first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(x, first), second);
}
static INLINE vf f_zero_below(vf value, vf x, float limit) { /* 0 where x is below it */
    return _mm256_and_ps(_mm256_cmp_ps(x, f_all(limit), _CMP_NLT_UQ), value);
}
static INLINE float f_total(vf x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static INLINE float f_largest(vf x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
static INLINE int f_any_larger(vf x, vf y) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ)) != 0;
}
static INLINE int f_any_above(vf x, float y) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, f_all(y), _CMP_GT_OQ)) != 0;
}

static INLINE vi i_zero(void) { return _mm256_setzero_si256(); }
static INLINE vi i_all(int32_t x) { return _mm256_set1_epi32(x); }
static INLINE vi i_load(const void *x) { return _mm256_loadu_si256((const __m256i *)x); }
static INLINE void i_store(void *x, vi v) { _mm256_storeu_si256((__m256i *)x, v); }
static INLINE vi i_add(vi x, vi y) { return _mm256_add_epi32(x, y); }
static INLINE vi i_sub(vi x, vi y) { return _mm256_sub_epi32(x, y); }
static INLINE vi i_max(vi x, vi y) { return _mm256_max_epi32(x, y); }
static INLINE vi i_times_128(vi x) { return _mm256_slli_epi32(x, 7); }
static INLINE int32_t i_largest(vi x) {
    __m128i s = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
static INLINE vi i_of(vf x) { return _mm256_cvtps_epi32(x); } /* to nearest, halves to even */
static INLINE void i_store_bytes(uint8_t *to,
                                 vi x) { /* the lowest byte of each lane, signed or unsigned */
    const vi lowest = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    vi packed = _mm256_shuffle_epi8(x, lowest);
    int32_t low = _mm_cvtsi128_si32(_mm256_castsi256_si128(packed)),
            high = _mm_cvtsi128_si32(_mm256_extracti128_si256(packed, 1));
    memcpy(to, &low, 4);
    memcpy(to + 4, &high, 4);
}
/* Of each four the first, third, second and fourth, in 16 bits. */
static INLINE void i_store_fours(int16_t *to, vi x) {
    const vi order = _mm256_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                      1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    vi fours = _mm256_shuffle_epi8(x, order);
    _mm_storel_epi64((__m128i *)(void *)to, _mm256_castsi256_si128(fours));
    _mm_storel_epi64((__m128i *)(void *)(to + 4), _mm256_extracti128_si256(fours, 1));
}
/* The even and the odd bytes of a vector, signed, in 16 bits. */
static INLINE vi even_16(vi x) { return _mm256_maddubs_epi16(_mm256_set1_epi16(1), x); }
static INLINE vi odd_16(vi x) { return _mm256_srai_epi16(x, 8); }
static INLINE vi i_four(const uint8_t *a) { /* the same four bytes in every lane */
    int32_t four;
    memcpy(&four, a, 4);
    return _mm256_set1_epi32(four);
}
static INLINE vi i_lower_halves(vi x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static INLINE vi i_upper_halves(vi x) { return i_lower_halves(_mm256_srli_epi16(x, 4)); }
static INLINE vi f_magnitude_bits(vf x) {
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}
static INLINE int f_any_invalid(vf x) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, f_all(INFINITY), _CMP_NLT_UQ)) != 0;
} /* NaN or +infinity */

/* Values larger than the best so far take its place, with the first output of their vector. */
static INLINE void f_better(vf *value, vi *output, vf x, vi first) {
    vf larger = _mm256_cmp_ps(x, *value, _CMP_GT_OQ);
    *value = _mm256_blendv_ps(*value, x, larger);
    *output = _mm256_blendv_epi8(*output, first, _mm256_castps_si256(larger));
}
