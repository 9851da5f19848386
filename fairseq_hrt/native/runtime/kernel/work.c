/* The pieces that encoder and decoder share. */
#include "team.h"
#include "work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int fh_work_start(fh_work *work, const fh_model *model) {
    memset(work, 0, sizeof *work);
    work->model = model;
    return FH_OK;
}

void fh_work_free(fh_work *w) {
    fh_buffer *buffers[] = {
        &w->memory,     &w->memory_starts, &w->encoded,   &w->marks,    &w->x,       &w->y,
        &w->projected,  &w->mixed,         &w->inner,     &w->prepared, &w->scratch, &w->own_cache,
        &w->ahead,      &w->key_positions, &w->mask,      &w->slots,    &w->logits,  &w->choice,
        &w->gathered,   &w->links,         &w->path,      &w->parts,    &w->bounds,  &w->rough,
        &w->all.buffer, &w->all.ids,       &w->all.places};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) fh_release(buffers[i]);
    for (int32_t i = 0; i < w->row_room; i++) fh_release(&w->rows[i].cache);
    for (int32_t i = 0; i < w->list_room; i++) {
        fh_release(&w->lists[i].buffer);
        fh_release(&w->lists[i].ids);
        fh_release(&w->lists[i].places);
    }
    free(w->rows);
    free(w->lists);
    memset(w, 0, sizeof *w);
}

int fh_go_on(fh_work *w) {
    if (!fh_watch_look(w->watch, w->caller)) return FH_OK;
    return fh_fail(&w->error, FH_ENDED, "the call was ended before it was done");
}

int32_t fh_beam_width(const fh_work *w) {
    int32_t most = w->model->decoder.shape.vocabulary - 1;
    return w->options->beam < most ? w->options->beam : most;
}

int fh_prepare(fh_work *w, fh_input *input, fh_kind kind, const float *x, int32_t rows,
               int32_t inputs, int positive) {
    if (fh_go_on(w) || fh_reserve(&w->prepared, fh_input_size(kind, rows, inputs), 1, &w->error))
        return w->error.code;
    w->model->operations->prepare(input, w->prepared.data, kind, x, inputs, rows, inputs, positive);
    return FH_OK;
}

typedef struct {
    const fh_operations *operations;
    const fh_input *input;
    const fh_linear_map *map;
    int32_t outputs; /* of a part */
} shared_product;

/* matrix: the outputs of the map from `first` on. */
static void multiply(const fh_operations *operations, const fh_input *input,
                     const fh_linear_map *map, const fh_matrix *matrix, int32_t first) {
    ptrdiff_t outputs = map->matrix->outputs;
    operations->product(matrix, input, map->out + first, outputs, map->relu,
                        map->residual ? map->residual + first : NULL, map->repeated ? 0 : outputs);
}

static void one_part(void *context, int32_t part) {
    const shared_product *p = context;
    int32_t first = part * p->outputs, left = p->map->matrix->outputs - first;
    fh_matrix slice = fh_matrix_slice(p->map->matrix, first, left < p->outputs ? left : p->outputs);
    multiply(p->operations, p->input, p->map, &slice, first);
}

void fh_product(const fh_work *w, const fh_input *input, const fh_linear_map *map) {
    const fh_matrix *matrix = map->matrix;
    int32_t members = fh_team_members(w->team);
    if (members < 2 || (int64_t)matrix->outputs * matrix->inputs * input->rows < FH_WORTH_SHARING) {
        multiply(w->model->operations, input, map, matrix, 0);
        return;
    }
    /* Twice as many parts as there are members, in whole panels: nobody waits long for the slowest.
     */
    int32_t panels = (matrix->outputs + FH_PANEL - 1) / FH_PANEL,
            each = (panels + 2 * members - 1) / (2 * members);
    shared_product p = {w->model->operations, input, map, each * FH_PANEL};
    fh_team_run(w->team, (panels + each - 1) / each, one_part, &p);
}

int fh_linear(fh_work *w, const fh_linear_map *map) {
    fh_input input;
    if (fh_prepare(w, &input, map->matrix->kind, map->x, map->rows, map->matrix->inputs,
                   map->positive))
        return w->error.code;
    fh_product(w, &input, map);
    return FH_OK;
}

/* x / (1 + exp(-x)) in place, some at a time. */
static void swish(const fh_operations *operations, float *x, size_t count) {
    float part[256];
    for (size_t first = 0, n; first < count; first += n, x += n) {
        n = count - first < 256 ? count - first : 256;
        for (size_t i = 0; i < n; i++) part[i] = -x[i];
        operations->exponential(part, (int32_t)n);
        for (size_t i = 0; i < n; i++) x[i] /= 1.0f + part[i];
    }
}

/* In place, for what is not relu (that is part of the product). */
static void activate(float *x, size_t count, int32_t activation) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i];
        if (activation == FH_GELU) x[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        if (activation == FH_GELU_TANH)
            x[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
        if (activation == FH_TANH) x[i] = tanhf(v);
    }
}

