/* Given translations, each read at once by a model that writes one word after the other. */
#include "search.h"

/* Tokens of a pass, by which the buffers grow; one translation may have more. The cache of a row
 * has room for some at least. */
#define MOST_TOKENS 4096
#define LEAST_ROOM 32

typedef struct {
    const int32_t *words;
    int32_t length, sentence;
} given_row;

static int score_rows(fh_work *w, const given_row *rows, int32_t count, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    size_t tokens = 0, n = (size_t)count;
    for (size_t r = 0; r < n; r++) tokens += (size_t)rows[r].length;
    fh_ask *asks = fh_take(&memory, tokens, sizeof *asks);
    int32_t *input = fh_take(&memory, tokens, sizeof *input);
    int32_t *words = fh_take(&memory, tokens, sizeof *words),
            *counts = fh_take(&memory, n, sizeof *counts);
    float *values = fh_take(&memory, tokens, sizeof *values), *features;
    int32_t at = 0;
    if (w->error.code) goto end;
    for (int32_t r = 0; r < count; r++) {
        counts[r] = rows[r].length;
        for (int32_t i = 0; i < counts[r]; i++, at++) {
            input[at] = i ? rows[r].words[i - 1] : w->model->shape.eos;
            words[at] = rows[r].words[i];
            asks[at] = fh_plain_ask(w, rows[r].sentence);
        }
    }
    if (!fh_rows(w, count)) {
        for (int32_t r = 0; r < count; r++) w->rows[r].source = rows[r].sentence;
        fh_step step = {.rows = count, .count = counts, .tokens = input, .stride = 1, .causal = 1};
        /* features [tokens][d] -> values [tokens] */
        if (!fh_decode_step(w, &step, &features))
            fh_word_scores(w, features, asks, at, words, values);
    }
    at = 0;
    for (int32_t r = 0; r < count && !w->error.code; r++) {
        fh_found_words(w, &found[rows[r].sentence], counts[r], rows[r].words, NULL, values + at, 1);
        at += counts[r];
    }
end:
    fh_arena_free(&memory);
    return w->error.code;
}

int fh_score_given(fh_work *w, const fh_given *given, fh_found *found) {
    fh_buffer memory = {0};
    size_t n = 0;
    for (int32_t s = 0; s < w->sentences; s++) n += (size_t)given[s].count;
    if (fh_reserve(&memory, n + 1, sizeof(given_row), &w->error)) return w->error.code;
    given_row *rows = memory.data;
    int32_t count = 0, tokens = 0;
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < given[s].count && !w->error.code; i++) {
            const int64_t *at = given[s].offsets + i;
            given_row one = {given[s].tokens + at[0], (int32_t)(at[1] - at[0]), s};
            int32_t room = one.length > LEAST_ROOM ? one.length : LEAST_ROOM;
            if (count && tokens + room > MOST_TOKENS) {
                score_rows(w, rows, count, found);
                count = tokens = 0;
            }
            rows[count++] = one;
            tokens += room;
        }
    if (count && !w->error.code) score_rows(w, rows, count, found);
    fh_release(&memory);
    return w->error.code;
}
