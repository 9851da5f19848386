/* Jacobi decoding (Santilli et al., 2023): a model that writes word by word guesses the words
 * behind the settled ones itself, and checks its guesses with the next pass. See jacobi/windows.py,
 * whose windows these are, and jacobi/drafts.py. */
#include <string.h>

#include "verify.h"

/* Without a fixed width: tokens that a pass may settle at first, and at most. */
#define FIRST_WIDTH 2
#define MOST_WIDTH 32
/* Passes after which fewer than nine tokens in eight passes end the guesses of a sentence. */
#define TRIAL 8

typedef struct {
    int32_t width, trials, settled;
    int32_t count, *answers; /* [limit + 1]: what the model said behind a wrong guess */
    int32_t size, last;      /* of the window of a pass, and what stood at its last place before */
    int32_t block, passes;   /* of a block: its tokens and the passes so far */
    int32_t unchanged; /* of all blocks: further iterations of the paper in which nothing would
                          change */
} guessed;

typedef struct {
    const fh_options *options;
    const int32_t *const *sources;
    const int32_t *lengths;
    int32_t eos, filler;
    guessed *sentences;
} guesses_of;

/* Tokens that a pass may settle. */
static int32_t window(const fh_options *o, const guessed *one, const fh_settled *known) {
    int32_t left = known->limit + 1 - known->length;
    if (o->jacobi_mode == FH_PJ) return left;
    if (o->jacobi_mode == FH_FRONTIER) return fh_smaller(one->width, left);
    if (o->jacobi_mode == FH_HGJ && o->jacobi_prefix >= 0) {
        if (known->length >= o->jacobi_prefix) return 1;
        left = fh_smaller(left, o->jacobi_prefix - known->length);
    }
    return fh_smaller(o->jacobi_block - known->length % o->jacobi_block, left);
}

/* What follows the last word in the source, where it stands nearest to its place in the
 * translation; returns how many words. */
static int32_t from_source(const guesses_of *all, int32_t sentence, const fh_settled *known,
                           int32_t count, int32_t *guesses) {
    const int32_t *source = all->sources[sentence];
    int32_t place = 0, best = -1, away = 0, copied = 0, length = all->lengths[sentence];
    if (!known->length) return 0;
    for (int32_t i = 0; i < length; i++) {
        if (source[i] == all->eos) continue; /* no word, wherever it stands */
        place++;
        int32_t distance = place > known->length ? place - known->length : known->length - place;
        if (source[i] != known->words[known->length - 1] || (best >= 0 && distance >= away))
            continue;
        best = i;
        away = distance;
    }
    for (int32_t i = best + 1; best >= 0 && i < length && copied < count; i++)
        if (source[i] != all->eos) guesses[copied++] = source[i];
    return copied;
}

static int32_t guess(void *context, int32_t sentence, const fh_settled *known, int32_t most,
                     int32_t *guesses) {
    const guesses_of *all = context;
    guessed *one = &all->sentences[sentence];
    one->size = window(all->options, one, known);
    one->last = one->count >= one->size ? one->answers[one->size - 1] : all->filler;
    if (!one->count) {
        one->block = one->size;
        one->passes = 0;
    }
    one->passes++;
    int32_t count = fh_smaller(one->size - 1, most), ready = 0;
    if (all->options->jacobi_draft == FH_SOURCE)
        ready = from_source(all, sentence, known, count, guesses);
    if (!ready)
        for (; ready < count && ready < one->count; ready++) guesses[ready] = one->answers[ready];
    for (; ready < count; ready++) guesses[ready] = all->filler;
    return count;
}

/* The end of a block, whose last word is known now: the paper's algorithm stops when an iteration
 * has changed nothing, or after as many as there are words. */
static void end_of_block(guessed *one, int32_t word) {
    one->unchanged += word != one->last && one->passes < one->block;
}

