/* 64-bit ARM with dot product instructions (sdot): signed integers times signed weights. Positive
 * rows are stored less 128. */
#include "operations.h"

#include <arm_neon.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler.h"

#define W 4
#define COLUMNS 4
#define QUERIES 4 /* queries that share the loads of attention */
#define INT8_ROWS 6
#define UNSIGNED_INTEGERS 0
#define KEEP(x) __asm__("" : "+w"(x));

typedef float32x4_t vf;
typedef int32x4_t vi;

static INLINE vf f_zero(void) { return vdupq_n_f32(0.f); }
static INLINE vf f_all(float x) { return vdupq_n_f32(x); }
static INLINE vf f_load(const float *x) { return vld1q_f32(x); }
static INLINE void f_store(float *x, vf v) { vst1q_f32(x, v); }
static INLINE vf f_load_part(const float *x, int32_t n, float rest) {
    float lanes[W] = {rest, rest, rest, rest};
    memcpy(lanes, x, (size_t)n * sizeof(float));
    return vld1q_f32(lanes);
}
static INLINE void f_store_part(float *x, int32_t n, vf v) {
    float lanes[W];
    vst1q_f32(lanes, v);
    memcpy(x, lanes, (size_t)n * sizeof(float));
}
static INLINE vf f_add(vf x, vf y) { return vaddq_f32(x, y); }
static INLINE vf f_sub(vf x, vf y) { return vsubq_f32(x, y); }
static INLINE vf f_mul(vf x, vf y) { return vmulq_f32(x, y); }
static INLINE vf f_fma(vf x, vf y, vf z) { return vfmaq_f32(z, x, y); }
static INLINE vf f_max(vf x, vf y) { return vmaxq_f32(x, y); } /* NaN if either is */
static INLINE vf f_min(vf x, vf y) { return vminq_f32(x, y); }
static INLINE vf f_relu(vf x) {
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(0.f)), vdupq_n_f32(0.f), x);
}
static INLINE vf f_round(vf x) { return vrndnq_f32(x); }
static INLINE vf f_four(const float *x) { return vld1q_f32(x); } /* the same four floats */
/* Sums of four neighbouring lanes, (first + second) + (third + fourth): those of a, then of b, ...
 */
static INLINE vf f_joined(vf a, vf b, vf c, vf d) {
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}
static INLINE vf f_of(vi x) { return vcvtq_f32_s32(x); }
static INLINE vf f_times_power(
    vf x, vf n) { /* x 2^n for n from -160 to 160: in two steps, so that neither power overflows */
    vi power = vcvtnq_s32_f32(n), half = vshrq_n_s32(power, 1), rest = vsubq_s32(power, half),
       bias = vdupq_n_s32(127);
    vf first = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)),
       second = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(x, first), second);
}
static INLINE vf f_zero_below(vf value, vf x, float limit) { /* 0 where x is below it */
    uint32x4_t below = vcltq_f32(x, vdupq_n_f32(limit));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(value), below));
}
static INLINE float f_total(vf x) { return vaddvq_f32(x); }
static INLINE float f_largest(vf x) { return vmaxvq_f32(x); }
static INLINE int f_any_larger(vf x, vf y) { return vmaxvq_u32(vcgtq_f32(x, y)) != 0; }
static INLINE int f_any_above(vf x, float y) { return vmaxvq_u32(vcgtq_f32(x, f_all(y))) != 0; }

static INLINE vi i_zero(void) { return vdupq_n_s32(0); }
static INLINE vi i_all(int32_t x) { return vdupq_n_s32(x); }
static INLINE vi i_load(const void *x) {
    return vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)x));
}
static INLINE void i_store(void *x, vi v) { vst1q_u8((uint8_t *)x, vreinterpretq_u8_s32(v)); }
static INLINE vi i_add(vi x, vi y) { return vaddq_s32(x, y); }
static INLINE vi i_sub(vi x, vi y) { return vsubq_s32(x, y); }
static INLINE vi i_max(vi x, vi y) { return vmaxq_s32(x, y); }
static INLINE vi i_times_128(vi x) { return vshlq_n_s32(x, 7); }
static INLINE int32_t i_largest(vi x) { return vmaxvq_s32(x); }
static INLINE vi i_of(vf x) { return vcvtnq_s32_f32(x); } /* to nearest, halves to even */
static INLINE void i_store_bytes(uint8_t *to, vi x) {
    int16x4_t half = vmovn_s32(x);
    int32_t four = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(half, half))), 0);
    memcpy(to, &four, 4);
}
/* Of each four the first, third, second and fourth, in 16 bits. */
static INLINE void i_store_fours(int16_t *to, vi x) {
    int16x4_t four = vmovn_s32(x);
    int32x2_t even = vreinterpret_s32_s16(vuzp1_s16(four, four)),
              odd = vreinterpret_s32_s16(vuzp2_s16(four, four));
    vst1_s16(to, vreinterpret_s16_s32(vzip1_s32(even, odd)));
}
/* The even and the odd bytes of a vector, signed, in 16 bits. */
static INLINE vi even_16(vi x) {
    int16x8_t pairs = vreinterpretq_s16_s32(x);
    return vreinterpretq_s32_s16(vshrq_n_s16(vshlq_n_s16(pairs, 8), 8));
}
static INLINE vi odd_16(vi x) {
    return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(x), 8));
}
static INLINE vi i_four(const uint8_t *a) { /* the same four bytes in every lane */
    int32_t four;
    memcpy(&four, a, 4);
    return vdupq_n_s32(four);
}
static INLINE vi f_magnitude_bits(vf x) { return vreinterpretq_s32_f32(vabsq_f32(x)); }
static INLINE int f_any_invalid(vf x) {
    return vminvq_u32(vcltq_f32(x, f_all(INFINITY))) == 0;
} /* NaN or +infinity */

/* Values larger than the best so far take its place, with the first output of their vector. */
static INLINE void f_better(vf *value, vi *output, vf x, vi first) {
    uint32x4_t larger = vcgtq_f32(x, *value);
    *value = vbslq_f32(larger, x, *value);
    *output = vbslq_s32(larger, first, *output);
}

static INLINE vi magnitude(vi four) { return four; } /* for sets without signed products */
static INLINE vi dot(vi sum, vi four, vi unused, vi weights) {
    (void)unused;
    return vdotq_s32(sum, vreinterpretq_s8_s32(four), vreinterpretq_s8_s32(weights));
}

static INLINE vi dot_16(vi sum, vi pair, vi weights) {
    int16x8_t x = vreinterpretq_s16_s32(pair), w = vreinterpretq_s16_s32(weights);
    int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(w)), high = vmull_high_s16(x, w);
    return vaddq_s32(sum, vpaddq_s32(low, high));
}

#include "body_rows.h"
#include "body_outputs.h"
#include "body_products.h"
#include "body_attention.h"

const fh_operations fh_operations_neon_dotprod = {
    "neon_dotprod", prepare,     product, best,         NULL,   top,    logsumexp,
    softmax,        exponential, norm,    fh_cache_put, attend, scores, 0};
