/* Which target words a sentence may use, from candidates of its source words. */
#ifndef FH_SHORTLIST_H
#define FH_SHORTLIST_H

#include "work.h"

typedef struct fh_shortlists {
    int64_t *offsets;    /* [source vocabulary + 1] */
    int32_t *candidates; /* [offsets[source vocabulary]] */
    int32_t *always;
    int64_t always_count;
    void *rows; /* of the output layer, see fh_matrix_rows */
} fh_shortlists;

/* Copies and checks; NULL with an error. */
fh_shortlists *fh_shortlists_new(const fh_model *model, const int64_t *offsets,
                                 const int32_t *candidates, int64_t count, const int32_t *always,
                                 int64_t always_count, fh_error *error);
void fh_shortlists_free(fh_shortlists *lists);
/* Builds the output layers of a batch: one for each sentence; or one of the words of all, where
 * each sentence has one row in a step (greedy search without scores), many rows read it at once,
 * and it is much smaller than theirs together. What is chosen is the same. */
int fh_shortlist_batch(fh_work *work, const int32_t *const *sources, const int32_t *lengths,
                       int32_t sentences);
/* Where a word stands in a list; -1: it does not. */
int32_t fh_shortlist_place(const fh_choice_list *list, int32_t token);

#endif
