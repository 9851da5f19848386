/* A step of the decoder: any number of new tokens of any number of rows, each row with a cache of
 * its own.
 *
 * A cache holds what a layer remembers of each token: its key and value, or the state of the
 * recurrent cell behind it. So rows are rolled back by their length alone, whatever the layers are.
 *
 * In shapes d is the width of the decoder, `tokens` are the new ones of all rows, one row behind
 * the other, and `wants` those of them whose features are asked for: of the others the last layer
 * computes keys and values only. */
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* Tokens that a new cache holds at first. */
#define FIRST_CAPACITY 32

static size_t layer_floats(const fh_work *w, int32_t capacity) {
    if (w->model->shape.cell == FH_SSRU)
        return (size_t)capacity * (size_t)w->model->decoder.shape.width;
    return fh_cache_size(w->model->decoder.shape.heads, w->model->decoder.head_width, capacity);
}

int fh_rows(fh_work *w, int32_t count) {
    if (count > w->row_room) {
        fh_row *rows = realloc(w->rows, (size_t)count * sizeof *rows);
        if (!rows) return fh_out_of_memory(&w->error, (size_t)count * sizeof *rows);
        memset(rows + w->row_room, 0, (size_t)(count - w->row_room) * sizeof *rows);
        w->rows = rows;
        w->row_room = count;
    }
    for (int32_t r = 0; r < count; r++) {
        w->rows[r].length = 0;
        w->rows[r].source = r;
    }
    return FH_OK;
}

/* Makes the cache of a row large enough, what is in it kept. */
static int reserve_row(fh_work *w, fh_row *row, int32_t tokens) {
    if (tokens <= row->capacity) return FH_OK;
    int32_t capacity = row->capacity ? row->capacity : FIRST_CAPACITY,
            layers = w->model->decoder.shape.layers;
    while (capacity < tokens) capacity *= 2;
    size_t old = layer_floats(w, row->capacity), more = layer_floats(w, capacity),
           kept = layer_floats(w, row->length);
    fh_buffer grown = {0};
    if (fh_reserve(&grown, more * (size_t)layers, sizeof(float), &w->error)) return w->error.code;
    if (row->length)
        for (int32_t l = 0; l < layers; l++)
            memcpy((float *)grown.data + l * more, (float *)row->cache.data + l * old,
                   kept * sizeof(float));
    fh_release(&row->cache);
    row->cache = grown;
    row->capacity = capacity;
    return FH_OK;
}

int fh_row_copy(fh_work *w, int32_t to, int32_t from) {
    fh_row *a = &w->rows[to];
    const fh_row *b = &w->rows[from];
    a->length = 0;
    if (fh_go_on(w) || reserve_row(w, a, b->length)) return w->error.code;
    size_t mine = layer_floats(w, a->capacity), theirs = layer_floats(w, b->capacity),
           used = layer_floats(w, b->length);
    for (int32_t l = 0; l < w->model->decoder.shape.layers && used; l++)
        memcpy((float *)a->cache.data + l * mine, (float *)b->cache.data + l * theirs,
               used * sizeof(float));
    a->length = b->length;
    a->source = b->source;
    return FH_OK;
}

static int32_t row_of(const fh_step *step, int32_t r) { return step->row ? step->row[r] : r; }

/* The cache of a layer of a row. */
static fh_cache cache_of(const fh_work *w, int32_t row, int32_t layer) {
    const fh_row *r = &w->rows[row];
    return (fh_cache){(float *)r->cache.data + (size_t)layer * layer_floats(w, r->capacity),
                      w->model->decoder.shape.heads, w->model->decoder.head_width};
}

/* One row of a step: where its new tokens and its wanted ones lie. */
typedef struct {
    int32_t row, first, count, wanted, wants;
} piece;

typedef struct {
    const fh_step *step;
    piece *pieces;
    int32_t tokens, wants;
    int32_t *keys;  /* positions of slots */
    int32_t *ahead; /* [tokens]: keys that each may see */
    int32_t *query; /* [tokens]: positions */
    uint8_t *mask;
} plan;

