/* Layout of weights, inputs, caches and relative vectors: what is the same on every instruction
 * set. See operations.h. */
#include "operations.h"

#include <string.h>

static int is_int8(int32_t kind) { return kind == FH_INT8 || kind == FH_INT8_16; }

static size_t padded(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ------------------------------------------------------------------ weights */

static int valid(fh_kind kind, int32_t outputs, int32_t inputs) {
    return (is_int8(kind) || kind == FH_FLOAT32) && outputs >= 1 && outputs <= FH_MAX_OUTPUTS &&
           inputs >= 1 && inputs <= FH_MAX_INPUTS;
}

size_t fh_matrix_size(fh_kind kind, int32_t outputs, int32_t inputs) {
    if (!valid(kind, outputs, inputs)) return 0;
    size_t rows = padded((size_t)outputs, FH_PANEL), stride = padded((size_t)inputs, 8);
    return rows * stride * (is_int8(kind) ? 1 : sizeof(float)) +
           rows * (is_int8(kind) ? 3 : 1) * sizeof(float);
}

/* Where the first four (int8) or the first (float32) weights of an output lie; the next ones lie
 * FH_PANEL groups behind. */
static size_t place(const fh_matrix *matrix, int32_t output) {
    size_t group = is_int8(matrix->kind) ? 4 : 1;
    return (size_t)(output / FH_PANEL) * FH_PANEL * (size_t)matrix->stride +
           (size_t)(output % FH_PANEL) * group;
}

/* Groups of four bytes, in either kind, that an output has. */
static size_t groups(const fh_matrix *matrix) {
    return (size_t)matrix->stride / (is_int8(matrix->kind) ? 4 : 1);
}

/* The first of them. */
static char *first_group(const fh_matrix *matrix, int32_t output) {
    return (char *)matrix->weights +
           place(matrix, output) * (is_int8(matrix->kind) ? 1 : sizeof(float));
}

/* Leaves the weights of whole panels before output `from` as they are; everything else is zero. */
static int start(fh_matrix *matrix, void *buffer, fh_kind kind, int32_t outputs, int32_t inputs,
                 int32_t from) {
    size_t size = fh_matrix_size(kind, outputs, inputs);
    if (!size) return -1;
    size_t rows = padded((size_t)outputs, FH_PANEL), stride = padded((size_t)inputs, 8);
    char *behind = (char *)buffer + rows * stride * (is_int8(kind) ? 1 : sizeof(float));
    *matrix = (fh_matrix){
        kind, outputs, inputs, (int32_t)stride, buffer, NULL, (float *)(void *)behind, NULL};
    if (is_int8(kind)) {
        matrix->scales = matrix->bias + rows;
        matrix->sums = (int32_t *)(void *)(matrix->scales + rows);
    }
    char *zeros = first_group(matrix, from / FH_PANEL * FH_PANEL);
    memset(zeros, 0, (size_t)((char *)buffer + size - zeros));
    return 0;
}

int fh_matrix_pack(fh_matrix *matrix, void *buffer, fh_kind kind, int32_t outputs, int32_t inputs,
                   const void *rows, ptrdiff_t ld, const float *scales, const float *bias) {
    if (start(matrix, buffer, kind, outputs, inputs, 0)) return -1;
    for (int32_t r = 0; r < outputs; r++) {
        if (is_int8(kind)) {
            const int8_t *from = (const int8_t *)rows + r * ld;
            int8_t *to = (int8_t *)matrix->weights + place(matrix, r);
            int32_t sum = 0, i = 0, lowest = 0;
            for (int32_t j = 0; j < inputs; j++) {
                sum += from[j];
                lowest = from[j] < lowest ? from[j] : lowest;
            }
            if (lowest < -127) return -2;
            for (; i + 4 <= inputs; i += 4, to += 4 * FH_PANEL) memcpy(to, from + i, 4);
            for (int32_t j = 0; i + j < inputs; j++) to[j] = from[i + j];
            matrix->sums[r] = sum;
            matrix->scales[r] = scales[r];
        } else {
            const float *from = (const float *)rows + r * ld;
            float *to = (float *)matrix->weights + place(matrix, r);
            for (int32_t i = 0; i < inputs; i++) to[(size_t)i * FH_PANEL] = from[i];
        }
        matrix->bias[r] = bias ? bias[r] : 0.f;
    }
    return 0;
}

size_t fh_matrix_rows_size(const fh_matrix *matrix) {
    return (size_t)matrix->outputs * groups(matrix) * 4;
}

void fh_matrix_rows(const fh_matrix *matrix, void *rows) {
    char *to = rows;
    for (int32_t i = 0; i < matrix->outputs; i++) {
        const char *from = first_group(matrix, i);
        for (size_t j = 0; j < groups(matrix); j++, to += 4) memcpy(to, from + j * 4 * FH_PANEL, 4);
    }
}

int fh_matrix_select(fh_matrix *matrix, void *buffer, const fh_matrix *from, const void *rows,
                     const int32_t *ids, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= from->outputs) return -1;
    if (start(matrix, buffer, (fh_kind)from->kind, count, from->inputs, count)) return -1;
    size_t each = groups(from);
    for (int32_t i = 0; i < count; i++) {
        const char *source = (const char *)rows + (size_t)ids[i] * each * 4;
        char *target = first_group(matrix, i);
        for (size_t j = 0; j < each; j++) memcpy(target + j * 4 * FH_PANEL, source + j * 4, 4);
        matrix->bias[i] = from->bias[ids[i]];
        if (is_int8(from->kind)) {
            matrix->scales[i] = from->scales[ids[i]];
            matrix->sums[i] = from->sums[ids[i]];
        }
    }
    return 0;
}

