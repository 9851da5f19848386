/* Directed acyclic graphs: one decoder pass, then a path. See dag/generator.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* Vertices of the sentences that pass through the decoder together: what the buffers grow with. */
#define MOST_VERTICES 2048

/* Words and scores of the given vertices (none of them the first or the last one). */
static int words_at(fh_work *w, fh_graph *g, const int32_t *vertices, int32_t count, int scores) {
    const fh_shape *s = &w->model->shape;
    size_t d = (size_t)w->model->decoder.shape.width, n = (size_t)count;
    if (count < 1) return FH_OK;
    if (fh_reserve(&w->gathered, n * (d * sizeof(float) + sizeof(fh_ask) + 2 * sizeof(int32_t)), 1,
                   &w->error))
        return w->error.code;
    float *rows = w->gathered.data;
    fh_ask *asks = (fh_ask *)(rows + n * d);
    int32_t *tokens = (int32_t *)(asks + n);
    float *values = (float *)(tokens + n);
    /* features [size][d] -> those of `vertices` without gaps: rows [count][d] */
    for (size_t i = 0; i < n; i++) {
        memcpy(rows + i * d, g->features + (size_t)vertices[i] * d, d * sizeof *rows);
        asks[i] = fh_plain_ask(w, g->sentence);
        fh_ban(&asks[i], s->bos);
        fh_ban(&asks[i], s->eos);
    }
    if (fh_best_words(w, rows, asks, count, tokens, scores ? values : NULL)) return w->error.code;
    for (size_t i = 0; i < n; i++) {
        g->tokens[vertices[i]] = tokens[i];
        if (scores) g->scores[vertices[i]] = values[i];
    }
    return FH_OK;
}

/* What the first and the last vertex write, and, if wanted, its log-probability. */
static int ends(fh_work *w, fh_graph *g, int scores) {
    size_t d = (size_t)w->model->decoder.shape.width;
    int32_t last = g->size - 1;
    fh_ask ask = fh_plain_ask(w, g->sentence);
    g->tokens[0] = w->model->shape.bos;
    g->tokens[last] = w->model->shape.eos;
    if (scores && !fh_word_scores(w, g->features, &ask, 1, &g->tokens[0], &g->scores[0]))
        fh_word_scores(w, g->features + (size_t)last * d, &ask, 1, &g->tokens[last],
                       &g->scores[last]);
    return w->error.code;
}

/* The whole graph, for those who want to see it. */
static fh_kept_graph *keep_graph(fh_work *w, const fh_graph *g) {
    size_t n = (size_t)g->size, bytes = sizeof(fh_kept_graph) +
                                        n * (sizeof(int32_t) + sizeof(float)) +
                                        n * n * sizeof(float);
    fh_kept_graph *kept = malloc(bytes);
    if (!kept) {
        fh_out_of_memory(&w->error, bytes);
        return NULL;
    }
    kept->size = g->size;
    kept->tokens = (int32_t *)(kept + 1);
    kept->scores = (float *)(kept->tokens + n);
    kept->links = kept->scores + n;
    memcpy(kept->tokens, g->tokens, n * sizeof *kept->tokens);
    memcpy(kept->scores, g->scores, n * sizeof *kept->scores);
    for (size_t i = 0; i < n * n; i++) kept->links[i] = (float)g->links[i];
    return kept;
}

/* The path as a translation: repetitions of the word before are dropped, what they cost stays in
 * the word that is kept. */
static int finish(fh_work *w, const fh_graph *g, const fh_edges *edges, int scores,
                  fh_found *found) {
    fh_hypothesis *h = fh_hypothesis_new(w, g->length);
    if (!h) return w->error.code;
    int32_t kept = 0;
    double total = 0, carried = scores ? g->scores[0] : 0.0;
    for (int32_t i = 1; i < g->length; i++) {
        int32_t u = g->path[i - 1], v = g->path[i], ending = i + 1 == g->length;
        double part = scores ? g->scores[v] + fh_edge(edges, u, v) : 0.0;
        if (kept && !ending && !w->options->keep_repeats && g->tokens[v] == h->tokens[kept - 1]) {
            h->scores[kept - 1] += (float)part;
            total += part;
        } else if (ending || kept < g->limit) {
            h->tokens[kept] = g->tokens[v];
            h->scores[kept] = (float)(part + carried);
            total += part + carried;
            h->places[kept] = v;
            h->steps[kept++] = 1;
            carried = 0;
        }
    }
    h->length = kept;
    h->passes = 1;
    if (w->options->graphs) h->graph = keep_graph(w, g);
    h->score = fh_rank(w->options, total, kept);
    if (isnan(h->score))
        fh_fail(&w->error, FH_NUMBER,
                "the model computed NaN probabilities: its weights are broken; convert another "
                "checkpoint");
    return fh_found_add(w, found, h);
}

/* Edges without repeats where the text is to have none, under the weight that the search gives to
 * words; counted: with their whole probability, of which scores are made. */
static int printed_edges(fh_work *w, const fh_graph *g, double weight, fh_edges *searched,
                         fh_edges *counted) {
    size_t each = fh_edges_size(g->size);
    if (fh_reserve(&w->links, 2 * each, sizeof(double), &w->error)) return w->error.code;
    double *memory = w->links.data;
    *counted = *searched = fh_without_repeats(g, 1.0, memory);
    if (weight != 1.0) *searched = fh_without_repeats(g, weight, memory + each);
    return FH_OK;
}

