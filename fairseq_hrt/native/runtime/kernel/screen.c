/* See screen.h. */
#include "screen.h"

#include <math.h>

/* Relative error of single rounding steps, with room for all that happen in a bound. */
#define ROUNDING 1e-6f

enum {
    WORTH = 3 << 19, /* bytes of weights that are read in full from a core's own cache */
    CLOSE = 1 << 16, /* bytes of weights for each word that may be computed exactly */
    PAUSE = 8,       /* calls without screening after the first one that gave up */
    LONGEST = 3      /* doublings of it */
};

size_t fh_screen_size(const fh_matrix *m) {
    if (m->kind == FH_FLOAT32 || m->stride > FH_SCREEN_INPUTS) return 0;
    size_t outputs = ((size_t)m->outputs + FH_PANEL - 1) / FH_PANEL * FH_PANEL;
    return outputs * ((size_t)m->stride / 2 + sizeof(int32_t) + 2 * sizeof(float));
}

int fh_worth_screening(const fh_matrix *m) {
    return fh_screen_size(m) && (size_t)m->outputs * (size_t)m->stride >= WORTH;
}

/* A weight is 16 * nibble + low - 128, low in 0 .. 15. The bound takes low for 7.5; the rest's
 * norm, |low - 7.5|, bounds the error. */
void fh_screen_pack(fh_screen *screen, void *buffer, const fh_matrix *m) {
    size_t outputs = ((size_t)m->outputs + FH_PANEL - 1) / FH_PANEL * FH_PANEL;
    int32_t k = m->stride;
    screen->nibbles = buffer;
    screen->sums = (int32_t *)(void *)(screen->nibbles + outputs * (size_t)k / 2);
    screen->reach = (float *)(void *)(screen->sums + outputs);
    screen->norms = screen->reach + outputs;
    screen->norm = 0;
    for (size_t o = 0; o < outputs; o++) {
        size_t panel = o / FH_PANEL * FH_PANEL * (size_t)k, place = o % FH_PANEL * 4;
        const int8_t *from = (const int8_t *)m->weights + panel + place;
        uint8_t *to = screen->nibbles + panel / 2 + place;
        int32_t sum = 0;
        double rest = 0, whole = 0;
        for (int32_t i = 0; i < k; i += 8, from += 8 * FH_PANEL, to += 4 * FH_PANEL)
            for (int32_t j = 0; j < 4; j++) {
                int32_t first = from[j] + 128, second = from[4 * FH_PANEL + j] + 128;
                double low = (first & 15) - 7.5, next = (second & 15) - 7.5;
                to[j] = (uint8_t)(first >> 4 | (second >> 4) << 4);
                sum += (first >> 4) + (second >> 4);
                rest += low * low + next * next;
                whole += from[j] * from[j] + from[4 * FH_PANEL + j] * from[4 * FH_PANEL + j];
            }
        screen->sums[o] = sum;
        /* 400 * sqrt(k) bounds the norms of what the sum is made of: 16 nibbles and 120.5 ones. */
        screen->reach[o] =
            m->scales[o] * (float)(sqrt(rest) + ROUNDING * (sqrt(rest + whole) + 400 * sqrt(k)));
        screen->norms[o] = m->scales[o] * (float)sqrt(whole) * (1 + ROUNDING);
        screen->norm = screen->norms[o] > screen->norm ? screen->norms[o] : screen->norm;
    }
}

/* The value of one output, bit by bit as `product` and `best` have it. */
static float exact(const fh_matrix *m, const fh_input *input, int32_t row, int32_t output) {
    int32_t k = m->stride, sum = 0;
    const int8_t *w = (const int8_t *)m->weights + (size_t)(output / FH_PANEL) * FH_PANEL * k +
                      (size_t)(output % FH_PANEL) * 4;
    const uint8_t *a = input->integers + (size_t)row * (size_t)input->stride;
    const int16_t *fine = (const int16_t *)(const void *)a;
    for (int32_t i = 0; i < k && m->kind == FH_INT8_16; i += 4, w += 4 * FH_PANEL)
        sum += w[0] * fine[i] + w[2] * fine[i + 1] + w[1] * fine[i + 2] + w[3] * fine[i + 3];
    for (int32_t i = 0; i < k && m->kind == FH_INT8; i += 4, w += 4 * FH_PANEL)
        for (int32_t j = 0; j < 4; j++)
            sum += w[j] * (input->offset > 0 ? a[i + j] : (int32_t)(int8_t)a[i + j]);
    sum -= input->offset * m->sums[output];
    return (float)sum * (input->scales[row] * m->scales[output]) + m->bias[output];
}

typedef struct {
    const fh_matrix *matrix;
    const fh_input *input;
    const fh_rule *rule;
    int32_t row, token;
    int32_t left; /* words that may still be computed exactly */
    float value;
    float error; /* norm of the difference between the row and that of the bounds */
} search;

