/* Jacobi decoding (Santilli et al., 2023) by a frontier: a model that writes word by word guesses
 * the words behind the settled ones itself, and checks its guesses with the next pass. The paper's
 * own modes and drafts by other models are PyTorch's alone: jacobi/windows.py, jacobi/drafts.py. */
#include "search.h"

/* Without a fixed width: tokens that a pass may settle at first, and at most. */
#define FIRST_WIDTH 2
#define MOST_WIDTH 32
/* Passes after which fewer than nine tokens in eight passes end the guesses of a sentence. */
#define TRIAL 8

typedef struct {
    int32_t width, trials, settled;
    int32_t count, *answers; /* [most]: what the model said behind a wrong guess */
} guessed;

typedef struct {
    const fh_options *options;
    const int32_t *const *sources;
    const int32_t *lengths;
    int32_t eos, filler;
    guessed *sentences;
} guesses_of;

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
    const guessed *one = &all->sentences[sentence];
    /* The pass settles one word more than it checks. */
    int32_t count = fh_smaller(one->width - 1, most), ready = 0;
    if (all->options->jacobi_draft == FH_SOURCE)
        ready = from_source(all, sentence, known, count, guesses);
    if (!ready)
        for (; ready < count && ready < one->count; ready++) guesses[ready] = one->answers[ready];
    for (; ready < count; ready++) guesses[ready] = all->filler;
    return count;
}

static void learn(void *context, int32_t sentence, const fh_settled *known, const int32_t *guesses,
                  const int32_t *answers, int32_t count, int32_t settled) {
    const guesses_of *all = context;
    guessed *one = &all->sentences[sentence];
    (void)known;
    /* Answers behind a wrong word are worse than those behind a filler, which come next. */
    int keep = settled < count && guesses[settled - 1] == all->filler;
    one->count = 0;
    for (int32_t i = settled; keep && i < count && answers[i] >= 0; i++)
        one->answers[one->count++] = answers[i];
    if (all->options->jacobi_window) return;
    if (count > 1)
        one->width = settled == count ? fh_smaller(2 * one->width, MOST_WIDTH) : settled + 1;
    one->trials++;
    one->settled += settled;
    if (one->trials >= TRIAL && 8 * one->settled < 9 * one->trials) one->width = 1;
}

int fh_decode_jacobi(fh_work *w, const int32_t *const *sources, const int32_t *limits,
                     fh_found *found) {
    const fh_options *o = w->options;
    fh_arena memory = {.error = &w->error};
    size_t n = (size_t)w->sentences;
    int32_t most = 0;
    for (size_t s = 0; s < n; s++)
        if (limits[s] > most) most = limits[s];
    most = fh_smaller(most, (o->jacobi_window ? o->jacobi_window : MOST_WIDTH) - 1);
    guesses_of context = {.options = o,
                          .sources = sources,
                          .lengths = w->source_lengths,
                          .eos = w->model->shape.eos,
                          .filler = w->model->shape.unk,
                          .sentences = fh_take(&memory, n, sizeof *context.sentences)};
    int32_t *answers = fh_take(&memory, n * (size_t)most, sizeof *answers);
    if (!w->error.code) {
        for (size_t s = 0; s < n; s++)
            context.sentences[s] =
                (guessed){.width = o->jacobi_window ? o->jacobi_window : FIRST_WIDTH,
                          .answers = answers + s * (size_t)most};
        fh_guesser guesser = {.context = &context, .most = most, .guess = guess, .learn = learn};
        fh_decode_plain(w, limits, &guesser, found);
    }
    fh_arena_free(&memory);
    return w->error.code;
}
