#include "hypotheses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

fh_hypothesis *fh_hypothesis_new(fh_work *w, int32_t length) {
    size_t bytes = sizeof(fh_hypothesis) + (size_t)length * (3 * sizeof(int32_t) + sizeof(float));
    fh_hypothesis *h = calloc(1, bytes);
    if (!h) {
        fh_out_of_memory(&w->error, bytes);
        return NULL;
    }
    h->length = length;
    h->tokens = (int32_t *)(h + 1);
    h->steps = h->tokens + length;
    h->places = h->steps + length;
    h->scores = (float *)(h->places + length);
    return h;
}

void fh_hypothesis_free(fh_hypothesis *h) {
    if (h) free(h->graph);
    free(h);
}

int fh_found_add(fh_work *w, fh_found *found, fh_hypothesis *hypothesis) {
    if (!hypothesis) return w->error.code;
    if (found->count == found->room) {
        int32_t room = found->room ? 2 * found->room : 1;
        fh_hypothesis **items = realloc(found->items, (size_t)room * sizeof *items);
        if (!items) {
            fh_hypothesis_free(hypothesis);
            return fh_out_of_memory(&w->error, (size_t)room * sizeof *items);
        }
        found->items = items;
        found->room = room;
    }
    found->items[found->count++] = hypothesis;
    return FH_OK;
}

int fh_found_words(fh_work *w, fh_found *found, int32_t length, const int32_t *words,
                   const int32_t *steps, const float *scores, int32_t passes) {
    fh_hypothesis *h = fh_hypothesis_new(w, length);
    if (!h) return w->error.code;
    double total = 0;
    for (int32_t i = 0; i < length; i++) {
        h->tokens[i] = words[i];
        h->steps[i] = steps ? steps[i] : i < passes ? i + 1 : passes;
        if (scores) total += h->scores[i] = scores[i];
    }
    h->passes = passes;
    h->score = fh_rank(w->options, total, length);
    return fh_found_add(w, found, h);
}

void fh_found_sort(fh_found *found) {
    for (int32_t i = 1; i < found->count; i++) {
        fh_hypothesis *one = found->items[i];
        int32_t j = i;
        for (; j > 0 && found->items[j - 1]->score < one->score; j--)
            found->items[j] = found->items[j - 1];
        found->items[j] = one;
    }
}

void fh_found_cut(fh_found *found, int32_t count) {
    while (found->count > count) fh_hypothesis_free(found->items[--found->count]);
}

void fh_found_clear(fh_found *found) {
    fh_found_cut(found, 0);
    free(found->items);
    memset(found, 0, sizeof *found);
}

double fh_rank(const fh_options *options, double total, int32_t length) {
    return options->normalize ? total / pow((double)length, options->lenpen) : total;
}

fh_results *fh_results_new(const fh_found *found, int32_t sentences, fh_error *error) {
    size_t hypotheses = 0, tokens = 0, vertices = 0, links = 0;
    for (int32_t i = 0; i < sentences; i++) {
        hypotheses += (size_t)found[i].count;
        for (int32_t n = 0; n < found[i].count; n++) {
            const fh_hypothesis *h = found[i].items[n];
            size_t size = h->graph ? (size_t)h->graph->size : 0;
            tokens += (size_t)h->length;
            vertices += size;
            links += size * size;
        }
    }
    size_t n = (size_t)sentences;
    size_t bytes = sizeof(fh_results) +
                   hypotheses * (3 * sizeof(int64_t) + sizeof(double) + 3 * sizeof(int32_t)) +
                   n * sizeof(int32_t) + tokens * (3 * sizeof(int32_t) + sizeof(float)) +
                   vertices * (sizeof(int32_t) + sizeof(float)) + links * sizeof(float);
    fh_results *r = malloc(bytes);
    if (!r) {
        fh_out_of_memory(error, bytes);
        return NULL;
    }
    r->sentences = sentences;
    r->hypotheses = (int32_t)hypotheses;
    r->starts = (int64_t *)(r + 1);
    r->vertex_starts = r->starts + hypotheses;
    r->link_starts = r->vertex_starts + hypotheses;
    r->scores = (double *)(r->link_starts + hypotheses);
    r->counts = (int32_t *)(r->scores + hypotheses);
    r->lengths = r->counts + n;
    r->steps = r->lengths + hypotheses;
    r->graph_sizes = r->steps + hypotheses;
    r->tokens = r->graph_sizes + hypotheses;
    r->token_steps = r->tokens + tokens;
    r->places = r->token_steps + tokens;
    r->vertex_tokens = r->places + tokens;
    r->positional = (float *)(r->vertex_tokens + vertices);
    r->vertex_scores = r->positional + tokens;
    r->links = r->vertex_scores + vertices;
    int64_t at = 0, vertex = 0, link = 0;
    size_t number = 0;
    for (int32_t i = 0; i < sentences; i++) {
        r->counts[i] = found[i].count;
        for (int32_t k = 0; k < found[i].count; k++, number++) {
            const fh_hypothesis *h = found[i].items[k];
            size_t length = (size_t)h->length;
            r->starts[number] = at;
            r->lengths[number] = h->length;
            r->steps[number] = h->passes;
            r->scores[number] = h->score;
            memcpy(r->tokens + at, h->tokens, length * sizeof(int32_t));
            memcpy(r->token_steps + at, h->steps, length * sizeof(int32_t));
            memcpy(r->places + at, h->places, length * sizeof(int32_t));
            memcpy(r->positional + at, h->scores, length * sizeof(float));
            at += h->length;
            size_t size = h->graph ? (size_t)h->graph->size : 0;
            r->graph_sizes[number] = (int32_t)size;
            r->vertex_starts[number] = vertex;
            r->link_starts[number] = link;
            if (!size) continue;
            memcpy(r->vertex_tokens + vertex, h->graph->tokens, size * sizeof(int32_t));
            memcpy(r->vertex_scores + vertex, h->graph->scores, size * sizeof(float));
            memcpy(r->links + link, h->graph->links, size * size * sizeof(float));
            vertex += (int64_t)size;
            link += (int64_t)(size * size);
        }
    }
    return r;
}

void fh_results_free(fh_results *results) { free(results); }
