#include "choose.h"

#include <math.h>

#include "shortlist.h"
#include "team.h"

/* Rows whose values over the whole vocabulary are held at once. */
#define HELD 64
/* Rows whose best words are sought at once: a call that is to end ends between two of these
 * products. */
#define SOUGHT 256

fh_ask fh_plain_ask(const fh_work *w, int32_t sentence) {
    fh_ask ask = {.sentence = sentence, .bans = 0, .only = -1};
    fh_ban(&ask, w->model->shape.pad);
    if (isinf(w->options->unkpen)) fh_ban(&ask, w->model->shape.unk);
    return ask;
}

void fh_ban(fh_ask *ask, int32_t token) {
    if (ask->bans < FH_MOST_BANS) ask->banned[ask->bans++] = token;
}

fh_ask fh_ask_at(const fh_work *w, int32_t sentence, int32_t place, int32_t min_len,
                 int32_t max_len) {
    fh_ask ask = fh_plain_ask(w, sentence);
    if (place >= max_len)
        ask.only = w->model->shape.eos;
    else if (place < min_len)
        fh_ban(&ask, w->model->shape.eos);
    return ask;
}

fh_ask fh_ask_word(const fh_work *w, int32_t sentence, int32_t place, int32_t min_len,
                   int32_t max_len) {
    fh_ask ask = fh_ask_at(w, sentence, place, min_len, max_len);
    const fh_beginning *given = w->beginnings ? &w->beginnings[sentence] : NULL;
    if (given && place < max_len && place < given->count &&
        given->words[place] != w->model->shape.pad) {
        ask.only = given->words[place];
        ask.certain = !given->scored;
    }
    return ask;
}

/* Of values that are all minus infinity the log-probabilities are NaN too. */
static int not_a_number(fh_work *w) {
    return fh_fail(&w->error, FH_NUMBER,
                   "the model computed NaN probabilities: its weights are broken (a diverged or "
                   "truncated training?); convert another checkpoint");
}

int fh_no_word(fh_work *w, int32_t token) {
    if (token != FH_NONE) return not_a_number(w);
    return fh_fail(&w->error, FH_INVALID,
                   "every word is forbidden; lower --unkpen or give a larger shortlist");
}

/* The output layer of the rows from `first` on that share one, and how many they are. */
static int32_t same_matrix(const fh_work *w, const fh_ask *asks, int32_t first, int32_t rows,
                           const fh_matrix **matrix, const fh_choice_list **list) {
    *list = w->shortlists ? &w->lists[asks[first].sentence] : NULL;
    *matrix = *list ? &(*list)->matrix : w->model->output;
    if (!*list) return rows - first;
    int32_t next = first + 1;
    while (next < rows && asks[next].sentence == asks[first].sentence) next++;
    return next - first;
}

static int32_t inside(const fh_choice_list *list, int32_t token) {
    return list ? fh_shortlist_place(list, token) : token;
}
static int32_t outside(const fh_choice_list *list, int32_t place) {
    return list && place >= 0 ? ((const int32_t *)list->ids.data)[place] : place;
}

/* The rules of `rows` asks, with the ids of their output layer. The ids lie behind the rules in the
 * same buffer. */
static int make_rules(fh_work *w, const fh_ask *asks, int32_t rows, const fh_choice_list *list,
                      fh_rule **rules) {
    if (fh_reserve(&w->choice, (size_t)rows, sizeof(fh_rule) + FH_MOST_BANS * sizeof(int32_t),
                   &w->error))
        return w->error.code;
    double penalty = w->options->unkpen;
    *rules = w->choice.data;
    int32_t *ids = (int32_t *)(*rules + rows), unk = inside(list, w->model->shape.unk);
    for (int32_t r = 0; r < rows; r++, ids += FH_MOST_BANS) {
        for (int32_t i = 0; i < asks[r].bans; i++) ids[i] = inside(list, asks[r].banned[i]);
        (*rules)[r] = (fh_rule){.banned = ids,
                                .bans = asks[r].bans,
                                .unk = penalty != 0 && !isinf(penalty) ? unk : -1,
                                .unk_penalty = (float)penalty};
    }
    return FH_OK;
}

/* A large output layer in parts of so many words. Fixed, as the sum of probabilities is one of the
 * parts' sums: it must not depend on the number of threads. */
