/* Several words a step, in slots: greedy search, and the natural order of what was written. See
 * bidirectional/search.py and sample.py. */
#include <string.h>

#include "search.h"

/* The place in the sentence (from 0) of the word in a slot, of a sentence of so many words. */
static int32_t natural_index(const fh_shape *s, int32_t slot, int32_t words) {
    int32_t h = s->directions;
    if (slot >= words || h == 1) return slot;
    if (s->middle_to_side) {
        int32_t half = (words + 1) / 2;
        return slot % 2 == 0 ? half - 1 - slot / 2 : half + slot / 2;
    }
    int32_t segments = h / 2, segment = slot % segments, place = slot / segments,
            base = words / segments, longer = words % segments;
    int32_t size = base + (segment < longer),
            first = segment * base + (segment < longer ? segment : longer);
    return first + (place % 2 == 0 ? place / 2 : size - 1 - place / 2);
}

int fh_finish_blocks(fh_work *w, const int32_t *words, const float *scores, int32_t length,
                     int32_t counted, double total, int32_t passes, fh_found *found) {
    const fh_shape *s = &w->model->shape;
    fh_hypothesis *h = fh_hypothesis_new(w, length);
    if (!h) return w->error.code;
    for (int32_t slot = 0; slot < length; slot++) {
        int32_t at = natural_index(s, slot, length - 1);
        h->tokens[at] = words[slot];
        h->scores[at] = scores ? scores[slot] : 0.0f;
        h->steps[at] = slot / s->block + 1;
    }
    h->score = fh_rank(w->options, total, counted);
    h->passes = passes;
    return fh_found_add(w, found, h);
}

/* What greedy search has written: [sentences][most] slots. */
typedef struct {
    int32_t most, *words, *rows, *counts, *current, *tokens;
    float *scores, *values;
    fh_ask *asks;
} blocks;

static int start(fh_work *w, const int32_t *limits, fh_arena *memory, blocks *b) {
    size_t n = (size_t)w->sentences, z = (size_t)w->model->shape.block, longest = 0;
    for (size_t s = 0; s < n; s++)
        if ((size_t)limits[s] + 1 > longest) longest = (size_t)limits[s] + 1;
    longest = (longest + z - 1) / z * z;
    b->most = (int32_t)longest;
    size_t all = n * longest, wide = n * z;
    b->asks = fh_take(memory, wide, sizeof *b->asks);
    b->words = fh_take(memory, all, sizeof *b->words);
    b->scores = fh_take(memory, all, sizeof *b->scores);
    b->rows = fh_take(memory, n, sizeof *b->rows);
    b->counts = fh_take(memory, n, sizeof *b->counts);
    b->current = fh_take(memory, wide, sizeof *b->current);
    b->tokens = fh_take(memory, wide, sizeof *b->tokens);
    b->values = fh_take(memory, wide, sizeof *b->values);
    return w->error.code ? w->error.code : fh_rows(w, w->sentences);
}

/* The sentences whose block has a </s> leave; returns how many stay. */
static int32_t take_block(fh_work *w, blocks *b, int32_t open, int32_t step, int32_t scored,
                          fh_found *found) {
    int32_t z = w->model->shape.block, kept = 0, eos = w->model->shape.eos;
    for (int32_t r = 0; r < open; r++) {
        int32_t s = b->rows[r], end = 0;
        int32_t *words = b->words + (size_t)s * b->most;
        float *scores = b->scores + (size_t)s * b->most;
        for (int32_t i = 0; i < z; i++) {
            words[step * z + i] = b->tokens[r * z + i];
            if (scored) scores[step * z + i] = b->values[r * z + i];
            if (!end && b->tokens[r * z + i] == eos) end = step * z + i + 1;
        }
        if (!end) {
            b->rows[kept] = s;
            memmove(b->current + kept * z, b->tokens + r * z, (size_t)z * sizeof *b->current);
            kept++;
            continue;
        }
        int32_t counted = w->options->block_scoring == FH_CANONICAL ? end : (step + 1) * z;
        double total = 0;
        for (int32_t i = 0; scored && i < counted; i++) total += scores[i];
        if (fh_finish_blocks(w, words, scored ? scores : NULL, end, counted, total, step + 1,
                             &found[s]))
            break;
    }
    return kept;
}

int fh_greedy_blocks(fh_work *w, const int32_t *limits, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    blocks b = {0};
    const fh_shape *shape = &w->model->shape;
    int32_t z = shape->block, open = w->sentences, scored = w->options->scores;
    start(w, limits, &memory, &b);
    for (int32_t r = 0; r < open && !w->error.code; r++) {
        b.rows[r] = r;
        for (int32_t i = 0; i < z; i++) b.current[r * z + i] = shape->eos;
    }
    for (int32_t step = 0; open && !w->error.code; step++) {
        for (int32_t r = 0; r < open; r++) {
            b.counts[r] = z;
            for (int32_t i = 0; i < z; i++)
                b.asks[r * z + i] =
                    fh_ask_word(w, b.rows[r], step * z + i, w->options->min_len, limits[b.rows[r]]);
        }
        /* current [open][z] -> features [open * z][d] -> tokens [open][z] */
        fh_step plan = {.rows = open,
                        .row = b.rows,
                        .count = b.counts,
                        .tokens = b.current,
                        .stride = 1,
                        .causal = shape->causal,
                        .directions = shape->independent ? shape->directions : 1};
        float *features;
        if (fh_decode_step(w, &plan, &features) ||
            fh_best_words(w, features, b.asks, open * z, b.tokens, scored ? b.values : NULL))
            break;
        open = take_block(w, &b, open, step, scored, found);
    }
    fh_arena_free(&memory);
    return w->error.code;
}