static int make_plan(fh_work *w, const fh_step *step, plan *p) {
    const fh_side *t = &w->model->decoder;
    int32_t longest = 1, most = 1, window = w->model->shape.relative_window;
    p->step = step;
    p->tokens = 0;
    for (int32_t r = 0; r < step->rows; r++) {
        fh_row *row = &w->rows[row_of(step, r)];
        int32_t count = step->count ? step->count[r] : 1, total = row->length + count;
        if (reserve_row(w, row, total)) return w->error.code;
        p->tokens += count;
        if (total > longest) longest = total;
        if (count > most) most = count;
    }
    p->wants = step->chosen ? step->chosen_count : p->tokens;
    size_t masked = step->directions > 1 ? (size_t)most * longest : 1;
    if (fh_reserve(&w->slots, (size_t)step->rows, sizeof(piece), &w->error) ||
        fh_reserve(&w->ahead, (size_t)p->tokens * 2, sizeof(int32_t), &w->error) ||
        fh_reserve(&w->key_positions, (size_t)longest, sizeof(int32_t), &w->error) ||
        fh_reserve(&w->mask, masked, 1, &w->error) ||
        fh_reserve(&w->scratch, fh_attention_scratch(longest, window), sizeof(float), &w->error))
        return w->error.code;
    for (int32_t r = 0; r < step->rows; r++) {
        size_t other = fh_attention_scratch(w->source_lengths[w->rows[row_of(step, r)].source], 0);
        if (fh_reserve(&w->scratch, other, sizeof(float), &w->error)) return w->error.code;
    }
    size_t width = (size_t)t->shape.width;
    if (fh_reserve(&w->x, (size_t)p->tokens * width, sizeof(float), &w->error) ||
        fh_reserve(&w->y, (size_t)p->tokens * width, sizeof(float), &w->error) ||
        fh_reserve(&w->mixed, (size_t)p->tokens * width, sizeof(float), &w->error) ||
        fh_reserve(&w->projected, (size_t)p->tokens * 3 * width, sizeof(float), &w->error))
        return w->error.code;
    p->pieces = w->slots.data;
    p->ahead = w->ahead.data;
    p->query = p->ahead + p->tokens;
    p->keys = w->key_positions.data;
    p->mask = w->mask.data;
    /* Slot i of every row, old or new, stands at this position. */
    for (int32_t i = 0; i < longest; i++) p->keys[i] = step->origin + i * step->stride;
    int32_t at = 0, wanted = 0;
    for (int32_t r = 0; r < step->rows; r++) {
        int32_t row = row_of(step, r), count = step->count ? step->count[r] : 1,
                length = w->rows[row].length;
        piece *one = &p->pieces[r];
        *one = (piece){row, at, count, step->chosen ? wanted : at, step->chosen ? 0 : count};
        for (int32_t i = 0; i < count; i++, at++) {
            p->ahead[at] = step->causal ? length + i + 1 : length + count;
            p->query[at] = p->keys[length + i];
        }
        while (step->chosen && wanted < step->chosen_count && step->chosen[wanted] < at) {
            wanted++;
            one->wants++;
        }
    }
    if (step->chosen && w->model->shape.cell == FH_SSRU)
        return fh_fail(&w->error, FH_INVALID, "a recurrent cell computes all tokens of a step");
    if (step->attention && step->chosen)
        return fh_fail(&w->error, FH_INVALID, "attention is given for all tokens of a step");
    if (wanted != (step->chosen ? step->chosen_count : 0))
        return fh_fail(&w->error, FH_INVALID, "a token outside the step was asked for");
    return FH_OK;
}

/* Self-attention of the queries [wants or tokens][ldq] of every row, out to mixed [wants or
 * tokens][d]; last: only the wanted ones. */
static void attend_rows(fh_work *w, const plan *p, const fh_layer *layer, int32_t number,
                        const float *queries, ptrdiff_t ldq, int last) {
    const fh_side *t = &w->model->decoder;
    int32_t directions = p->step->directions;
    for (int32_t r = 0; r < p->step->rows; r++) {
        const piece *one = &p->pieces[r];
        const fh_row *row = &w->rows[one->row];
        int32_t total = row->length + one->count, from = last ? one->wanted : one->first,
                rows = last ? one->wants : one->count;
        if (!rows) continue;
        /* The new tokens of a row, [rows][heads][d / heads], against its old and new ones. */
        fh_cache cache = cache_of(w, one->row, number);
        fh_attention a = {.cache = &cache,
                          .tokens = total,
                          .rows = rows,
                          .queries = queries + (size_t)from * ldq,
                          .ldq = ldq,
                          .out = (float *)w->mixed.data + (size_t)from * t->shape.width,
                          .ldo = t->shape.width,
                          .scratch = w->scratch.data,
                          .visible = p->ahead + from};
        if (layer->relative.data) {
            a.relative = &layer->relative;
            a.key_positions = p->keys;
            a.query_positions = p->query + from;
        }
        if (directions > 1) {
            /* mask [rows][total]: a slot sees those of its own direction */
            for (int32_t q = 0; q < rows; q++) {
                int32_t slot =
                    row->length +
                    (last && p->step->chosen ? p->step->chosen[from + q] - one->first : q);
                for (int32_t k = 0; k < total; k++)
                    p->mask[(size_t)q * total + k] = k % directions == slot % directions;
            }
            a.mask = p->mask;
            a.ldm = total;
        }
        w->model->operations->attend(&a);
    }
}

