/* Builds a model from named tensors, every size checked. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "screen.h"

typedef struct {
    fh_model *model;
    const fh_tensor *tensors;
    int64_t count, last; /* last: the tensor found before; its neighbour is usually the next one
                            that is wanted */
    fh_error *error;
} builder;

static void *part(builder *b, size_t bytes) {
    fh_model *m = b->model;
    if (m->part_count == m->part_room) {
        size_t room = m->part_room ? 2 * m->part_room : 64;
        void **more = realloc(m->parts, room * sizeof *more);
        if (!more) {
            fh_out_of_memory(b->error, room * sizeof *more);
            return NULL;
        }
        m->parts = more;
        m->part_room = room;
    }
    void *data = fh_aligned(bytes);
    if (!data) {
        fh_out_of_memory(b->error, bytes);
        return NULL;
    }
    m->parts[m->part_count++] = data;
    m->bytes += bytes;
    return data;
}

static const fh_tensor *look_for(builder *b, const char *name) {
    for (int64_t i = 1; i <= b->count; i++) {
        int64_t at = (b->last + i) % b->count;
        if (strcmp(b->tensors[at].name, name) == 0) {
            b->last = at;
            return &b->tensors[at];
        }
    }
    return NULL;
}

static const fh_tensor *find(builder *b, const char *name) {
    const fh_tensor *found = look_for(b, name);
    if (found) return found;
    fh_fail(b->error, FH_INVALID, "the model has no tensor %.120s", name);
    return NULL;
}

/* A tensor of this size, or NULL and an error. type 0: either. */
static const fh_tensor *take(builder *b, const char *name, int64_t rows, int64_t columns,
                             int type) {
    const fh_tensor *t = find(b, name);
    if (!t) return NULL;
    if (t->rows != rows || t->columns != columns || !t->data || (t->type != 1 && t->type != 2) ||
        (type && t->type != type)) {
        fh_fail(b->error, FH_INVALID,
                "the tensor %.120s has %lld x %lld values of type %d, not %lld x %lld", name,
                (long long)t->rows, (long long)t->columns, (int)t->type, (long long)rows,
                (long long)columns);
        return NULL;
    }
    return t;
}

/* A copy of a float32 tensor, or NULL and an error. */
static const float *floats(builder *b, const char *name, int64_t rows, int64_t columns) {
    const fh_tensor *t = take(b, name, rows, columns, 2);
    if (!t) return NULL;
    size_t count = (size_t)rows * (size_t)columns;
    float *copy = part(b, count * sizeof *copy);
    if (!copy) return NULL;
    memcpy(copy, t->data, count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(copy[i])) {
            fh_fail(b->error, FH_INVALID, "the tensor %.120s holds a number that is not finite",
                    name);
            return NULL;
        }
    return copy;
}

static void named(char *text, size_t size, const char *prefix, const char *name) {
    snprintf(text, size, "%s%s", prefix, name);
}

/* Packs the matrix `name`, with its scales and, where biased, its bias. Returns 0 or an error. */
static int matrix(builder *b, fh_matrix *to, const char *name, int32_t outputs, int32_t inputs,
                  const char *bias_name) {
    char text[160];
    const fh_tensor *t = take(b, name, outputs, inputs, 0);
    if (!t) return b->error->code;
    fh_kind kind = t->type == 2                       ? FH_FLOAT32
                   : b->model->shape.input_bits == 16 ? FH_INT8_16
                                                      : FH_INT8;
    const float *scales = NULL, *bias = NULL;
    if (kind != FH_FLOAT32) {
        named(text, sizeof text, name, ".scale");
        const fh_tensor *s = take(b, text, 1, outputs, 2);
        if (!s) return b->error->code;
        scales = s->data;
        for (int32_t i = 0; i < outputs; i++)
            if (!isfinite(scales[i]) || scales[i] < 0)
                return fh_fail(b->error, FH_INVALID, "the tensor %s holds no scale", text);
    } else {
        const float *values = t->data;
        size_t count = (size_t)outputs * (size_t)inputs;
        float sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += values[i] * 0.0f; /* zero unless a value is not finite */
        if (!(sum == 0))
            return fh_fail(b->error, FH_INVALID,
                           "the tensor %.120s holds a number that is not finite", name);
    }
    if (bias_name) {
        const fh_tensor *s = take(b, bias_name, 1, outputs, 2);
        if (!s) return b->error->code;
        bias = s->data;
        for (int32_t i = 0; i < outputs; i++)
            if (!isfinite(bias[i]))
                return fh_fail(b->error, FH_INVALID,
                               "the tensor %.120s holds a number that is not finite", bias_name);
    }
    size_t bytes = fh_matrix_size(kind, outputs, inputs);
    if (!bytes)
        return fh_fail(b->error, FH_INVALID, "the matrix %.120s has %d x %d values, more than fit",
                       name, (int)outputs, (int)inputs);
    void *buffer = part(b, bytes);
    if (!buffer) return b->error->code;
    int wrong = fh_matrix_pack(to, buffer, kind, outputs, inputs, t->data, inputs, scales, bias);
    if (wrong)
        return fh_fail(b->error, FH_INVALID, "the tensor %.120s holds %s", name,
                       wrong == -2 ? "-128" : "sizes out of range");
    return FH_OK;
}

