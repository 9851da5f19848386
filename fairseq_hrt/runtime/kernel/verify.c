/* Lossless drafts: hrt decodes with chunks and checks itself word by word. One encoder pass; the words are those of C_d = 1, greedily.
 *
 * A pass reads the last settled word and some drafted ones and predicts the word behind each. Predictions are settled as long as the words they
 * stand on are. Nothing of this depends on the other sentences of the batch. */
#include <string.h>

#include "search.h"

/* Drafted words of a pass: at first, at least and at most. */
#define FIRST_WIDTH 8
#define LEAST_WIDTH 4
#define MOST_WIDTH 32
/* How far from its place a settled word is looked for in the draft. */
#define NEAR 4
/* Passes after which fewer than three words in two passes end the drafts of a sentence. */
#define TRIAL 4

typedef struct {
    const fh_hypothesis *draft;
    int32_t length, next, width, trials, settled, first; /* next: draft word that may follow; first: of this pass */
    int32_t *words, *steps;                              /* [limit + 1] */
    float *scores;
} checked;

typedef struct {
    checked *sentences;
    int32_t *rows, *counts, *tokens, *positions, *found;
    float *values;
    fh_ask *asks;
    fh_buffer memory;
} state;

static int start(fh_work *w, const int32_t *limits, const fh_found *drafts, state *v) {
    size_t n = (size_t)w->sentences, all = 0, wide = n * (MOST_WIDTH + 1);
    for (size_t s = 0; s < n; s++) all += (size_t)limits[s] + 1;
    size_t bytes = n * sizeof(checked) + wide * sizeof(fh_ask) + (3 * all + 2 * n + 4 * wide) * sizeof(int32_t);
    if (fh_reserve(&v->memory, bytes, 1, &w->error) || fh_rows(w, w->sentences)) return w->error.code;
    v->sentences = v->memory.data;
    v->asks = (fh_ask *)(v->sentences + n);
    int32_t *at = (int32_t *)(v->asks + wide);
    for (size_t s = 0; s < n; s++) {
        size_t most = (size_t)limits[s] + 1;
        int32_t asked = w->options->draft_width;
        v->sentences[s] = (checked){.draft = drafts[s].items[0], .width = asked ? (asked < MOST_WIDTH ? asked : MOST_WIDTH) : FIRST_WIDTH,
                                    .words = at, .steps = at + most, .scores = (float *)(at + 2 * most)};
        at += 3 * most;
    }
    v->rows = at;
    v->counts = v->rows + n;
    v->tokens = v->counts + n;
    v->positions = v->tokens + wide;
    v->found = v->positions + wide;
    v->values = (float *)(v->found + wide);
    return FH_OK;
}

/* Where the draft goes on behind a word that it did not have at its place, which may lie behind the draft's end. */
static int32_t realign(const fh_hypothesis *draft, int32_t place, int32_t word) {
    for (int32_t away = 1; away <= NEAR; away++) {
        if (place + away < draft->length && draft->tokens[place + away] == word) return place + away + 1;
        if (place >= away && place - away < draft->length && draft->tokens[place - away] == word) return place - away + 1;
    }
    return place + 1;
}

/* The inputs of a sentence's next pass, from number `at` on; returns how many. */
static int32_t inputs(fh_work *w, state *v, int32_t s, int32_t at, const int32_t *limits) {
    checked *c = &v->sentences[s];
    int32_t place = c->length, count = 1, last = c->draft->length - 1; /* </s> is never fed */
    c->first = at;
    v->tokens[at] = place ? c->words[place - 1] : w->model->shape.eos;
    while (count <= c->width && c->next + count - 1 < last && place + count <= limits[s]) {
        v->tokens[at + count] = c->draft->tokens[c->next + count - 1];
        count++;
    }
    for (int32_t i = 0; i < count; i++) {
        v->positions[at + i] = place + i;
        v->asks[at + i] = fh_ask_at(w, s, place + i, w->options->min_len, limits[s]);
    }
    return count;
}

/* Settles what is right; 1: the sentence is complete. */
static int settle(fh_work *w, state *v, int32_t s, int32_t count, int32_t pass) {
    checked *c = &v->sentences[s];
    int32_t accepted = 0, eos = w->model->shape.eos, word, place = c->next;
    do {
        word = v->found[c->first + accepted];
        c->words[c->length] = word;
        c->steps[c->length] = pass;
        if (w->options->scores) c->scores[c->length] = v->values[c->first + accepted];
        c->length++;
        accepted++;
    } while (word != eos && accepted < count && word == v->tokens[c->first + accepted]);
    /* The draft behind the words that were accepted; its word at that place was not, or there was none. */
    place += accepted - 1;
    c->next = place < c->draft->length && c->draft->tokens[place] == word ? place + 1 : realign(c->draft, place, word);
    w->rows[s].length = c->length;
    if (word == eos) return 1;
    if (!w->options->draft_width) {
        if (count > 1) c->width = accepted == count ? 2 * c->width : accepted + LEAST_WIDTH;
        if (c->width > MOST_WIDTH) c->width = MOST_WIDTH;
        c->trials++;
        c->settled += accepted;
        if (c->trials >= TRIAL && 2 * c->settled < 3 * c->trials) c->width = 0;
    }
    return 0;
}

static int check(fh_work *w, const int32_t *limits, const fh_found *drafts, fh_found *found) {
    state v = {0};
    int32_t open = w->sentences;
    start(w, limits, drafts, &v);
    for (int32_t r = 0; r < open && !w->error.code; r++) v.rows[r] = r;
    for (int32_t pass = 1; open && !w->error.code; pass++) {
        int32_t at = 0, kept = 0;
        for (int32_t r = 0; r < open; r++) at += v.counts[r] = inputs(w, &v, v.rows[r], at, limits);
        fh_step step = {.rows = open, .row = v.rows, .count = v.counts, .tokens = v.tokens, .positions = v.positions, .causal = 1, .stride = 1};
        float *features;
        if (fh_decode_step(w, &step, &features) || fh_best_words(w, features, v.asks, at, v.found, w->options->scores ? v.values : NULL)) break;
        for (int32_t r = 0; r < open && !w->error.code; r++) {
            int32_t s = v.rows[r], before = drafts[s].items[0]->passes;
            if (!settle(w, &v, s, v.counts[r], before + pass)) {
                v.rows[kept++] = s;
                continue;
            }
            const checked *c = &v.sentences[s];
            fh_hypothesis *h = fh_hypothesis_new(w, c->length);
            double total = 0;
            for (int32_t i = 0; h && i < c->length; i++) {
                h->tokens[i] = c->words[i];
                h->steps[i] = c->steps[i];
                if (w->options->scores) total += h->scores[i] = c->scores[i];
            }
            if (h) h->passes = before + pass;
            if (h) h->score = fh_rank(w->options, total, c->length);
            fh_found_add(w, &found[s], h);
        }
        open = kept;
    }
    fh_release(&v.memory);
    return w->error.code;
}

int fh_decode_drafts(fh_work *w, int32_t chunk, const int32_t *limits, fh_found *found) {
    fh_buffer memory = {0};
    size_t n = (size_t)w->sentences;
    if (fh_reserve(&memory, n, sizeof(fh_found), &w->error)) return w->error.code;
    fh_found *drafts = memory.data;
    memset(drafts, 0, n * sizeof *drafts);
    if (!fh_two_stages(w, chunk, limits, 1, 1, 0, drafts)) check(w, limits, drafts, found);
    for (size_t s = 0; s < n; s++) fh_found_clear(&drafts[s]);
    fh_release(&memory);
    return w->error.code;
}
