/* The graph of one sentence (dag family): links between vertices, words at them, and paths. */
#ifndef FH_GRAPH_H
#define FH_GRAPH_H

#include "search.h"

typedef struct {
    int32_t sentence, size, limit; /* limit: most words */
    const float *features;         /* [size][width] */
    double *links;                 /* [size][size], P(v | u) */
    int32_t *tokens;               /* [size], what each vertex writes */
    float *scores;                 /* [size], its log-probability */
    int32_t *path, length;         /* vertices from the first to the last one */
} fh_graph;

/* Links as probabilities: values[u][v] * exp(units[u]). */
typedef struct {
    double *values; /* [size][size] */
    double *units;  /* [size], NULL: all 0 */
} fh_edges;

static inline double fh_unit(fh_edges edges, int32_t u) { return edges.units ? edges.units[u] : 0.0; }

/* Vertices of an encoded sentence. */
int fh_graph_size(fh_work *work, int32_t sentence, const float *encoded, int32_t *vertices);
/* Fills links from the features. */
int fh_graph_links(fh_work *work, fh_graph *graph);
/* Links from the first vertex of a word to the first vertex of the next, over all repeats of the word between them; weight: of the
 * repeats' log-probabilities. See ops/repeats.py. */
void fh_without_repeats(const fh_graph *graph, double weight, fh_edges out);
/* Follows argmax_v links(u, v) * exp(weight * score(v)); weights NULL: the links alone. */
int fh_follow(fh_work *work, fh_graph *graph, const double *links, const double *weights);
/* The best path of each number of inner vertices up to `most`, the best of them by score / number ** length_beta. tokens: the words' scores
 * count. See ops/viterbi.py. */
int fh_best_path(fh_work *work, fh_graph *graph, fh_edges edges, int32_t most, int tokens);

#endif
