/* Finished translations, each read at once by a model that writes one word after the other. */
#include "search.h"

/* Tokens of a pass, by which the buffers grow: for scores, and for attention, which has as many
 * columns as the source has words. The cache of a row that is scored has room for some at least. */
#define MOST_SCORED 4096
#define MOST_ALIGNED 2048
#define LEAST_ROOM 32

int fh_in_passes(fh_work *w, const fh_found *found, int32_t most, int32_t least, fh_reader *read,
                 const void *context) {
    fh_arena memory = {.error = &w->error};
    size_t n = 0;
    for (int32_t s = 0; s < w->sentences; s++) n += (size_t)found[s].count;
    fh_finished *some = fh_take(&memory, n, sizeof *some);
    int32_t count = 0, tokens = 0;
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < found[s].count && !w->error.code; i++) {
            int32_t length = found[s].items[i]->length, more = length > least ? length : least;
            if (count && tokens + more > most) {
                read(w, some, count, context);
                count = tokens = 0;
            }
            some[count++] = (fh_finished){s, found[s].items[i]};
            tokens += more;
        }
    if (count && !w->error.code) read(w, some, count, context);
    fh_arena_free(&memory);
    return w->error.code;
}

/* The source token with most attention [length]; </s> only where there is nothing else, the first
 * among equals. */
static int32_t best_place(const fh_work *w, const int32_t *source, int32_t length,
                          const float *attention) {
    int32_t best = -1, eos = w->model->shape.eos;
    for (int32_t i = 0; i < length; i++)
        if (source[i] != eos && (best < 0 || attention[i] > attention[best])) best = i;
    if (best >= 0) return best;
    best = 0;
    for (int32_t i = 1; i < length; i++)
        if (attention[i] > attention[best]) best = i;
    return best;
}

/* Fills in the places, or without sources the scores. */
static int read_some(fh_work *w, const fh_finished *some, int32_t count, const void *context) {
    const int32_t *const *sources = context;
    fh_arena memory = {.error = &w->error};
    int32_t longest = 1, at = 0;
    size_t n = (size_t)count, all = 0, scored;
    for (size_t r = 0; r < n; r++) {
        int32_t length = w->source_lengths[some[r].sentence];
        all += (size_t)some[r].hypothesis->length;
        if (sources && length > longest) longest = length;
    }
    scored = sources ? 0 : all;
    fh_ask *asks = fh_take(&memory, scored, sizeof *asks);
    int32_t *input = fh_take(&memory, all, sizeof *input),
            *words = fh_take(&memory, scored, sizeof *words),
            *counts = fh_take(&memory, n, sizeof *counts);
    float *values = fh_take(&memory, all * (size_t)longest, sizeof *values), *features;
    if (w->error.code || fh_rows(w, count)) goto end;
    for (int32_t r = 0; r < count; r++) {
        const fh_hypothesis *h = some[r].hypothesis;
        counts[r] = h->length;
        w->rows[r].source = some[r].sentence;
        for (int32_t i = 0; i < h->length; i++, at++) {
            input[at] = i ? h->tokens[i - 1] : w->model->shape.eos;
            if (sources) continue;
            words[at] = h->tokens[i];
            asks[at] = fh_plain_ask(w, some[r].sentence);
        }
    }
    fh_step step = {.rows = count,
                    .count = counts,
                    .tokens = input,
                    .stride = 1,
                    .causal = 1,
                    .attention = sources ? values : NULL,
                    .attention_stride = longest};
    /* features [tokens][d], values: attention [tokens][longest source] or scores [tokens] */
    if (fh_decode_step(w, &step, &features) ||
        (!sources && fh_word_scores(w, features, asks, at, words, values)))
        goto end;
    at = 0;
    for (int32_t r = 0; r < count; r++) {
        fh_hypothesis *h = some[r].hypothesis;
        int32_t s = some[r].sentence;
        double total = 0;
        for (int32_t i = 0; i < h->length; i++, at++)
            if (sources)
                h->places[i] = best_place(w, sources[s], w->source_lengths[s],
                                          values + (size_t)at * (size_t)longest);
            else
                total += h->scores[i] = values[at];
        if (!sources) h->score = fh_rank(w->options, total, h->length);
    }
end:
    fh_arena_free(&memory);
    return w->error.code;
}

int fh_align(fh_work *w, const int32_t *const *sources, fh_found *found) {
    return fh_in_passes(w, found, MOST_ALIGNED, 1, read_some, sources);
}

int fh_score_given(fh_work *w, const fh_given *given, fh_found *found) {
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < given[s].count; i++) {
            const int64_t *at = given[s].offsets + i;
            if (fh_found_words(w, &found[s], (int32_t)(at[1] - at[0]), given[s].tokens + at[0],
                               NULL, NULL, 1))
                return w->error.code;
        }
    return fh_in_passes(w, found, MOST_SCORED, LEAST_ROOM, read_some, NULL);
}
