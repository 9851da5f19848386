/* The encoder over a batch without padding: rows of all sentences share the products, attention
 * stays within a sentence. In shapes d is the width of the encoder, `tokens` are those of all
 * sentences. */
#include <string.h>

#include "work.h"

/* x [tokens][d] += self-attention. */
static int attend_itself(fh_work *w, const fh_layer *layer, float *x, int32_t tokens) {
    const fh_model *m = w->model;
    const fh_side *e = &m->encoder;
    int32_t d = e->shape.width, heads = e->shape.heads;
    float *qkv = w->projected.data, *mixed = w->mixed.data;
    const float *in = fh_norm_before(w, e, &layer->self_norm, x, tokens);
    /* [tokens][d] -> query, key and value side by side: [tokens][3 d] */
    fh_linear_map projection = {.matrix = &layer->self_input, .x = in, .rows = tokens, .out = qkv};
    if (fh_linear(w, &projection)) return w->error.code;
    fh_cache cache = {w->own_cache.data, heads, e->head_width};
    for (int32_t s = 0, first = 0; s < w->sentences; first += w->source_lengths[s++]) {
        int32_t length = w->source_lengths[s];
        /* Of one sentence: keys and values, [length][heads][d / heads] each, into blocks; then its
         * queries, of the same shape, against all of them. */
        const float *rows = qkv + (size_t)first * 3 * d;
        w->model->operations->put(&cache, 0, length, rows + d, 3 * d, rows + 2 * d, 3 * d);
        fh_attention a = {.cache = &cache,
                          .tokens = length,
                          .rows = length,
                          .queries = rows,
                          .ldq = 3 * d,
                          .out = mixed + (size_t)first * d,
                          .ldo = d,
                          .scratch = w->scratch.data};
        m->operations->attend(&a);
    }
    /* The heads' outputs side by side, [tokens][d] -> [tokens][d], added to x. */
    fh_linear_map output = {
        .matrix = &layer->self_output, .x = mixed, .rows = tokens, .out = x, .residual = x};
    if (fh_linear(w, &output)) return w->error.code;
    fh_norm_behind(w, e, &layer->self_norm, x, tokens);
    return FH_OK;
}

/* Keys and values of all decoder layers for the encoded tokens, x [tokens][d]. */
static int remember(fh_work *w, const float *x, int32_t tokens) {
    const fh_model *m = w->model;
    const fh_side *t = &m->decoder;
    int32_t d = t->shape.width, heads = t->shape.heads, layers = t->shape.layers;
    if (fh_reserve(&w->memory_starts, (size_t)w->sentences, sizeof(size_t), &w->error) ||
        fh_reserve(&w->projected, (size_t)tokens * 2 * d, sizeof(float), &w->error))
        return w->error.code;
    size_t *starts = w->memory_starts.data, total = 0;
    for (int32_t s = 0; s < w->sentences; s++) {
        starts[s] = total;
        total += (size_t)layers * fh_cache_size(heads, t->head_width, w->source_lengths[s]);
    }
    if (fh_reserve(&w->memory, total, sizeof(float), &w->error)) return w->error.code;
    float *both = w->projected.data;
    fh_input input = {0};
    for (int32_t l = 0; l < layers; l++) {
        const fh_matrix *matrix = &t->layers[l].cross_memory;
        if ((int32_t)input.kind != matrix->kind &&
            fh_prepare(w, &input, matrix->kind, x, tokens, matrix->inputs, 0))
            return w->error.code;
        /* [tokens][d] -> key and value side by side: [tokens][2 d of the decoder] */
        fh_product(w, &input, &(fh_linear_map){.matrix = matrix, .out = both});
        for (int32_t s = 0, first = 0; s < w->sentences; first += w->source_lengths[s++]) {
            fh_cache cache = fh_memory(w, s, l);
            const float *rows = both + (size_t)first * 2 * d;
            w->model->operations->put(&cache, 0, w->source_lengths[s], rows, 2 * d, rows + d,
                                      2 * d);
        }
    }
    return FH_OK;
}

fh_cache fh_memory(const fh_work *w, int32_t sentence, int32_t layer) {
    const fh_side *t = &w->model->decoder;
    size_t one = fh_cache_size(t->shape.heads, t->head_width, w->source_lengths[sentence]);
    const size_t *starts = w->memory_starts.data;
    fh_cache cache = {(float *)w->memory.data + starts[sentence] + (size_t)layer * one,
                      t->shape.heads, t->head_width};
    return cache;
}

int fh_encode(fh_work *w, const int32_t *const *sources, const int32_t *lengths,
              int32_t sentences) {
    const fh_model *m = w->model;
    const fh_side *e = &m->encoder;
    int32_t d = e->shape.width, tokens = 0, longest = 0;
    w->sentences = sentences;
    w->source_lengths = lengths;
    for (int32_t s = 0; s < sentences; s++) {
        tokens += lengths[s];
        if (lengths[s] > longest) longest = lengths[s];
    }
    size_t wide = (size_t)tokens * 3 * d;
    if (fh_go_on(w) || fh_reserve(&w->encoded, (size_t)tokens * d, sizeof(float), &w->error) ||
        fh_reserve(&w->projected, wide, sizeof(float), &w->error) ||
        fh_reserve(&w->y, (size_t)tokens * d, sizeof(float), &w->error) ||
        fh_reserve(&w->mixed, (size_t)tokens * d, sizeof(float), &w->error) ||
        fh_reserve(&w->own_cache, fh_cache_size(e->shape.heads, e->head_width, longest),
                   sizeof(float), &w->error) ||
        fh_reserve(&w->scratch, fh_attention_scratch(longest, 0), sizeof(float), &w->error) ||
        fh_reserve(&w->slots, (size_t)tokens * 2, sizeof(int32_t), &w->error))
        return w->error.code;
    /* sources [sentences][lengths[s]] -> flat [tokens], one sentence behind the other */
    int32_t *flat = w->slots.data, *positions = flat + tokens;
    for (int32_t s = 0, at = 0; s < sentences; s++)
        for (int32_t i = 0; i < lengths[s]; i++, at++) {
            flat[at] = sources[s][i];
            positions[at] = i;
        }
    float *x = w->encoded.data; /* [tokens][d] */
    if (fh_embed(w, e, flat, positions, tokens, x)) return w->error.code;
    for (int32_t l = 0; l < e->shape.layers; l++)
        if (attend_itself(w, &e->layers[l], x, tokens) ||
            fh_feed_forward(w, e, &e->layers[l], x, tokens))
            return w->error.code;
    if (e->final_norm.gain) fh_normalise(w, e, &e->final_norm, x, tokens, x);
    return remember(w, x, tokens);
}
