/* The arithmetic of the runtime: matrix products, normalisation, softmax, attention on cached keys
 * and values.
 *
 * Kinds of weights. FH_INT8: int8 weights with one float32 scale for each output, inputs quantised
 * row by row when they are prepared, int32 sums, then float32. FH_INT8_16: the same with inputs of
 * 16 bits. FH_FLOAT32: float32 throughout. Callers write the same calls for all.
 *
 * Packing (fh_matrix_*) is the same on every instruction set, so a packed matrix can be used with
 * any table. Functions that depend on the instruction set are in a table, fh_operations; one table
 * for each is exported by its own file (operations_*.c), and dispatch.c chooses. Nothing here
 * allocates, keeps state or calls back: everything may be used from several threads at once.
 *
 * What may be relied on:
 *
 * - int8: the quantised integers, the sums and the float32 results of `product` are equal bit for
 *   bit on every instruction set. The result is ((float)sum * (input scale * output scale) + bias)
 *   + residual, each step rounded to float32, no fused multiply-add, so NumPy can compute it too.
 * - everything else differs between instruction sets by the order of summation (and the last bits
 *   of exp) only.
 * - on one instruction set a row's result does not depend on the other rows of a call, nor on how
 *   many there are.
 * - not-a-number in a row stays visible: products, norms and softmax propagate it, `best` and `top`
 *   report it.
 *
 * Buffers that are packed or quantised into must be aligned to FH_ALIGNMENT bytes; plain float
 * arrays need not be.
 */
#ifndef FH_OPERATIONS_H
#define FH_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

#define FH_ALIGNMENT 64
#define FH_PANEL 64         /* outputs that are packed together */
#define FH_BLOCK 16         /* tokens of a cache that are stored together */
#define FH_SQUARE 4         /* tokens, and channels, of keys that are stored together */
#define FH_MAX_INPUTS 65536 /* 65536 * 255 * 127 still fits into int32 */
#define FH_MAX_OUTPUTS (1 << 28)

#define FH_NONE (-1) /* in the place of a token: every output is banned */
#define FH_NAN                                                                                     \
    (-2) /* in the place of a token or a count: the row holds a value that is not a number, or     \
            +infinity */

typedef enum { FH_INT8 = 1, FH_FLOAT32 = 2, FH_INT8_16 = 3 } fh_kind;

/* The largest integer of an input of 16 bits, so that sums of products fit into int32. */
static inline int32_t fh_levels(int32_t inputs) {
    int32_t most = INT32_MAX / 127 / inputs;
    return most < INT16_MAX ? most : INT16_MAX;
}

/* ------------------------------------------------------------------ weights */

/* Packed weights [outputs][inputs] and a bias. `weights` is cut into panels of FH_PANEL outputs:
 * int8 of either kind [stride / 4][64][4], float32 [stride][64]. All arrays lie in the caller's
 * buffer and are padded with zeros to whole panels. */
typedef struct fh_matrix {
    int32_t kind; /* fh_kind */
    int32_t outputs, inputs;
    int32_t stride; /* inputs of a packed row: rounded up to a multiple of 8 */
    void *weights;
    float *scales; /* int8 only, else NULL */
    float *bias;
    int32_t *sums; /* int8 only: sum of the weights of each output */
} fh_matrix;

/* The upper four bits of the weights of a matrix, see screen.h. */
typedef struct fh_screen {
    uint8_t *nibbles; /* (weight + 128) >> 4, in panels [stride / 8][64][4]: of four inputs in the
                         lower halves of the bytes, of the next four in the upper ones */
    int32_t *sums;    /* of the nibbles of each output */
    float *reach;     /* how far the value of an output may be above what the upper bits say, for
                         an input of norm 1 */
    float *norms;     /* of the weights of each output */
    float norm;       /* the largest of them */
} fh_screen;

/* Bytes of the buffer of a packed matrix; 0 when a size is out of range (both at least 1, see
 * FH_MAX_*). */
