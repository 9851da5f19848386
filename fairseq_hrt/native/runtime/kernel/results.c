/* Hypotheses of all sentences in one allocation, for the caller. */
#include <stdlib.h>
#include <string.h>

#include "search.h"

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
