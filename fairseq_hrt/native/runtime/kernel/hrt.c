/* Hybrid-regressive decoding: every k-th token from left to right, then all the others in one pass.
 * See hrt/generator.py. */
#include <math.h>
#include <string.h>

#include "search.h"

/* Rows of stage II that are decoded together, by their tokens: what the buffers grow with. */
#define MOST_TOKENS 4096

/* Stage I: found holds z_1 ... z_m of each sentence, </s> last. */
static int skip_at(fh_work *w, int32_t chunk, const int32_t *limits, int32_t beam, int32_t scores,
                   fh_found *found) {
    fh_arena memory = {.error = &w->error};
    size_t n = (size_t)w->sentences;
    int32_t *shortest = fh_take(&memory, n, sizeof *shortest),
            *longest = fh_take(&memory, n, sizeof *longest), place = 0;
    if (w->error.code) goto end;
    for (int32_t s = 0; s < w->sentences; s++) {
        /* A translation of at most that many words and </s> fills this many chunks; the last token
         * is </s>. */
        int32_t chunks = (limits[s] + 1) / chunk;
        longest[s] = (chunks > 1 ? chunks : 1) - 1;
        shortest[s] =
            w->options->min_len / chunk < longest[s] ? w->options->min_len / chunk : longest[s];
    }
    while (w->model->chunk_sizes[place] != chunk) place++;
    fh_search search = {.start = w->model->decoder.shape.vocabulary + 1 + place,
                        .stride = chunk,
                        .min_len = shortest,
                        .max_len = longest,
                        .beam = beam,
                        .scores = scores};
    (beam == 1 ? fh_left_to_right : fh_beam)(w, &search, found);
end:
    fh_arena_free(&memory);
    return w->error.code;
}

/* What the mask at a position (from 1) of a row with m chunks may say. */
static fh_ask ask_mask(const fh_work *w, int32_t sentence, int32_t position, int32_t chunk,
                       int32_t m, int32_t limit) {
    int32_t earliest = w->options->min_len;
    if (w->options->eos_last_chunk && chunk * (m - 1) > earliest) earliest = chunk * (m - 1);
    return fh_ask_at(w, sentence, position - 1, earliest, limit);
}

/* The translation of one row: cut at the first </s>, scored by Eq. 2, which --hrt-scoring may
 * divide by the length. words, values: of its masks. */
static fh_hypothesis *complete(fh_work *w, const fh_hypothesis *z, int32_t chunk,
                               const int32_t *words, const float *values) {
    int32_t length = chunk * z->length, end = 0, eos = w->model->shape.eos, mask = 0;
    for (int32_t i = 0; i < length && !end; i++) {
        int32_t token = (i + 1) % chunk ? words[mask++] : z->tokens[i / chunk];
        if (token == eos) end = i + 1;
    }
    fh_hypothesis *h = fh_hypothesis_new(w, end);
    if (!h) return NULL;
    double total = 0;
    mask = 0;
    for (int32_t i = 0; i < length; i++) {
        int32_t kept = (i + 1) % chunk == 0;
        float score = kept ? z->scores[i / chunk] : values ? values[mask] : 0.0f;
        int32_t token = kept ? z->tokens[i / chunk] : words[mask];
        mask += !kept;
        /* Where nothing was learnt behind the first </s> predictions are noise. */
        if (i < end || kept || w->model->shape.learn_tail) total += score;
        if (i < end) {
            h->tokens[i] = token;
            h->scores[i] = score;
            h->steps[i] = kept ? (i + 1) / chunk : z->length + 1;
        }
    }
    h->passes = z->length + 1;
    h->score = w->options->hrt_scoring == FH_EQ2 ? total : fh_rank(w->options, total, length);
    return h;
}

/* What stage II of any row needs; found: where its translation is added. */
typedef struct {
    int32_t chunk, scores;
    const int32_t *limits;
    fh_found *found;
} masks_of;

