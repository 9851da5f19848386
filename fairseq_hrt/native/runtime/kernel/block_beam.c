/* Beam search with several words a step. See bidirectional/search.py.
 *
 * Canonical scoring, where nothing counts behind </s>: the best blocks of a hypothesis are found
 * slot by slot, open and finished beginnings in lists of their own; then the hypotheses' blocks are
 * merged. By Algorithm 1 </s> is a word like any other until blocks are whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

/* The beginning of a block: one more word behind another beginning. */
typedef struct {
    int32_t parent, token; /* parent: a beginning, -1 for the empty one */
    float score;           /* log-probability of the word */
    double total;          /* of the beginning */
} beginning;

/* A block of a hypothesis, or all that a hypothesis has written. */
typedef struct {
    int32_t beam, last; /* last: its last beginning */
    double total;
} block_end;

/* What is open: a chain of written slots, shared by hypotheses. */
typedef struct {
    int32_t parent, token;
    float score;
} slot_node;

typedef struct {
    int32_t beams, z, whole; /* whole: blocks count as such, with what stands behind </s> */
    fh_open *open;           /* [sentences][beams] */
    int32_t *counts;
    fh_buffer nodes, begun, line;
    fh_arena memory;
    int32_t node_count, begun_count;
    int32_t *rows, *row_counts, *tokens, *found_tokens, *found_counts;
    float *found_scores, *ends;
    fh_ask *asks;
    block_end *opened, *ended; /* [beams * beams] */
    block_end *now, *later,
        *finished; /* of one hypothesis: [beams], [beams * beams], [2 * beams] */
    fh_open *next; /* [beams] */
    uint8_t *taken;
} state;

static int start(fh_work *w, state *b) {
    size_t n = (size_t)w->sentences, beams = (size_t)b->beams, all = n * beams, z = (size_t)b->z,
           wide = all * z;
    if (all > (1 << 20) || wide * beams > (1 << 27) || beams > (1 << 12))
        return fh_fail(&w->error, FH_INVALID,
                       "--beam %d is too many for %d sentences of a batch; lower it", (int)b->beams,
                       (int)n);
    fh_arena *memory = &b->memory;
    b->opened = fh_take(memory, beams * beams, sizeof *b->opened);
    b->ended = fh_take(memory, beams * beams, sizeof *b->ended);
    b->now = fh_take(memory, beams, sizeof *b->now);
    b->later = fh_take(memory, beams * beams, sizeof *b->later);
    b->finished = fh_take(memory, 2 * beams, sizeof *b->finished);
    b->open = fh_take(memory, all, sizeof *b->open);
    b->next = fh_take(memory, beams, sizeof *b->next);
    b->asks = fh_take(memory, wide, sizeof *b->asks);
    b->counts = fh_take(memory, n, sizeof *b->counts);
    b->rows = fh_take(memory, all, sizeof *b->rows);
    b->row_counts = fh_take(memory, all, sizeof *b->row_counts);
    b->tokens = fh_take(memory, wide, sizeof *b->tokens);
    b->found_counts = fh_take(memory, wide, sizeof *b->found_counts);
    b->ends = fh_take(memory, wide, sizeof *b->ends);
    b->found_tokens = fh_take(memory, wide * beams, sizeof *b->found_tokens);
    b->found_scores = fh_take(memory, wide * beams, sizeof *b->found_scores);
    b->taken = fh_take(memory, beams, sizeof *b->taken);
    if (w->error.code || fh_rows(w, (int32_t)all)) return w->error.code;
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < beams; i++) w->rows[s * beams + i].source = (int32_t)s;
        b->open[s * beams] = (fh_open){-1, (int32_t)(s * beams), 0.0};
        b->counts[s] = 1;
    }
    return FH_OK;
}

static int best_first(const void *one, const void *other) {
    const block_end *a = one, *b = other;
    if (a->total != b->total) return a->total > b->total ? -1 : 1;
    if (a->beam != b->beam) return a->beam < b->beam ? -1 : 1;
    return a->last < b->last ? -1 : a->last > b->last;
}

static int32_t keep_best(block_end *list, int32_t count, int32_t most) {
    qsort(list, (size_t)count, sizeof *list, best_first);
    return count < most ? count : most;
}

/* Adds a beginning one word longer to a list, unless it is impossible. */
static int lengthen(fh_work *w, state *b, block_end *list, int32_t *count, block_end from,
                    int32_t token, float score) {
    double total = from.total + (double)score;
    if (!(total > -INFINITY)) return FH_OK;
    if (fh_extend(&b->begun, (size_t)b->begun_count + 1, sizeof(beginning), &w->error))
        return w->error.code;
    ((beginning *)b->begun.data)[b->begun_count] = (beginning){from.last, token, score, total};
    list[(*count)++] = (block_end){from.beam, b->begun_count++, total};
    return FH_OK;
}