/* The finer part of an embedding, if the file has one; only int8 matrices do. */
static const int8_t *rest(builder *b, const char *name, const fh_matrix *embedding) {
    if (b->error->code || embedding->kind == FH_FLOAT32 || !look_for(b, name)) return NULL;
    const fh_tensor *t = take(b, name, embedding->outputs, embedding->inputs, 1);
    if (!t) return NULL;
    size_t count = (size_t)t->rows * (size_t)t->columns;
    int8_t *copy = part(b, count);
    if (copy) memcpy(copy, t->data, count);
    return copy;
}

static int linear(builder *b, fh_matrix *to, const char *prefix, const char *name, int32_t outputs,
                  int32_t inputs) {
    char text[160], bias[176];
    named(text, sizeof text, prefix, name);
    named(bias, sizeof bias, text, ".bias");
    return matrix(b, to, text, outputs, inputs, bias);
}

static int norm(builder *b, fh_norm *to, const char *prefix, const char *name, int32_t width) {
    char text[160];
    snprintf(text, sizeof text, "%s%s.weight", prefix, name);
    to->gain = floats(b, text, 1, width);
    snprintf(text, sizeof text, "%s%s.bias", prefix, name);
    to->bias = floats(b, text, 1, width);
    return b->error->code;
}

static int relative(builder *b, fh_relative *to, const char *prefix, int32_t window,
                    int32_t width) {
    char text[160];
    named(text, sizeof text, prefix, "self.relative");
    const float *table = floats(b, text, 2 * window + 1, width);
    if (!table) return b->error->code;
    float *data = part(b, fh_relative_size(window, width) * sizeof *data);
    if (data) fh_relative_pack(to, data, table, window, width);
    return b->error->code;
}

static int layer(builder *b, fh_layer *to, const char *side, int number, const fh_side_shape *s,
                 int32_t source_width) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.layers.%d.", side, number);
    int32_t d = s->width;
    int32_t window = b->model->shape.relative_window;
    if (source_width && b->model->shape.cell == FH_SSRU) {
        linear(b, &to->cell, prefix, "cell", 2 * d, d);
    } else {
        linear(b, &to->self_input, prefix, "self.input", 3 * d, d);
        linear(b, &to->self_output, prefix, "self.output", d, d);
    }
    norm(b, &to->self_norm, prefix, "self.norm", d);
    if (source_width) {
        linear(b, &to->cross_query, prefix, "cross.query", d, d);
        linear(b, &to->cross_memory, prefix, "cross.memory", 2 * d, source_width);
        linear(b, &to->cross_output, prefix, "cross.output", d, d);
        norm(b, &to->cross_norm, prefix, "cross.norm", d);
        if (window) relative(b, &to->relative, prefix, window, d / s->heads);
    }
    linear(b, &to->inner, prefix, "inner", s->inner, d);
    linear(b, &to->outer, prefix, "outer", d, s->inner);
    norm(b, &to->final_norm, prefix, "final.norm", d);
    return b->error->code;
}

/* source_width: of the encoder, for the decoder; else 0. */
static int side(builder *b, fh_side *to, const char *name, const fh_side_shape *s,
                int32_t source_width) {
    char text[64];
    to->shape = *s;
    to->head_width = s->width / s->heads;
    if (s->positions) {
        snprintf(text, sizeof text, "%s.positions", name);
        to->positions = floats(b, text, s->positions, s->width);
    }
    snprintf(text, sizeof text, "%s.", name);
    if (s->embedding_norm) norm(b, &to->embedding_norm, text, "embedding_norm", s->width);
    if (s->final_norm) norm(b, &to->final_norm, text, "final_norm", s->width);
    to->layers = part(b, (size_t)s->layers * sizeof *to->layers);
    if (!to->layers) return b->error->code;
    memset(to->layers, 0, (size_t)s->layers * sizeof *to->layers);
    for (int i = 0; i < s->layers && !b->error->code; i++)
        layer(b, &to->layers[i], name, i, s, source_width);
    return b->error->code;
}

