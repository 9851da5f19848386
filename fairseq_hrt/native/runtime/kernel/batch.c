/* Many sentences: checked, sorted, cut into batches and spread over threads; results in the order
 * of the sentences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "shortlist.h"
#include "system.h"
#include "team.h"
#include "threads.h"
#include "trial.h"

/* Source tokens of one batch at most, beyond its first sentence: what its buffers grow with. */
#define MOST_TOKENS 2048
/* More threads than this do not make one sentence faster. */
#define MOST_HELPERS 7

struct fh_engine {
    const fh_model *model;
    int32_t threads;
    fh_pool *pool;
    fh_work *works; /* [threads] */
    fh_shortlists *shortlists;
    fh_trial helping[2]; /* a lone batch with helpers: decoded, scored */
};

typedef struct {
    int32_t number, length, limit, chunk;
} entry;

typedef struct {
    fh_engine *engine;
    const fh_options *options;
    const int32_t *tokens;
    const int64_t *offsets;
    const fh_given *given; /* [sentences], by number: translations to score; NULL: decode */
    const fh_beginning *beginnings; /* [sentences], by number; NULL: no first words are given */
    entry *entries;                 /* sorted */
    int32_t *starts;                /* batch b holds entries starts[b] to starts[b + 1] - 1 */
    int32_t batches;
    fh_found *found;  /* [sentences], by number */
    fh_error *errors; /* [batches] */
    fh_team *team;    /* of threads that have no batch; NULL: none */
    fh_watch watch;
} job;

int fh_engine_new(fh_engine **engine, const fh_model *model, int32_t threads, char *message,
                  size_t size) {
    fh_error error = {0};
    *engine = NULL;
    fh_engine *e = NULL;
    if (!model || threads < 1 || threads > 4096)
        fh_fail(&error, FH_INVALID, "threads=%d: give a number from 1 to 4096", (int)threads);
    else if (!(e = calloc(1, sizeof *e)) || !(e->works = calloc((size_t)threads, sizeof *e->works)))
        fh_out_of_memory(&error, (size_t)threads * sizeof *e->works);
    if (!error.code) {
        e->model = model;
        e->threads = threads;
        for (int32_t i = 0; i < threads; i++) fh_work_start(&e->works[i], model);
        e->pool = fh_pool_new(threads, &error);
    }
    if (error.code)
        fh_engine_free(e);
    else
        *engine = e;
    return fh_report(&error, message, size);
}

void fh_engine_free(fh_engine *e) {
    if (!e) return;
    fh_pool_free(e->pool);
    for (int32_t i = 0; e->works && i < e->threads; i++) fh_work_free(&e->works[i]);
    free(e->works);
    fh_shortlists_free(e->shortlists);
    free(e);
}

int fh_engine_shortlist(fh_engine *e, const int64_t *offsets, const int32_t *candidates,
                        int64_t count, const int32_t *always, int64_t always_count, char *message,
                        size_t size) {
    fh_error error = {0};
    fh_shortlists *lists = NULL;
    if (offsets)
        lists =
            fh_shortlists_new(e->model, offsets, candidates, count, always, always_count, &error);
    if (!error.code) {
        fh_shortlists_free(e->shortlists);
        e->shortlists = lists;
    }
    return fh_report(&error, message, size);
}

/* Whether translations with this chunk size can begin with given words. */
static int takes_first_words(const fh_model *m, const fh_options *o, int32_t chunk) {
    if (m->shape.family == FH_HRT) return chunk == 1 || o->draft_chunk;
    return m->shape.family != FH_DAG && m->shape.family != FH_CTC && m->shape.directions == 1;
}

static int32_t chunk_of(const fh_model *m, const fh_options *o, int32_t length) {
    if (m->shape.family != FH_HRT) return 0;
    if (o->draft_chunk) return o->draft_chunk;
    /* Without </s>, as users count. */
    int32_t i = 0;
    while (length - 1 > o->table_limits[i]) i++;
    return o->table_chunks[i];
}

