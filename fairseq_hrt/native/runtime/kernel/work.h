/* What one thread decodes with: buffers, encoded sources and the caches of the decoder's rows. */
#ifndef FH_WORK_H
#define FH_WORK_H

#include "memory.h"
#include "model.h"
#include "screen.h"
#include "trial.h"
#include "watch.h"

struct fh_shortlists;
struct fh_team;

/* One target that is being written: the keys and values of its tokens so far, layer behind layer.
 */
typedef struct {
    fh_buffer cache;
    int32_t capacity, length; /* tokens */
    int32_t source;           /* the sentence it translates, a number within the batch */
} fh_row;

/* Words that a translation has to begin with; padding: any word. */
typedef struct {
    const int32_t *words;
    int32_t count;
    int32_t scored; /* 0: the score of each is 0 */
} fh_beginning;

/* The words of a sentence and their output layer, see shortlist.h. */
typedef struct {
    fh_matrix matrix; /* where the sentences of a batch do not share one */
    fh_buffer buffer, ids,
        places; /* int32 [count]: ids, ascending; where they are in a shared one */
    int32_t count;
} fh_choice_list;

typedef struct fh_work {
    const fh_model *model;
    const fh_options *options;
    const struct fh_shortlists *shortlists; /* NULL: none */
    struct fh_team *team;                   /* helps with large products; NULL: nobody */
    fh_watch *watch;                        /* of the call */
    int32_t caller;                         /* 1: this is the thread that made the call */
    fh_error error;
    /* The encoded batch. */
    int32_t sentences;
    const int32_t *source_lengths;  /* [sentences] */
    const fh_beginning *beginnings; /* [sentences]; NULL: no first words are given */
    fh_buffer memory;               /* cross-attention caches */
    fh_buffer memory_starts;        /* size_t [sentences] */
    fh_buffer encoded;              /* [tokens][encoder width] */
    fh_choice_list *lists;          /* [list_room], with shortlists */
    int32_t list_room, joined;      /* joined: the sentences share an output layer */
    fh_choice_list all;             /* the words of all of them */
    fh_buffer marks;
    /* Rows of the decoder. */
    fh_row *rows;
    int32_t row_room;
    /* Scratch of encoder and decoder. */
    fh_buffer x, y, projected, mixed, inner, prepared, scratch, own_cache, ahead, key_positions,
        mask, slots;
    /* Scratch of choosing and searching. */
    fh_buffer logits, choice, gathered, links, path, parts, bounds, rough;
    fh_screening screening;
    fh_trial guessing[2]
                     [FH_BATCH_SIZES]; /* lossless parallel decoding against plain greedy decoding:
                                          with a team or without, by the size of the batch */
} fh_work;

int fh_work_start(fh_work *work, const fh_model *model);
void fh_work_free(fh_work *work);

/* Fails where the call is to end. Every product asks; searches that compute long without one ask
 * themselves. */
int fh_go_on(fh_work *work);

/* The most hypotheses that a beam may have: all words but padding. */
int32_t fh_beam_width(const fh_work *work);

/* out = x W^T + b, then + residual, then relu if asked for. */
typedef struct {
    const fh_matrix *matrix; /* W [outputs][inputs] and b [outputs] */
    const float *x;          /* [rows][inputs] */
    int32_t rows;
    int32_t positive;      /* x is the output of a relu */
    float *out;            /* [rows][outputs], apart from x */
    const float *residual; /* [rows][outputs], may be out; NULL: none */
    int32_t repeated;      /* the residual is one row, added to all */
    int32_t relu;
} fh_linear_map;
int fh_linear(fh_work *work, const fh_linear_map *map);
/* fh_linear in its two steps, for several products of the same rows x [rows][inputs] with weights
 * of one kind: rows ready to be multiplied; their product, shared with the team where it is large
 * (the values do not depend on who computes them). */
int fh_prepare(fh_work *work, fh_input *input, fh_kind kind, const float *x, int32_t rows,
               int32_t inputs, int positive);
void fh_product(const fh_work *work, const fh_input *input, const fh_linear_map *map);
/* out = the norm of x [rows][width]. */
void fh_normalise(const fh_work *work, const fh_side *side, const fh_norm *norm, const float *x,
                  int32_t rows, float *out);
/* Around what a layer adds to x: what it reads, x or its norm in work->y; the norm of the sum. */
const float *fh_norm_before(const fh_work *work, const fh_side *side, const fh_norm *norm,
                            const float *x, int32_t rows);
void fh_norm_behind(const fh_work *work, const fh_side *side, const fh_norm *norm, float *x,
                    int32_t rows);
/* x = x + outer(activation(inner(x))) with its norm. */
int fh_feed_forward(fh_work *work, const fh_side *side, const fh_layer *layer, float *x,
                    int32_t rows);
/* x [rows][width] <- the tokens' vectors, not scaled. */
int fh_token_vectors(fh_work *work, const fh_side *side, const int32_t *tokens, int32_t rows,
                     float *x);
/* x [rows][width] <- scale * x + positions (rows of the position table), and norm. */
int fh_place(fh_work *work, const fh_side *side, const int32_t *positions, int32_t rows, float *x);
/* Both. */
int fh_embed(fh_work *work, const fh_side *side, const int32_t *tokens, const int32_t *positions,
             int32_t rows, float *x);

/* Encodes a batch: tokens of all sentences one behind the other. lengths must stay. Leaves no row
 * open. */
int fh_encode(fh_work *work, const int32_t *const *sources, const int32_t *lengths,
              int32_t sentences);
/* The cross-attention cache of a layer of a sentence. */
fh_cache fh_memory(const fh_work *work, int32_t sentence, int32_t layer);

/* `count` rows, none written yet; source of row r is r until it is set. */
int fh_rows(fh_work *work, int32_t count);
/* Row `to` becomes a copy of row `from`. */
int fh_row_copy(fh_work *work, int32_t to, int32_t from);

/* New tokens of some rows. */
typedef struct {
    int32_t rows;
    const int32_t *row;    /* [rows], which ones; NULL: 0, 1, 2, ... */
    const int32_t *count;  /* [rows], new tokens of each; NULL: one each */
    const int32_t *tokens; /* those of all rows one behind the other; ids behind the dictionary are
                              special symbols */
    const float *vectors;  /* [tokens][d], in place of the tokens' vectors; NULL: their own */
    int32_t origin;        /* position of the first token of a row, in the position table */
    int32_t stride;        /* distance of the positions of neighbouring tokens */
    int32_t causal;        /* a new token does not see later new ones */
    int32_t directions;    /* above 1: a token sees only the slots of its own direction, slot mod
                              directions */
    const int32_t *chosen; /* the new tokens whose features are wanted, ascending; NULL: all */
    int32_t chosen_count;
    float *attention; /* [tokens][attention_stride]: of the last layer to the source, mean over its
                         heads; NULL: not wanted */
    ptrdiff_t attention_stride;
} fh_step;

/* Decodes the tokens and appends them to the rows' caches (rollback: lower row.length). *features:
 * [tokens or chosen][decoder width], valid until the next call. */
int fh_decode_step(fh_work *work, const fh_step *step, float **features);

#endif