void fh_normalise(const fh_work *w, const fh_side *side, const fh_norm *norm, const float *x,
                  int32_t rows, float *out) {
    int32_t d = side->shape.width;
    w->model->operations->norm(x, d, rows, d, norm->gain, norm->bias,
                               (float)w->model->shape.epsilon, out, d);
}

const float *fh_norm_before(const fh_work *w, const fh_side *side, const fh_norm *norm,
                            const float *x, int32_t rows) {
    if (!side->shape.pre_norm) return x;
    fh_normalise(w, side, norm, x, rows, w->y.data);
    return w->y.data;
}

void fh_norm_behind(const fh_work *w, const fh_side *side, const fh_norm *norm, float *x,
                    int32_t rows) {
    if (!side->shape.pre_norm) fh_normalise(w, side, norm, x, rows, x);
}

int fh_feed_forward(fh_work *w, const fh_side *side, const fh_layer *layer, float *x,
                    int32_t rows) {
    const fh_model *m = w->model;
    int32_t d = side->shape.width, inner = side->shape.inner, relu = m->shape.activation == FH_RELU;
    if (fh_reserve(&w->y, (size_t)rows * d, sizeof(float), &w->error) ||
        fh_reserve(&w->inner, (size_t)rows * inner, sizeof(float), &w->error))
        return w->error.code;
    float *h = w->inner.data; /* [rows][inner] */
    const float *in = fh_norm_before(w, side, &layer->final_norm, x, rows);
    /* [rows][d] -> [rows][inner] */
    fh_linear_map up = {.matrix = &layer->inner, .x = in, .rows = rows, .out = h, .relu = relu};
    if (fh_linear(w, &up)) return w->error.code;
    if (m->shape.activation == FH_SWISH)
        swish(m->operations, h, (size_t)rows * inner);
    else if (!relu)
        activate(h, (size_t)rows * inner, m->shape.activation);
    /* [rows][inner] -> [rows][d], added to x */
    fh_linear_map down = {
        .matrix = &layer->outer, .x = h, .rows = rows, .positive = relu, .out = x, .residual = x};
    if (fh_linear(w, &down)) return w->error.code;
    fh_norm_behind(w, side, &layer->final_norm, x, rows);
    return FH_OK;
}

int fh_token_vectors(fh_work *w, const fh_side *side, const int32_t *tokens, int32_t rows,
                     float *x) {
    const fh_model *m = w->model;
    int32_t d = side->shape.width, words = side->shape.vocabulary;
    int32_t special = side == &m->decoder ? m->shape.special_symbols : 0,
            blank = side == &m->decoder && m->shape.zero_start ? m->shape.eos : -1;
    for (int32_t r = 0; r < rows; r++, x += d) {
        int32_t token = tokens[r];
        if (token < 0 || token >= words + special)
            return fh_fail(&w->error, FH_INVALID, "token %d is not in the dictionary of %d words",
                           (int)token, (int)words);
        if (token == blank) {
            memset(x, 0, (size_t)d * sizeof *x);
        } else if (token < words) {
            fh_matrix_row(side->embedding, token, x);
            if (side->rest) {
                const int8_t *finer = side->rest + (size_t)token * d;
                float step = side->embedding->scales[token] / 254.0f;
                for (int32_t c = 0; c < d; c++) x[c] += step * (float)finer[c];
            }
        } else
            memcpy(x, m->special + (size_t)(token - words) * d, (size_t)d * sizeof *x);
    }
    return FH_OK;
}

int fh_place(fh_work *w, const fh_side *side, const int32_t *positions, int32_t rows, float *x) {
    int32_t d = side->shape.width;
    float scale = (float)side->shape.scale;
    /* Row by row: scale * the token's vector [d] + its position's [d]. */
    for (int32_t r = 0; r < rows; r++, x += d) {
        int32_t position = positions[r];
        if (side->positions) {
            if (position < 0 || position >= side->shape.positions)
                return fh_fail(&w->error, FH_INVALID,
                               "position %d is needed but the model has %d; lower --max-len-b or "
                               "split the sentence",
                               (int)position, (int)side->shape.positions);
            const float *p = side->positions + (size_t)position * d;
            for (int32_t c = 0; c < d; c++) x[c] = p[c] + scale * x[c];
        } else {
            for (int32_t c = 0; c < d; c++) x[c] *= scale;
        }
    }
    x -= (ptrdiff_t)rows * d;
    if (side->embedding_norm.gain) fh_normalise(w, side, &side->embedding_norm, x, rows, x);
    return FH_OK;
}

int fh_embed(fh_work *w, const fh_side *side, const int32_t *tokens, const int32_t *positions,
             int32_t rows, float *x) {
    if (fh_token_vectors(w, side, tokens, rows, x)) return w->error.code;
    return fh_place(w, side, positions, rows, x);
}
