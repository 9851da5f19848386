#include "shortlist.h"

#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *data, size_t bytes, fh_error *error) {
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        fh_out_of_memory(error, bytes);
    else if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static int all_words(const int32_t *words, int64_t count, int32_t vocabulary) {
    for (int64_t i = 0; i < count; i++)
        if (words[i] < 0 || words[i] >= vocabulary) return 0;
    return 1;
}

fh_shortlists *fh_shortlists_new(const fh_model *model, const int64_t *offsets,
                                 const int32_t *candidates, int64_t count, const int32_t *always,
                                 int64_t always_count, fh_error *error) {
    int32_t sources = model->encoder.shape.vocabulary, words = model->decoder.shape.vocabulary;
    int fits = count >= 0 && always_count >= 0 && offsets[0] == 0 && offsets[sources] == count;
    for (int32_t i = 0; fits && i < sources; i++) fits = offsets[i] <= offsets[i + 1];
    if (!fits || !all_words(candidates, count, words) || !all_words(always, always_count, words)) {
        fh_fail(error, FH_INVALID,
                "the shortlist does not fit the model: it has other dictionaries or is damaged; "
                "make it again");
        return NULL;
    }
    fh_shortlists *lists = calloc(1, sizeof *lists);
    if (!lists) {
        fh_out_of_memory(error, sizeof *lists);
        return NULL;
    }
    lists->offsets = copy_of(offsets, (size_t)(sources + 1) * sizeof *offsets, error);
    lists->candidates = copy_of(candidates, (size_t)count * sizeof *candidates, error);
    lists->always = copy_of(always, (size_t)always_count * sizeof *always, error);
    lists->always_count = always_count;
    size_t bytes = fh_matrix_rows_size(model->output);
    lists->rows = fh_aligned(bytes);
    if (!lists->rows) fh_out_of_memory(error, bytes);
    if (!error->code) {
        fh_matrix_rows(model->output, lists->rows);
        return lists;
    }
    fh_shortlists_free(lists);
    return NULL;
}

void fh_shortlists_free(fh_shortlists *lists) {
    if (!lists) return;
    free(lists->offsets);
    free(lists->candidates);
    free(lists->always);
    fh_aligned_free(lists->rows);
    free(lists);
}

/* Sentences from which an output layer is shared. */
enum { JOINED_FROM = 8 };

/* The words that are marked, as a list; the marks go. */
static int take_marked(fh_work *w, fh_choice_list *list) {
    size_t whole = ((size_t)w->model->decoder.shape.vocabulary + 7) / 8;
    uint8_t *marks = w->marks.data;
    for (int pass = 0; pass < 2; pass++) {
        int32_t *ids = list->ids.data, count = 0;
        for (size_t block = 0; block < whole; block++) {
            uint64_t eight;
            memcpy(&eight, marks + 8 * block, 8);
            if (!eight) continue;
            for (int i = 0; i < 8; i++)
                if (marks[8 * block + i]) {
                    if (pass) ids[count] = (int32_t)(8 * block) + i;
                    count++;
                }
            if (pass) memset(marks + 8 * block, 0, 8);
        }
        list->count = count;
        if (!pass && fh_reserve(&list->ids, (size_t)count, sizeof(int32_t), &w->error))
            return w->error.code;
    }
    return FH_OK;
}

/* The words of one sentence. */
static int list_words(fh_work *w, int32_t sentence, const int32_t *source, int32_t length) {
    const fh_model *m = w->model;
    const fh_shortlists *all = w->shortlists;
    uint8_t *marks = w->marks.data;
    marks[m->shape.bos] = marks[m->shape.pad] = marks[m->shape.eos] = marks[m->shape.unk] = 1;
    for (int64_t i = 0; i < all->always_count; i++) marks[all->always[i]] = 1;
    for (int32_t i = 0; w->beginnings && i < w->beginnings[sentence].count; i++)
        marks[w->beginnings[sentence].words[i]] = 1;
    for (int32_t s = 0; s < length; s++)
        for (int64_t i = all->offsets[source[s]]; i < all->offsets[source[s] + 1]; i++)
            marks[all->candidates[i]] = 1;
    return take_marked(w, &w->lists[sentence]);
}

