/* Two ways to the same result: which one is quicker is measured as one goes, as it depends on the
 * model, the text, and who else needs the processors. */
#ifndef FH_TRIAL_H
#define FH_TRIAL_H

#include <stdint.h>

/* Of so many times the way that seems slower is taken once. */
#define FH_TRIALS 16

/* Batches up to the same power of two cost about the same for each token: 1, 2, 3 to 4, ..., and
 * all larger ones. */
#define FH_BATCH_SIZES 8

typedef struct {
    double costs[2]; /* seconds a token, of the plain way and of the other; 0: not measured yet */
    uint32_t times;
    int32_t key; /* what was measured; something else is measured anew */
} fh_trial;

static inline int fh_batch_size(int32_t sentences) {
    int size = 0;
    while (size + 1 < FH_BATCH_SIZES && sentences > 1 << size) size++;
    return size;
}

/* 1: the other way is to be taken now. */
static inline int fh_trial_choice(fh_trial *trial, int32_t key) {
    if (trial->key != key) *trial = (fh_trial){.key = key};
    int better = trial->costs[1] <= trial->costs[0], number = (int)(trial->times++ % FH_TRIALS);
    if (trial->costs[1] == 0) return 1;
    if (trial->costs[0] == 0) return 0;
    return number == 0 ? !better : better;
}

static inline void fh_trial_note(fh_trial *trial, int choice, double seconds, double tokens) {
    double *cost = &trial->costs[choice != 0], one = seconds / (tokens > 1 ? tokens : 1);
    *cost = *cost == 0 ? one : 0.75 * *cost + 0.25 * one;
}

#endif