static int lookahead(fh_work *w, fh_graph *g, const fh_edges *edges) {
    double *weights;
    if (fh_reserve(&w->path, (size_t)g->size, sizeof(double), &w->error)) return w->error.code;
    weights = w->path.data;
    /* Relative to the best vertex, so that nothing underflows; the best vertex behind u is the
     * same. */
    double top = -INFINITY;
    for (int32_t v = 1; v < g->size; v++)
        if (w->options->beta * g->scores[v] > top) top = w->options->beta * g->scores[v];
    for (int32_t v = 0; v < g->size; v++) weights[v] = exp(w->options->beta * g->scores[v] - top);
    return fh_follow(w, g, edges, weights);
}

static int decode_graph(fh_work *w, fh_graph *g, fh_found *found) {
    const fh_options *o = w->options;
    int32_t strategy = o->strategy, scores = o->scores;
    int keeps = o->keep_repeats || o->repeats == FH_COLLAPSED || strategy == FH_GREEDY;
    int all = !keeps || strategy == FH_LOOKAHEAD || strategy == FH_JOINT_VITERBI || o->graphs;
    fh_edges searched = {.graph = g}, counted = searched;
    if (fh_graph_links(w, g)) return w->error.code;
    if (all) {
        for (int32_t v = 1; v + 1 < g->size; v++) g->path[v - 1] = v;
        if (words_at(w, g, g->path, g->size - 2, 1)) return w->error.code;
    }
    if (ends(w, g, scores || all)) return w->error.code;
    double weight = strategy == FH_LOOKAHEAD ? o->beta : strategy == FH_JOINT_VITERBI ? 1.0 : 0.0;
    if (!keeps && printed_edges(w, g, weight, &searched, &counted)) return w->error.code;
    if (strategy == FH_GREEDY) {
        fh_follow(w, g, &searched, NULL);
    } else if (strategy == FH_LOOKAHEAD) {
        if (weight != 0.0)
            lookahead(w, g, &searched);
        else
            fh_follow(w, g, &searched, NULL);
    } else {
        /* Twice the words that the scale promises, in float32 as the eager engine computes it. */
        float twice = (float)(2 * g->size) / (float)o->scale;
        int32_t most = twice < (float)g->limit ? (int32_t)twice : g->limit;
        fh_best_path(w, g, &searched, most, strategy == FH_JOINT_VITERBI);
    }
    if (w->error.code) return w->error.code;
    if (!all && words_at(w, g, g->path + 1, g->length - 2, scores)) return w->error.code;
    return finish(w, g, &counted, scores, found);
}

/* The graphs of some sentences, from one decoder pass. */
static int decode_some(fh_work *w, const fh_graph *graphs, int32_t count, fh_found *found) {
    const fh_shape *s = &w->model->shape;
    fh_arena memory = {.error = &w->error};
    size_t n = (size_t)count, vertices = 0, largest = 0, d = (size_t)w->model->decoder.shape.width;
    for (size_t i = 0; i < n; i++) {
        vertices += (size_t)graphs[i].size;
        if ((size_t)graphs[i].size > largest) largest = (size_t)graphs[i].size;
    }
    double *links = fh_take(&memory, largest * largest, sizeof *links);
    int32_t *counts = fh_take(&memory, n, sizeof *counts),
            *tokens = fh_take(&memory, vertices, sizeof *tokens);
    int32_t *words = fh_take(&memory, largest, sizeof *words),
            *path = fh_take(&memory, largest, sizeof *path), at = 0;
    float *scores = fh_take(&memory, largest, sizeof *scores),
          *kept = fh_take(&memory, vertices * d, sizeof *kept), *features;
    if (w->error.code || fh_rows(w, count)) goto end;
    for (int32_t i = 0; i < count; i++) {
        counts[i] = graphs[i].size;
        w->rows[i].source = graphs[i].sentence;
        for (int32_t v = 0; v < graphs[i].size; v++, at++)
            tokens[at] = v == 0 ? s->bos : v + 1 == graphs[i].size ? s->eos : s->unk;
    }
    fh_step step = {.rows = count, .count = counts, .tokens = tokens, .stride = 1};
    if (fh_decode_step(w, &step, &features)) goto end;
    /* [vertices][d] of all graphs, kept while each of them is searched */
    memcpy(kept, features, vertices * d * sizeof(float));
    at = 0;
    for (int32_t i = 0; i < count && !w->error.code; i++) {
        fh_graph g = graphs[i];
        g.features = kept + (size_t)at * d;
        g.links = links;
        g.tokens = words;
        g.scores = scores;
        g.path = path;
        decode_graph(w, &g, &found[g.sentence]);
        at += g.size;
    }
end:
    fh_arena_free(&memory);
    return w->error.code;
}

int fh_decode_dag(fh_work *w, fh_found *found) {
    fh_buffer memory = {0};
    if (fh_reserve(&memory, (size_t)w->sentences, sizeof(fh_graph), &w->error))
        return w->error.code;
    fh_graph *graphs = memory.data;
    const float *encoded = w->encoded.data;
    int32_t count = 0, vertices = 0;
    for (int32_t s = 0; s < w->sentences && !w->error.code; s++) {
        int32_t size;
        if (fh_graph_size(w, s, encoded, &size)) break;
        encoded += (size_t)w->source_lengths[s] * w->model->encoder.shape.width;
        if (count && vertices + size > MOST_VERTICES) {
            decode_some(w, graphs, count, found);
            count = vertices = 0;
        }
        /* No path has more words than the graph has vertices. */
        graphs[count++] =
            (fh_graph){.sentence = s,
                       .size = size,
                       .limit = fh_length_limit(w->options, w->source_lengths[s], size + 1)};
        vertices += size;
    }
    if (count && !w->error.code) decode_some(w, graphs, count, found);
    fh_release(&memory);
    return w->error.code;
}