void fh_matrix_row(const fh_matrix *matrix, int32_t output, float *row) {
    size_t at = place(matrix, output);
    if (is_int8(matrix->kind)) {
        const int8_t *from = (const int8_t *)matrix->weights + at;
        float scale = matrix->scales[output];
        for (int32_t i = 0; i < matrix->inputs; i++)
            row[i] = (float)from[(size_t)(i / 4) * 4 * FH_PANEL + (size_t)(i % 4)] * scale;
    } else {
        const float *from = (const float *)matrix->weights + at;
        for (int32_t i = 0; i < matrix->inputs; i++) row[i] = from[(size_t)i * FH_PANEL];
    }
}

fh_matrix fh_matrix_slice(const fh_matrix *matrix, int32_t first, int32_t outputs) {
    fh_matrix slice = *matrix;
    slice.outputs = outputs;
    slice.weights = first_group(matrix, first);
    slice.bias += first;
    if (is_int8(matrix->kind)) {
        slice.scales += first;
        slice.sums += first;
    }
    return slice;
}

/* ------------------------------------------------------------------ inputs */

size_t fh_input_size(fh_kind kind, int32_t rows, int32_t inputs) {
    if (!is_int8(kind) || rows < 1 || inputs < 1) return 0;
    return (size_t)rows * padded((size_t)inputs, 64) * (kind == FH_INT8_16 ? 2 : 1) +
           padded((size_t)rows * sizeof(float), FH_ALIGNMENT);
}

fh_input fh_input_rows(const fh_input *input, int32_t first, int32_t rows) {
    fh_input part = *input;
    part.rows = rows;
    if (is_int8(input->kind)) {
        part.integers += (size_t)first * (size_t)input->stride;
        part.scales += first;
    } else {
        part.x += first * input->ldx;
    }
    return part;
}

/* ------------------------------------------------------------------ attention */

size_t fh_cache_size(int32_t heads, int32_t width, int32_t tokens) {
    if (heads < 1 || width < 1 || tokens < 1) return 0;
    return (size_t)heads * FH_BLOCK * (fh_key_width(width) + padded((size_t)width, 16)) *
           padded((size_t)tokens, FH_BLOCK) / FH_BLOCK;
}

void fh_cache_put(const fh_cache *cache, int32_t at, int32_t rows, const float *keys, ptrdiff_t ldk,
                  const float *values, ptrdiff_t ldv) {
    size_t width = (size_t)cache->width, high = fh_key_width(cache->width),
           wide = padded(width, 16), all = (size_t)cache->heads * FH_BLOCK,
           whole = width / FH_SQUARE * FH_SQUARE;
    for (int32_t r = 0; r < rows; r++) {
        size_t token = (size_t)at + (size_t)r, place = token % FH_BLOCK;
        float *start = cache->data + token / FH_BLOCK * all * (high + wide),
              *to = start + fh_key_place(high, place, 0);
        const float *key = keys + r * ldk, *value = values + r * ldv;
        for (int32_t h = 0; h < cache->heads; h++, to += FH_BLOCK * high, key += width) {
            for (size_t c = 0; c < whole; c += FH_SQUARE)
                memcpy(to + c * FH_SQUARE, key + c, FH_SQUARE * sizeof(float));
            for (size_t c = whole; c < high; c++)
                to[whole * FH_SQUARE + c - whole] = c < width ? key[c] : 0.f;
            /* Whole squares are multiplied, and what lies in memory may be numbers that are not
             * normal, which take a hundred times as long. */
            for (size_t c = 0; c < high && place % FH_SQUARE == 0; c += FH_SQUARE)
                memset(to + c * FH_SQUARE + FH_SQUARE, 0,
                       FH_SQUARE * (FH_SQUARE - 1) * sizeof(float));
        }
        to = start + all * high + place * wide;
        for (int32_t h = 0; h < cache->heads; h++, to += FH_BLOCK * wide, value += width) {
            memcpy(to, value, width * sizeof(float));
            for (size_t i = width; i < wide; i++) to[i] = 0.f;
        }
    }
}

size_t fh_relative_size(int32_t window, int32_t width) {
    if (window < 1 || width < 1) return 0;
    return padded(2 * (size_t)window + 1, FH_BLOCK) * fh_key_width(width);
}

void fh_relative_pack(fh_relative *relative, float *data, const float *table, int32_t window,
                      int32_t width) {
    *relative = (fh_relative){data, window, width};
    memset(data, 0, fh_relative_size(window, width) * sizeof(float));
    for (int32_t i = 0; i <= 2 * window; i++)
        for (int32_t c = 0; c < width; c++)
            data[fh_key_place(fh_key_width(width), (size_t)i, (size_t)c)] =
                table[(size_t)i * (size_t)width + (size_t)c];
}

size_t fh_attention_scratch(int32_t tokens, int32_t window) {
    /* scores and distances of four queries at once, in rows of an odd number of blocks; products
     * with the relative vectors of one */
    size_t row = padded((size_t)(tokens > 0 ? tokens : 1), FH_BLOCK) + FH_BLOCK;
    return 8 * row + (window > 0 ? padded(2 * (size_t)window + 1, FH_BLOCK) : 0);
}
