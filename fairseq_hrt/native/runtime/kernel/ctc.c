/* Connectionist temporal classification: one decoder pass writes a word or a blank, <s>, at each
 * position; equal neighbours and blanks are not printed. See ctc/generator.py. */
#include <math.h>
#include <string.h>

#include "search.h"

/* Positions of the sentences that pass through the decoder together: what the buffers grow with. */
#define MOST_POSITIONS 2048

/* Some sentences of the batch, from `first` on. */
typedef struct {
    int32_t first, count, positions, longest; /* positions: of all; of the longest one */
    const int32_t *sizes, *limits;            /* positions of each sentence; the most words */
    float *features;                          /* [positions][d] */
    fh_ask *asks;                             /* [positions] */
} group;

/* The positions of a source of this length. */
static int32_t positions_of(const fh_model *m, int32_t length) {
    /* 0.1 * 30 is a little less than 3. */
    double size = floor(m->shape.upsample * length + 1e-6);
    int32_t most = m->decoder.shape.longest;
    return size < 1 ? 1 : size < most ? (int32_t)size : most;
}

/* What the positions of a sentence read: tokens [size]. */
static void read_tokens(const fh_model *m, const int32_t *source, int32_t length, int32_t size,
                        int32_t *tokens) {
    for (int32_t t = 0; t < size; t++) {
        double place = floor(t / m->shape.upsample + 1e-6);
        int32_t copied = place < length ? (int32_t)place : length - 1;
        tokens[t] = m->shape.position_inputs == FH_UNK ? m->shape.unk : source[copied];
    }
}

/* Soft copy: position t reads the source's vectors, mixed by softmax(-|s + 1/2 - (t + 1/2) / scale|
 * / temperature): vectors [size][d]. */
static int mix_source(fh_work *w, const int32_t *source, int32_t length, int32_t size,
                      float *vectors) {
    const fh_model *m = w->model;
    size_t d = (size_t)m->decoder.shape.width, n = (size_t)length;
    if (fh_reserve(&w->gathered, n * d + n, sizeof(float), &w->error)) return w->error.code;
    float *own = w->gathered.data, *weights = own + n * d; /* [length][d], [length] */
    if (fh_token_vectors(w, &m->decoder, source, length, own)) return w->error.code;
    memset(vectors, 0, (size_t)size * d * sizeof *vectors);
    for (int32_t t = 0; t < size; t++, vectors += d) {
        double place = (t + 0.5) / m->shape.upsample, nearest = INFINITY, sum = 0;
        if (fh_go_on(w)) return w->error.code;
        for (int32_t s = 0; s < length; s++)
            if (fabs(s + 0.5 - place) < nearest) nearest = fabs(s + 0.5 - place);
        for (int32_t s = 0; s < length; s++) {
            double away = fabs(s + 0.5 - place) - nearest;
            sum += weights[s] = (float)exp(-away / m->shape.copy_temperature);
        }
        for (int32_t s = 0; s < length; s++) {
            float weight = (float)(weights[s] / sum);
            if (weight == 0.0f) continue;
            for (size_t c = 0; c < d; c++) vectors[c] += weight * own[(size_t)s * d + c];
        }
    }
    return FH_OK;
}

/* The decoder's pass over all positions. */
static int pass(fh_work *w, const int32_t *const *sources, group *g, fh_arena *memory) {
    const fh_model *m = w->model;
    size_t all = (size_t)g->positions, d = (size_t)m->decoder.shape.width;
    int32_t *tokens = fh_take(memory, all, sizeof *tokens);
    int soft = m->shape.position_inputs == FH_SOFT_COPY;
    float *vectors = soft ? fh_take(memory, all * d, sizeof *vectors) : NULL;
    g->asks = fh_take(memory, all, sizeof *g->asks);
    if (w->error.code || fh_rows(w, g->count)) return w->error.code;
    for (int32_t i = 0, at = 0; i < g->count; at += g->sizes[g->first + i++]) {
        int32_t s = g->first + i, size = g->sizes[s];
        w->rows[i].source = s;
        read_tokens(m, sources[s], w->source_lengths[s], size, tokens + at);
        if (soft && mix_source(w, sources[s], w->source_lengths[s], size, vectors + (size_t)at * d))
            return w->error.code;
        for (int32_t t = 0; t < size; t++) {
            fh_ask *ask = &g->asks[at + t];
            *ask = fh_plain_ask(w, s);
            fh_ban(ask, m->shape.eos);
        }
    }
    fh_step step = {.rows = g->count,
                    .count = g->sizes + g->first,
                    .tokens = tokens,
                    .vectors = vectors,
                    .stride = 1};
    return fh_decode_step(w, &step, &g->features);
}