static int in_range(int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
}

static int check_side(const fh_side_shape *s) {
    return in_range(s->vocabulary, 5, 1 << 24) && in_range(s->width, 1, FH_MAX_INPUTS) &&
           in_range(s->inner, 1, FH_MAX_INPUTS) && in_range(s->layers, 0, 512) &&
           in_range(s->heads, 1, s->width) && s->width % s->heads == 0 &&
           in_range(s->positions, 0, 1 << 20) && in_range(s->longest, 1, 1 << 20) &&
           isfinite(s->scale);
}

/* The same checks as in format.py, for what an index or a size is computed from. */
static int check_shape(const fh_shape *s, fh_error *error) {
    int fits = in_range(s->family, FH_AUTOREGRESSIVE, FH_CTC) &&
               in_range(s->activation, FH_RELU, FH_SWISH) && check_side(&s->encoder) &&
               check_side(&s->decoder) && s->decoder.layers > 0 && s->epsilon > 0 && s->epsilon < 1;
    int32_t least = s->encoder.vocabulary < s->decoder.vocabulary ? s->encoder.vocabulary
                                                                  : s->decoder.vocabulary;
    fits = fits && in_range(s->bos, 0, least - 1) && in_range(s->pad, 0, least - 1) &&
           in_range(s->eos, 0, least - 1) && in_range(s->unk, 0, least - 1);
    fits = fits && (!s->shared_embedding || (s->encoder.vocabulary == s->decoder.vocabulary &&
                                             s->encoder.width == s->decoder.width));
    fits = fits && (s->input_bits == 8 || s->input_bits == 16);
    fits = fits && in_range(s->chunk_count, 0, 256) && in_range(s->special_symbols, 0, 257) &&
           in_range(s->relative_window, 0, 65536);
    if (fits && s->family == FH_HRT) {
        fits = s->chunk_count > 0 && s->special_symbols == s->chunk_count + 1 &&
               s->chunk_sizes != NULL;
        for (int i = 0; fits && i < s->chunk_count; i++)
            fits = in_range(s->chunk_sizes[i], 2, 4096);
    } else {
        fits = fits && s->chunk_count == 0 && s->special_symbols == 0 && s->relative_window == 0;
    }
    if (fits && s->family == FH_BIDIRECTIONAL)
        fits = in_range(s->directions, 1, 4096) && (s->directions == 1 || s->directions % 2 == 0) &&
               in_range(s->block, 1, 4096) && (s->block == 1 || s->block % s->directions == 0) &&
               (!s->middle_to_side || s->directions == 2);
    else
        fits = fits && s->directions == 1 && s->block == 1;
    fits = fits && in_range(s->cell, FH_SELF_ATTENTION, FH_SSRU) &&
           (s->family == FH_AUTOREGRESSIVE || (!s->cell && !s->zero_start));
    if (fits && s->family == FH_DAG)
        fits = s->decoder.longest >= 2 && in_range(s->link_heads, 1, s->decoder.width) &&
               s->decoder.width % s->link_heads == 0 && in_range(s->link_rows, 1, 1 << 20) &&
               (s->link_rows == 1 || s->link_rows >= s->decoder.longest) &&
               in_range(s->reach, 0, 1 << 20) && s->scale > 0 && s->scale <= 1e6 &&
               in_range(s->length_classes, 0, 1 << 20) && in_range(s->besides, 0, 2);
    if (fits && s->family == FH_CTC)
        fits = s->upsample > 0 && s->upsample <= 1e6 &&
               in_range(s->position_inputs, FH_UNK, FH_SOFT_COPY) &&
               (s->position_inputs == FH_UNK || s->encoder.vocabulary == s->decoder.vocabulary) &&
               (s->position_inputs != FH_SOFT_COPY ||
                (s->copy_temperature > 0 && s->copy_temperature <= 1e6));
    return fits ? FH_OK
                : fh_fail(error, FH_INVALID,
                          "the sizes of the model do not fit together; convert it again");
}

