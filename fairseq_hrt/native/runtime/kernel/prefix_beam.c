/* Prefix beam search (Hannun et al., 2014): the most probable texts, each summed over the outputs
 * that print it. See ctc/beam.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

/* A text, or the beginning of one: `parent` and one more word. Each has one node only, so that what
 * prints it is summed. */
typedef struct {
    int32_t parent, word, length;
    int32_t place; /* among the kept ones; -1: it is not */
} node;

/* Log-probabilities of the outputs that print a prefix, apart by whether they end with a blank or
 * with the prefix's last word. */
typedef struct {
    int32_t node, parent, word; /* node -1: not made yet, `parent` and `word` */
    double with_blank, with_word, total;
} prefix;

typedef struct {
    node *nodes;
    int32_t count;
    int32_t *table; /* of nodes by parent and word; -1: free */
    uint32_t mask;
    prefix *kept, *found; /* [beam], [beam * (width + 1)] */
    int32_t kept_count, found_count, beam;
} state;

/* log(exp(a) + exp(b)) */
static double sum(double a, double b) {
    double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* Where a node stands in the table, or has to be put. */
static uint32_t entry_of(const state *b, int32_t parent, int32_t word) {
    uint64_t key = (uint64_t)(uint32_t)parent << 32 | (uint32_t)word;
    uint32_t at = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & b->mask;
    while (b->table[at] >= 0 &&
           (b->nodes[b->table[at]].parent != parent || b->nodes[b->table[at]].word != word))
        at = (at + 1) & b->mask;
    return at;
}

static int start(fh_work *w, const fh_lattice *l, state *b, fh_arena *memory) {
    size_t beam = (size_t)fh_beam_width(w), nodes = 1 + beam * (size_t)l->positions, entries = 64;
    while (entries < 2 * nodes) entries *= 2;
    if (entries > (size_t)1 << 30 || beam * ((size_t)l->width + 1) > (size_t)1 << 27)
        return fh_fail(&w->error, FH_INVALID,
                       "--beam %d is too many for %d positions of a sentence; lower it",
                       (int)w->options->beam, (int)l->positions);
    b->beam = (int32_t)beam;
    b->mask = (uint32_t)(entries - 1);
    b->nodes = fh_take(memory, nodes, sizeof *b->nodes);
    b->table = fh_take(memory, entries, sizeof *b->table);
    b->kept = fh_take(memory, beam, sizeof *b->kept);
    b->found = fh_take(memory, beam * ((size_t)l->width + 1), sizeof *b->found);
    if (w->error.code) return w->error.code;
    memset(b->table, -1, entries * sizeof *b->table);
    b->nodes[0] = (node){-1, -1, 0, 0};
    b->kept[0] = (prefix){0, -1, -1, 0.0, -INFINITY, 0.0};
    b->count = b->kept_count = 1;
    return FH_OK;
}

static int better(const void *one, const void *other) {
    const prefix *a = one, *b = other;
    if (a->total != b->total) return a->total > b->total ? -1 : 1;
    if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
    return a->word < b->word ? -1 : a->word > b->word;
}

/* The kept prefixes behind one more position that prints no word: place i of found is that of kept
 * prefix i. */
static void stay(const fh_lattice *l, int32_t position, state *b) {
    const int32_t *words = l->words + (size_t)position * l->width;
    const float *scores = l->scores + (size_t)position * l->width;
    for (int32_t i = 0; i < b->kept_count; i++) {
        const prefix *p = &b->kept[i];
        const node *own = &b->nodes[p->node];
        prefix *next = &b->found[i];
        *next = *p;
        next->with_blank = p->total + l->blanks[position];
        next->with_word = -INFINITY;
        int32_t k = 0, count = l->counts[position];
        while (k < count && words[k] != own->word) k++;
        if (k < count) {
            /* The same run continues; or the word is new behind the shorter prefix, which is kept,
             * too: there a blank has to be between equal words. */
            next->with_word = p->with_word + scores[k];
            const node *shorter = &b->nodes[own->parent];
            if (shorter->place >= 0) {
                const prefix *from = &b->kept[shorter->place];
                double before = shorter->word == own->word ? from->with_blank : from->total;
                next->with_word = sum(next->with_word, before + scores[k]);
            }
        }
        next->total = sum(next->with_blank, next->with_word);
    }
    b->found_count = b->kept_count;
}

/* Prefixes with one more word that are not kept yet, behind those in found. Of r prefixes and k
 * words that are at least as good, r * k - 1 make something at least as good (a word behind itself
 * is the exception): beyond the beam nothing has to be tried. */
static void append(const fh_lattice *l, int32_t position, state *b) {
    const int32_t *words = l->words + (size_t)position * l->width;
    const float *scores = l->scores + (size_t)position * l->width;
    int64_t rows = 0;
    for (int32_t i = 0; i < b->kept_count; i++) {
        const prefix *p = &b->kept[i];
        const node *own = &b->nodes[p->node];
        if (own->length >= l->limit) continue;
        rows++;
        for (int32_t k = 0; k < l->counts[position] && rows * k <= b->beam; k++) {
            double total = (words[k] == own->word ? p->with_blank : p->total) + scores[k];
            int32_t child = b->table[entry_of(b, p->node, words[k])];
            if (total > -INFINITY && (child < 0 || b->nodes[child].place < 0))
                b->found[b->found_count++] =
                    (prefix){child, p->node, words[k], -INFINITY, total, total};
        }
    }
}

/* The best of found become the kept ones. */
static void keep_best(state *b) {
    qsort(b->found, (size_t)b->found_count, sizeof *b->found, better);
    for (int32_t i = 0; i < b->kept_count; i++) b->nodes[b->kept[i].node].place = -1;
    b->kept_count = b->found_count < b->beam ? b->found_count : b->beam;
    for (int32_t i = 0; i < b->kept_count; i++) {
        prefix *p = &b->kept[i];
        *p = b->found[i];
        if (p->node < 0) {
            b->nodes[b->count] = (node){p->parent, p->word, b->nodes[p->parent].length + 1, -1};
            b->table[entry_of(b, p->parent, p->word)] = p->node = b->count++;
        }
        b->nodes[p->node].place = i;
    }
}

/* A text with its log-probability, spread evenly over its words and </s>. */
static int finish(fh_work *w, const state *b, const prefix *text, fh_found *found) {
    int32_t length = b->nodes[text->node].length + 1;
    fh_hypothesis *h = fh_hypothesis_new(w, length);
    if (!h) return w->error.code;
    h->tokens[length - 1] = w->model->shape.eos;
    for (int32_t i = length - 2, at = text->node; i >= 0; at = b->nodes[at].parent, i--)
        h->tokens[i] = b->nodes[at].word;
    for (int32_t i = 0; i < length; i++) {
        h->scores[i] = (float)(text->total / length);
        h->steps[i] = 1;
    }
    h->passes = 1;
    h->score = fh_rank(w->options, text->total, length);
    return fh_found_add(w, found, h);
}

int fh_prefix_beam(fh_work *w, const fh_lattice *l, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    state b = {0};
    start(w, l, &b, &memory);
    for (int32_t position = 0; position < l->positions && !w->error.code; position++) {
        if (fh_go_on(w)) break;
        stay(l, position, &b);
        append(l, position, &b);
        keep_best(&b);
    }
    int32_t least = 0;
    for (int32_t i = 0; i < b.kept_count && !w->error.code; i++) {
        int32_t length = b.nodes[b.kept[i].node].length;
        if (length > least) least = length;
    }
    if (least > w->options->min_len) least = w->options->min_len;
    for (int32_t i = 0; i < b.kept_count && !w->error.code; i++)
        if (b.nodes[b.kept[i].node].length >= least) finish(w, &b, &b.kept[i], found);
    fh_found_sort(found);
    fh_arena_free(&memory);
    return w->error.code;
}
