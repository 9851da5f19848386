/* A model in memory: packed weights, norms and tables. Read only once it is built, so that threads
 * share it. */
#ifndef FH_MODEL_H
#define FH_MODEL_H

#include "memory.h"
#include "operations.h"

typedef struct {
    const float *gain, *bias; /* NULL: there is none */
} fh_norm;

typedef struct {
    fh_matrix self_input, self_output; /* of self-attention */
    fh_matrix cell; /* or of FH_SSRU: [2 width][width], the forget gate on top of the candidate */
    fh_matrix cross_query, cross_memory, cross_output, inner, outer;
    fh_norm self_norm, cross_norm, final_norm;
    fh_relative relative; /* data NULL: none */
} fh_layer;

typedef struct {
    fh_side_shape shape;
    int32_t head_width;
    const fh_matrix *embedding; /* a row is the vector of a word */
    const int8_t *rest; /* [vocabulary][width]: what int8 left of it, in 254ths of the row's scale;
                           NULL: none */
    const float *positions; /* [positions][width]; NULL: none */
    fh_norm embedding_norm, final_norm;
    fh_layer *layers;
} fh_side;

struct fh_model {
    fh_shape shape;
    const fh_operations *operations;
    fh_side encoder, decoder;
    fh_matrix source_embedding, target_embedding, own_output;
    const fh_matrix *output;
    fh_screen screen;     /* of the output layer; nibbles NULL: none */
    const float *special; /* [special_symbols][width], not scaled yet */
    fh_matrix links;
    const float *link_table;                     /* [link_rows][2 width + heads] */
    const float *length_weights, *length_biases; /* [classes][encoder width], [classes] */
    int32_t *chunk_sizes;
    /* Everything the model holds, to be freed. */
    void **parts;
    size_t part_count, part_room, bytes;
};

/* Whether the model can write one word after the other: plainly, or as hrt with C_d = 1. */
int fh_writes_in_order(const fh_model *model);

#endif