/* Stage II of some rows. */
static int skip_cmlm(fh_work *w, const fh_finished *rows, int32_t count, const void *context) {
    const masks_of *all = context;
    int32_t chunk = all->chunk;
    fh_arena memory = {.error = &w->error};
    size_t tokens = 0, masks = 0, n = (size_t)count;
    for (size_t r = 0; r < n; r++) {
        tokens += (size_t)rows[r].hypothesis->length * chunk;
        masks += (size_t)rows[r].hypothesis->length * (chunk - 1);
    }
    fh_ask *asks = fh_take(&memory, masks, sizeof *asks);
    int32_t *input = fh_take(&memory, tokens, sizeof *input);
    int32_t *counts = fh_take(&memory, n, sizeof *counts);
    int32_t *chosen = fh_take(&memory, masks, sizeof *chosen),
            *words = fh_take(&memory, masks, sizeof *words);
    float *values = all->scores ? fh_take(&memory, masks, sizeof *values) : NULL, *features;
    int32_t at = 0, mask = 0;
    if (w->error.code) goto end;
    /* Of each row z [m] -> inputs [m][chunk], each z behind chunk - 1 masks. The masks of all rows,
     * [masks], are what is asked. */
    for (int32_t r = 0; r < count; r++) {
        const fh_hypothesis *z = rows[r].hypothesis;
        counts[r] = z->length * chunk;
        for (int32_t i = 1; i <= counts[r]; i++, at++) {
            input[at] = z->tokens[(i - 1) / chunk];
            if (i % chunk == 0) continue;
            input[at] = w->model->decoder.shape.vocabulary;
            chosen[mask] = at;
            asks[mask++] =
                ask_mask(w, rows[r].sentence, i, chunk, z->length, all->limits[rows[r].sentence]);
        }
    }
    if (!fh_rows(w, count)) {
        for (int32_t r = 0; r < count; r++) w->rows[r].source = rows[r].sentence;
        fh_step step = {.rows = count,
                        .count = counts,
                        .tokens = input,
                        .origin = 1,
                        .stride = 1,
                        .chosen = chosen,
                        .chosen_count = mask};
        /* features [masks][d] -> words [masks] */
        if (!fh_decode_step(w, &step, &features))
            fh_best_words(w, features, asks, mask, words, values);
    }
    mask = 0;
    for (int32_t r = 0; r < count && !w->error.code; r++) {
        fh_found_add(
            w, &all->found[rows[r].sentence],
            complete(w, rows[r].hypothesis, chunk, words + mask, values ? values + mask : NULL));
        mask += rows[r].hypothesis->length * (chunk - 1);
    }
end:
    fh_arena_free(&memory);
    return w->error.code;
}

int fh_two_stages(fh_work *w, int32_t chunk, const int32_t *limits, int32_t beam, int32_t completed,
                  int32_t scores, fh_found *found) {
    fh_buffer memory = {0};
    size_t n = (size_t)w->sentences;
    if (fh_reserve(&memory, n, sizeof(fh_found), &w->error)) return w->error.code;
    fh_found *first = memory.data;
    memset(first, 0, n * sizeof *first);
    if (!skip_at(w, chunk, limits, beam, scores, first)) {
        for (size_t s = 0; s < n; s++) fh_found_cut(&first[s], completed);
        masks_of all = {chunk, scores, limits, found};
        /* Each token of stage I becomes `chunk` tokens. */
        fh_in_passes(w, first, MOST_TOKENS / chunk, 1, skip_cmlm, &all);
        for (size_t s = 0; s < n; s++) fh_found_sort(&found[s]);
    }
    for (size_t s = 0; s < n; s++) fh_found_clear(&first[s]);
    fh_release(&memory);
    return w->error.code;
}

int fh_decode_hrt(fh_work *w, int32_t chunk, const int32_t *limits, fh_found *found) {
    /* Several completed hypotheses are compared by their scores, whether these are wanted or not.
     */
    int32_t scores = w->options->scores || w->options->nat_beam > 1;
    return fh_two_stages(w, chunk, limits, fh_beam_width(w), w->options->nat_beam, scores, found);
}
