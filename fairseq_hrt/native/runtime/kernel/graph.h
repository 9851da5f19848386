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

/* What a search follows: the links themselves, or those from the first vertex of a word to the
 * first vertex of the next, over all repeats of the word between them. See ops/repeats.py. */
typedef struct {
    const fh_graph *graph;
    double weight; /* of the repeats' log-probabilities */
    int32_t *next; /* [size], the next vertex that writes the same word, 0 behind the last one;
                      NULL: the links themselves */
    double *costs; /* [size], exp(weight * score) */
    double *units; /* [size]: row u is kept relative to exp(units[u]); 0 where a link leads to
                      another word */
    double *chain, *row; /* scratch */
} fh_edges;

/* Vertices of an encoded sentence. */
int fh_graph_size(fh_work *work, int32_t sentence, const float *encoded, int32_t *vertices);
/* Fills links from the features. */
int fh_graph_links(fh_work *work, fh_graph *graph);
/* Edges without repeats, in memory of fh_edges_size(size) doubles. */
size_t fh_edges_size(int32_t size);
fh_edges fh_without_repeats(const fh_graph *graph, double weight, double *memory);
/* log-probability of the edge from u to v. */
double fh_edge(const fh_edges *edges, int32_t u, int32_t v);
/* Follows argmax_v edge(u, v) * exp(weight * score(v)); weights NULL: the edges alone. */
int fh_follow(fh_work *work, fh_graph *graph, const fh_edges *edges, const double *weights);
/* The best path of each number of inner vertices up to `most`, the best of them by score / number
 * ** length_beta. tokens: the words' scores count. See ops/viterbi.py. */
int fh_best_path(fh_work *work, fh_graph *graph, const fh_edges *edges, int32_t most, int tokens);

#endif