static int has_end(const state *b, int32_t last, int32_t eos) {
    const beginning *begun = b->begun.data;
    while (last >= 0 && begun[last].token != eos) last = begun[last].parent;
    return last >= 0;
}

/* The best open and the best finished blocks of one hypothesis, whose first slot is number `row` of
 * this step; appended to the lists of its sentence. */
static int fold(fh_work *w, state *b, int32_t beam, int32_t row, double total,
                int32_t *opened_count, int32_t *ended_count) {
    int32_t most = b->beams, eos = w->model->shape.eos, open = 1, done = 0;
    block_end *now = b->now, *later = b->later, *finished = b->finished;
    now[0] = (block_end){beam, -1, total};
    /* Slot by slot: now [open] times the words found for the slot, [beams] -> later [open * beams]
     * -> the best of these are the next now. */
    for (int32_t slot = 0; slot < b->z; slot++) {
        if (fh_go_on(w)) return w->error.code;
        size_t at = (size_t)row + slot;
        int32_t count = 0;
        for (int32_t i = 0; i < open && !b->whole; i++)
            if (lengthen(w, b, finished, &done, now[i], eos, b->ends[at])) return w->error.code;
        done = keep_best(finished, done, most);
        for (int32_t i = 0; i < open; i++)
            for (int32_t k = 0; k < b->found_counts[at]; k++)
                if (lengthen(w, b, later, &count, now[i], b->found_tokens[at * most + k],
                             b->found_scores[at * most + k]))
                    return w->error.code;
        open = keep_best(later, count, most);
        memcpy(now, later, (size_t)open * sizeof *now);
    }
    /* now [open]: of z words; finished [done]: up to </s>; at most [beams] of each. */
    memcpy(b->ended + *ended_count, finished, (size_t)done * sizeof *finished);
    *ended_count += done;
    for (int32_t i = 0; i < open; i++) {
        if (b->whole && has_end(b, now[i].last, eos))
            b->ended[(*ended_count)++] = now[i];
        else
            b->opened[(*opened_count)++] = now[i];
    }
    return FH_OK;
}

/* Writes the words of a block behind a node; returns the last node, or -2 and an error. */
static int32_t write_block(fh_work *w, state *b, int32_t last, int32_t node) {
    const beginning *begun = b->begun.data;
    int32_t chain = 0;
    for (int32_t at = last; at >= 0; at = begun[at].parent) chain++;
    if (fh_extend(&b->nodes, (size_t)b->node_count + chain, sizeof(slot_node), &w->error))
        return -2;
    slot_node *nodes = b->nodes.data;
    int32_t end = b->node_count + chain;
    for (int32_t at = last, place = end - 1; at >= 0; at = begun[at].parent, place--)
        nodes[place] = (slot_node){place == b->node_count ? node : place - 1, begun[at].token,
                                   begun[at].score};
    b->node_count = end;
    return end - 1;
}

static int finish(fh_work *w, state *b, int32_t node, double total, int32_t passes,
                  fh_found *found) {
    const slot_node *nodes = b->nodes.data;
    int32_t length = 0, end = 0;
    for (int32_t at = node; at >= 0; at = nodes[at].parent) length++;
    if (fh_reserve(&b->line, (size_t)length * 2, sizeof(int32_t), &w->error)) return w->error.code;
    int32_t *words = b->line.data;
    float *scores = (float *)(words + length);
    for (int32_t at = node, i = length - 1; at >= 0; at = nodes[at].parent, i--) {
        words[i] = nodes[at].token;
        scores[i] = nodes[at].score;
    }
    while (words[end] != w->model->shape.eos) end++;
    return fh_finish_blocks(w, words, scores, end + 1, length, total, passes, found);
}

static int go_on(fh_work *w, state *b, int32_t sentence, int32_t count) {
    int32_t base = sentence * b->beams;
    fh_open *open = b->open + base;
    for (int32_t i = 0; i < count; i++) {
        const fh_open *parent = &open[b->opened[i].beam];
        int32_t node = write_block(w, b, b->opened[i].last, parent->node);
        if (node == -2) return w->error.code;
        b->next[i] = (fh_open){node, parent->row, b->opened[i].total};
    }
    return fh_move_rows(w, open, b->next, count, base, b->beams, b->taken);
}