static int build_output(fh_work *w, fh_choice_list *list) {
    const fh_matrix *output = w->model->output;
    if (fh_reserve(&list->buffer, fh_matrix_size(output->kind, list->count, output->inputs), 1,
                   &w->error))
        return w->error.code;
    if (fh_matrix_select(&list->matrix, list->buffer.data, output, w->shortlists->rows,
                         list->ids.data, list->count))
        return fh_fail(&w->error, FH_INVALID,
                       "the shortlist of a sentence has %d words, which do not fit the model",
                       (int)list->count);
    return FH_OK;
}

/* Whether a step has one row of each sentence, whose best word is all that is asked for. */
static int one_best_word(const fh_work *w) {
    return w->model->shape.family == FH_AUTOREGRESSIVE && !w->options->jacobi &&
           !w->options->scores && fh_beam_width(w) == 1;
}

/* The words of all sentences, where sharing them pays; else w->joined is 0. A row is multiplied
 * with the words of all, but these are read once. */
static int join(fh_work *w, int32_t sentences) {
    uint8_t *marks = w->marks.data;
    int64_t words = 0, joins = w->model->operations->joins;
    w->joined = 0;
    if (sentences < JOINED_FROM || !joins || w->model->output->kind == FH_FLOAT32 ||
        !one_best_word(w))
        return FH_OK;
    for (int32_t s = 0; s < sentences; s++) {
        const int32_t *ids = w->lists[s].ids.data;
        words += w->lists[s].count;
        for (int32_t i = 0; i < w->lists[s].count; i++) marks[ids[i]] = 1;
    }
    if (take_marked(w, &w->all)) return w->error.code;
    if (joins * w->all.count > words) return FH_OK;
    size_t vocabulary = (size_t)w->model->decoder.shape.vocabulary;
    if (fh_reserve(&w->all.places, vocabulary, sizeof(int32_t), &w->error)) return w->error.code;
    int32_t *places = w->all.places.data, *all = w->all.ids.data;
    for (int32_t i = 0; i < w->all.count; i++) places[all[i]] = i;
    for (int32_t s = 0; s < sentences; s++) {
        fh_choice_list *list = &w->lists[s];
        if (fh_reserve(&list->places, (size_t)list->count, sizeof(int32_t), &w->error))
            return w->error.code;
        const int32_t *ids = list->ids.data;
        for (int32_t i = 0; i < list->count; i++)
            ((int32_t *)list->places.data)[i] = places[ids[i]];
    }
    w->joined = 1;
    return build_output(w, &w->all);
}

int fh_shortlist_batch(fh_work *w, const int32_t *const *sources, const int32_t *lengths,
                       int32_t sentences) {
    if (!w->shortlists) return FH_OK;
    if (sentences > w->list_room) {
        fh_choice_list *lists = realloc(w->lists, (size_t)sentences * sizeof *lists);
        if (!lists) return fh_out_of_memory(&w->error, (size_t)sentences * sizeof *lists);
        memset(lists + w->list_room, 0, (size_t)(sentences - w->list_room) * sizeof *lists);
        w->lists = lists;
        w->list_room = sentences;
    }
    size_t bytes = ((size_t)w->model->decoder.shape.vocabulary + 7) / 8 * 8;
    if (!w->marks.data || w->marks.bytes < bytes) {
        if (fh_reserve(&w->marks, bytes, 1, &w->error)) return w->error.code;
        memset(w->marks.data, 0, w->marks.bytes);
    }
    for (int32_t s = 0; s < sentences && !w->error.code; s++)
        list_words(w, s, sources[s], lengths[s]);
    if (!w->error.code) join(w, sentences);
    for (int32_t s = 0; s < sentences && !w->joined && !w->error.code; s++)
        build_output(w, &w->lists[s]);
    /* The marks of a list that was not finished must not reach the next one. */
    if (w->error.code) memset(w->marks.data, 0, w->marks.bytes);
    return w->error.code;
}

int32_t fh_shortlist_place(const fh_choice_list *list, int32_t token) {
    const int32_t *ids = list->ids.data;
    int32_t low = 0, high = list->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ids[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && ids[low] == token ? low : -1;
}