/* Attention to the source, queries and mixed [wants or tokens][d]: neighbouring rows of one
 * sentence (the hypotheses of a beam) ask together. */
static void attend_source(fh_work *w, const plan *p, int32_t number, const float *queries,
                          int last) {
    const fh_side *t = &w->model->decoder;
    int32_t d = t->shape.width;
    for (int32_t r = 0, next; r < p->step->rows; r = next) {
        int32_t source = w->rows[p->pieces[r].row].source, rows = 0,
                from = last ? p->pieces[r].wanted : p->pieces[r].first;
        for (next = r; next < p->step->rows && w->rows[p->pieces[next].row].source == source;
             next++)
            rows += last ? p->pieces[next].wants : p->pieces[next].count;
        if (!rows) continue;
        fh_cache cache = fh_memory(w, source, number);
        fh_attention a = {.cache = &cache,
                          .tokens = w->source_lengths[source],
                          .rows = rows,
                          .queries = queries + (size_t)from * d,
                          .ldq = d,
                          .out = (float *)w->mixed.data + (size_t)from * d,
                          .ldo = d,
                          .scratch = w->scratch.data};
        if (p->step->attention && number + 1 == t->shape.layers) {
            a.weights = p->step->attention + (size_t)from * p->step->attention_stride;
            a.ldw = p->step->attention_stride;
        }
        w->model->operations->attend(&a);
    }
}

/* The wanted rows of [tokens][ld] move to the front. */
static void keep_chosen(float *x, ptrdiff_t ld, int32_t width, const int32_t *chosen,
                        int32_t count) {
    for (int32_t i = 0; i < count; i++)
        if (chosen[i] != i)
            memmove(x + (size_t)i * ld, x + (size_t)chosen[i] * ld, (size_t)width * sizeof *x);
}

/* The simpler simple recurrent unit (Kim et al., 2019): c = f * c + (1 - f) * candidate with f =
 * sigmoid(forget), from the state behind the token before, or zeros; x += relu(c). gates:
 * [tokens][2 width], forget and candidate, of all new tokens. */
static void run_cell(fh_work *w, const plan *p, int32_t number, float *gates, float *x) {
    int32_t d = w->model->decoder.shape.width;
    for (int32_t r = 0; r < p->step->rows; r++) {
        const piece *one = &p->pieces[r];
        const fh_row *row = &w->rows[one->row];
        float *state = cache_of(w, one->row, number).data + (size_t)row->length * d;
        for (int32_t t = one->first; t < one->first + one->count; t++, state += d) {
            const float *before = t > one->first || row->length ? state - d : NULL;
            float *forget = gates + (size_t)t * 2 * d, *candidate = forget + d,
                  *to = x + (size_t)t * d;
            for (int32_t c = 0; c < d; c++) forget[c] = -forget[c];
            w->model->operations->exponential(forget, d);
            for (int32_t c = 0; c < d; c++) {
                float kept = 1.0f / (1.0f + forget[c]);
                state[c] = (before ? kept * before[c] : 0.0f) + (1.0f - kept) * candidate[c];
                to[c] += state[c] < 0.0f ? 0.0f : state[c]; /* not a number stays so */
            }
        }
    }
}

/* A layer's first part, x += what the earlier tokens say; its input is `in`, x or its norm. *rows:
 * of x, fewer behind the last layer. */
