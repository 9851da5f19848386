/* Every instruction set that this machine can run against the portable one, on random sizes and in buffers of exactly the stated size, so that
 * a sanitizer sees each byte too much. Also what runs under an emulator for another processor.
 *
 *     operations_driver SEED CASES      prints the instruction sets that it compared; exit status 1 and a line for the first difference
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "screen.h"

#if defined(_WIN32) /* where free() takes back only what malloc() gave */
#include <malloc.h>
#define free _aligned_free
static int posix_memalign(void **found, size_t alignment, size_t size) { return !(*found = _aligned_malloc(size, alignment)); }
#endif

static uint64_t state;
static uint32_t bits(void) { /* xorshift */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}
static int32_t between(int32_t low, int32_t high) { return low + (int32_t)(bits() % (uint32_t)(high - low + 1)); }
static float number(void) { return (float)between(-1000, 1000) / 317.f; }

static void *allocate(size_t size) {
    void *found = NULL;
    size = size ? size : 1;
    if (posix_memalign(&found, FH_ALIGNMENT, size)) exit(2);
    return memset(found, 0xA5, size);
}
static float *numbers(size_t count) {
    float *x = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++) x[i] = number();
    return x;
}

static const fh_operations *plain, *fast;

static void check(int ok, const char *what, int32_t a, int32_t b, int32_t c) {
    if (ok) return;
    printf("%s: %s differs at sizes %d, %d, %d\n", fast->name, what, a, b, c);
    exit(1);
}
static int near(const float *x, const float *y, size_t count, float tolerance) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(x[i] - y[i]) <= tolerance * (1.f + fabsf(y[i]))) && !(isnan(x[i]) && isnan(y[i])) && x[i] != y[i]) return 0;
    return 1;
}

static void products(void) {
    int32_t rows = between(1, 20), inputs = between(1, 130), outputs = between(1, 200), kind = between(1, 3), positive = between(0, 1);
    size_t weights = (size_t)outputs * (size_t)inputs;
    void *w = kind != FH_FLOAT32 ? allocate(weights) : numbers(weights);
    if (kind != FH_FLOAT32)
        for (size_t i = 0; i < weights; i++) ((int8_t *)w)[i] = (int8_t)(between(0, 3) ? between(-127, 127) : between(0, 1) ? 127 : -127);
    float *scales = numbers((size_t)outputs), *bias = numbers((size_t)outputs), *x = numbers((size_t)rows * (size_t)inputs);
    if (positive)
        for (int32_t i = 0; i < rows * inputs; i++) x[i] = fabsf(x[i]);
    if (!between(0, 5)) x[between(0, rows * inputs - 1)] = between(0, 1) ? NAN : -INFINITY;
    fh_matrix matrix;
    void *packed = allocate(fh_matrix_size((fh_kind)kind, outputs, inputs));
    check(!fh_matrix_pack(&matrix, packed, (fh_kind)kind, outputs, inputs, w, inputs, scales, between(0, 3) ? bias : NULL), "pack", rows, inputs, outputs);
    size_t count = (size_t)rows * (size_t)outputs;
    float *residual = numbers(count), *results[2], *values[2], *sums[2];
    int32_t *tokens[2], banned[3] = {between(-1, outputs), between(0, outputs - 1), between(0, outputs - 1)};
    int relu = between(0, 1), add = between(0, 1);
    fh_rule *rules = allocate((size_t)rows * sizeof *rules);
    for (int32_t r = 0; r < rows; r++) rules[r] = (fh_rule){banned, between(0, 3), between(-1, outputs), number()};
    for (int i = 0; i < 2; i++) {
        const fh_operations *ops = i ? fast : plain;
        fh_input input;
        void *buffer = allocate(fh_input_size((fh_kind)kind, rows, inputs));
        ops->prepare(&input, buffer, (fh_kind)kind, x, inputs, rows, inputs, positive);
        results[i] = allocate(count * sizeof(float));
        values[i] = allocate((size_t)rows * sizeof(float));
        sums[i] = allocate((size_t)rows * sizeof(float));
        tokens[i] = allocate((size_t)rows * sizeof(int32_t));
        ops->product(&matrix, &input, results[i], outputs, relu, add ? residual : NULL, outputs);
        ops->best(&matrix, &input, rules, tokens[i], values[i], sums[i]);
        int32_t part = between(1, rows), first = between(0, rows - part);
        fh_input some = fh_input_rows(&input, first, part);
        float *again = allocate((size_t)part * (size_t)outputs * sizeof(float));
        ops->product(&matrix, &some, again, outputs, relu, add ? residual + (ptrdiff_t)first * outputs : NULL, outputs);
        check(!memcmp(again, results[i] + (ptrdiff_t)first * outputs, (size_t)part * (size_t)outputs * sizeof(float)), "a row among others", rows, inputs, outputs);
        free(again);
        free(buffer);
    }
    if (kind != FH_FLOAT32)
        for (size_t i = 0; i < count; i++) check(results[0][i] == results[1][i] || (isnan(results[0][i]) && isnan(results[1][i])), "int8 product", rows, inputs, outputs);
    check(near(results[1], results[0], count, 1e-3f), "product", rows, inputs, outputs);
    check(near(values[1], values[0], (size_t)rows, 1e-3f) && near(sums[1], sums[0], (size_t)rows, 1e-3f), "best", rows, inputs, outputs);
    if (kind != FH_FLOAT32) check(!memcmp(tokens[0], tokens[1], (size_t)rows * sizeof(int32_t)), "tokens of best", rows, inputs, outputs);
    int32_t n = between(1, 8), ids[2][8], ends[2];
    float tops[2][8];
    for (int i = 0; i < 2; i++) ends[i] = (i ? fast : plain)->top(results[0], outputs, rules, n, ids[i], tops[i]);
    check(ends[0] == ends[1] && (ends[0] < 0 || !memcmp(ids[0], ids[1], (size_t)ends[0] * sizeof(int32_t))), "top", outputs, n, 0);
    int32_t chosen[3] = {between(0, outputs - 1), between(0, outputs - 1), 0};
    fh_matrix few;
    void *every = allocate(fh_matrix_rows_size(&matrix));
    fh_matrix_rows(&matrix, every);
    void *selected = allocate(fh_matrix_size((fh_kind)kind, 3, inputs));
    float *row = allocate((size_t)inputs * sizeof(float)), *same = allocate((size_t)inputs * sizeof(float));
    check(!fh_matrix_select(&few, selected, &matrix, every, chosen, 3), "select", outputs, inputs, 0);
    fh_matrix_row(&matrix, chosen[1], row);
    fh_matrix_row(&few, 1, same);
    check(!memcmp(row, same, (size_t)inputs * sizeof(float)), "row", outputs, inputs, 0);
    for (int i = 0; i < 2; i++) free(results[i]), free(values[i]), free(sums[i]), free(tokens[i]);
    free(w), free(scales), free(bias), free(x), free(packed), free(residual), free(rules), free(selected), free(every), free(row), free(same);
}

