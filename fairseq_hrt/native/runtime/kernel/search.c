/* Greedy search from left to right. */
#include "search.h"

#include <string.h>

int32_t fh_length_limit(const fh_options *options, int32_t source_length, int32_t capacity) {
    double limit = options->max_len_a * source_length + options->max_len_b;
    if (!(limit < capacity - 1)) return capacity - 1;
    return limit > 0 ? (int32_t)limit : 0;
}

int fh_decode_plain(fh_work *w, const int32_t *limits, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    int32_t *shortest = fh_take(&memory, (size_t)w->sentences, sizeof *shortest);
    if (!shortest) return w->error.code;
    for (int32_t s = 0; s < w->sentences; s++) shortest[s] = w->options->min_len;
    fh_search search = {.start = w->model->shape.eos,
                        .stride = 1,
                        .min_len = shortest,
                        .max_len = limits,
                        .beam = fh_beam_width(w),
                        .scores = w->options->scores};
    (search.beam == 1 ? fh_left_to_right : fh_beam)(w, &search, found);
    fh_arena_free(&memory);
    return w->error.code;
}

/* Where greedy search keeps what it has written: [sentences][most]. */
typedef struct {
    int32_t most, *words, *length, *rows, *current, *tokens;
    float *scores, *values;
    fh_ask *asks;
} greedy;

static int start(fh_work *w, const fh_search *search, fh_arena *memory, greedy *g) {
    size_t n = (size_t)w->sentences;
    g->most = 0;
    for (int32_t s = 0; s < w->sentences; s++)
        if (search->max_len[s] + 1 > g->most) g->most = search->max_len[s] + 1;
    size_t all = n * (size_t)g->most;
    g->asks = fh_take(memory, n, sizeof *g->asks);
    g->words = fh_take(memory, all, sizeof *g->words);
    g->scores = fh_take(memory, all, sizeof *g->scores);
    g->length = fh_take(memory, n, sizeof *g->length);
    g->rows = fh_take(memory, n, sizeof *g->rows);
    g->current = fh_take(memory, n, sizeof *g->current);
    g->tokens = fh_take(memory, n, sizeof *g->tokens);
    g->values = fh_take(memory, n, sizeof *g->values);
    if (w->error.code || fh_rows(w, w->sentences)) return w->error.code;
    memset(g->length, 0, n * sizeof *g->length);
    return FH_OK;
}

/* Without scores a sentence that has reached its maximum length needs no more passes: </s> follows.
 */
static int32_t drop_full(fh_work *w, const fh_search *search, greedy *g, int32_t open,
                         int32_t place) {
    int32_t kept = 0;
    for (int32_t r = 0; r < open; r++) {
        int32_t s = g->rows[r];
        if (place >= search->max_len[s]) {
            g->words[(size_t)s * g->most + g->length[s]++] = w->model->shape.eos;
            continue;
        }
        g->rows[kept] = s;
        g->current[kept++] = g->current[r];
    }
    return kept;
}

int fh_left_to_right(fh_work *w, const fh_search *search, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    greedy g = {0};
    int32_t open = w->sentences, eos = w->model->shape.eos;
    if (start(w, search, &memory, &g)) {
        fh_arena_free(&memory);
        return w->error.code;
    }
    for (int32_t r = 0; r < open; r++) {
        g.rows[r] = r;
        g.current[r] = search->start;
    }
    for (int32_t place = 0; open && !w->error.code; place++) {
        if (!search->scores) open = drop_full(w, search, &g, open, place);
        if (!open) break;
        for (int32_t r = 0; r < open; r++)
            g.asks[r] = (search->stride == 1 ? fh_ask_word : fh_ask_at)(
                w, g.rows[r], place, search->min_len[g.rows[r]], search->max_len[g.rows[r]]);
        fh_step step = {.rows = open,
                        .row = g.rows,
                        .tokens = g.current,
                        .stride = search->stride,
                        .causal = 1};
        /* current [open] -> features [open][d] -> tokens [open], the next current ones */
        float *features;
        if (fh_decode_step(w, &step, &features) ||
            fh_best_words(w, features, g.asks, open, g.tokens, search->scores ? g.values : NULL))
            break;
        int32_t kept = 0;
        for (int32_t r = 0; r < open; r++) {
            int32_t s = g.rows[r];
            size_t at = (size_t)s * g.most + g.length[s]++;
            g.words[at] = g.tokens[r];
            if (search->scores) g.scores[at] = g.values[r];
            if (g.tokens[r] == eos) continue;
            g.rows[kept] = s;
            g.current[kept++] = g.tokens[r];
        }
        open = kept;
    }
    for (int32_t s = 0; s < w->sentences && !w->error.code; s++) {
        size_t at = (size_t)s * g.most;
        fh_found_words(w, &found[s], g.length[s], g.words + at, NULL,
                       search->scores ? g.scores + at : NULL, g.length[s]);
    }
    fh_arena_free(&memory);
    return w->error.code;
}
