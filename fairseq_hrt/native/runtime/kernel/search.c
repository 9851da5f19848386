/* Greedy search from left to right, with guesses of what follows or without. */
#include "search.h"

#include <math.h>

int32_t fh_length_limit(const fh_options *options, int32_t source_length, int32_t capacity) {
    double limit = options->max_len_a * source_length + options->max_len_b;
    if (!(limit < capacity - 1)) return capacity - 1;
    return limit > 0 ? (int32_t)limit : 0;
}

int fh_decode_plain(fh_work *w, const int32_t *limits, const fh_guesser *guesser, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    int32_t *shortest = fh_take(&memory, (size_t)w->sentences, sizeof *shortest);
    if (!shortest) return w->error.code;
    for (int32_t s = 0; s < w->sentences; s++) shortest[s] = w->options->min_len;
    fh_search search = {.start = w->model->shape.eos,
                        .stride = 1,
                        .min_len = shortest,
                        .max_len = limits,
                        .beam = fh_beam_width(w),
                        .scores = w->options->scores,
                        .guesser = guesser};
    (search.beam == 1 ? fh_left_to_right : fh_beam)(w, &search, found);
    fh_arena_free(&memory);
    return w->error.code;
}

/* Inputs of one pass at most, by which the buffers grow; one sentence may have more. */
#define MOST_TOKENS 4096

/* The inputs of a sentence in a pass. */
typedef struct {
    int32_t sentence, first, count;
} part;

typedef struct {
    const fh_search *search;
    const fh_guesser *guesser; /* NULL: none */
    int32_t most;              /* guesses of a pass at most */
    fh_settled *known;         /* [sentences] */
    part *parts;
    int32_t *rows, *counts, *tokens, *answers;
    float *values;
    fh_ask *asks;
    int32_t room; /* inputs that fit */
    fh_arena memory;
} state;

static int start(fh_work *w, state *v) {
    size_t n = (size_t)w->sentences, all = 0, together = 0;
    const int32_t *limits = v->search->max_len;
    v->room = 0;
    for (size_t s = 0; s < n; s++) {
        int32_t most = 1 + fh_smaller(v->most, limits[s]);
        all += (size_t)limits[s] + 1;
        together += (size_t)most;
        if (most > v->room) v->room = most;
    }
    if (v->room < MOST_TOKENS) v->room = together < MOST_TOKENS ? (int32_t)together : MOST_TOKENS;
    size_t wide = (size_t)v->room;
    fh_arena *memory = &v->memory;
    v->known = fh_take(memory, n, sizeof *v->known);
    v->asks = fh_take(memory, wide, sizeof *v->asks);
    v->parts = fh_take(memory, n, sizeof *v->parts);
    v->rows = fh_take(memory, n, sizeof *v->rows);
    v->counts = fh_take(memory, n, sizeof *v->counts);
    v->tokens = fh_take(memory, wide, sizeof *v->tokens);
    v->answers = fh_take(memory, wide, sizeof *v->answers);
    v->values = fh_take(memory, wide, sizeof *v->values);
    int32_t *words = fh_take(memory, all, sizeof *words),
            *steps = fh_take(memory, all, sizeof *steps);
    float *scores = fh_take(memory, all, sizeof *scores);
    if (w->error.code) return w->error.code;
    for (size_t s = 0, at = 0; s < n; at += (size_t)limits[s++] + 1)
        v->known[s] = (fh_settled){
            .limit = limits[s], .words = words + at, .steps = steps + at, .scores = scores + at};
    return fh_rows(w, w->sentences);
}

/* Adds the inputs of a sentence's next pass behind the first `at`; returns how many. */
static int32_t add_inputs(fh_work *w, state *v, part *one, int32_t at) {
    const fh_settled *known = &v->known[one->sentence];
    const fh_search *search = v->search;
    int32_t s = one->sentence, place = known->length, left = known->limit - place;
    one->first = at;
    one->count = 1;
    if (v->guesser)
        one->count += v->guesser->guess(v->guesser->context, s, known, fh_smaller(v->most, left),
                                        v->tokens + at + 1);
    v->tokens[at] = place ? known->words[place - 1] : search->start;
    for (int32_t i = 0; i < one->count; i++) {
        v->asks[at + i] = (search->stride == 1 ? fh_ask_word : fh_ask_at)(
            w, s, place + i, search->min_len[s], known->limit);
        v->asks[at + i].guessed = v->guesser != NULL; /* settle() complains of what is settled */
    }
    return one->count;
}

