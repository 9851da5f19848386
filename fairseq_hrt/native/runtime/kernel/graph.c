#include "graph.h"

#include <math.h>
#include <string.h>

/* The class of the length head: what it adds to the source's length. */
static int32_t best_class(const fh_model *m, const double *means) {
    int32_t best = 0, d = m->encoder.shape.width;
    double highest = -INFINITY;
    for (int32_t c = 0; c < m->shape.length_classes; c++) {
        double value = 0;
        for (int32_t i = 0; i < d; i++) value += means[i] * m->length_weights[(size_t)c * d + i];
        value += m->length_biases[c];
        if (value > highest) {
            highest = value;
            best = c;
        }
    }
    return best;
}

int fh_graph_size(fh_work *w, int32_t sentence, const float *encoded, int32_t *vertices) {
    const fh_model *m = w->model;
    const fh_shape *s = &m->shape;
    int32_t length = w->source_lengths[sentence], d = m->encoder.shape.width,
            most = m->decoder.shape.longest, cap = w->options->max_graph;
    double size;
    if (cap && cap < most) most = cap;
    if (s->length_classes) {
        if (fh_reserve(&w->gathered, (size_t)d, sizeof(double), &w->error)) return w->error.code;
        double *means = w->gathered.data;
        for (int32_t i = 0; i < d; i++) {
            means[i] = 0;
            for (int32_t r = 0; r < length; r++) means[i] += encoded[(size_t)r * d + i];
            means[i] /= length;
        }
        int32_t words = best_class(m, means);
        if (!s->absolute_lengths) words += length - s->length_classes / 2;
        if (words < !s->absolute_lengths) words = 1;
        /* 0.1 * 30 is a little less than 3. */
        size = floor(w->options->scale * words + 1e-6) + 2;
    } else {
        int32_t tokens = length + s->count_bos - s->besides;
        size = floor(w->options->scale * tokens + 1e-6) + s->besides;
        if (size < 2) size = 2;
    }
    *vertices = size < most ? (int32_t)size : most;
    return FH_OK;
}

/* The vertices that a link from u leads to: u + 1 to *end - 1. */
static int32_t reach_of(const fh_shape *s, int32_t u, int32_t size) {
    return s->reach && u + 1 + s->reach < size ? u + 1 + s->reach : size;
}

int fh_graph_links(fh_work *w, fh_graph *g) {
    const fh_model *m = w->model;
    const fh_operations *o = m->operations;
    int32_t size = g->size, d = m->decoder.shape.width, heads = m->shape.link_heads,
            wide = m->links.outputs;
    size_t room = ((size_t)size + FH_BLOCK) / FH_BLOCK * FH_BLOCK;
    if (fh_reserve(&w->projected, (size_t)size * wide + room, sizeof(float), &w->error) ||
        fh_reserve(&w->own_cache, fh_cache_size(heads, d / heads, size), sizeof(float), &w->error))
        return w->error.code;
    float *all = w->projected.data, *row = all + (size_t)size * wide;
    if (size > m->shape.link_rows && m->shape.link_rows != 1)
        return fh_fail(&w->error, FH_INVALID, "a graph of %d vertices is larger than the model",
                       (int)size);
    /* features [size][d] -> [size][wide]: query [d], key [d], a gate for each head */
    fh_linear_map links = {.matrix = &m->links,
                           .x = g->features,
                           .rows = size,
                           .out = all,
                           .residual = m->link_table,
                           .repeated = m->shape.link_rows == 1};
    if (fh_linear(w, &links)) return w->error.code;
    /* Keys into blocks; the cache's values are not read. */
    fh_cache cache = {w->own_cache.data, heads, d / heads};
    w->model->operations->put(&cache, 0, size, all + d, wide, all + d, wide);
    memset(g->links, 0, (size_t)size * size * sizeof *g->links);
    for (int32_t u = 0; u + 1 < size; u++) {
        float *mine = all + (size_t)u * wide, *gates = mine + 2 * d;
        double *to = g->links + (size_t)u * size;
        int32_t first = u + 1, end = reach_of(&m->shape, u, size);
        if (fh_go_on(w)) return w->error.code;
        o->softmax(gates, heads);
        /* Of each head: scores [end] -> probabilities of v = first ... end - 1, weighed by its gate
         * and added up: links[u][v]. */
        for (int32_t h = 0; h < heads; h++) {
            o->scores(&cache, h, mine + h * (d / heads), end, row);
            o->softmax(row + first, end - first);
            for (int32_t v = first; v < end; v++) to[v] += (double)gates[h] * row[v];
        }
    }
    return FH_OK;
}