#define PART 2048

typedef struct {
    const fh_operations *operations;
    const fh_matrix *matrix;
    const fh_input *input;
    const fh_rule *rules;
    int32_t rows, parts;
    fh_rule *own;    /* [parts][rows] */
    int32_t *banned; /* [parts][rows][FH_MOST_BANS] */
    int32_t *tokens; /* [parts][rows] */
    float *values, *sums;
    int summing;
} divided;

static void best_of_part(void *context, int32_t part) {
    const divided *p = context;
    int32_t first = part * PART, left = p->matrix->outputs - first;
    fh_matrix slice = fh_matrix_slice(p->matrix, first, left < PART ? left : PART);
    size_t at = (size_t)part * (size_t)p->rows;
    fh_rule *own = p->own + at;
    int32_t *banned = p->banned + at * FH_MOST_BANS;
    for (int32_t r = 0; r < p->rows; r++, banned += FH_MOST_BANS) {
        own[r] = p->rules[r];
        own[r].banned = banned;
        for (int32_t i = 0; i < own[r].bans; i++) banned[i] = p->rules[r].banned[i] - first;
        int32_t unk = p->rules[r].unk - first;
        own[r].unk = p->rules[r].unk >= 0 && unk >= 0 && unk < slice.outputs ? unk : -1;
    }
    p->operations->best(&slice, p->input, own, p->tokens + at, p->values + at,
                        p->summing ? p->sums + at : NULL);
}

/* operations->best, part by part: the best of the parts' best ones, the lowest id among equals. */
static int best_in_parts(fh_work *w, const fh_matrix *matrix, const fh_input *input,
                         const fh_rule *rules, int32_t *tokens, float *values, float *sums) {
    int32_t rows = input->rows, parts = (matrix->outputs + PART - 1) / PART;
    size_t all = (size_t)parts * (size_t)rows;
    if (fh_reserve(&w->parts, all, sizeof(fh_rule) + (FH_MOST_BANS + 3) * sizeof(int32_t),
                   &w->error))
        return w->error.code;
    divided p = {w->model->operations, matrix, input, rules, rows, parts,
                 w->parts.data,        NULL,   NULL,  NULL,  NULL, sums != NULL};
    p.banned = (int32_t *)(p.own + all);
    p.tokens = p.banned + all * FH_MOST_BANS;
    p.values = (float *)(p.tokens + all);
    p.sums = p.values + all;
    fh_team_run(w->team, parts, best_of_part, &p);
    /* tokens, values and sums [parts][rows] -> [rows] */
    for (int32_t r = 0; r < rows; r++) {
        int32_t token = FH_NONE;
        float best = -INFINITY, highest = -INFINITY;
        double sum = 0;
        for (int32_t part = 0; part < parts && token != FH_NAN; part++) {
            size_t at = (size_t)part * rows + r;
            if (p.tokens[at] == FH_NAN) token = FH_NAN;
            if (p.tokens[at] >= 0 && (token == FH_NONE || p.values[at] > best)) {
                token = p.tokens[at] + part * PART;
                best = p.values[at];
            }
            if (sums && p.sums[at] > highest) highest = p.sums[at];
        }
        for (int32_t part = 0; part < parts && sums && highest > -INFINITY; part++)
            sum += exp((double)p.sums[(size_t)part * rows + r] - highest);
        tokens[r] = token;
        if (values) values[r] = token == FH_NAN ? NAN : best;
        if (sums) sums[r] = highest > -INFINITY ? highest + (float)log(sum) : highest;
    }
    return FH_OK;
}

/* 1: settled from the upper bits of the weights; 0: to be computed in full. */
static int screened(fh_work *w, const fh_matrix *matrix, const float *features,
                    const fh_input *input, const fh_rule *rules, int32_t *tokens, float *values) {
    const fh_model *m = w->model;
    fh_input rough = *input;
    if (!m->screen.nibbles || matrix != m->output || input->rows > FH_SCREEN_ROWS) return 0;
    if (fh_reserve(&w->bounds, (size_t)input->rows * (size_t)matrix->outputs, sizeof(float),
                   &w->error))
        return 0;
    if (matrix->kind != FH_INT8) {
        int32_t d = matrix->inputs;
        if (fh_reserve(&w->rough, fh_input_size(FH_INT8, input->rows, d), 1, &w->error)) return 0;
        m->operations->prepare(&rough, w->rough.data, FH_INT8, features, d, input->rows, d, 0);
    }
    return fh_screened_best(m->operations, matrix, &m->screen, &w->screening, input,
                            matrix->kind == FH_INT8 ? input : &rough, rules, w->bounds.data, tokens,
                            values);
}