static void screening(void) {
    int32_t rows = between(1, FH_SCREEN_ROWS), inputs = between(1, 200), outputs = between(1, 400);
    size_t count = (size_t)outputs * (size_t)inputs;
    if (!fast->bounds) return;
    int8_t *w = allocate(count);
    for (size_t i = 0; i < count; i++) w[i] = (int8_t)between(-127, 127);
    float *scales = numbers((size_t)outputs), *bias = numbers((size_t)outputs), *x = numbers((size_t)rows * (size_t)inputs);
    for (int32_t i = 0; i < outputs; i++) scales[i] = fabsf(scales[i]);
    int32_t towards = between(0, outputs - 1);
    for (int32_t i = 0; i < rows * inputs && between(0, 9); i++) x[i] += (float)w[(size_t)towards * (size_t)inputs + (size_t)(i % inputs)];
    if (!between(0, 9)) x[between(0, rows * inputs - 1)] = NAN;
    fh_matrix matrix;
    fh_kind kind = between(0, 1) ? FH_INT8 : FH_INT8_16;
    void *packed = allocate(fh_matrix_size(kind, outputs, inputs));
    fh_matrix_pack(&matrix, packed, kind, outputs, inputs, w, inputs, scales, bias);
    fh_screen screen;
    void *half = allocate(fh_screen_size(&matrix));
    fh_screen_pack(&screen, half, &matrix);
    fh_input input, rough;
    void *buffer = allocate(fh_input_size(kind, rows, inputs)), *coarse = allocate(fh_input_size(FH_INT8, rows, inputs));
    fast->prepare(&input, buffer, kind, x, inputs, rows, inputs, 0);
    fast->prepare(&rough, coarse, FH_INT8, x, inputs, rows, inputs, 0);
    float *bounds = allocate((size_t)rows * (size_t)outputs * sizeof(float)), values[2][FH_SCREEN_ROWS];
    int32_t tokens[2][FH_SCREEN_ROWS];
    fh_screening state = {0, 0};
    fast->best(&matrix, &input, NULL, tokens[0], values[0], NULL);
    if (fh_screened_best(fast, &matrix, &screen, &state, &input, kind == FH_INT8 ? &input : &rough, NULL, bounds, tokens[1], values[1]))
        check(!memcmp(tokens[0], tokens[1], (size_t)rows * sizeof(int32_t)) && !memcmp(values[0], values[1], (size_t)rows * sizeof(float)), "screened best", rows, inputs, outputs);
    free(w), free(scales), free(bias), free(x), free(packed), free(half), free(buffer), free(coarse), free(bounds);
}