/* Settles what is right; 1: the sentence is complete, or there is an error. */
static int settle(fh_work *w, state *v, const part *one, int32_t pass) {
    fh_settled *known = &v->known[one->sentence];
    const int32_t *guesses = v->tokens + one->first + 1, *answers = v->answers + one->first;
    const float *values = v->values + one->first;
    int32_t settled = 0, word, scores = v->search->scores;
    do {
        word = answers[settled];
        if (word < 0 || (scores && isnan(values[settled]))) return fh_no_word(w, word);
        known->words[known->length] = word;
        known->steps[known->length] = pass;
        if (scores) known->scores[known->length] = values[settled];
        known->length++;
        settled++;
    } while (word != w->model->shape.eos && settled < one->count && guesses[settled - 1] == word);
    /* The last settled token has not been read yet; </s> never is. */
    w->rows[one->sentence].length = known->length;
    if (word == w->model->shape.eos) return 1;
    if (v->guesser)
        v->guesser->learn(v->guesser->context, one->sentence, known, guesses, answers, one->count,
                          settled);
    return 0;
}

/* Without scores a sentence that has reached its maximum length needs no more passes: </s> follows.
 */
static int ends_here(const fh_work *w, const state *v, fh_settled *known, int32_t pass) {
    if (v->search->scores || known->length < known->limit) return 0;
    known->words[known->length] = w->model->shape.eos;
    known->steps[known->length++] = pass;
    return 1;
}

/* A pass over some sentences. */
static int run_pass(fh_work *w, state *v, int32_t count, int32_t tokens) {
    for (int32_t r = 0; r < count; r++) {
        v->rows[r] = v->parts[r].sentence;
        v->counts[r] = v->parts[r].count;
    }
    fh_step step = {.rows = count,
                    .row = v->rows,
                    .count = v->counts,
                    .tokens = v->tokens,
                    .stride = v->search->stride,
                    .causal = 1};
    /* tokens [parts of `count` sentences, 1 + guesses each] -> features [tokens][d] -> answers
     * [tokens]: answer i of a sentence is the word behind its input i */
    float *features;
    if (fh_decode_step(w, &step, &features)) return w->error.code;
    return fh_best_words(w, features, v->asks, tokens, v->answers,
                         v->search->scores ? v->values : NULL);
}

static int finish(fh_work *w, const state *v, int32_t sentence, int32_t passes, fh_found *found) {
    const fh_settled *known = &v->known[sentence];
    return fh_found_words(w, &found[sentence], known->length, known->words, known->steps,
                          v->search->scores ? known->scores : NULL, passes);
}

/* The number of a sentence's pass, those of its guesses counted. */
static int32_t number(const state *v, int32_t sentence, int32_t pass) {
    return pass + (v->guesser && v->guesser->before ? v->guesser->before[sentence] : 0);
}

int fh_left_to_right(fh_work *w, const fh_search *search, fh_found *found) {
    state v = {.search = search,
               .guesser = search->guesser,
               .most = search->guesser ? search->guesser->most : 0,
               .memory = {.error = &w->error}};
    int32_t open = w->sentences, *sentences = fh_take(&v.memory, (size_t)open, sizeof *sentences);
    if (sentences) start(w, &v);
    for (int32_t s = 0; s < open && !w->error.code; s++) sentences[s] = s;
    for (int32_t pass = 1; open && !w->error.code; pass++) {
        int32_t kept = 0, next = 0;
        while (next < open && !w->error.code) {
            int32_t count = 0, tokens = 0;
            for (; next < open; next++) {
                int32_t s = sentences[next];
                fh_settled *known = &v.known[s];
                if (ends_here(w, &v, known, number(&v, s, pass))) {
                    if (finish(w, &v, s, number(&v, s, pass), found)) break;
                    continue;
                }
                if (count && tokens + 1 + fh_smaller(v.most, known->limit - known->length) > v.room)
                    break;
                v.parts[count].sentence = s;
                tokens += add_inputs(w, &v, &v.parts[count], tokens);
                count++;
            }
            if (w->error.code || !count || run_pass(w, &v, count, tokens)) break;
            for (int32_t r = 0; r < count && !w->error.code; r++) {
                int32_t s = v.parts[r].sentence;
                if (!settle(w, &v, &v.parts[r], number(&v, s, pass)))
                    sentences[kept++] = s;
                else if (!w->error.code)
                    finish(w, &v, s, number(&v, s, pass), found);
            }
        }
        open = kept;
    }
    fh_arena_free(&v.memory);
    return w->error.code;
}
