/* Lossless parallel decoding: the last settled token and guesses of what follows go through the
 * decoder at once; what it predicts is settled as long as the tokens that it stands on are. So the
 * tokens are those of greedy search, whoever guesses. */
#ifndef FH_VERIFY_H
#define FH_VERIFY_H

#include "search.h"

/* What is known of one sentence. */
typedef struct {
    int32_t length, limit;  /* settled tokens; words before </s> at most */
    int32_t *words, *steps; /* [limit + 1] */
    float *scores;
} fh_settled;

/* Where guesses come from. Nothing of a sentence's guesses may depend on other sentences. */
typedef struct {
    void *context;
    int32_t most; /* guesses of a pass at most */
    /* Up to `most` guesses of what follows; returns how many. */
    int32_t (*guess)(void *context, int32_t sentence, const fh_settled *known, int32_t most,
                     int32_t *guesses);
    /* Behind each pass but the last: `count` answers, one more than guesses; the first `settled` of
     * them are settled now. */
    void (*learn)(void *context, int32_t sentence, const fh_settled *known, const int32_t *guesses,
                  const int32_t *answers, int32_t count, int32_t settled);
} fh_guesser;

static inline int32_t fh_smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* before: [sentences], passes that the guesses have cost already; NULL: none. */
int fh_verify(fh_work *work, const int32_t *limits, const fh_guesser *guesser,
              const int32_t *before, fh_found *found);

#endif