size_t fh_edges_size(int32_t size) { return 5 * (size_t)size; }

/* Where no link of u leads to another word: log of all that its chains of repeats lead on, relative
 * to which its row is kept; long chains would underflow. */
static double unit_of(const fh_edges *e, int32_t u) {
    const fh_graph *g = e->graph;
    const double *from = g->links + (size_t)u * g->size;
    double highest = -INFINITY, sum = 0;
    for (int32_t v = u + 1; v < g->size; v++)
        if (from[v] > 0 && g->tokens[u] != g->tokens[v]) return 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t v = e->next[u]; v; v = e->next[v]) {
            if (!(from[v] > 0)) continue;
            double one = log(from[v]) + e->weight * g->scores[v] + e->units[v];
            if (pass)
                sum += exp(one - highest);
            else
                highest = fmax(highest, one);
        }
    return highest > -INFINITY ? highest + log(sum) : 0.0;
}

fh_edges fh_without_repeats(const fh_graph *g, double weight, double *memory) {
    size_t n = (size_t)g->size;
    fh_edges e = {
        g, weight, (int32_t *)(memory + 4 * n), memory, memory + n, memory + 2 * n, memory + 3 * n};
    for (int32_t u = g->size - 1; u >= 0; u--) {
        int32_t v = u + 1;
        while (v < g->size && g->tokens[v] != g->tokens[u]) v++;
        e.next[u] = v < g->size ? v : 0;
        e.costs[u] = exp(weight * g->scores[u]);
        e.units[u] = unit_of(&e, u);
    }
    return e;
}

/* What a link of a leads on to its repeat v, in the units of both. */
static double share(const fh_edges *e, const double *from, int32_t a, int32_t v) {
    if (!(from[v] > 0)) return 0.0;
    if (e->units[a] == 0 && e->units[v] == 0) return from[v] * e->costs[v];
    return from[v] * exp(e->weight * e->graph->scores[v] + e->units[v] - e->units[a]);
}

/* chain[v] of the repeats v of u before `end`: by how much of row u one comes there, over all
 * repeats between them. */
static void reach_repeats(const fh_edges *e, int32_t u, int32_t end) {
    int32_t a = u;
    for (int32_t v = e->next[u]; v && v < end; v = e->next[v]) e->chain[v] = 0.0;
    e->chain[u] = 1.0;
    do {
        const double *from = e->graph->links + (size_t)a * e->graph->size;
        for (int32_t v = e->next[a]; v && v < end && e->chain[a] > 0; v = e->next[v])
            e->chain[v] += e->chain[a] * share(e, from, a, v);
    } while ((a = e->next[a]) && a < end);
}

/* The edges of u, relative to exp(units[u]): [size], zeros up to u. */
static const double *row_of(const fh_edges *e, int32_t u) {
    int32_t size = e->graph->size, a = u;
    if (!e->next) return e->graph->links + (size_t)u * size;
    memset(e->row, 0, (size_t)size * sizeof *e->row);
    reach_repeats(e, u, size);
    do {
        const double *from = e->graph->links + (size_t)a * size;
        double part = e->chain[a], *row = e->row;
        for (int32_t v = a + 1; v < size && part > 0 && e->units[a] == 0; v++)
            row[v] += part * from[v];
    } while ((a = e->next[a]));
    for (int32_t v = e->next[u]; v; v = e->next[v]) e->row[v] = 0.0;
    return e->row;
}

