/* What comes in is checked here, whatever the caller has checked: options against the model, tokens
 * against the dictionaries. */
#include "checks.h"

#include <math.h>
#include <stdlib.h>

/* Leaves the function with an error that names the option, unless it fits. */
#define DEMAND(name, fits)                                                                         \
    if (!(fits))                                                                                   \
    return fh_fail(error, FH_INVALID,                                                              \
                   "the decoding option " #name "=%g does not fit the model or the other options", \
                   (double)o->name)

static int is_trained(const fh_shape *s, int32_t chunk) {
    for (int32_t k = 0; k < s->chunk_count; k++)
        if (chunk == s->chunk_sizes[k]) return 1;
    return 0;
}

static int check_chunks(const fh_shape *s, const fh_options *o, fh_error *error) {
    DEMAND(nat_beam, o->nat_beam >= 1 && o->nat_beam <= o->beam);
    DEMAND(table_size, o->table_size >= 1 && o->table_limits && o->table_chunks);
    for (int32_t i = 0; i < o->table_size; i++) {
        int last = i + 1 == o->table_size;
        DEMAND(table_chunks[i], o->table_chunks[i] == 1 || is_trained(s, o->table_chunks[i]));
        DEMAND(table_limits[i],
               !isnan(o->table_limits[i]) && (!last || o->table_limits[i] == INFINITY));
    }
    DEMAND(draft_width, o->draft_width >= 0 && o->draft_width <= 4096);
    if (!o->draft_chunk) return FH_OK;
    DEMAND(draft_chunk, is_trained(s, o->draft_chunk) && o->beam == 1 && o->table_size == 1 &&
                            o->table_chunks[0] == 1);
    return FH_OK;
}

static int check_graphs(const fh_options *o, fh_error *error) {
    DEMAND(strategy, o->strategy >= FH_GREEDY && o->strategy <= FH_JOINT_VITERBI);
    DEMAND(beta, isfinite(o->beta));
    DEMAND(length_beta, isfinite(o->length_beta));
    DEMAND(scale, o->scale > 0 && o->scale <= 1e6);
    DEMAND(max_graph, o->max_graph == 0 || o->max_graph >= 2);
    DEMAND(nbest, o->nbest == 1);
    return FH_OK;
}

static int check_guesses(const fh_model *m, const fh_options *o, fh_error *error) {
    if (!o->jacobi) return FH_OK;
    DEMAND(jacobi, m->shape.family == FH_AUTOREGRESSIVE && o->beam == 1);
    DEMAND(jacobi_window, o->jacobi_window >= 0);
    int copies = m->encoder.shape.vocabulary == m->decoder.shape.vocabulary;
    DEMAND(jacobi_draft,
           o->jacobi_draft == FH_PREVIOUS || (o->jacobi_draft == FH_SOURCE && copies));
    return FH_OK;
}

int fh_check_options(const fh_model *m, const fh_options *o, fh_error *error) {
    DEMAND(beam, o->beam >= 1);
    DEMAND(nbest, o->nbest >= 1 && o->nbest <= o->beam);
    DEMAND(min_len, o->min_len >= 0);
    DEMAND(max_len_a, isfinite(o->max_len_a) && o->max_len_a >= 0);
    DEMAND(max_len_b, o->max_len_b >= 0);
    DEMAND(batch_size, o->batch_size >= 1);
    DEMAND(lenpen, isfinite(o->lenpen));
    DEMAND(unkpen, !isnan(o->unkpen) && o->unkpen > -INFINITY);
    DEMAND(alignments, !o->alignments || fh_writes_in_order(m));
    DEMAND(graphs, !o->graphs || m->shape.family == FH_DAG);
    if (m->shape.family == FH_HRT && check_chunks(&m->shape, o, error)) return error->code;
    if (m->shape.family == FH_DAG && check_graphs(o, error)) return error->code;
    return check_guesses(m, o, error);
}

int fh_check_sentence(const fh_model *m, const int32_t *tokens, int64_t length, int32_t number,
                      fh_error *error) {
    if (length < 1)
        return fh_fail(error, FH_INVALID, "sentence %d has no tokens; at least </s> is needed",
                       (int)number);
    if (length > m->encoder.shape.longest)
        return fh_fail(error, FH_INVALID,
                       "sentence %d has %lld tokens, the model takes %d; split it", (int)number,
                       (long long)length, (int)m->encoder.shape.longest);
    for (int64_t i = 0; i < length; i++)
        if (tokens[i] < 0 || tokens[i] >= m->encoder.shape.vocabulary || tokens[i] == m->shape.pad)
            return fh_fail(error, FH_INVALID,
                           "token %d of sentence %d is %d, which is padding or not in the "
                           "dictionary of %d words",
                           (int)i, (int)number, (int)tokens[i], (int)m->encoder.shape.vocabulary);
    return FH_OK;
}