/* ------------------------------------------------------------------ batches */

/* Sentences of one chunk size together, longest first. */
static int earlier(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int make_entries(job *j, int32_t sentences, fh_error *error) {
    const fh_model *m = j->engine->model;
    for (int32_t i = 0; i < sentences; i++) {
        int64_t length = j->offsets[i + 1] - j->offsets[i];
        if (fh_check_sentence(m, j->tokens + j->offsets[i], length, i, error)) return error->code;
        int32_t limit = fh_length_limit(j->options, (int32_t)length, m->decoder.shape.longest);
        /* A sentence whose own limit is lower is held to that limit. */
        int never =
            j->options->max_len_a == 0 || j->options->min_len > m->decoder.shape.longest - 1;
        if (m->shape.family != FH_DAG && never && j->options->min_len > limit)
            return fh_fail(error, FH_INVALID,
                           "--min-len %d is greater than the maximum length %d of a sentence; "
                           "lower --min-len or raise --max-len-a/--max-len-b",
                           (int)j->options->min_len, (int)limit);
        int32_t chunk = chunk_of(m, j->options, (int32_t)length);
        if (j->beginnings && j->beginnings[i].count && !takes_first_words(m, j->options, chunk))
            return fh_fail(error, FH_REFUSED,
                           "sentence %d has given first words; they need a model that writes its "
                           "words from left to right",
                           (int)i);
        j->entries[i] = (entry){i, (int32_t)length, limit, chunk};
    }
    qsort(j->entries, (size_t)sentences, sizeof *j->entries, earlier);
    /* As many batches as there are threads, if there are sentences for them. */
    int32_t most = (sentences + j->engine->threads - 1) / j->engine->threads;
    if (most > j->options->batch_size) most = j->options->batch_size;
    int64_t tokens = 0;
    for (int32_t i = 0; i < sentences; i++) {
        const entry *one = &j->entries[i];
        int full = i == 0 || i - j->starts[j->batches - 1] >= most ||
                   tokens + one->length > MOST_TOKENS || one->chunk != one[-1].chunk;
        if (full) {
            j->starts[j->batches++] = i;
            tokens = 0;
        }
        tokens += one->length;
    }
    j->starts[j->batches] = sentences;
    return FH_OK;
}

static double tokens_of(const fh_found *found, int32_t sentences) {
    double tokens = 0;
    for (int32_t i = 0; i < sentences; i++)
        for (int32_t n = 0; n < found[i].count; n++) tokens += found[i].items[n]->length;
    return tokens;
}

static int decode_with_guesses(fh_work *w, int32_t chunk, const int32_t *const *sources,
                               const int32_t *limits, fh_found *found) {
    return chunk ? fh_decode_drafts(w, chunk, limits, found)
                 : fh_decode_jacobi(w, sources, limits, found);
}

/* Drafts with that chunk size, or Jacobi decoding (0), or neither where it does not pay: the words
 * and scores are the same. Sizes that are asked for ask for guesses. */
static int decode_lossless(fh_work *w, int32_t chunk, const int32_t *const *sources,
                           const int32_t *limits, fh_found *found) {
    const fh_options *o = w->options;
    if (chunk ? o->draft_width : o->jacobi_window)
        return decode_with_guesses(w, chunk, sources, limits, found);
    fh_trial *trial = &w->guessing[w->team != NULL][fh_batch_size(w->sentences)];
    int guesses = fh_trial_choice(trial, 2 * (chunk ? chunk : -1 - o->jacobi_draft) + o->scores);
    double start = fh_seconds();
    if (guesses)
        decode_with_guesses(w, chunk, sources, limits, found);
    else
        fh_decode_plain(w, limits, NULL, found);
    if (!w->error.code)
        fh_trial_note(trial, guesses, fh_seconds() - start, tokens_of(found, w->sentences));
    return w->error.code;
}

static int decode_batch(fh_work *w, int32_t chunk, const int32_t *const *sources,
                        const int32_t *limits, fh_found *found) {
    switch (w->model->shape.family) {
        case FH_HRT:
            if (w->options->draft_chunk) return decode_lossless(w, chunk, sources, limits, found);
            return chunk == 1 ? fh_decode_plain(w, limits, NULL, found)
                              : fh_decode_hrt(w, chunk, limits, found);
        case FH_BIDIRECTIONAL:
            if (fh_writes_in_order(w->model) && w->options->block_scoring == FH_CANONICAL)
                return fh_decode_plain(w, limits, NULL, found);
            return (fh_beam_width(w) == 1 ? fh_greedy_blocks : fh_beam_blocks)(w, limits, found);
        case FH_DAG:
            return fh_decode_dag(w, found);
        case FH_CTC:
            return fh_decode_ctc(w, sources, limits, found);
        default:
            if (w->options->jacobi) return decode_lossless(w, 0, sources, limits, found);
            return fh_decode_plain(w, limits, NULL, found);
    }
}

static void decode_entries(job *j, int32_t batch, int32_t thread) {
    fh_work *w = &j->engine->works[thread];
    entry *entries = j->entries + j->starts[batch];
    int32_t count = j->starts[batch + 1] - j->starts[batch];
    memset(&w->error, 0, sizeof w->error);
    w->options = j->options;
    /* Given translations have words that no shortlist has. */
    w->shortlists = j->given ? NULL : j->engine->shortlists;
    w->team = j->team;
    w->watch = &j->watch;
    w->caller = thread == 0;
    w->beginnings = NULL;
    size_t n = (size_t)count;
    fh_arena memory = {.error = &j->errors[batch]};
    fh_found *found = fh_take(&memory, n, sizeof *found);
    fh_given *given = fh_take(&memory, n, sizeof *given);
    fh_beginning *beginnings = fh_take(&memory, n, sizeof *beginnings);
    const int32_t **sources = fh_take(&memory, n, sizeof *sources);
    int32_t *lengths = fh_take(&memory, n, sizeof *lengths),
            *limits = fh_take(&memory, n, sizeof *limits);
    if (memory.error->code) {
        fh_arena_free(&memory);
        return;
    }
    memset(found, 0, n * sizeof *found);
    for (int32_t i = 0; i < count; i++) {
        sources[i] = j->tokens + j->offsets[entries[i].number];
        lengths[i] = entries[i].length;
        limits[i] = entries[i].limit;
        if (j->given) given[i] = j->given[entries[i].number];
        if (j->beginnings) beginnings[i] = j->beginnings[entries[i].number];
    }
    if (j->beginnings) w->beginnings = beginnings;
    if (!fh_encode(w, sources, lengths, count)) {
        if (j->given)
            fh_score_given(w, given, found);
        else if (!fh_shortlist_batch(w, sources, lengths, count))
            decode_batch(w, entries[0].chunk, sources, limits, found);
    }
    for (int32_t i = 0; i < count && !j->given; i++) {
        if (!w->error.code && !found[i].count)
            fh_fail(&w->error, FH_NUMBER,
                    "no translation of a sentence has a probability above 0: the model's weights "
                    "are broken; convert another checkpoint");
        fh_found_cut(&found[i], j->options->nbest);
    }
    if (j->options->alignments && !w->error.code) fh_align(w, sources, found);
    for (int32_t i = 0; i < count; i++) j->found[entries[i].number] = found[i];
    j->errors[batch] = w->error;
    fh_arena_free(&memory);
}

/* Tasks behind the batches are those of helpers. */
static void run_task(void *context, int32_t task, int32_t thread) {
    job *j = context;
    if (task >= j->batches) {
        fh_team_help(j->team);
        return;
    }
    decode_entries(j, task, thread);
    if (j->team) fh_team_end(j->team);
}

/* The caller has no batch left. */
static void look(void *context) {
    job *j = context;
    fh_watch_look(&j->watch, 1);
}

/* Threads that can help with the only batch, if the model is large enough for it to pay. */
static int32_t helpers(const job *j) {
    const fh_matrix *output = j->engine->model->output;
    int pays = j->batches == 1 && (int64_t)output->outputs * output->inputs >= FH_WORTH_SHARING;
    int32_t others = j->engine->threads - 1;
    return !pays ? 0 : others < MOST_HELPERS ? others : MOST_HELPERS;
}

/* Decodes or scores all sentences of a job whose numbers are filled in. */
static int run_job(job *j, int32_t sentences, fh_results **results, fh_error *error) {
    fh_engine *e = j->engine;
    size_t n = (size_t)sentences;
    j->entries = calloc(n + 1, sizeof *j->entries);
    j->starts = calloc(n + 1, sizeof *j->starts);
    j->found = calloc(n + 1, sizeof *j->found);
    j->errors = calloc(n + 1, sizeof *j->errors);
    if (!j->entries || !j->starts || !j->found || !j->errors)
        fh_out_of_memory(error, n * sizeof *j->errors);
    if (!error->code && !make_entries(j, sentences, error)) {
        int32_t more = helpers(j);
        double start = more ? fh_seconds() : 0;
        fh_trial *trial = &e->helping[j->given != NULL];
        /* Without memory for a team the batch is decoded alone. */
        if (more && fh_trial_choice(trial, more)) j->team = fh_team_new(1 + more);
        fh_pool_run(e->pool, j->batches + (j->team ? more : 0), run_task, look, j);
        double seconds = more ? fh_seconds() - start : 0;
        for (int32_t b = 0; b < j->batches && !error->code; b++) *error = j->errors[b];
        if (more && !error->code)
            fh_trial_note(trial, j->team != NULL, seconds, tokens_of(j->found, sentences));
        if (!error->code) *results = fh_results_new(j->found, sentences, error);
    }
    for (size_t i = 0; j->found && i < n; i++) fh_found_clear(&j->found[i]);
    fh_team_free(j->team);
    free(j->entries);
    free(j->starts);
    free(j->found);
    free(j->errors);
    return error->code;
}

int fh_decode(fh_engine *e, const int32_t *tokens, const int64_t *offsets, int32_t sentences,
              const fh_first_words *first_words, const fh_options *options, fh_ask_caller ask,
              fh_results **results, char *message, size_t size) {
    fh_error error = {0};
    fh_beginning *beginnings = NULL;
    *results = NULL;
    job j = {.engine = e, .options = options, .tokens = tokens, .offsets = offsets};
    fh_watch_start(&j.watch, ask);
    if (!fh_check_offsets(offsets, sentences, "sentence", &error) &&
        !fh_check_options(e->model, options, &error)) {
        if (first_words)
            j.beginnings = beginnings =
                fh_take_first_words(e->model, first_words, sentences, &error);
        if (!error.code) run_job(&j, sentences, results, &error);
    }
    free(beginnings);
    return fh_report(&error, message, size);
}

int fh_score(fh_engine *e, const int32_t *tokens, const int64_t *offsets, int32_t sentences,
             const fh_targets *targets, const fh_options *options, fh_ask_caller ask,
             fh_results **results, char *message, size_t size) {
    fh_error error = {0};
    fh_given *given = NULL;
    *results = NULL;
    job j = {.engine = e, .options = options, .tokens = tokens, .offsets = offsets};
    fh_watch_start(&j.watch, ask);
    if (!fh_writes_in_order(e->model))
        fh_fail(&error, FH_REFUSED,
                "given translations are scored by models that write one word after the other; this "
                "one does not");
    else if (!fh_check_offsets(offsets, sentences, "sentence", &error) &&
             !fh_check_options(e->model, options, &error)) {
        size_t bytes = ((size_t)sentences + 1) * sizeof *given;
        j.given = given = malloc(bytes);
        if (!given)
            fh_out_of_memory(&error, bytes);
        else if (!fh_take_targets(e->model, targets, sentences, given, &error))
            run_job(&j, sentences, results, &error);
    }
    free(given);
    return fh_report(&error, message, size);
}