/* Half a copy of the output layer, where words are chosen faster by it. */
static void screen_output(builder *b) {
    fh_model *m = b->model;
    if (b->error->code || !m->operations->bounds || !fh_worth_screening(m->output)) return;
    void *buffer = part(b, fh_screen_size(m->output));
    if (buffer) fh_screen_pack(&m->screen, buffer, m->output);
}

static int build(builder *b) {
    fh_model *m = b->model;
    const fh_shape *s = &m->shape;
    side(b, &m->encoder, "encoder", &s->encoder, 0);
    side(b, &m->decoder, "decoder", &s->decoder, s->encoder.width);
    int32_t width = s->decoder.width, words = s->decoder.vocabulary;
    const char *bias = s->output_bias ? "output.bias" : NULL;
    matrix(b, &m->target_embedding, "decoder.embedding", words, width,
           s->tied_output ? bias : NULL);
    m->decoder.embedding = m->encoder.embedding = m->output = &m->target_embedding;
    m->decoder.rest = m->encoder.rest = rest(b, "decoder.embedding.rest", &m->target_embedding);
    if (!s->tied_output) {
        matrix(b, &m->own_output, "output", words, width, bias);
        m->output = &m->own_output;
    }
    screen_output(b);
    if (!s->shared_embedding) {
        matrix(b, &m->source_embedding, "encoder.embedding", s->encoder.vocabulary,
               s->encoder.width, NULL);
        m->encoder.embedding = &m->source_embedding;
        m->encoder.rest = rest(b, "encoder.embedding.rest", &m->source_embedding);
    }
    if (s->special_symbols) m->special = floats(b, "decoder.special", s->special_symbols, width);
    if (s->family == FH_DAG) {
        int32_t rows = 2 * width + s->link_heads;
        matrix(b, &m->links, "links", rows, width, NULL);
        m->link_table = floats(b, "links.table", s->link_rows, rows);
        if (s->length_classes) {
            m->length_weights = floats(b, "length_head", s->length_classes, s->encoder.width);
            m->length_biases = floats(b, "length_head.bias", 1, s->length_classes);
        }
    }
    return b->error->code;
}

int fh_writes_in_order(const fh_model *m) {
    return m->shape.family != FH_DAG && m->shape.family != FH_CTC &&
           (m->shape.family != FH_BIDIRECTIONAL ||
            (m->shape.block == 1 && m->shape.directions == 1));
}

int fh_model_new(fh_model **model, const fh_shape *shape, const fh_tensor *tensors, int64_t count,
                 const char *isa, char *message, size_t size) {
    fh_error error = {0};
    char why[256] = "";
    *model = NULL;
    if (!shape || count < 1 || !tensors) {
        fh_fail(&error, FH_INVALID, "a model needs a shape and tensors");
        return fh_report(&error, message, size);
    }
    for (int64_t i = 0; i < count; i++)
        if (!tensors[i].name) fh_fail(&error, FH_INVALID, "tensor %lld has no name", (long long)i);
    fh_model *m = calloc(1, sizeof *m);
    if (!m) fh_out_of_memory(&error, sizeof *m);
    if (!error.code) check_shape(shape, &error);
    if (!error.code) {
        builder b = {m, tensors, count, -1, &error};
        m->shape = *shape;
        m->operations = fh_choose(isa, why, sizeof why);
        if (!m->operations)
            fh_fail(&error, FH_REFUSED, "%s", why[0] ? why : "no instruction set fits");
        m->chunk_sizes = part(&b, (size_t)(shape->chunk_count + 1) * sizeof *m->chunk_sizes);
        if (m->chunk_sizes && shape->chunk_count)
            memcpy(m->chunk_sizes, shape->chunk_sizes,
                   (size_t)shape->chunk_count * sizeof *m->chunk_sizes);
        m->shape.chunk_sizes = m->chunk_sizes;
        if (!error.code) build(&b);
    }
    if (error.code)
        fh_model_free(m);
    else
        *model = m;
    return fh_report(&error, message, size);
}

void fh_model_free(fh_model *model) {
    if (!model) return;
    for (size_t i = 0; i < model->part_count; i++) fh_aligned_free(model->parts[i]);
    free(model->parts);
    free(model);
}

const char *fh_model_isa(const fh_model *model) { return model->operations->name; }
int64_t fh_model_bytes(const fh_model *model) { return (int64_t)model->bytes; }
int32_t fh_interface(void) { return FH_INTERFACE; }