/* What the best token of each position prints. The score of what is not printed belongs to the next
 * word, at the end to </s>. */
static int print_best(fh_work *w, const group *g, int32_t sentence, const int32_t *tokens,
                      const float *scores, int32_t *words, float *parts, fh_found *found) {
    int32_t blank = w->model->shape.bos, before = blank, count = 0;
    double carried = 0;
    for (int32_t t = 0; t < g->sizes[sentence]; t++) {
        if (scores) carried += scores[t];
        if (tokens[t] != blank && tokens[t] != before && count < g->limits[sentence]) {
            words[count] = tokens[t];
            parts[count++] = (float)carried;
            carried = 0;
        }
        before = tokens[t];
    }
    words[count] = w->model->shape.eos;
    parts[count++] = (float)carried;
    return fh_found_words(w, found, count, words, NULL, scores ? parts : NULL, 1);
}

static int greedy(fh_work *w, const group *g, fh_arena *memory, fh_found *found) {
    size_t all = (size_t)g->positions, most = (size_t)g->longest + 1;
    int32_t *tokens = fh_take(memory, all, sizeof *tokens),
            *words = fh_take(memory, most, sizeof *words);
    float *scores = fh_take(memory, all, sizeof *scores),
          *parts = fh_take(memory, most, sizeof *parts);
    if (!w->options->scores) scores = NULL;
    if (w->error.code || fh_best_words(w, g->features, g->asks, g->positions, tokens, scores))
        return w->error.code;
    for (int32_t i = 0, at = 0; i < g->count && !w->error.code; at += g->sizes[g->first + i++])
        print_best(w, g, g->first + i, tokens + at, scores ? scores + at : NULL, words, parts,
                   &found[g->first + i]);
    return w->error.code;
}

static int search(fh_work *w, const group *g, fh_arena *memory, fh_found *found) {
    const fh_shape *s = &w->model->shape;
    /* Twice as many words as texts, so that enough of them differ in what they print. */
    int64_t twice = 2 * (int64_t)fh_beam_width(w), words = w->model->decoder.shape.vocabulary;
    fh_lattice l = {.width = (int32_t)(twice < words ? twice : words)};
    size_t most = (size_t)g->longest, wide = most * (size_t)l.width;
    if (wide > (1 << 27))
        return fh_fail(&w->error, FH_INVALID,
                       "--beam %d is too many for %d positions of a sentence; lower it",
                       (int)w->options->beam, (int)g->longest);
    int32_t *found_words = fh_take(memory, wide, sizeof *found_words),
            *counts = fh_take(memory, most, sizeof *counts);
    float *scores = fh_take(memory, wide, sizeof *scores),
          *blanks = fh_take(memory, most, sizeof *blanks);
    if (w->error.code) return w->error.code;
    l.counts = counts;
    l.words = found_words;
    l.scores = scores;
    l.blanks = blanks;
    for (int32_t t = 0; t < g->positions; t++) fh_ban(&g->asks[t], s->bos);
    for (int32_t i = 0, at = 0; i < g->count; at += g->sizes[g->first + i++]) {
        int32_t sentence = g->first + i;
        const float *features = g->features + (size_t)at * (size_t)w->model->decoder.shape.width;
        l.positions = g->sizes[sentence];
        l.limit = g->limits[sentence];
        if (fh_best_lists(w, features, g->asks + at, l.positions, l.width, found_words, scores,
                          counts, s->bos, blanks) ||
            fh_prefix_beam(w, &l, &found[sentence]))
            break;
    }
    return w->error.code;
}

int fh_decode_ctc(fh_work *w, const int32_t *const *sources, const int32_t *limits,
                  fh_found *found) {
    fh_arena sizes_memory = {.error = &w->error};
    int32_t *sizes = fh_take(&sizes_memory, (size_t)w->sentences, sizeof *sizes), count;
    for (int32_t s = 0; s < w->sentences && sizes; s++)
        sizes[s] = positions_of(w->model, w->source_lengths[s]);
    for (int32_t first = 0; first < w->sentences && !w->error.code; first += count) {
        group g = {.first = first, .sizes = sizes, .limits = limits};
        fh_arena memory = {.error = &w->error};
        for (count = 0; first + count < w->sentences; count++) {
            int32_t size = sizes[first + count];
            if (count && g.positions + size > MOST_POSITIONS) break;
            g.positions += size;
            if (size > g.longest) g.longest = size;
        }
        g.count = count;
        if (!pass(w, sources, &g, &memory))
            (fh_beam_width(w) == 1 ? greedy : search)(w, &g, &memory, found);
        fh_arena_free(&memory);
    }
    fh_arena_free(&sizes_memory);
    return w->error.code;
}
