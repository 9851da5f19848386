/* The best word of few rows, read from half of the output layer's bytes.
 *
 * At one row a product waits for its weights. A second copy of them holds the upper four bits of
 * each; with these a row's value of every word is known up to an error that Cauchy and Schwarz
 * bound. Only words whose bound reaches the best exact value are then computed exactly, so the
 * word and its value are those of `best`, to the last bit. Where too many words come close, which
 * a flat distribution does, the caller multiplies in full. */
#ifndef FH_SCREEN_H
#define FH_SCREEN_H

#include "operations.h"

enum {
    FH_SCREEN_ROWS = 4,     /* more rows than these share what is read anyway */
    FH_SCREEN_INPUTS = 8192 /* beyond these a sum of products of upper bits may not fit a float */
};

/* Bytes of the buffer; 0 for a matrix that cannot be screened (not int8, or too many inputs). */
FH_PUBLIC size_t fh_screen_size(const fh_matrix *matrix);
/* 1: large enough that reading half of it is faster. */
FH_PUBLIC int fh_worth_screening(const fh_matrix *matrix);
/* buffer: aligned, fh_screen_size bytes. The matrix must be complete. */
FH_PUBLIC void fh_screen_pack(fh_screen *screen, void *buffer, const fh_matrix *matrix);

/* Whether calls are screened: after one that gave up, some are not, the more the more often. */
typedef struct {
    int32_t rest, losses; /* calls to go without, times in a row that a call gave up */
} fh_screening;

/* As operations->best of at most FH_SCREEN_ROWS rows, without logsumexp. rough: the rows prepared
 * as FH_INT8, which is `input` where that is the matrix's kind. bounds: [rows][outputs] scratch.
 * Returns 0 where it gave up or was not tried: tokens and values are then arbitrary. */
FH_PUBLIC int fh_screened_best(const fh_operations *operations, const fh_matrix *matrix,
                               const fh_screen *screen, fh_screening *screening,
                               const fh_input *input, const fh_input *rough, const fh_rule *rules,
                               float *bounds, int32_t *tokens, float *values);

#endif