double fh_edge(const fh_edges *e, int32_t u, int32_t v) {
    int32_t size = e->graph->size, a = u;
    double sum = 0;
    if (!e->next) return log(e->graph->links[(size_t)u * size + v]);
    reach_repeats(e, u, v);
    do {
        if (e->units[a] == 0) sum += e->chain[a] * e->graph->links[(size_t)a * size + v];
    } while ((a = e->next[a]) && a < v);
    return log(sum) + e->units[u];
}

/* Columns of rows_of_word() that are computed together: those of all its vertices fit the cache. */
#define TILE 64

/* The rows of all vertices that write the word of u, the first of them, each from those of its
 * repeats. A word is never followed by itself: only the other vertices' columns are computed.
 * scratch: [size][TILE], columns: [size]. */
static int rows_of_word(fh_work *w, const fh_edges *e, int32_t u, double *values, double *scratch,
                        int32_t *columns) {
    const fh_graph *g = e->graph;
    int32_t size = g->size, others = 0, *members = columns + size, count = 0;
    for (int32_t v = u + 1; v < size; v++)
        if (g->tokens[v] != g->tokens[u]) columns[others++] = v;
    members[count++] = u;
    for (int32_t v = e->next[u]; v; v = e->next[v]) members[count++] = v;
    for (int32_t first = 0, most; first < others; first += most) {
        const int32_t *column = columns + first;
        most = others - first < TILE ? others - first : TILE;
        if (fh_go_on(w)) return w->error.code;
        for (int32_t i = count - 1; i >= 0; i--) {
            const double *from = g->links + (size_t)members[i] * size;
            double *row = scratch + (size_t)i * TILE, *to = values + (size_t)members[i] * size;
            /* Links lead forward: those to columns before are 0. */
            for (int32_t k = 0; k < most; k++) row[k] = from[column[k]];
            for (int32_t j = i + 1; j < count && members[j] < column[most - 1]; j++) {
                double part = share(e, from, members[i], members[j]);
                const double *behind = scratch + (size_t)j * TILE;
                if (part > 0)
                    for (int32_t k = 0; k < most; k++) row[k] += part * behind[k];
            }
            for (int32_t k = 0; k < most; k++) to[column[k]] = row[k];
        }
    }
    return FH_OK;
}

/* All rows at once: [size][size]. */
static int all_rows(fh_work *w, const fh_edges *e, double *values) {
    size_t n = (size_t)e->graph->size;
    fh_arena memory = {.error = &w->error};
    double *tile = fh_take(&memory, n * TILE, sizeof *tile);
    int32_t *columns = fh_take(&memory, 2 * n, sizeof *columns),
            *known = fh_take(&memory, n, sizeof *known);
    if (w->error.code) goto end;
    memset(known, 0, n * sizeof *known);
    memset(values, 0, n * n * sizeof *values);
    for (int32_t u = 0; u < e->graph->size && !w->error.code; u++) {
        if (!known[u]) rows_of_word(w, e, u, values, tile, columns);
        for (int32_t v = e->next[u]; v && !known[u]; v = e->next[v]) known[v] = 1;
    }
end:
    fh_arena_free(&memory);
    return w->error.code;
}

static int broken(fh_work *w) {
    return fh_fail(&w->error, FH_NUMBER,
                   "a link of the graph leads nowhere: the model computed NaN; its weights are "
                   "broken (a diverged or truncated training?); "
                   "convert another checkpoint");
}

int fh_follow(fh_work *w, fh_graph *g, const fh_edges *edges, const double *weights) {
    int32_t u = 0, last = g->size - 1;
    g->length = 0;
    g->path[g->length++] = 0;
    while (u < last) {
        const double *row = row_of(edges, u);
        int32_t best = -1;
        if (fh_go_on(w)) return w->error.code;
        double highest = -1;
        for (int32_t v = u + 1; v <= last; v++) {
            double value = weights ? row[v] * weights[v] : row[v];
            if (isnan(value)) return broken(w);
            if (value > highest) {
                highest = value;
                best = v;
            }
        }
        g->path[g->length++] = u = best;
    }
    return FH_OK;
}