FH_PUBLIC size_t fh_matrix_size(fh_kind kind, int32_t outputs, int32_t inputs);
/* Packs a matrix into `buffer` (aligned, fh_matrix_size bytes). rows: [outputs][inputs], int8_t in
 * [-127, 127] or float, ld elements apart. scales: [outputs], int8 only, not negative where the
 * matrix is screened. bias: [outputs] or NULL for zeros. Returns 0; -1 when a size is out of range;
 * -2 for a weight of -128. */
FH_PUBLIC int fh_matrix_pack(fh_matrix *matrix, void *buffer, fh_kind kind, int32_t outputs,
                             int32_t inputs, const void *rows, ptrdiff_t ld, const float *scales,
                             const float *bias);
/* The weights of a matrix, an output's side by side: what fh_matrix_select reads. In a panel they
 * are 256 bytes apart, four in each cache line. rows: fh_matrix_rows_size bytes. */
FH_PUBLIC size_t fh_matrix_rows_size(const fh_matrix *matrix);
FH_PUBLIC void fh_matrix_rows(const fh_matrix *matrix, void *rows);
/* A matrix of the outputs `ids` [count] of another one, whose weights also lie in `rows`, e.g. a
 * shortlist. buffer: fh_matrix_size(kind, count, inputs). Returns 0; -1 when count or an id is out
 * of range. */
FH_PUBLIC int fh_matrix_select(fh_matrix *matrix, void *buffer, const fh_matrix *from,
                               const void *rows, const int32_t *ids, int32_t count);
/* The weights of one output as floats (dequantised): [inputs]. An embedding that shares the output
 * layer's memory. */
FH_PUBLIC void fh_matrix_row(const fh_matrix *matrix, int32_t output, float *row);
/* The outputs first to first + outputs - 1 without copying; first must be a multiple of FH_PANEL
 * (to share a product among threads). */
FH_PUBLIC fh_matrix fh_matrix_slice(const fh_matrix *matrix, int32_t first, int32_t outputs);

/* ------------------------------------------------------------------ inputs */

/* Rows ready to be multiplied. float32: the caller's rows themselves, which must stay until the
 * products are done. */
typedef struct fh_input {
    int32_t kind; /* fh_kind */
    int32_t rows, inputs;
    int32_t stride; /* bytes of a quantised row, a multiple of 64 */
    const float *x; /* float32: the rows, ldx floats apart */
    ptrdiff_t ldx;
    const uint8_t *integers; /* int8: stored byte = integer + offset, as uint8 or as int8, whatever
                                the instruction set likes; 16 bits: int16, of each four the first,
                                third, second and fourth */
    const float *scales; /* int8: [rows]; 0 for a row of zeros; not a number for a row with a value
                            that is not finite */
    int32_t offset;      /* int8: 0, 128 or -128 */
} fh_input;

/* Bytes of the buffer for prepared rows (float32 needs none: a size of 0 is valid there). */
FH_PUBLIC size_t fh_input_size(fh_kind kind, int32_t rows, int32_t inputs);
/* Some of the rows of an input. */
FH_PUBLIC fh_input fh_input_rows(const fh_input *input, int32_t first, int32_t rows);

/* ------------------------------------------------------------------ choosing outputs */

/* What may not be chosen in a row. */
typedef struct fh_rule {
    const int32_t
        *banned; /* ids in any order; negative ones and ids beyond the outputs are ignored */
    int32_t bans;
    int32_t unk;       /* the id that pays unk_penalty; negative: none */
    float unk_penalty; /* taken off the value of unk */
} fh_rule;

/* ------------------------------------------------------------------ attention */

/* Keys and values of one layer of one sentence (or one row of a beam), in blocks of FH_BLOCK
 * tokens. A block holds the keys [heads][16 / 4][padded width / 4][4 tokens][4 channels] and then
 * the values [heads][16][padded width]; blocks follow each other, so a cache grows at its end and
 * the first tokens of a cache are copied by one memcpy of fh_cache_size(heads, width, tokens)
 * floats. The rest of the last block need not be initialised, that of a square is when its
 * first token is written.
 *
 * Keys in squares: a vector has four channels of some tokens, which are multiplied by the same four
 * of the query. A token is written, and few tokens are read, without touching the cache lines of
 * all 16; the four sums of a token are joined at the end. */