static int remember_before(fh_work *w, const plan *p, int32_t number, const float *in, float *x,
                           int32_t *rows) {
    const fh_model *m = w->model;
    const fh_side *t = &m->decoder;
    const fh_layer *layer = &t->layers[number];
    int32_t d = t->shape.width, last = number + 1 == t->shape.layers && p->step->chosen;
    float *qkv = w->projected.data;
    if (m->shape.cell == FH_SSRU) {
        /* [rows][d] -> forget gate and candidate side by side: [rows][2 d] */
        fh_linear_map gates = {.matrix = &layer->cell, .x = in, .rows = *rows, .out = qkv};
        if (fh_linear(w, &gates)) return w->error.code;
        run_cell(w, p, number, qkv, x);
        return FH_OK;
    }
    /* [rows][d] -> query, key and value side by side: [rows][3 d] */
    fh_linear_map projection = {.matrix = &layer->self_input, .x = in, .rows = *rows, .out = qkv};
    if (fh_linear(w, &projection)) return w->error.code;
    for (int32_t r = 0; r < p->step->rows; r++) {
        const piece *one = &p->pieces[r];
        fh_cache cache = cache_of(w, one->row, number);
        /* The new tokens' keys and values, [count][d] each, behind those of the row's old ones. */
        const float *new = qkv + (size_t)one->first * 3 * d;
        w->model->operations->put(&cache, w->rows[one->row].length, one->count, new + d, 3 * d,
                                  new + 2 * d, 3 * d);
    }
    if (last) {
        /* Keys and values are stored, the rest is computed for the wanted tokens: qkv [tokens][3 d]
         * (of which queries are read) -> [wants][3 d], x [tokens][d] -> [wants][d]. */
        const int32_t *chosen = p->step->chosen;
        keep_chosen(qkv, 3 * d, d, chosen, p->wants);
        keep_chosen(x, d, d, chosen, p->wants);
        for (int32_t i = 0; i < p->wants; i++) {
            p->ahead[i] = p->ahead[chosen[i]];
            p->query[i] = p->query[chosen[i]];
        }
        *rows = p->wants;
    }
    attend_rows(w, p, layer, number, qkv, 3 * d, last);
    /* The heads' outputs side by side, [rows][d] -> [rows][d], added to x. */
    fh_linear_map output = {
        .matrix = &layer->self_output, .x = w->mixed.data, .rows = *rows, .out = x, .residual = x};
    return fh_linear(w, &output);
}

/* One layer on x [rows][d]: what came before, the source, the feed-forward network. */
static int layer_step(fh_work *w, const plan *p, int32_t number, float *x, int32_t *rows) {
    const fh_side *t = &w->model->decoder;
    const fh_layer *layer = &t->layers[number];
    int32_t last = number + 1 == t->shape.layers && p->step->chosen;
    float *queries = w->projected.data;
    const float *in = fh_norm_before(w, t, &layer->self_norm, x, *rows);
    if (remember_before(w, p, number, in, x, rows)) return w->error.code;
    fh_norm_behind(w, t, &layer->self_norm, x, *rows);
    in = fh_norm_before(w, t, &layer->cross_norm, x, *rows);
    /* [rows][d] -> queries [rows][heads][d / heads]; fh_encode has left the keys and values. */
    fh_linear_map query = {.matrix = &layer->cross_query, .x = in, .rows = *rows, .out = queries};
    if (fh_linear(w, &query)) return w->error.code;
    attend_source(w, p, number, queries, last);
    fh_linear_map output = {
        .matrix = &layer->cross_output, .x = w->mixed.data, .rows = *rows, .out = x, .residual = x};
    if (fh_linear(w, &output)) return w->error.code;
    fh_norm_behind(w, t, &layer->cross_norm, x, *rows);
    return fh_feed_forward(w, t, layer, x, *rows);
}

int fh_decode_step(fh_work *w, const fh_step *step, float **features) {
    const fh_side *t = &w->model->decoder;
    plan p = {0};
    if (make_plan(w, step, &p)) return w->error.code;
    float *x = w->x.data; /* [tokens][d], behind the last layer [wants][d] */
    if (step->vectors) {
        memcpy(x, step->vectors, (size_t)p.tokens * (size_t)t->shape.width * sizeof *x);
        if (fh_place(w, t, p.query, p.tokens, x)) return w->error.code;
    } else if (fh_embed(w, t, step->tokens, p.query, p.tokens, x)) {
        return w->error.code;
    }
    int32_t rows = p.tokens;
    for (int32_t l = 0; l < t->shape.layers; l++)
        if (layer_step(w, &p, l, x, &rows)) return w->error.code;
    if (t->final_norm.gain && rows) fh_normalise(w, t, &t->final_norm, x, rows, x);
    for (int32_t r = 0; r < step->rows; r++) w->rows[row_of(step, r)].length += p.pieces[r].count;
    *features = x;
    return FH_OK;
}