static int advance(fh_work *w, state *b, int32_t sentence, int32_t first, int32_t step,
                   fh_found *found) {
    int32_t opened = 0, ended = 0, beams = b->beams;
    const fh_open *open = b->open + (size_t)sentence * beams;
    b->begun_count = 0;
    for (int32_t i = 0; i < b->counts[sentence]; i++)
        if (fold(w, b, i, first + i * b->z, open[i].total, &opened, &ended)) return w->error.code;
    opened = keep_best(b->opened, opened, beams);
    ended = keep_best(b->ended, ended, b->whole ? ended : beams);
    /* As in one-word search: what has ended is finished if it is among the N best of all; by
     * Algorithm 1 wherever it ranks. */
    for (int32_t i = 0, ahead = 0; i < ended && (b->whole || found->count < beams); i++) {
        while (ahead < opened && b->opened[ahead].total > b->ended[i].total) ahead++;
        if (!b->whole && i + ahead >= beams) break;
        int32_t node = write_block(w, b, b->ended[i].last, open[b->ended[i].beam].node);
        if (node == -2 || finish(w, b, node, b->ended[i].total, step + 1, found))
            return w->error.code;
    }
    b->counts[sentence] = found->count < beams ? opened : 0;
    return b->counts[sentence] ? go_on(w, b, sentence, opened) : FH_OK;
}

/* The words that a hypothesis wrote last, or start symbols. */
static void last_words(fh_work *w, const state *b, int32_t node, int32_t *tokens) {
    const slot_node *nodes = b->nodes.data;
    for (int32_t i = b->z - 1; i >= 0; i--) {
        tokens[i] = node < 0 ? w->model->shape.eos : nodes[node].token;
        if (node >= 0) node = nodes[node].parent;
    }
}

static int predict(fh_work *w, state *b, const int32_t *limits, int32_t step, int32_t *rows) {
    const fh_shape *shape = &w->model->shape;
    int32_t at = 0, z = b->z;
    for (int32_t s = 0; s < w->sentences; s++)
        for (int32_t i = 0; i < b->counts[s]; i++, at++) {
            const fh_open *one = &b->open[(size_t)s * b->beams + i];
            b->rows[at] = one->row;
            b->row_counts[at] = z;
            last_words(w, b, one->node, b->tokens + at * z);
            for (int32_t k = 0; k < z; k++)
                b->asks[at * z + k] =
                    fh_ask_word(w, s, step * z + k, w->options->min_len, limits[s]);
        }
    *rows = at;
    if (!at) return FH_OK;
    /* tokens [rows][z] -> features [rows * z][d] -> found [rows * z][beams] */
    fh_step plan = {.rows = at,
                    .row = b->rows,
                    .count = b->row_counts,
                    .tokens = b->tokens,
                    .stride = 1,
                    .causal = shape->causal,
                    .directions = shape->independent ? shape->directions : 1};
    float *features;
    if (fh_decode_step(w, &plan, &features)) return w->error.code;
    /* </s> is kept apart from the other words, so that it is offered wherever it is allowed. */
    for (int32_t i = 0; i < at * z && !b->whole; i++) {
        if (b->asks[i].only < 0) fh_ban(&b->asks[i], shape->eos);
    }
    if (fh_best_lists(w, features, b->asks, at * z, b->beams, b->found_tokens, b->found_scores,
                      b->found_counts, shape->eos, b->ends))
        return w->error.code;
    for (int32_t s = 0, i = 0; s < w->sentences && !b->whole; s++)
        for (int32_t n = 0; n < b->counts[s]; n++)
            for (int32_t k = 0; k < z; k++, i++) {
                if (b->asks[i].only == shape->eos)
                    b->found_counts[i] = 0;
                else if (b->asks[i].only >= 0 || step * z + k < w->options->min_len)
                    b->ends[i] = -INFINITY;
            }
    return FH_OK;
}

int fh_beam_blocks(fh_work *w, const int32_t *limits, fh_found *found) {
    state b = {.beams = fh_beam_width(w),
               .z = w->model->shape.block,
               .whole = w->options->block_scoring == FH_ALGORITHM1,
               .memory = {.error = &w->error}};
    int32_t rows = 1;
    start(w, &b);
    for (int32_t step = 0; !w->error.code; step++) {
        if (predict(w, &b, limits, step, &rows) || !rows) break;
        for (int32_t s = 0, first = 0; s < w->sentences && !w->error.code; s++) {
            int32_t mine = b.counts[s];
            if (mine) advance(w, &b, s, first, step, &found[s]);
            first += mine * b.z;
        }
    }
    for (int32_t s = 0; s < w->sentences; s++) {
        fh_found_sort(&found[s]);
        fh_found_cut(&found[s], b.beams);
    }
    fh_arena_free(&b.memory);
    fh_release(&b.nodes);
    fh_release(&b.begun);
    fh_release(&b.line);
    return w->error.code;
}