int fh_check_offsets(const int64_t *offsets, int64_t count, const char *what, fh_error *error) {
    if (count < 0 || count > INT32_MAX)
        return fh_fail(error, FH_INVALID, "%lld %ss", (long long)count, what);
    if (offsets[0] != 0)
        return fh_fail(error, FH_INVALID, "the first %s begins at %lld, not at 0", what,
                       (long long)offsets[0]);
    for (int64_t i = 0; i < count; i++)
        if (offsets[i] > offsets[i + 1])
            return fh_fail(error, FH_INVALID, "%s %lld ends before it begins", what, (long long)i);
    return FH_OK;
}

/* The first words of each sentence, checked; NULL and an error. */
fh_beginning *fh_take_first_words(const fh_model *m, const fh_first_words *first, int32_t sentences,
                                  fh_error *error) {
    if (fh_check_offsets(first->offsets, sentences, "beginning", error)) return NULL;
    fh_beginning *found = calloc((size_t)sentences + 1, sizeof *found);
    if (!found) fh_out_of_memory(error, ((size_t)sentences + 1) * sizeof *found);
    for (int32_t i = 0; i < sentences && !error->code; i++) {
        int64_t begin = first->offsets[i], count = first->offsets[i + 1] - begin;
        for (int64_t k = 0; k < count; k++) {
            int32_t token = first->tokens[begin + k];
            if (token < 0 || token >= m->decoder.shape.vocabulary)
                fh_fail(error, FH_INVALID,
                        "the given word %lld of sentence %d is %d, which is not in the dictionary "
                        "of %d words",
                        (long long)k, (int)i, (int)token, (int)m->decoder.shape.vocabulary);
        }
        /* No translation has more. */
        int32_t most = m->decoder.shape.longest;
        found[i] = (fh_beginning){.words = first->tokens + begin,
                                  .count = count < most ? (int32_t)count : most,
                                  .scored = first->scored};
    }
    return found;
}

static int check_target(const fh_model *m, const fh_given *given, int32_t number, int32_t sentence,
                        fh_error *error) {
    const int32_t *tokens = given->tokens + given->offsets[number];
    int64_t length = given->offsets[number + 1] - given->offsets[number];
    if (length < 1)
        return fh_fail(error, FH_INVALID,
                       "translation %d of sentence %d has no tokens; at least </s> is needed",
                       (int)number, (int)sentence);
    if (length > m->decoder.shape.longest)
        return fh_fail(
            error, FH_INVALID, "translation %d of sentence %d has %lld tokens, the model writes %d",
            (int)number, (int)sentence, (long long)length, (int)m->decoder.shape.longest);
    if (tokens[length - 1] != m->shape.eos)
        return fh_fail(error, FH_INVALID, "translation %d of sentence %d does not end in </s>",
                       (int)number, (int)sentence);
    for (int64_t i = 0; i < length; i++)
        if (tokens[i] < 0 || tokens[i] >= m->decoder.shape.vocabulary || tokens[i] == m->shape.pad)
            return fh_fail(error, FH_INVALID,
                           "token %d of translation %d of sentence %d is %d, which is padding or "
                           "not in the dictionary of %d words",
                           (int)i, (int)number, (int)sentence, (int)tokens[i],
                           (int)m->decoder.shape.vocabulary);
    return FH_OK;
}

/* The translations of each sentence, checked. */
int fh_take_targets(const fh_model *m, const fh_targets *targets, int32_t sentences,
                    fh_given *given, fh_error *error) {
    int64_t all = 0;
    for (int32_t i = 0; i < sentences; i++) {
        if (targets->counts[i] < 0)
            return fh_fail(error, FH_INVALID, "sentence %d has %d translations", (int)i,
                           (int)targets->counts[i]);
        given[i] = (fh_given){targets->tokens, targets->offsets + all, targets->counts[i]};
        all += targets->counts[i];
    }
    if (fh_check_offsets(targets->offsets, all, "translation", error)) return error->code;
    for (int32_t i = 0; i < sentences; i++)
        for (int32_t k = 0; k < given[i].count; k++)
            if (check_target(m, &given[i], k, i, error)) return error->code;
    return FH_OK;
}
