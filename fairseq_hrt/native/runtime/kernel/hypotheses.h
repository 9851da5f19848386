/* Finished translations. */
#ifndef FH_HYPOTHESES_H
#define FH_HYPOTHESES_H

#include "work.h"

/* One finished translation; the arrays lie in the same allocation. */
typedef struct {
    int32_t length, passes;  /* tokens with </s>; decoder passes that the sentence needed */
    double score;            /* what hypotheses are ranked by */
    int32_t *tokens, *steps; /* steps: the pass that fixed each token, from 1 */
    int32_t *places;         /* see fh_results */
    float *scores;
    struct fh_kept_graph *graph; /* its own allocation; NULL: none */
} fh_hypothesis;

/* The graph that a hypothesis is a path of; the arrays lie in the same allocation. */
typedef struct fh_kept_graph {
    int32_t size, *tokens;
    float *scores, *links; /* [size], [size][size] */
} fh_kept_graph;

/* The hypotheses of one sentence. */
typedef struct {
    fh_hypothesis **items;
    int32_t count, room;
} fh_found;

fh_hypothesis *fh_hypothesis_new(fh_work *work, int32_t length);
void fh_hypothesis_free(fh_hypothesis *hypothesis);
/* Takes the hypothesis over, also when it fails. */
int fh_found_add(fh_work *work, fh_found *found, fh_hypothesis *hypothesis);
/* Adds a hypothesis of these words, [length] each. steps NULL: one word a pass, or all of them in
 * the only one; scores NULL: none. */
int fh_found_words(fh_work *work, fh_found *found, int32_t length, const int32_t *words,
                   const int32_t *steps, const float *scores, int32_t passes);
/* Best first; those of equal score keep their order. */
void fh_found_sort(fh_found *found);
void fh_found_clear(fh_found *found);
/* Drops all but the first `count`. */
void fh_found_cut(fh_found *found, int32_t count);
/* log-probability / length ** lenpen, or the log-probability itself. */
double fh_rank(const fh_options *options, double total, int32_t length);

/* All hypotheses of all sentences, copied. */
fh_results *fh_results_new(const fh_found *found, int32_t sentences, fh_error *error);

#endif