typedef struct fh_cache {
    float *data;          /* aligned, fh_cache_size floats */
    int32_t heads, width; /* width: of one head, any */
} fh_cache;

/* Floats that `tokens` tokens take: whole blocks. */
FH_PUBLIC size_t fh_cache_size(int32_t heads, int32_t width, int32_t tokens);
/* Writes tokens at to at + rows - 1; keys and values hold the heads side by side, rows ldk and ldv
 * floats apart. */
FH_PUBLIC void fh_cache_put(const fh_cache *cache, int32_t at, int32_t rows, const float *keys,
                            ptrdiff_t ldk, const float *values, ptrdiff_t ldv);

/* Where a channel of the key of a token lies, in floats from the first key of its head and block;
 * key_width: of fh_key_width. */
static inline size_t fh_key_place(size_t key_width, size_t token, size_t channel) {
    return token / FH_SQUARE * FH_SQUARE * key_width + channel / FH_SQUARE * FH_SQUARE * FH_SQUARE +
           token % FH_SQUARE * FH_SQUARE + channel % FH_SQUARE;
}
/* Channels of a stored key: whole squares, zeros behind the width. */
static inline size_t fh_key_width(int32_t width) {
    return ((size_t)width + FH_SQUARE - 1) / FH_SQUARE * FH_SQUARE;
}

/* Vectors of clipped distances that are added to the keys (Shaw et al., 2018; HRT, Eq. 4), shared
 * by the heads. */
typedef struct fh_relative {
    float *data;
    int32_t window, width; /* 2 * window + 1 vectors of a head's width */
} fh_relative;
FH_PUBLIC size_t fh_relative_size(int32_t window, int32_t width); /* floats */
/* table: [2 * window + 1][width], row `window` belongs to distance 0. data: aligned,
 * fh_relative_size floats. */
FH_PUBLIC void fh_relative_pack(fh_relative *relative, float *data, const float *table,
                                int32_t window, int32_t width);

/* softmax(q (K + R)^T / sqrt(width)) V of every head of some queries of one sentence. */
typedef struct fh_attention {
    const fh_cache *cache;
    int32_t tokens;       /* T, keys in the cache; at least 1 */
    int32_t rows;         /* queries */
    const float *queries; /* [rows][heads * width], ldq floats apart; not scaled yet */
    ptrdiff_t ldq;
    float *out; /* [rows][heads * width], ldo floats apart; may be `queries` */
    ptrdiff_t ldo;
    const int32_t *
        visible; /* [rows]: query r sees the first visible[r] keys (clipped to 0 .. T); NULL: all */
    const uint8_t *mask; /* [rows][T], ldm bytes apart: 0 hides a key; NULL: none hidden. A query
                            that sees nothing gives zeros */
    ptrdiff_t ldm;       /* 0: the same mask for every query */
    const fh_relative *relative;    /* or NULL */
    const int32_t *query_positions; /* [rows], only with relative */
    const int32_t *key_positions;   /* [T], only with relative; distance = key position - query
                                       position, clipped to the window */
    float *weights; /* [rows][T], ldw floats apart: mean over the heads of the softmax; NULL: not
                       wanted */
    ptrdiff_t ldw;
    float *scratch; /* fh_attention_scratch floats */
} fh_attention;
/* Floats of scratch for up to `tokens` keys; window: of the relative vectors, 0 without. */
FH_PUBLIC size_t fh_attention_scratch(int32_t tokens, int32_t window);

/* ------------------------------------------------------------------ the table */