/* Of a row of 16 bits and the same row of 8 bits. */
static float difference(const fh_input *input, const fh_input *rough, int32_t row) {
    const int16_t *fine =
        (const int16_t *)(const void *)(input->integers + (size_t)row * (size_t)input->stride);
    const uint8_t *a = rough->integers + (size_t)row * (size_t)rough->stride;
    double total = 0, step = input->scales[row], large = rough->scales[row];
    for (int32_t i = 0; i < rough->inputs; i++) {
        int32_t integer = (rough->offset > 0 ? a[i] : (int32_t)(int8_t)a[i]) - rough->offset,
                at = i % 4 == 1 || i % 4 == 2 ? i ^ 3 : i;
        double left = step * fine[at] - large * integer;
        total += left * left;
    }
    return (float)sqrt(total) * (1 + ROUNDING);
}

/* Returns 0 for a value that is not a number or infinite, which `best` has names for, and when no
 * more may be computed. */
static int consider(search *s, int32_t output) {
    if (!s->left--) return 0;
    float value = exact(s->matrix, s->input, s->row, output);
    if (!(value < INFINITY)) return 0;
    if (s->rule && output == s->rule->unk) value -= s->rule->unk_penalty;
    if (s->token < 0 || value > s->value || (value == s->value && output < s->token))
        s->token = output, s->value = value;
    return 1;
}

/* What a bound has to reach where weights have this norm: below it no exact value is as good as the
 * best one. */
static float threshold(const search *s, float norm) {
    return s->token < 0 ? -INFINITY : s->value - s->error * norm - 4 * ROUNDING * fabsf(s->value);
}

static int best_of_row(search *s, const fh_operations *operations, const fh_screen *screen,
                       float *bounds) {
    enum { FIRST = 4 };
    int32_t outputs = s->matrix->outputs, ids[FIRST];
    float highest[FIRST];
    const fh_rule *rule = s->rule;
    if (rule && rule->unk >= 0 && rule->unk < outputs) bounds[rule->unk] -= rule->unk_penalty;
    for (int32_t i = 0; rule && i < rule->bans; i++)
        if (rule->banned[i] >= 0 && rule->banned[i] < outputs) bounds[rule->banned[i]] = -INFINITY;
    int32_t found = operations->top(bounds, outputs, NULL, FIRST, ids, highest);
    if (found < 1) return 0;
    for (int32_t i = 0; i < found; i++) {
        if (highest[i] < threshold(s, screen->norm)) return 1;
        if (highest[i] == -INFINITY || !consider(s, ids[i])) return 0;
        bounds[ids[i]] = -INFINITY;
    }
    for (int32_t o = 0; o < outputs; o++)
        if (bounds[o] >= threshold(s, screen->norm) &&
            bounds[o] >= threshold(s, screen->norms[o]) && !consider(s, o))
            return 0;
    return s->value > -INFINITY;
}

static int screened(const fh_operations *operations, const fh_matrix *matrix,
                    const fh_screen *screen, const fh_input *input, const fh_input *rough,
                    const fh_rule *rules, float *bounds, int32_t *tokens, float *values) {
    int32_t left = (int32_t)((size_t)matrix->outputs * (size_t)matrix->stride / CLOSE) + 1;
    if (rough == input) {
        operations->bounds(screen, matrix, input, bounds);
    } else {
        /* With 8 bits both halves cost less than the upper ones with 16, and come much closer. */
        fh_matrix whole = *matrix;
        whole.kind = FH_INT8;
        operations->product(&whole, rough, bounds, matrix->outputs, 0, NULL, 0);
    }
    for (int32_t r = 0; r < input->rows; r++) {
        search s = {matrix, input, rules ? rules + r : NULL, r, FH_NONE, left, 0, 0};
        if (rough != input) s.error = difference(input, rough, r);
        if (!best_of_row(&s, operations, screen, bounds + (size_t)r * (size_t)matrix->outputs))
            return 0;
        tokens[r] = s.token;
        values[r] = s.value;
        left = s.left;
    }
    return 1;
}

int fh_screened_best(const fh_operations *operations, const fh_matrix *matrix,
                     const fh_screen *screen, fh_screening *screening, const fh_input *input,
                     const fh_input *rough, const fh_rule *rules, float *bounds, int32_t *tokens,
                     float *values) {
    if (screening->rest > 0) {
        screening->rest--;
        return 0;
    }
    if (screened(operations, matrix, screen, input, rough, rules, bounds, tokens, values)) {
        screening->losses = 0;
        return 1;
    }
    screening->rest = PAUSE << screening->losses;
    if (screening->losses < LONGEST) screening->losses++;
    return 0;
}