static void learn(void *context, int32_t sentence, const fh_settled *known, const int32_t *guesses,
                  const int32_t *answers, int32_t count, int32_t settled) {
    const guesses_of *all = context;
    const fh_options *o = all->options;
    guessed *one = &all->sentences[sentence];
    /* At the frontier answers behind a wrong word are worse than those behind a filler, which come
     * next. */
    int keep =
        o->jacobi_mode != FH_FRONTIER || (settled < count && guesses[settled - 1] == all->filler);
    if (settled == one->size) end_of_block(one, answers[settled - 1]);
    one->count = 0;
    for (int32_t i = settled; keep && i < count && answers[i] >= 0; i++)
        one->answers[one->count++] = answers[i];
    if (o->jacobi_mode != FH_FRONTIER || o->jacobi_window) return;
    if (count > 1)
        one->width = settled == count ? fh_smaller(2 * one->width, MOST_WIDTH) : settled + 1;
    one->trials++;
    one->settled += settled;
    if (one->trials >= TRIAL && 8 * one->settled < 9 * one->trials) one->width = 1;
}

static int with_limits(fh_work *w, const int32_t *const *sources, const int32_t *limits,
                       fh_found *found) {
    const fh_options *o = w->options;
    fh_arena memory = {.error = &w->error};
    size_t n = (size_t)w->sentences, all = 0;
    for (size_t s = 0; s < n; s++) all += (size_t)limits[s] + 1;
    guesses_of context = {.options = o,
                          .sources = sources,
                          .lengths = w->source_lengths,
                          .eos = w->model->shape.eos,
                          .filler =
                              o->jacobi_known_length ? w->model->shape.pad : w->model->shape.unk,
                          .sentences = fh_take(&memory, n, sizeof *context.sentences)};
    int32_t *answers = fh_take(&memory, all, sizeof *answers), most = 0;
    if (w->error.code) {
        fh_arena_free(&memory);
        return w->error.code;
    }
    for (size_t s = 0; s < n; s++) {
        context.sentences[s] = (guessed){.width = o->jacobi_window ? o->jacobi_window : FIRST_WIDTH,
                                         .answers = answers};
        answers += limits[s] + 1;
        if (limits[s] > most) most = limits[s];
    }
    if (o->jacobi_mode == FH_FRONTIER)
        most = fh_smaller(most, (o->jacobi_window ? o->jacobi_window : MOST_WIDTH) - 1);
    if (o->jacobi_mode == FH_PGJ || o->jacobi_mode == FH_HGJ)
        most = fh_smaller(most, o->jacobi_block - 1);
    fh_guesser guesser = {.context = &context, .most = most, .guess = guess, .learn = learn};
    fh_verify(w, limits, &guesser, NULL, found);
    for (size_t s = 0; s < n && o->jacobi_known_length && !w->error.code; s++) {
        end_of_block(&context.sentences[s], w->model->shape.eos);
        found[s].items[0]->passes += context.sentences[s].unchanged;
    }
    fh_arena_free(&memory);
    return w->error.code;
}

/* The number of words that greedy search writes: [sentences]. */
static int greedy_lengths(fh_work *w, const int32_t *limits, int32_t *lengths) {
    fh_buffer memory = {0};
    size_t n = (size_t)w->sentences;
    if (fh_reserve(&memory, n, sizeof(fh_found), &w->error)) return w->error.code;
    fh_found *greedy = memory.data;
    memset(greedy, 0, n * sizeof *greedy);
    fh_decode_plain(w, limits, greedy);
    for (size_t s = 0; s < n; s++) {
        if (!w->error.code) lengths[s] = greedy[s].items[0]->length - 1;
        fh_found_clear(&greedy[s]);
    }
    fh_release(&memory);
    return w->error.code;
}

int fh_decode_jacobi(fh_work *w, const int32_t *const *sources, const int32_t *limits,
                     fh_found *found) {
    if (!w->options->jacobi_known_length) return with_limits(w, sources, limits, found);
    fh_buffer lengths = {0};
    if (!fh_reserve(&lengths, (size_t)w->sentences, sizeof(int32_t), &w->error) &&
        !greedy_lengths(w, limits, lengths.data))
        with_limits(w, sources, lengths.data, found);
    fh_release(&lengths);
    return w->error.code;
}
