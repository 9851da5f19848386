/* AVX-512 with VNNI. */
#include "operations.h"
#include "vectors_avx512.h"

#include "body_rows.h"
#include "body_outputs.h"
#include "body_products.h"
#include "body_screen.h"
#include "body_attention.h"
#include "body_put.h"

const fh_operations fh_operations_avx512_vnni = {
    "avx512_vnni", prepare,     product, best, bounds_of, top,    logsumexp,
    softmax,       exponential, norm,    put,  attend,    scores, 2};
