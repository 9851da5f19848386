/* Lossless drafts: hrt decodes with chunks and checks itself word by word. One encoder pass; the
 * words are those of C_d = 1, greedily. */
#include <string.h>

#include "search.h"

/* Drafted words of a pass: at first, at least and at most. */
#define FIRST_WIDTH 8
#define LEAST_WIDTH 4
#define MOST_WIDTH 32
/* How far from its place a settled word is looked for in the draft. */
#define NEAR 4
/* Passes after which fewer than three words in two passes end the drafts of a sentence. */
#define TRIAL 4

/* The draft of one sentence; next: its word that may follow. */
typedef struct {
    const fh_hypothesis *draft;
    int32_t next, width, trials, settled;
} drafted;

typedef struct {
    drafted *sentences;
    int32_t fixed; /* the width is the user's */
} drafts;

/* Where the draft continues behind a word that it did not have at its place, which may lie behind
 * the draft's end. */
static int32_t realign(const fh_hypothesis *draft, int32_t place, int32_t word) {
    for (int32_t away = 1; away <= NEAR; away++) {
        if (place + away < draft->length && draft->tokens[place + away] == word)
            return place + away + 1;
        if (place >= away && place - away < draft->length && draft->tokens[place - away] == word)
            return place - away + 1;
    }
    return place + 1;
}

static int32_t guess(void *context, int32_t sentence, const fh_settled *known, int32_t most,
                     int32_t *guesses) {
    const drafted *one = &((const drafts *)context)->sentences[sentence];
    int32_t last = one->draft->length - 1, count = 0; /* </s> is never guessed */
    (void)known;
    if (most > one->width) most = one->width;
    for (; count < most && one->next + count < last; count++)
        guesses[count] = one->draft->tokens[one->next + count];
    return count;
}

static void learn(void *context, int32_t sentence, const fh_settled *known, const int32_t *guesses,
                  const int32_t *answers, int32_t count, int32_t settled) {
    const drafts *all = context;
    drafted *one = &all->sentences[sentence];
    int32_t word = known->words[known->length - 1], place = one->next + settled - 1;
    (void)guesses;
    (void)answers;
    /* The draft behind the words that were right; its word at that place was not, or there was
     * none. */
    one->next = place < one->draft->length && one->draft->tokens[place] == word
                    ? place + 1
                    : realign(one->draft, place, word);
    if (all->fixed) return;
    if (count > 1) one->width = settled == count ? 2 * one->width : settled + LEAST_WIDTH;
    if (one->width > MOST_WIDTH) one->width = MOST_WIDTH;
    one->trials++;
    one->settled += settled;
    if (one->trials >= TRIAL && 2 * one->settled < 3 * one->trials) one->width = 0;
}

int fh_decode_drafts(fh_work *w, int32_t chunk, const int32_t *limits, fh_found *found) {
    fh_arena memory = {.error = &w->error};
    size_t n = (size_t)w->sentences;
    fh_found *written = fh_take(&memory, n, sizeof *written);
    drafts all = {.sentences = fh_take(&memory, n, sizeof *all.sentences),
                  .fixed = w->options->draft_width > 0};
    int32_t *before = fh_take(&memory, n, sizeof *before),
            width = all.fixed ? w->options->draft_width : FIRST_WIDTH;
    if (w->error.code) {
        fh_arena_free(&memory);
        return w->error.code;
    }
    memset(written, 0, n * sizeof *written);
    if (!fh_two_stages(w, chunk, limits, 1, 1, 0, written)) {
        for (size_t s = 0; s < n; s++) {
            all.sentences[s] = (drafted){.draft = written[s].items[0],
                                         .width = width < MOST_WIDTH ? width : MOST_WIDTH};
            before[s] = written[s].items[0]->passes;
        }
        fh_guesser guesser = {
            .context = &all, .most = MOST_WIDTH, .before = before, .guess = guess, .learn = learn};
        fh_decode_plain(w, limits, &guesser, found);
    }
    for (size_t s = 0; s < n; s++) fh_found_clear(&written[s]);
    fh_arena_free(&memory);
    return w->error.code;
}
