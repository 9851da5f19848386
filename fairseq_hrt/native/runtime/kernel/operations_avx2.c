/* AVX2 with FMA, exact for full-range integers.
 *
 * vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits, with saturation: 2 *
 * 255 * 127 would not fit. So integers are stored signed (positive rows less 128) and the sign goes
 * to the weights: pairs are at most 2 * 128 * 127 = 32512. */
#include "operations.h"

#include "vectors_avx2.h"

#define INT8_ROWS 4
#define UNSIGNED_INTEGERS 0
#define INT8_WIDE_PAIR 2

static INLINE vi magnitude(vi four) {
    return _mm256_abs_epi8(four);
} /* -128 becomes 128 unsigned, as it should */
static INLINE vi dot(vi sum, vi four, vi magnitudes, vi weights) {
    vi pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(weights, four));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static INLINE vi dot_16(vi sum, vi pair, vi weights) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pair, weights));
}

#include "body_rows.h"
#include "body_outputs.h"
#include "body_products.h"
#include "body_screen.h"
#include "body_attention.h"

const fh_operations fh_operations_avx2 = {
    "avx2",  prepare,     product, best,         bounds_of, top,    logsumexp,
    softmax, exponential, norm,    fh_cache_put, attend,    scores, 0};