typedef struct fh_operations {
    const char *name; /* "plain", "avx2", "avx_vnni", "avx512_vnni", "amx_int8", "neon_dotprod" */

    /* Makes rows [rows][inputs] (ldx floats apart) ready. int8, each row on its own:
     *   normal:   round-half-even(x * (127 / max|x|)) in [-127, 127], scale max|x| / 127
     *   positive: round-half-even(x * (255 / max|x|)) in [0, 255], scale max|x| / 255; for outputs
     * of relu (what is negative becomes 0)
     *   FH_INT8_16, both: as normal, with fh_levels in place of 127. A row whose max|x| is below
     * 1e-36 is zeros with scale 0; a row with a value that is not finite is zeros with scale NaN.
     * buffer: aligned, fh_input_size bytes; NULL is fine for float32. */
    void (*prepare)(fh_input *input, void *buffer, fh_kind kind, const float *x, ptrdiff_t ldx,
                    int32_t rows, int32_t inputs, int positive);

    /* out = x W^T + bias, + residual [rows][outputs] unless NULL, then relu if asked for. out may
     * be residual, but must not overlap the input's rows. The input's kind and width must be the
     * matrix's. */
    void (*product)(const fh_matrix *matrix, const fh_input *input, float *out, ptrdiff_t ldo,
                    int relu, const float *residual, ptrdiff_t ldr);

    /* The best output of each row without storing all of them; the lowest id wins among equals.
     * rules: [rows] or NULL. tokens [rows]: the id, FH_NONE or FH_NAN. values [rows] or NULL: its
     * value x w + bias, less the penalty (-infinity for FH_NONE, NaN for FH_NAN). logsumexp [rows]
     * or NULL: over all outputs, the banned ones included, before the penalty. */
    void (*best)(const fh_matrix *matrix, const fh_input *input, const fh_rule *rules,
                 int32_t *tokens, float *values, float *logsumexp);

    /* Upper bounds of all values of up to four rows, [rows][outputs]: none is below the value of
     * `product`, by more than its rounding. What is not a number or infinite stays so. NULL where
     * reading half the weights gains nothing. */
    void (*bounds)(const fh_screen *screen, const fh_matrix *matrix, const fh_input *input,
                   float *bounds);

    /* The n best of one row of stored values, best first, the lowest id first among equals; rule or
     * NULL. Returns how many there are (fewer than n when fewer are not banned), or FH_NAN.
     * -infinity is a value like others. tokens, values: [n]. */
    int32_t (*top)(const float *row, int32_t count, const fh_rule *rule, int32_t n, int32_t *tokens,
                   float *values);

    /* log(sum(exp(row))); -infinity when all are; NaN when one is. count at least 1. */
    float (*logsumexp)(const float *row, int32_t count);
    /* In place. A row of nothing but -infinity becomes NaN, as in PyTorch. */
    void (*softmax)(float *row, int32_t count);
    /* x = exp(x) in place: error at most 2 ulp; results below 1.3e-38 may be 0. */
    void (*exponential)(float *x, int32_t count);

    /* Layer normalisation (x - mean) / sqrt(variance + eps) * gain + bias, variance over width, two
     * passes. out may be x. */
    void (*norm)(const float *x, ptrdiff_t ldx, int32_t rows, int32_t width, const float *gain,
                 const float *bias, float eps, float *out, ptrdiff_t ldo);

    /* As fh_cache_put, except that it may write anything behind the last token of a block. */
    void (*put)(const fh_cache *cache, int32_t at, int32_t rows, const float *keys, ptrdiff_t ldk,
                const float *values, ptrdiff_t ldv);

    /* See fh_attention. */
    void (*attend)(const fh_attention *attention);

    /* Scaled scores q K^T / sqrt(width) of one head of one query (its `width` floats) for the keys
     * 0 to tokens - 1. scores: [tokens rounded up to FH_BLOCK]; what is behind `tokens` is
     * arbitrary. */
    void (*scores)(const fh_cache *cache, int32_t head, const float *query, int32_t tokens,
                   float *scores);

    /* Rows of several sentences choose from an output layer of all their words, rather than from
     * those of their own, where it is at least this many times smaller than these together; 0:
     * never, as products take longer than reading weights. */
    int32_t joins;
} fh_operations;

extern const fh_operations fh_operations_plain; /* always there; the others: see dispatch.h */

#endif