static int best_of(fh_work *w, const float *features, const fh_ask *asks, int32_t rows,
                   const fh_matrix *matrix, const fh_choice_list *list, int32_t *tokens,
                   float *scores) {
    int32_t d = w->model->decoder.shape.width;
    fh_rule *rules;
    fh_input input;
    if (make_rules(w, asks, rows, list, &rules) ||
        fh_prepare(w, &input, matrix->kind, features, rows, d, 0))
        return w->error.code;
    if (fh_reserve(&w->logits, 2 * (size_t)rows, sizeof(float), &w->error)) return w->error.code;
    float *values = w->logits.data, *sums = scores ? values + rows : NULL;
    int large = (int64_t)matrix->outputs * matrix->inputs >= FH_WORTH_SHARING;
    if (!scores && screened(w, matrix, features, &input, rules, tokens, values)) {
        /* settled */
    } else if (w->error.code) {
        return w->error.code;
    } else if (large && (scores || fh_team_members(w->team) > 1)) {
        if (best_in_parts(w, matrix, &input, rules, tokens, values, sums)) return w->error.code;
    } else {
        w->model->operations->best(matrix, &input, rules, tokens, values, sums);
    }
    for (int32_t r = 0; r < rows; r++) {
        if (tokens[r] >= 0 && values[r] == -INFINITY) tokens[r] = FH_NAN;
        if (tokens[r] < 0) {
            if (!asks[r].guessed) return fh_no_word(w, tokens[r]);
            if (scores) scores[r] = NAN;
            continue;
        }
        tokens[r] = outside(list, tokens[r]);
        if (scores) scores[r] = values[r] - sums[r];
    }
    return FH_OK;
}

/* Values of some rows over their output layer: *values [rows][outputs]. */
static int values_of(fh_work *w, const float *features, int32_t rows, const fh_matrix *matrix,
                     float **values) {
    if (fh_reserve(&w->logits, (size_t)rows * matrix->outputs, sizeof(float), &w->error))
        return w->error.code;
    *values = w->logits.data;
    /* [rows][d] -> [rows][outputs]: the whole vocabulary, or the words of a shortlist */
    fh_linear_map output = {.matrix = matrix, .x = features, .rows = rows, .out = *values};
    return fh_linear(w, &output);
}

/* The best words of rows whose sentences share an output layer: each among its own. */
static int best_of_own(fh_work *w, const float *features, const fh_ask *asks, int32_t rows,
                       int32_t *tokens) {
    float *values, value;
    fh_rule *rule;
    if (values_of(w, features, rows, &w->all.matrix, &values)) return w->error.code;
    for (int32_t r = 0; r < rows; r++, values += w->all.count) {
        /* Of the words of all, [w->all.count], those of this sentence: [list->count]. */
        const fh_choice_list *list = &w->lists[asks[r].sentence];
        const int32_t *places = list->places.data;
        if (fh_reserve(&w->gathered, (size_t)list->count, sizeof(float), &w->error) ||
            make_rules(w, asks + r, 1, list, &rule))
            return w->error.code;
        float *own = w->gathered.data;
        for (int32_t i = 0; i < list->count; i++) own[i] = values[places[i]];
        int32_t found = w->model->operations->top(own, list->count, rule, 1, tokens + r, &value);
        if (found < 1) return fh_no_word(w, found == FH_NAN ? FH_NAN : FH_NONE);
        if (value == -INFINITY) return fh_no_word(w, FH_NAN);
        tokens[r] = outside(list, tokens[r]);
    }
    return FH_OK;
}

