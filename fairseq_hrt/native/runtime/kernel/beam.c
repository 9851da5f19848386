/* Beam search from left to right: the open hypotheses of a sentence are rows of the decoder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

/* A word of a hypothesis, behind its parent; hypotheses share their beginnings. */
typedef struct {
    int32_t parent, token; /* parent -1: the first word */
    double total;          /* log-probability up to here */
} node;

typedef struct {
    int32_t beam, token;
    double total;
} candidate;

typedef struct {
    const fh_search *search;
    int32_t beams, width; /* width: candidates of a row, 2 * beams at most */
    fh_open *open;        /* [sentences][beams] */
    int32_t *counts;      /* [sentences], open hypotheses; 0: done */
    fh_buffer nodes;
    int32_t node_count;
    /* One step of n open hypotheses, those of all sentences without gaps. */
    int32_t *rows, *tokens;               /* [n] */
    fh_ask *asks;                         /* [n] */
    int32_t *found_counts, *found_tokens; /* [n], [n][width] */
    float *found_scores;                  /* [n][width] */
    candidate *candidates;                /* [beams * width] */
    fh_open *next;                        /* [beams] */
    uint8_t *taken;                       /* [beams]: rows that a hypothesis of the next step has */
    fh_arena memory;
} beam_state;

static int start(fh_work *w, const fh_search *search, beam_state *b) {
    size_t n = (size_t)w->sentences, beams = (size_t)search->beam, all = n * beams;
    b->search = search;
    b->beams = search->beam;
    int64_t width = 2 * (int64_t)search->beam, words = w->model->decoder.shape.vocabulary;
    b->width = (int32_t)(width < words ? width : words);
    size_t wide = all * (size_t)b->width;
    if (all > (1 << 22) || wide > (1 << 27))
        return fh_fail(&w->error, FH_INVALID,
                       "--beam %d is too many for %d sentences of a batch; lower it",
                       (int)search->beam, (int)n);
    fh_arena *memory = &b->memory;
    b->candidates = fh_take(memory, beams * (size_t)b->width, sizeof *b->candidates);
    b->open = fh_take(memory, all, sizeof *b->open);
    b->next = fh_take(memory, beams, sizeof *b->next);
    b->asks = fh_take(memory, all, sizeof *b->asks);
    b->counts = fh_take(memory, n, sizeof *b->counts);
    b->rows = fh_take(memory, all, sizeof *b->rows);
    b->tokens = fh_take(memory, all, sizeof *b->tokens);
    b->found_counts = fh_take(memory, all, sizeof *b->found_counts);
    b->found_tokens = fh_take(memory, wide, sizeof *b->found_tokens);
    b->found_scores = fh_take(memory, wide, sizeof *b->found_scores);
    b->taken = fh_take(memory, beams, sizeof *b->taken);
    if (w->error.code || fh_rows(w, (int32_t)all)) return w->error.code;
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < beams; i++) w->rows[s * beams + i].source = (int32_t)s;
        /* All hypotheses of a sentence are equal at first: one stands for them. */
        b->open[s * beams] = (fh_open){-1, (int32_t)(s * beams), 0.0};
        b->counts[s] = 1;
    }
    return FH_OK;
}

/* Node of one more word; -1 and an error when memory is out. */
static int32_t write_word(fh_work *w, beam_state *b, int32_t parent, int32_t token, double total) {
    if (fh_extend(&b->nodes, (size_t)b->node_count + 1, sizeof(node), &w->error)) return -1;
    ((node *)b->nodes.data)[b->node_count] = (node){parent, token, total};
    return b->node_count++;
}

static int finish(fh_work *w, beam_state *b, int32_t last, int32_t length, fh_found *found) {
    fh_hypothesis *h = fh_hypothesis_new(w, length);
    if (!h) return w->error.code;
    const node *nodes = b->nodes.data;
    h->score = fh_rank(w->options, nodes[last].total, length);
    h->passes = length;
    for (int32_t i = length - 1, at = last; i >= 0; at = nodes[at].parent, i--) {
        h->tokens[i] = nodes[at].token;
        h->scores[i] =
            (float)(nodes[at].total - (nodes[at].parent < 0 ? 0.0 : nodes[nodes[at].parent].total));
        h->steps[i] = i + 1;
    }
    return fh_found_add(w, found, h);
}

