/* The native engine: translation on a CPU, token ids in, token ids out, in C11 without any library.
 *
 * The aim is speed per sentence at the sizes that translation has: one to some dozens of sentences
 * of up to a few hundred words, models of 1 to 500 MB. There nearly all time goes into products of
 * a few rows with large matrices, that is, into reading the weights. So weights are int8 and packed
 * in the order in which they are read, rows of all sentences share a product, nothing is padded,
 * and whatever writes several words in one pass saves a walk through the weights.
 *
 * The way of a call through the files:
 *
 * - model.c: checks named tensors and packs them, once (layout.c)
 * - batch.c: fh_decode and fh_score: checks (checks.c), sorts sentences by length, cuts batches,
 *   spreads them over threads (threads.c)
 * - encoder.c: encodes a batch, and leaves keys and values of the source for the decoder
 * - decoder.c: one step: new tokens of some rows, each row with a cache of what came before; all
 *   ways of decoding take such steps
 * - choose.c: from a step's features to words and their scores, or to the best of a shortlist
 *   (shortlist.c)
 * - search.c and beam.c: word by word, greedily or with a beam: read decoder.c and these first;
 *   greedily also with guesses checked by one pass, from the model itself (jacobi.c) or from its
 *   chunks (drafts.c)
 * - hrt.c, bidirectional.c and block_beam.c, dag.c and graph.c, ctc.c and prefix_beam.c: the
 *   families that write several words in a pass
 * - finished.c: reads finished translations: their scores, the source word of each of their words
 * - hypotheses.c: what is found, and its copy for the caller
 *
 * Below them: work.c, what encoder and decoder share, and the products; team.c, threads that share
 * one product; memory.c, buffers and arenas; operations.h, the arithmetic, written once (body_*.h)
 * and compiled for each instruction set (operations_*.c), of which dispatch.c chooses one. No two
 * files need each other.
 *
 * This header is the public interface: a model, an engine that decodes with it, and results. Called
 * through ctypes.
 *
 * Every function that can fail returns an fh_status and writes one line into `message` (`size`
 * bytes, always ended by a zero byte). Nothing is global: several models and engines may live side
 * by side; one engine is used by one thread at a time. All input is checked here again,
 * whatever the caller has checked.
 */
#ifndef FH_RUNTIME_H
#define FH_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

#define FH_INTERFACE 13 /* changes with every change of a structure or a function below */

typedef enum {
    FH_OK = 0,
    FH_MEMORY = 1,  /* an allocation failed */
    FH_INVALID = 2, /* a value, a size or a token that does not fit */
    FH_NUMBER = 3,  /* the model computed a value that is not a number */
    FH_REFUSED = 4, /* an option that this model or the runtime does not support */
    FH_ENDED = 5    /* the caller wanted the call to end */
} fh_status;

typedef enum {
    FH_AUTOREGRESSIVE = 0,
    FH_HRT = 1,
    FH_BIDIRECTIONAL = 2,
    FH_DAG = 3,
    FH_CTC = 4
} fh_family;
typedef enum {
    FH_RELU = 0,
    FH_GELU = 1,
    FH_GELU_TANH = 2,
    FH_TANH = 3,
    FH_SWISH = 4
} fh_activation;
typedef enum { FH_SELF_ATTENTION = 0, FH_SSRU = 1 } fh_cell;
typedef enum { FH_GREEDY = 0, FH_LOOKAHEAD = 1, FH_VITERBI = 2, FH_JOINT_VITERBI = 3 } fh_strategy;
typedef enum { FH_MERGED = 0, FH_COLLAPSED = 1 } fh_repeats;
typedef enum { FH_NORMALIZED = 0, FH_EQ2 = 1 } fh_hrt_scoring;
typedef enum { FH_CANONICAL = 0, FH_ALGORITHM1 = 1 } fh_block_scoring;
typedef enum { FH_PREVIOUS = 0, FH_SOURCE = 1 } fh_jacobi_draft;
typedef enum { FH_UNK = 0, FH_COPY = 1, FH_SOFT_COPY = 2 } fh_position_inputs;

/* Sizes of one side of the model; see Header in format.py. */
typedef struct {
    int32_t vocabulary, width, layers, heads, inner, positions;
    int32_t pre_norm, final_norm, embedding_norm;
    int32_t longest; /* source tokens; the decoder's capacity */
    double scale;
} fh_side_shape;

typedef struct {
    int32_t family; /* fh_family */
    int32_t activation;
    int32_t bos, pad, eos, unk;
    int32_t shared_embedding, tied_output, output_bias;
    int32_t special_symbols, chunk_count, relative_window, learn_tail;
    int32_t directions, block, causal, independent, middle_to_side;
    int32_t link_heads, link_rows, reach, count_bos, length_classes;
    int32_t absolute_lengths;   /* dag: classes are numbers of words */
    int32_t besides;            /* dag: source tokens that have one vertex each */
    int32_t cell, zero_start;   /* autoregressive: fh_cell; the decoder's </s> has a zero vector */
    int32_t input_bits;         /* of what is multiplied with int8 weights: 8 or 16 */
    int32_t position_inputs;    /* ctc: fh_position_inputs */
    const int32_t *chunk_sizes; /* [chunk_count] */
    double epsilon, scale;
    double upsample, copy_temperature; /* ctc */
    fh_side_shape encoder, decoder;
} fh_shape;

typedef struct {
    const char *name;
    const void *data;
    int64_t rows, columns; /* a vector has one row of `columns` */
    int32_t type;          /* 1: int8, 2: float32 */
} fh_tensor;