/* The search for the path with the best score / (number of inner vertices) ** beta. */
typedef struct {
    int32_t size, most;  /* vertices; most of them on a path */
    double beta, first;  /* first: score of the first vertex */
    const double *logs;  /* [size][size], of the links that lead forward */
    const float *tokens; /* [size], scores of words; NULL: they do not count */
    double rank;         /* of the best path that is known */
} ranking;

/* What a path can have at best behind each vertex where every further one earns `earns`. If a path
 * of k vertices passes one as its n-th, its score is at most (score up to there) + rest + (n - k) *
 * earns. */
typedef struct {
    double earns, *rest; /* rest: [size], -inf where nothing leads to the end */
    double *least; /* [most + 1], what (score up to the n-th) + rest + n * earns must reach for a
                      better rank */
    int32_t count; /* vertices on the best path; 0: not known */
} bound;

static void find_bound(const ranking *r, bound *b, double earns, double *value, int32_t *next) {
    int32_t last = r->size - 1;
    b->earns = earns;
    b->count = 0;
    b->rest[last] = 0.0;
    for (int32_t u = last - 1; u >= 0; u--) {
        const double *row = r->logs + (size_t)u * r->size;
        /* There is an inner vertex at least. */
        double best = u ? row[last] : -INFINITY;
        next[u] = last;
        for (int32_t v = u + 1; v < last; v++)
            if (row[v] + value[v] > best) {
                best = row[v] + value[v];
                next[u] = v;
            }
        b->rest[u] = best;
        value[u] = best + earns + (r->tokens ? r->tokens[u] : 0.0f);
    }
    for (int32_t u = next[0]; u < last; u = next[u]) b->count++;
}

/* Passes over all links that find_bounds() takes at most. */
#define ROUNDS 16

/* Bounds by paths of no more vertices than there may be (found[0]) and of more (found[1]); found[2]
 * is scratch. With the exponent 1 this is Dinkelbach's algorithm (1967): the best ratio of score
 * and number is what each vertex must earn for the best path to come to nothing. Where that path is
 * too long, the bounds close in on those that are just short enough. */
static void find_bounds(ranking *r, bound found[3], double *value, int32_t *next) {
    double earns = 0, step = 1;
    int converged = 0;
    for (int round = 0; round < ROUNDS; round++) {
        bound *one = &found[2];
        find_bound(r, one, earns, value, next);
        if (one->rest[0] == -INFINITY) return;
        double score = one->rest[0] + r->first - earns * one->count, count = one->count,
               rank = score / pow(count, r->beta);
        double tangent = -rank * r->beta * pow(count, r->beta - 1);
        int long_one = one->count > r->most;
        if (!long_one && rank > r->rank) r->rank = rank;
        bound kept = *one;
        *one = found[long_one];
        found[long_one] = kept;
        if (!converged && isfinite(tangent) && fabs(tangent - earns) > 1e-9 * (1 + fabs(earns))) {
            earns = tangent;
            continue;
        }
        if (!converged && !long_one) return;
        converged = 1;
        double low = found[0].earns, high = found[1].earns;
        if (found[0].count && (found[0].count == r->most || high - low < 1e-3 * fabs(high))) return;
        earns = found[0].count ? (low + high) / 2 : high - step;
        step *= 4;
    }
}

static void set_least(const ranking *r, bound *b) {
    double least = INFINITY;
    for (int32_t k = r->most; k > 0; k--) {
        double one = b->earns * k + r->rank * pow((double)k, r->beta);
        least = isnan(one) ? -INFINITY : one < least ? one : least;
        b->least[k] = least;
    }
}

/* Whether a path of a better rank than is known may have this vertex as its n-th, with that score
 * up to it. What is near is taken: sums are rounded. */
static int promising(const bound *b, double score, int32_t n, int32_t vertex) {
    double earnt = b->earns * n, rest = b->rest[vertex],
           near = 1e-7 * (1 + fabs(score) + fabs(earnt) + fabs(rest));
    return !b->count || (rest > -INFINITY && !(score + earnt + rest + near < b->least[n]));
}