static void rows_of_numbers(void) {
    int32_t rows = between(1, 9), width = between(1, 300);
    size_t count = (size_t)rows * (size_t)width;
    float *x = numbers(count), *gain = numbers((size_t)width), *bias = numbers((size_t)width), *out[2];
    for (int i = 0; i < 2; i++) {
        const fh_operations *ops = i ? fast : plain;
        out[i] = allocate(count * sizeof(float));
        ops->norm(x, width, rows, width, gain, bias, 1e-5f, out[i], width);
    }
    check(near(out[1], out[0], count, 1e-3f), "norm", rows, width, 0);
    for (int what = 0; what < 2; what++) {
        for (int i = 0; i < 2; i++) {
            const fh_operations *ops = i ? fast : plain;
            memcpy(out[i], x, count * sizeof(float));
            (what ? ops->exponential : ops->softmax)(out[i] + count - (size_t)width, width);
        }
        check(near(out[1], out[0], count, 1e-4f), what ? "exponential" : "softmax", width, 0, 0);
    }
    float a = plain->logsumexp(x, width), b = fast->logsumexp(x, width);
    check(near(&b, &a, 1, 1e-4f), "logsumexp", width, 0, 0);
    free(x), free(gain), free(bias), free(out[0]), free(out[1]);
}

static void attention(void) {
    int32_t rows = between(1, 9), tokens = between(1, 70), heads = between(1, 3), width = between(1, 70), window = between(0, 2) ? 0 : between(1, 20);
    int32_t dimension = heads * width;
    fh_cache cache = {allocate(fh_cache_size(heads, width, tokens) * sizeof(float)), heads, width};
    float *keys = numbers((size_t)tokens * (size_t)dimension), *values = numbers((size_t)tokens * (size_t)dimension), *queries = numbers((size_t)rows * (size_t)dimension);
    for (int32_t at = 0; at < tokens;) {
        int32_t part = between(1, tokens - at);
        (between(0, 1) ? fast->put : fh_cache_put)(&cache, at, part, keys + (ptrdiff_t)at * dimension, dimension, values + (ptrdiff_t)at * dimension, dimension);
        at += part;
    }
    int32_t *visible = allocate((size_t)rows * sizeof(int32_t)), *here = allocate((size_t)rows * sizeof(int32_t)), *there = allocate((size_t)tokens * sizeof(int32_t));
    for (int32_t r = 0; r < rows; r++) visible[r] = between(-1, tokens + 1), here[r] = between(0, 50);
    for (int32_t t = 0; t < tokens; t++) there[t] = between(0, 50);
    uint8_t *mask = allocate((size_t)rows * (size_t)tokens);
    for (int32_t i = 0; i < rows * tokens; i++) mask[i] = (uint8_t)!!between(0, 3);
    fh_relative relative;
    float *table = numbers(((size_t)window * 2 + 1) * (size_t)width), *packed = allocate(fh_relative_size(window, width) * sizeof(float));
    if (window) fh_relative_pack(&relative, packed, table, window, width);
    float *scratch = allocate(fh_attention_scratch(tokens, window) * sizeof(float)), *out[2], *weights[2], *scores[2];
    int use_mask = between(0, 1), use_visible = between(0, 1);
    for (int i = 0; i < 2; i++) {
        const fh_operations *ops = i ? fast : plain;
        out[i] = allocate((size_t)rows * (size_t)dimension * sizeof(float));
        weights[i] = allocate((size_t)rows * (size_t)tokens * sizeof(float));
        scores[i] = allocate(((size_t)tokens + FH_BLOCK - 1) / FH_BLOCK * FH_BLOCK * sizeof(float));
        fh_attention call = {.cache = &cache, .tokens = tokens, .rows = rows, .queries = queries, .ldq = dimension, .out = out[i], .ldo = dimension,
                             .visible = use_visible ? visible : NULL, .mask = use_mask ? mask : NULL, .ldm = tokens, .relative = window ? &relative : NULL,
                             .query_positions = here, .key_positions = there, .weights = weights[i], .ldw = tokens, .scratch = scratch};
        ops->attend(&call);
        ops->scores(&cache, heads - 1, queries, tokens, scores[i]);
    }
    check(near(out[1], out[0], (size_t)rows * (size_t)dimension, 1e-3f), "attention", rows, tokens, width);
    check(near(weights[1], weights[0], (size_t)rows * (size_t)tokens, 1e-3f), "weights of attention", rows, tokens, width);
    check(near(scores[1], scores[0], (size_t)tokens, 1e-3f), "scores", rows, tokens, width);
    for (int i = 0; i < 2; i++) free(out[i]), free(weights[i]), free(scores[i]);
    free(cache.data), free(keys), free(values), free(queries), free(visible), free(here), free(there), free(mask), free(table), free(packed), free(scratch);
}

int main(int count, char **arguments) {
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    int cases = count > 2 ? atoi(arguments[2]) : 100;
    plain = fh_choose("plain", NULL, 0);
    for (int i = 0; fh_instruction_set(i); i++) {
        char why[200];
        fast = fh_choose(fh_instruction_set(i), why, sizeof why);
        if (!fast) {
            fprintf(stderr, "%s\n", why);
            continue;
        }
        state = seed * 2654435761u + 88172645463325252u;
        for (int j = 0; j < cases; j++) products(), screening(), rows_of_numbers(), attention();
        printf("%s\n", fast->name);
    }
    return 0;
}