/* The fields that schema.py names for the kernel, in its order: integers, switches and choices,
 * then numbers. */
typedef struct {
    int32_t beam, nbest, min_len, max_len_b;
    int32_t nat_beam, eos_last_chunk, hrt_scoring, draft_chunk,
        draft_width;                         /* hrt: fh_hrt_scoring; draft_chunk 0: no drafts */
    int32_t block_scoring;                   /* bidirectional: fh_block_scoring */
    int32_t max_graph;                       /* dag: most vertices; 0: the decoder's positions */
    int32_t strategy, keep_repeats, repeats; /* dag: fh_strategy, fh_repeats */
    int32_t jacobi;                          /* autoregressive: guess the next words, check them */
    int32_t jacobi_window, jacobi_draft;     /* 0: as many as pay; fh_jacobi_draft */
    int32_t scores, batch_size;
    int32_t alignments, graphs;  /* are wanted: of models that write from left to right; of dag */
    int32_t normalize;           /* rank by log-probability / length ** lenpen */
    int32_t table_size;          /* hrt: source length -> chunk size */
    const double *table_limits;  /* [table_size], ascending, the last one infinite */
    const int32_t *table_chunks; /* [table_size] */
    double lenpen, unkpen, max_len_a;
    double scale, beta, length_beta; /* dag */
} fh_options;

typedef struct fh_model fh_model;
typedef struct fh_engine fh_engine;

/* Hypotheses of all sentences one behind the other, best first. Hypothesis h has lengths[h] tokens
 * from starts[h] on. */
typedef struct {
    int32_t sentences, hypotheses;
    int32_t *counts;          /* [sentences], hypotheses of each */
    int64_t *starts;          /* [hypotheses] */
    int32_t *lengths, *steps; /* [hypotheses] */
    double *scores;           /* [hypotheses] */
    int32_t *tokens, *token_steps;
    float *positional;
    int32_t *places; /* of each token: its source token with alignments, its vertex with graphs,
                        else 0 */
    /* With graphs: hypothesis h has graph_sizes[h] vertices from vertex_starts[h] on, and its links
     * [size][size] from link_starts[h] on. */
    int32_t *graph_sizes;                 /* [hypotheses], 0: none */
    int64_t *vertex_starts, *link_starts; /* [hypotheses] */
    int32_t *vertex_tokens;               /* what each vertex writes */
    float *vertex_scores, *links;         /* its log-probability; P(v | u) */
} fh_results;

FH_PUBLIC int32_t fh_interface(void);
/* Takes copies of all tensors. isa: a forced instruction set, or NULL. The tensors are found by
 * their names (format.py). */
FH_PUBLIC int fh_model_new(fh_model **model, const fh_shape *shape, const fh_tensor *tensors,
                           int64_t count, const char *isa, char *message, size_t size);
FH_PUBLIC void fh_model_free(fh_model *model);
FH_PUBLIC const char *fh_model_isa(const fh_model *model);
FH_PUBLIC int64_t fh_model_bytes(const fh_model *model);

/* threads: at least 1, the caller's included. The model must outlive the engine. */
FH_PUBLIC int fh_engine_new(fh_engine **engine, const fh_model *model, int32_t threads,
                            char *message, size_t size);
FH_PUBLIC void fh_engine_free(fh_engine *engine);
/* Candidates of each source word, see Shortlist in engine.py; offsets NULL: none. Takes copies. */
FH_PUBLIC int fh_engine_shortlist(fh_engine *engine, const int64_t *offsets,
                                  const int32_t *candidates, int64_t count, const int32_t *always,
                                  int64_t always_count, char *message, size_t size);
/* Called some 20 times a second by the thread that made the call, and not at all in calls that take
 * less; unless *goes_on, which is 0, becomes something else, the call is to end. */
typedef void (*fh_ask_caller)(int32_t *goes_on);
/* The words that translations have to begin with: of sentence i those from offsets[i] to offsets[i
 * + 1] - 1; padding: any word. */
typedef struct {
    const int32_t *tokens;
    const int64_t *offsets;
    int32_t scored; /* 0: the score of each is 0 */
} fh_first_words;

/* Sentence i has the tokens offsets[i] to offsets[i + 1] - 1. first_words: NULL where none are
 * given; they need a model that writes from left to right. ask: NULL where the call is not to end
 * before it is done. */
FH_PUBLIC int fh_decode(fh_engine *engine, const int32_t *tokens, const int64_t *offsets,
                        int32_t sentences, const fh_first_words *first_words,
                        const fh_options *options, fh_ask_caller ask, fh_results **results,
                        char *message, size_t size);

/* Given translations: counts[i] of sentence i, one behind the other; translation t has the tokens
 * offsets[t] to offsets[t + 1] - 1, </s> included. */
typedef struct {
    const int32_t *tokens, *counts;
    const int64_t *offsets;
} fh_targets;

/* Scores given translations word by word, by models that can write so: hypotheses in the given
 * order. Without shortlist; of the options normalize, lenpen, unkpen, batch_size and alignments
 * count, the others must fit the model. */
FH_PUBLIC int fh_score(fh_engine *engine, const int32_t *tokens, const int64_t *offsets,
                       int32_t sentences, const fh_targets *targets, const fh_options *options,
                       fh_ask_caller ask, fh_results **results, char *message, size_t size);
FH_PUBLIC void fh_results_free(fh_results *results);

#endif
