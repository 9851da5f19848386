/* Hypotheses and the searches that find them. */
#ifndef FH_SEARCH_H
#define FH_SEARCH_H

#include "choose.h"
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

/* A left-to-right search: token i stands at position stride * (i + 1). With a stride of 1 the
 * tokens are the translation. */
typedef struct {
    int32_t start, stride;
    const int32_t *min_len, *max_len; /* [sentences] */
    int32_t beam;                     /* at most the vocabulary's words less one */
    int32_t scores;                   /* positional scores are wanted; a beam always has them */
} fh_search;

/* found: [sentences of the batch], best first. */
int fh_left_to_right(fh_work *work, const fh_search *search, fh_found *found);
int fh_beam(fh_work *work, const fh_search *search, fh_found *found);

/* An open hypothesis of a beam; node: what it has written, -1: nothing yet. */
typedef struct {
    int32_t node, row;
    double total;
} fh_open;

/* The hypotheses of a sentence become `next`, [count], each with its parent's row so far: the first
 * child of a row keeps it, others get copies in rows that nobody needs any more, of the `beams`
 * ones from `base` on. taken: [beams]. */
int fh_move_rows(fh_work *work, fh_open *open, fh_open *next, int32_t count, int32_t base,
                 int32_t beams, uint8_t *taken);

/* One batch that is encoded already, by the ways of each family. limits: [sentences], fairseq's
 * maximum lengths. */
int fh_decode_plain(fh_work *work, const int32_t *limits, fh_found *found);
int fh_decode_hrt(fh_work *work, int32_t chunk, const int32_t *limits, fh_found *found);
/* Both stages of hrt for every sentence; scores: of the tokens, needed to rank several. */
int fh_two_stages(fh_work *work, int32_t chunk, const int32_t *limits, int32_t beam,
                  int32_t completed, int32_t scores, fh_found *found);
int fh_decode_drafts(fh_work *work, int32_t chunk, const int32_t *limits, fh_found *found);
int fh_decode_jacobi(fh_work *work, const int32_t *const *sources, const int32_t *limits,
                     fh_found *found);
int fh_decode_blocks(fh_work *work, const int32_t *limits, fh_found *found);
int fh_decode_dag(fh_work *work, fh_found *found);
/* Whether the model can write one word after the other: plainly, or as hrt with C_d = 1. */
int fh_writes_in_order(const fh_model *model);

/* Given translations of one sentence: number i has the tokens offsets[i] to offsets[i + 1] - 1. */
typedef struct {
    const int32_t *tokens;
    const int64_t *offsets;
    int32_t count;
} fh_given;

/* How a model that writes in order rates them, without bans and shortlists. given, found:
 * [sentences of the batch]; hypotheses keep the order of the given ones. */
int fh_score_given(fh_work *work, const fh_given *given, fh_found *found);
/* Fills in the places of all hypotheses of a batch that is encoded still. */
int fh_align(fh_work *work, const int32_t *const *sources, fh_found *found);
/* The rule of the maximum length: min(int(a x + b), capacity - 1), at least 0. */
int32_t fh_length_limit(const fh_options *options, int32_t source_length, int32_t capacity);
/* The most hypotheses a beam may have. */
int32_t fh_beam_width(const fh_work *work);

#endif
