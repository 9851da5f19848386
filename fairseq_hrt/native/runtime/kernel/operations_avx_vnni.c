/* AVX2 with AVX-VNNI (processors with VNNI but without AVX-512): vpdpbusd on 256 bits, no
 * saturation in between. */
#include "operations.h"

#include "vectors_avx2.h"

#define INT8_ROWS 6
#define UNSIGNED_INTEGERS 1
#define INT8_WIDE_PAIR 1

static INLINE vi magnitude(vi four) { return four; }
static INLINE vi dot(vi sum, vi four, vi unused, vi weights) {
    (void)unused;
    return _mm256_dpbusd_avx_epi32(sum, four, weights);
}

static INLINE vi dot_16(vi sum, vi pair, vi weights) {
    return _mm256_dpwssd_avx_epi32(sum, pair, weights);
}

#include "body_rows.h"
#include "body_outputs.h"
#include "body_products.h"
#include "body_screen.h"
#include "body_attention.h"

const fh_operations fh_operations_avx_vnni = {
    "avx_vnni", prepare,     product, best,         bounds_of, top,    logsumexp,
    softmax,    exponential, norm,    fh_cache_put, attend,    scores, 3};