int fh_best_words(fh_work *w, const float *features, const fh_ask *asks, int32_t rows,
                  int32_t *tokens, float *scores) {
    size_t d = (size_t)w->model->decoder.shape.width;
    for (int32_t first = 0, count; first < rows; first += count) {
        const fh_matrix *matrix;
        const fh_choice_list *list;
        if (w->shortlists && w->joined) {
            count = rows - first < HELD ? rows - first : HELD;
            if (best_of_own(w, features + first * d, asks + first, count, tokens + first))
                return w->error.code;
            continue;
        }
        count = same_matrix(w, asks, first, rows, &matrix, &list);
        if (count > SOUGHT) count = SOUGHT;
        if (best_of(w, features + first * d, asks + first, count, matrix, list, tokens + first,
                    scores ? scores + first : NULL))
            return w->error.code;
    }
    for (int32_t r = 0; r < rows; r++)
        if (asks[r].only >= 0) {
            tokens[r] = asks[r].only;
            if (scores && asks[r].certain)
                scores[r] = 0;
            else if (scores &&
                     fh_word_scores(w, features + r * d, asks + r, 1, tokens + r, scores + r))
                return w->error.code;
        }
    return FH_OK;
}

/* An infinite penalty forbids to choose <unk>; one that is given stands. */
static float penalty_of(const fh_work *w, int32_t token) {
    return token == w->model->shape.unk && !isinf(w->options->unkpen) ? (float)w->options->unkpen
                                                                      : 0.0f;
}

/* Score of a word whose values over the vocabulary are known; a word outside the shortlist has
 * none. */
static float one_score(const fh_work *w, const float *row, float sum, const fh_choice_list *list,
                       int32_t token) {
    int32_t place = inside(list, token);
    return place < 0 ? -INFINITY : row[place] - penalty_of(w, token) - sum;
}

int fh_word_scores(fh_work *w, const float *features, const fh_ask *asks, int32_t rows,
                   const int32_t *words, float *scores) {
    size_t d = (size_t)w->model->decoder.shape.width;
    for (int32_t first = 0, count; first < rows; first += count) {
        const fh_matrix *matrix;
        const fh_choice_list *list;
        float *values = NULL;
        count = same_matrix(w, asks, first, rows, &matrix, &list);
        if (count > HELD) count = HELD;
        if (values_of(w, features + first * d, count, matrix, &values)) return w->error.code;
        for (int32_t r = first; r < first + count; r++) {
            const float *row = values + (size_t)(r - first) * matrix->outputs;
            float sum = w->model->operations->logsumexp(row, matrix->outputs);
            if (!isfinite(sum) && !asks[r].guessed) return not_a_number(w);
            scores[r] = isfinite(sum) ? one_score(w, row, sum, list, words[r]) : NAN;
        }
    }
    return FH_OK;
}

int fh_best_lists(fh_work *w, const float *features, const fh_ask *asks, int32_t rows, int32_t n,
                  int32_t *tokens, float *scores, int32_t *counts, int32_t noted,
                  float *noted_scores) {
    const fh_model *m = w->model;
    size_t d = (size_t)m->decoder.shape.width;
    for (int32_t first = 0, count; first < rows; first += count) {
        const fh_matrix *matrix;
        const fh_choice_list *list;
        fh_rule *rules;
        float *values = NULL;
        count = same_matrix(w, asks, first, rows, &matrix, &list);
        if (count > HELD) count = HELD;
        if (values_of(w, features + first * d, count, matrix, &values) ||
            make_rules(w, asks + first, count, list, &rules))
            return w->error.code;
        /* values [count][outputs] -> the n best of each row: tokens and scores [count][n] */
        for (int32_t r = 0; r < count; r++) {
            const float *row = values + (size_t)r * matrix->outputs;
            size_t at = (size_t)(first + r) * n;
            float sum = m->operations->logsumexp(row, matrix->outputs);
            if (!isfinite(sum)) return not_a_number(w);
            if (noted_scores) noted_scores[first + r] = one_score(w, row, sum, list, noted);
            if (asks[first + r].only >= 0) {
                counts[first + r] = 1;
                tokens[at] = asks[first + r].only;
                scores[at] = asks[first + r].certain ? 0 : one_score(w, row, sum, list, tokens[at]);
                continue;
            }
            int32_t found =
                m->operations->top(row, matrix->outputs, &rules[r], n, tokens + at, scores + at);
            if (found == FH_NAN) return not_a_number(w);
            counts[first + r] = found;
            for (int32_t i = 0; i < found; i++) {
                tokens[at + i] = outside(list, tokens[at + i]);
                scores[at + i] -= sum;
            }
        }
    }
    return FH_OK;
}