static int better(const void *one, const void *other) {
    const candidate *a = one, *b = other;
    if (a->total != b->total) return a->total > b->total ? -1 : 1;
    if (a->beam != b->beam) return a->beam < b->beam ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

int fh_move_rows(fh_work *w, fh_open *open, fh_open *next, int32_t count, int32_t base,
                 int32_t beams, uint8_t *taken) {
    enum { FREE, WANTED, GIVEN };
    memset(taken, FREE, (size_t)beams);
    for (int32_t i = 0; i < count; i++) taken[next[i].row - base] = WANTED;
    for (int32_t i = 0, free = 0; i < count; i++) {
        uint8_t *own = &taken[next[i].row - base];
        if (*own == GIVEN) {
            while (taken[free]) free++;
            if (fh_row_copy(w, base + free, next[i].row)) return w->error.code;
            next[i].row = base + free;
            own = &taken[free];
        }
        *own = GIVEN;
    }
    memcpy(open, next, (size_t)count * sizeof *next);
    return FH_OK;
}

/* One sentence's step: `first` is its first row of this step. */
static int advance(fh_work *w, beam_state *b, int32_t sentence, int32_t first, int32_t place,
                   fh_found *found) {
    fh_open *open = b->open + (size_t)sentence * b->beams;
    int32_t count = 0, eos = w->model->shape.eos, going = 0;
    if (fh_go_on(w)) return w->error.code;
    /* found [counts[sentence]][width] -> candidates [count]; the best of them are the next open
     * hypotheses, [beams] at most, or are finished */
    for (int32_t i = 0; i < b->counts[sentence]; i++)
        for (int32_t k = 0; k < b->found_counts[first + i]; k++) {
            size_t at = (size_t)(first + i) * b->width + k;
            double total = open[i].total + (double)b->found_scores[at];
            if (total > -INFINITY)
                b->candidates[count++] = (candidate){i, b->found_tokens[at], total};
        }
    qsort(b->candidates, (size_t)count, sizeof *b->candidates, better);
    /* Up to N of the 2N candidates may be </s>, so 2N guarantee that N stay open. */
    for (int32_t i = 0; i < count && i < 2 * b->beams; i++) {
        const candidate *c = &b->candidates[i];
        int32_t parent = open[c->beam].node;
        if (c->token == eos) {
            if (i >= b->beams || found->count >= b->beams) continue;
            int32_t last = write_word(w, b, parent, eos, c->total);
            if (last < 0 || finish(w, b, last, place + 1, found)) return w->error.code;
        } else if (going < b->beams) {
            int32_t at = write_word(w, b, parent, c->token, c->total);
            if (at < 0) return w->error.code;
            b->next[going++] = (fh_open){at, open[c->beam].row, c->total};
        }
    }
    b->counts[sentence] =
        found->count < b->beams && place < b->search->max_len[sentence] ? going : 0;
    if (!b->counts[sentence]) return FH_OK;
    return fh_move_rows(w, open, b->next, going, sentence * b->beams, b->beams, b->taken);
}

static int step(fh_work *w, beam_state *b, int32_t place, int32_t *rows) {
    const fh_search *search = b->search;
    const node *nodes = b->nodes.data;
    /* open [sentences][beams], of which counts[s] are in use -> rows, tokens and asks [n] */
    int32_t at = 0;
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < b->counts[s]; i++, at++) {
            const fh_open *one = &b->open[(size_t)s * b->beams + i];
            b->rows[at] = one->row;
            b->tokens[at] = one->node < 0 ? search->start : nodes[one->node].token;
            b->asks[at] = (search->stride == 1 ? fh_ask_word : fh_ask_at)(
                w, s, place, search->min_len[s], search->max_len[s]);
        }
    *rows = at;
    if (!at) return FH_OK;
    /* tokens [n] -> features [n][d] -> the best words of each: found [n][width] */
    fh_step plan = {
        .rows = at, .row = b->rows, .tokens = b->tokens, .stride = search->stride, .causal = 1};
    float *features;
    if (fh_decode_step(w, &plan, &features)) return w->error.code;
    return fh_best_lists(w, features, b->asks, at, b->width, b->found_tokens, b->found_scores,
                         b->found_counts, 0, NULL);
}

int fh_beam(fh_work *w, const fh_search *search, fh_found *found) {
    beam_state b = {.memory = {.error = &w->error}};
    int32_t rows = 1;
    start(w, search, &b);
    for (int32_t place = 0; !w->error.code; place++) {
        if (step(w, &b, place, &rows) || !rows) break;
        for (int32_t s = 0, first = 0; s < w->sentences && !w->error.code; s++) {
            int32_t mine = b.counts[s];
            if (mine) advance(w, &b, s, first, place, &found[s]);
            first += mine;
        }
    }
    for (int32_t s = 0; s < w->sentences; s++) fh_found_sort(&found[s]);
    fh_arena_free(&b.memory);
    fh_release(&b.nodes);
    return w->error.code;
}
