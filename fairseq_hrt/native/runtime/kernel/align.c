/* Which source word each word of a finished translation comes from: see
 * engine/attention_alignment.py. */
#include <string.h>

#include "search.h"

/* Tokens of the hypotheses that are read together: what the buffers grow with. */
#define MOST_TOKENS 2048

typedef struct {
    int32_t sentence;
    fh_hypothesis *hypothesis;
} aligned;

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

/* Reads some finished hypotheses from left to right in one pass. */
static int align_some(fh_work *w, const int32_t *const *sources, const aligned *some,
                      int32_t count) {
    fh_arena memory = {.error = &w->error};
    int32_t tokens = 0, longest = 1, at = 0;
    for (int32_t r = 0; r < count; r++) {
        tokens += some[r].hypothesis->length;
        if (w->source_lengths[some[r].sentence] > longest)
            longest = w->source_lengths[some[r].sentence];
    }
    size_t n = (size_t)count, all = (size_t)tokens;
    float *attention = fh_take(&memory, all * (size_t)longest, sizeof *attention), *features;
    int32_t *input = fh_take(&memory, all, sizeof *input),
            *counts = fh_take(&memory, n, sizeof *counts);
    if (w->error.code || fh_rows(w, count)) goto end;
    for (int32_t r = 0; r < count; r++) {
        const fh_hypothesis *h = some[r].hypothesis;
        counts[r] = h->length;
        w->rows[r].source = some[r].sentence;
        for (int32_t i = 0; i < h->length; i++, at++)
            input[at] = i ? h->tokens[i - 1] : w->model->shape.eos;
    }
    fh_step step = {.rows = count,
                    .count = counts,
                    .tokens = input,
                    .stride = 1,
                    .causal = 1,
                    .attention = attention,
                    .attention_stride = longest};
    /* attention [tokens][longest source] -> places [tokens] */
    if (fh_decode_step(w, &step, &features)) goto end;
    at = 0;
    for (int32_t r = 0; r < count; r++)
        for (int32_t i = 0; i < counts[r]; i++, at++)
            some[r].hypothesis->places[i] =
                best_place(w, sources[some[r].sentence], w->source_lengths[some[r].sentence],
                           attention + (size_t)at * longest);
end:
    fh_arena_free(&memory);
    return w->error.code;
}

int fh_align(fh_work *w, const int32_t *const *sources, fh_found *found) {
    fh_buffer memory = {0};
    size_t n = 0;
    for (int32_t s = 0; s < w->sentences; s++) n += (size_t)found[s].count;
    if (fh_reserve(&memory, n + 1, sizeof(aligned), &w->error)) return w->error.code;
    aligned *some = memory.data;
    int32_t count = 0, tokens = 0;
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < found[s].count && !w->error.code; i++) {
            int32_t more = found[s].items[i]->length;
            if (count && tokens + more > MOST_TOKENS) {
                align_some(w, sources, some, count);
                count = tokens = 0;
            }
            some[count++] = (aligned){s, found[s].items[i]};
            tokens += more;
        }
    if (count && !w->error.code) align_some(w, sources, some, count);
    fh_release(&memory);
    return w->error.code;
}
