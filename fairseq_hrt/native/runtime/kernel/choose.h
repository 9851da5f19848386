/* From features to words. */
#ifndef FH_CHOOSE_H
#define FH_CHOOSE_H

#include "work.h"

#define FH_MOST_BANS 4

/* What is asked of one row of features. */
typedef struct {
    int32_t sentence; /* whose shortlist counts */
    int32_t bans;
    int32_t banned[FH_MOST_BANS];
    int32_t only;    /* the one word that may be chosen; negative: any that is not banned */
    int32_t certain; /* 1: the score of that word is 0 */
    int32_t guessed; /* 1: the row may stand on wrong words; where it has no best word that is no
                        error, but FH_NAN or FH_NONE (its score: NaN) */
} fh_ask;

/* The rules that hold everywhere: padding is banned, and <unk> where its penalty is infinite. */
fh_ask fh_plain_ask(const fh_work *work, int32_t sentence);
void fh_ban(fh_ask *ask, int32_t token);
/* The rules of a left-to-right choice of word number `place`: no </s> before min_len words, nothing
 * else behind max_len. */
fh_ask fh_ask_at(const fh_work *work, int32_t sentence, int32_t place, int32_t min_len,
                 int32_t max_len);
/* The same where the chosen words are the translation, one after the other: it begins with the
 * given first words, up to max_len. */
fh_ask fh_ask_word(const fh_work *work, int32_t sentence, int32_t place, int32_t min_len,
                   int32_t max_len);

/* The best word of each row of features [rows][width]. scores: log-probabilities less the penalty
 * of <unk>; NULL: not wanted, which saves the logsumexp. */
int fh_best_words(fh_work *work, const float *features, const fh_ask *asks, int32_t rows,
                  int32_t *tokens, float *scores);
/* The n best words of each row, best first: tokens and scores [rows][n], counts [rows].
 * noted_scores [rows] or NULL: the score of the word `noted`, allowed or not. */
int fh_best_lists(fh_work *work, const float *features, const fh_ask *asks, int32_t rows, int32_t n,
                  int32_t *tokens, float *scores, int32_t *counts, int32_t noted,
                  float *noted_scores);
/* The error that a row without a best word is. */
int fh_no_word(fh_work *work, int32_t token);
/* Log-probabilities of one given word of each row. */
int fh_word_scores(fh_work *work, const float *features, const fh_ask *asks, int32_t rows,
                   const int32_t *words, float *scores);

#endif
