/* Slots of the bidirectional family. */
#ifndef FH_BLOCKS_H
#define FH_BLOCKS_H

#include "search.h"

/* The place in the sentence (from 0) of the word in a slot, of a sentence of so many words. */
int32_t fh_natural_index(const fh_shape *shape, int32_t slot, int32_t words);
/* A hypothesis of `length` slots, the last one </s>, in natural order; `counted` slots have the
 * log-probability `total`. scores NULL: not wanted. */
int fh_finish_blocks(fh_work *work, const int32_t *words, const float *scores, int32_t length,
                     int32_t counted, double total, int32_t passes, fh_found *found);
int fh_beam_blocks(fh_work *work, const int32_t *limits, fh_found *found);

#endif
