/* Vectors of AVX-512 with VNNI: unsigned integers times signed weights (vpdpbusd), no saturation in
 * between. */
#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "compiler.h"

#define W 16                /* lanes */
#define COLUMNS 4           /* vectors of outputs in a tile */
#define QUERIES 4           /* queries that share the loads of attention */
#define INT8_ROWS 6         /* rows in the largest tile */
#define UNSIGNED_INTEGERS 1 /* normal rows are stored with 128 added, positive ones as they are */
#define KEEP(x) __asm__("" : "+v"(x));

typedef __m512 vf;
typedef __m512i vi;

static INLINE __mmask16 first_lanes(int32_t n) { return (__mmask16)((1u << n) - 1u); }

static INLINE vf f_zero(void) { return _mm512_setzero_ps(); }
static INLINE vf f_all(float x) { return _mm512_set1_ps(x); }
static INLINE vf f_load(const float *x) { return _mm512_loadu_ps(x); }
static INLINE void f_store(float *x, vf v) { _mm512_storeu_ps(x, v); }
static INLINE vf f_load_part(const float *x, int32_t n, float rest) {
    return _mm512_mask_loadu_ps(f_all(rest), first_lanes(n), x);
}
static INLINE void f_store_part(float *x, int32_t n, vf v) {
    _mm512_mask_storeu_ps(x, first_lanes(n), v);
}
static INLINE vf f_add(vf x, vf y) { return _mm512_add_ps(x, y); }
static INLINE vf f_sub(vf x, vf y) { return _mm512_sub_ps(x, y); }
static INLINE vf f_mul(vf x, vf y) { return _mm512_mul_ps(x, y); }
static INLINE vf f_fma(vf x, vf y, vf z) { return _mm512_fmadd_ps(x, y, z); }
static INLINE vf f_max(vf x, vf y) { return _mm512_max_ps(x, y); } /* y if either is NaN */
static INLINE vf f_min(vf x, vf y) { return _mm512_min_ps(x, y); }
static INLINE vf f_relu(vf x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
static INLINE vf f_round(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static INLINE vf f_times_power(vf x, vf n) { return _mm512_scalef_ps(x, n); }
static INLINE vf f_zero_below(vf value, vf x, float limit) { /* 0 where x is below it */
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, f_all(limit), _CMP_NLT_UQ), value);
}
static INLINE float f_total(vf x) { return _mm512_reduce_add_ps(x); }
static INLINE float f_largest(vf x) { return _mm512_reduce_max_ps(x); }
static INLINE int f_any_larger(vf x, vf y) { return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) != 0; }
static INLINE int f_any_above(vf x, float y) {
    return _mm512_cmp_ps_mask(x, f_all(y), _CMP_GT_OQ) != 0;
}
static INLINE vf f_four(const float *x) { /* the same four floats, over and over */
    return _mm512_broadcast_f32x4(_mm_loadu_ps(x));
}
/* Sums of four neighbouring lanes, (first + second) + (third + fourth): those of a, then of b, ...
 */
static INLINE vf f_joined(vf a, vf b, vf c, vf d) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    vf ab = f_add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd)),
       cd = f_add(_mm512_shuffle_ps(c, d, 0x88), _mm512_shuffle_ps(c, d, 0xdd));
    return _mm512_permutexvar_ps(
        order, f_add(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xdd)));
}
static INLINE vf f_of(vi x) { return _mm512_cvtepi32_ps(x); }

static INLINE vi i_zero(void) { return _mm512_setzero_si512(); }
static INLINE vi i_all(int32_t x) { return _mm512_set1_epi32(x); }
static INLINE vi i_load(const void *x) { return _mm512_loadu_si512(x); }
static INLINE void i_store(void *x, vi v) { _mm512_storeu_si512(x, v); }
static INLINE vi i_add(vi x, vi y) { return _mm512_add_epi32(x, y); }
static INLINE vi i_sub(vi x, vi y) { return _mm512_sub_epi32(x, y); }
static INLINE vi i_max(vi x, vi y) { return _mm512_max_epi32(x, y); }
static INLINE vi i_times_128(vi x) { return _mm512_slli_epi32(x, 7); }
static INLINE int32_t i_largest(vi x) { return _mm512_reduce_max_epi32(x); }
static INLINE vi i_of(vf x) { return _mm512_cvtps_epi32(x); } /* to nearest, halves to even */
static INLINE void i_store_bytes(uint8_t *to, vi x) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(x));
}
/* Of each four the first, third, second and fourth, in 16 bits. */
static INLINE void i_store_fours(int16_t *to, vi x) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0,
                                           1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm256_shuffle_epi8(_mm512_cvtepi32_epi16(x), order));
}
/* The even and the odd bytes of a vector, signed, in 16 bits. */
static INLINE vi even_16(vi x) { return _mm512_maddubs_epi16(_mm512_set1_epi16(1), x); }
static INLINE vi odd_16(vi x) { return _mm512_srai_epi16(x, 8); }
static INLINE vi i_four(const uint8_t *a) { /* the same four bytes in every lane */
    int32_t four;
    memcpy(&four, a, 4);
    return _mm512_set1_epi32(four);
}
static INLINE vi i_lower_halves(vi x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
static INLINE vi i_upper_halves(vi x) { return i_lower_halves(_mm512_srli_epi16(x, 4)); }
static INLINE vi f_magnitude_bits(vf x) {
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}
static INLINE int f_any_invalid(vf x) {
    return _mm512_cmp_ps_mask(x, f_all(INFINITY), _CMP_NLT_UQ) != 0;
} /* NaN or +infinity */

/* Values larger than the best so far take its place, with the first output of their vector. */
static INLINE void f_better(vf *value, vi *output, vf x, vi first) {
    __mmask16 larger = _mm512_cmp_ps_mask(x, *value, _CMP_GT_OQ);
    *value = _mm512_mask_mov_ps(*value, larger, x);
    *output = _mm512_mask_mov_epi32(*output, larger, first);
}

static INLINE vi dot_16(vi sum, vi pair, vi weights) {
    return _mm512_dpwssd_epi32(sum, pair, weights);
}
static INLINE vi magnitude(vi four) { return four; } /* for sets without unsigned products */
static INLINE vi dot(vi sum, vi four, vi unused, vi weights) {
    (void)unused;
    return _mm512_dpbusd_epi32(sum, four, weights);
}
