/* AMX tiles for products of several rows, AVX-512 with VNNI for everything else. */
#include "operations.h"
#include "vectors_avx512.h"

/* Rows from which tiles are faster than vectors: of weights that a core's own cache holds, and of
 * larger ones, for which both wait alike until there is more to compute. */
#define TILES_FROM 4
#define TILES_FROM_FAR 8

#include "body_rows.h"
#include "body_outputs.h"
#include "body_tiles.h"
#include "body_products.h"
#include "body_screen.h"
#include "body_attention.h"
#include "body_put.h"

const fh_operations fh_operations_amx_int8 = {
    "amx_int8", prepare,     product, best, bounds_of, top,    logsumexp,
    softmax,    exponential, norm,    put,  attend,    scores, 2};