int fh_best_path(fh_work *w, fh_graph *g, const fh_edges *edges, int32_t most, int tokens) {
    int32_t size = g->size, last = size - 1;
    if (most > size - 2) most = size - 2;
    if (most < 1) most = 1;
    size_t n = (size_t)size;
    size_t doubles = n * n + 6 * n + 3 * ((size_t)most + 1);
    if (fh_reserve(&w->path, doubles * sizeof(double) + ((size_t)most + 1) * n * sizeof(int32_t), 1,
                   &w->error))
        return w->error.code;
    double *now = w->path.data, *next = now + n, *value = next + n, *at_best = value + n;
    double *logs = at_best + 3 * (n + (size_t)most + 1);
    int32_t *parents = (int32_t *)(logs + n * n), *follower = parents + (size_t)most * n,
            chosen = 0, end = -1;
    if (edges->next && all_rows(w, edges, logs)) return w->error.code;
    for (int32_t u = 0; u < size; u++) {
        double *row = logs + (size_t)u * n;
        const double *links = edges->next ? row : g->links + (size_t)u * n;
        double unit = edges->next ? edges->units[u] : 0.0;
        if (fh_go_on(w)) return w->error.code;
        for (int32_t v = u + 1; v < size; v++) {
            if (isnan(links[v])) return broken(w);
            row[v] = links[v] > 0 ? log(links[v]) + unit : -INFINITY;
        }
    }
    double first = tokens ? g->scores[0] : 0.0, highest = -INFINITY;
    ranking ranks = {
        size, most, w->options->length_beta, first, logs, tokens ? g->scores : NULL, -INFINITY};
    bound bounds[3];
    for (int i = 0; i < 3; i++, at_best += n + (size_t)most + 1)
        bounds[i] = (bound){0, at_best, at_best + n, 0};
    find_bounds(&ranks, bounds, value, follower);
    for (int i = 0; i < 2; i++) set_least(&ranks, &bounds[i]);
    for (int32_t v = 0; v < size; v++)
        now[v] = v > 0 && v < last ? logs[v] + first + (tokens ? g->scores[v] : 0.0f) : -INFINITY;
    for (int32_t k = 1; k <= most; k++) {
        int32_t *parent = parents + (size_t)(k - 1) * n;
        if (fh_go_on(w)) return w->error.code;
        if (k > 1) {
            for (int32_t v = 0; v < size; v++) {
                next[v] = -INFINITY;
                parent[v] = -1;
            }
            int promise = 0;
            for (int32_t u = 1; u < last; u++) {
                if (now[u] == -INFINITY || !promising(&bounds[0], now[u], k - 1, u) ||
                    !promising(&bounds[1], now[u], k - 1, u))
                    continue;
                promise = 1;
                const double *row = logs + (size_t)u * n;
                for (int32_t v = u + 1; v < last; v++)
                    if (now[u] + row[v] > next[v]) {
                        next[v] = now[u] + row[v];
                        parent[v] = u;
                    }
            }
            if (!promise) break;
            for (int32_t v = 1; v < last && tokens; v++) next[v] += g->scores[v];
            double *swap = now;
            now = next;
            next = swap;
        }
        double total = -INFINITY;
        int32_t at = -1;
        for (int32_t v = 1; v < last; v++)
            if (now[v] + logs[(size_t)v * n + last] > total) {
                total = now[v] + logs[(size_t)v * n + last];
                at = v;
            }
        double rank = total / pow((double)k, w->options->length_beta);
        if (at >= 0 && (end < 0 || rank > highest)) {
            highest = rank;
            chosen = k;
            end = at;
        }
    }
    /* Without inner vertices there is only the link from the first vertex to the last; where that
     * is too far the best links lead on. */
    if (end < 0 && logs[last] == -INFINITY) return fh_follow(w, g, edges, NULL);
    g->length = chosen + 2;
    g->path[0] = 0;
    g->path[chosen + 1] = last;
    for (int32_t k = chosen, v = end; k > 0; k--) {
        g->path[k] = v;
        if (k > 1) v = parents[(size_t)(k - 1) * n + v];
    }
    return FH_OK;
}
