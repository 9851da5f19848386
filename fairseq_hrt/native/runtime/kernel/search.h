/* Searches: from features to hypotheses. */
#ifndef FH_SEARCH_H
#define FH_SEARCH_H

#include "choose.h"
#include "hypotheses.h"

static inline int32_t fh_smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* What is known of one sentence. */
typedef struct {
    int32_t length, limit;  /* settled tokens; words before </s> at most */
    int32_t *words, *steps; /* [limit + 1] */
    float *scores;
} fh_settled;

/* Where guesses come from. Nothing of a sentence's guesses may depend on other sentences. */
typedef struct {
    void *context;
    int32_t most;          /* guesses of a pass at most */
    const int32_t *before; /* [sentences], passes that they have cost already; NULL: none */
    /* Up to `most` guesses of what follows; returns how many. */
    int32_t (*guess)(void *context, int32_t sentence, const fh_settled *known, int32_t most,
                     int32_t *guesses);
    /* Behind each pass but the last: `count` answers, one more than guesses; the first `settled` of
     * them are settled now. */
    void (*learn)(void *context, int32_t sentence, const fh_settled *known, const int32_t *guesses,
                  const int32_t *answers, int32_t count, int32_t settled);
} fh_guesser;

/* A left-to-right search: token i stands at position stride * (i + 1). With a stride of 1 the
 * tokens are the translation. */
typedef struct {
    int32_t start, stride;
    const int32_t *min_len, *max_len; /* [sentences] */
    int32_t beam;                     /* at most the vocabulary's words less one */
    int32_t scores;                   /* positional scores are wanted; a beam always has them */
    const fh_guesser *guesser;        /* NULL: one token a pass; a beam has none */
} fh_search;

/* found: [sentences of the batch], best first. Greedy search with guesses is lossless parallel
 * decoding: the last settled token and guesses of what follows go through the decoder at once; what
 * it predicts is settled as long as the tokens that it stands on are. So the tokens are those
 * without guesses, whoever guesses. */
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
int fh_decode_plain(fh_work *work, const int32_t *limits, const fh_guesser *guesser,
                    fh_found *found);
int fh_decode_hrt(fh_work *work, int32_t chunk, const int32_t *limits, fh_found *found);
/* Both stages of hrt for every sentence; scores: of the tokens, needed to rank several. */
int fh_two_stages(fh_work *work, int32_t chunk, const int32_t *limits, int32_t beam,
                  int32_t completed, int32_t scores, fh_found *found);
int fh_decode_drafts(fh_work *work, int32_t chunk, const int32_t *limits, fh_found *found);
int fh_decode_jacobi(fh_work *work, const int32_t *const *sources, const int32_t *limits,
                     fh_found *found);
int fh_greedy_blocks(fh_work *work, const int32_t *limits, fh_found *found);
int fh_beam_blocks(fh_work *work, const int32_t *limits, fh_found *found);
/* A hypothesis of `length` slots of the bidirectional family, the last one </s>, in natural order;
 * `counted` slots have the log-probability `total`. scores NULL: not wanted. */
int fh_finish_blocks(fh_work *work, const int32_t *words, const float *scores, int32_t length,
                     int32_t counted, double total, int32_t passes, fh_found *found);
int fh_decode_dag(fh_work *work, fh_found *found);
int fh_decode_ctc(fh_work *work, const int32_t *const *sources, const int32_t *limits,
                  fh_found *found);
/* What the positions of a sentence may write, and how probable that is. */
typedef struct {
    int32_t positions, width;      /* width: words of a position, at most */
    int32_t limit;                 /* the most words of a text */
    const int32_t *counts, *words; /* [positions], [positions][width], the best first */
    const float *scores, *blanks;  /* log-probabilities of the words; of the blanks, [positions] */
} fh_lattice;
/* The most probable texts. */
int fh_prefix_beam(fh_work *work, const fh_lattice *lattice, fh_found *found);

/* Given translations of one sentence: number i has the tokens offsets[i] to offsets[i + 1] - 1. */
typedef struct {
    const int32_t *tokens;
    const int64_t *offsets;
    int32_t count;
} fh_given;

/* Finished hypotheses, read in passes of at most `most` tokens or one hypothesis; each counts for
 * `least` tokens at least. */
typedef struct {
    int32_t sentence;
    fh_hypothesis *hypothesis;
} fh_finished;
typedef int fh_reader(fh_work *work, const fh_finished *some, int32_t count, const void *context);
int fh_in_passes(fh_work *work, const fh_found *found, int32_t most, int32_t least, fh_reader *read,
                 const void *context);
/* How a model that writes in order rates them, without bans and shortlists. given, found:
 * [sentences of the batch]; hypotheses keep the order of the given ones. */
int fh_score_given(fh_work *work, const fh_given *given, fh_found *found);
/* Fills in the places of all hypotheses of a batch that is encoded still. */
int fh_align(fh_work *work, const int32_t *const *sources, fh_found *found);
/* The rule of the maximum length: min(int(a x + b), capacity - 1), at least 0. */
int32_t fh_length_limit(const fh_options *options, int32_t source_length, int32_t capacity);

#endif
