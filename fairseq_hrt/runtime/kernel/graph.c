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
    int32_t length = w->source_lengths[sentence], d = m->encoder.shape.width, most = m->decoder.shape.longest;
    double size;
    if (s->length_classes) {
        if (fh_reserve(&w->gathered, (size_t)d, sizeof(double), &w->error)) return w->error.code;
        double *means = w->gathered.data;
        for (int32_t i = 0; i < d; i++) {
            means[i] = 0;
            for (int32_t r = 0; r < length; r++) means[i] += encoded[(size_t)r * d + i];
            means[i] /= length;
        }
        int32_t words = best_class(m, means) - s->length_classes / 2 + length;
        /* 0.1 * 30 is a little less than 3. */
        size = floor(w->options->scale * (words > 1 ? words : 1) + 1e-6) + 2;
    } else {
        size = floor(w->options->scale * (length + s->count_bos) + 1e-6);
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
    int32_t size = g->size, d = m->decoder.shape.width, heads = m->shape.link_heads, wide = m->links.outputs;
    size_t room = ((size_t)size + FH_BLOCK) / FH_BLOCK * FH_BLOCK;
    if (fh_reserve(&w->projected, (size_t)size * wide + room, sizeof(float), &w->error) ||
        fh_reserve(&w->own_cache, fh_cache_size(heads, d / heads, size), sizeof(float), &w->error))
        return w->error.code;
    float *all = w->projected.data, *row = all + (size_t)size * wide;
    ptrdiff_t per_row = m->shape.link_rows == 1 ? 0 : wide;
    if (size > m->shape.link_rows && per_row) return fh_fail(&w->error, FH_INVALID, "a graph of %d vertices is larger than the model", (int)size);
    if (fh_linear(w, &m->links, g->features, d, size, 0, all, wide, 0, m->link_table, per_row)) return w->error.code;
    fh_cache cache = {w->own_cache.data, heads, d / heads};
    fh_cache_put(&cache, 0, size, all + d, wide, all + d, wide);
    memset(g->links, 0, (size_t)size * size * sizeof *g->links);
    for (int32_t u = 0; u + 1 < size; u++) {
        float *mine = all + (size_t)u * wide, *gates = mine + 2 * d;
        double *to = g->links + (size_t)u * size;
        int32_t first = u + 1, end = reach_of(&m->shape, u, size);
        if (fh_go_on(w)) return w->error.code;
        o->softmax(gates, heads);
        for (int32_t h = 0; h < heads; h++) {
            o->scores(&cache, h, mine + h * (d / heads), end, row);
            o->softmax(row + first, end - first);
            for (int32_t v = first; v < end; v++) to[v] += (double)gates[h] * row[v];
        }
    }
    return FH_OK;
}

size_t fh_edges_size(int32_t size) { return 5 * (size_t)size; }

/* Where no link of u leads to another word: log of all that its chains of repeats lead on, relative to which its row is kept; long chains
 * would underflow. */
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
    fh_edges e = {g, weight, (int32_t *)(memory + 4 * n), memory, memory + n, memory + 2 * n, memory + 3 * n};
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

/* chain[v] of the repeats v of u before `end`: by how much of row u one comes there, over all repeats between them. */
static void reach_repeats(const fh_edges *e, int32_t u, int32_t end) {
    int32_t a = u;
    for (int32_t v = e->next[u]; v && v < end; v = e->next[v]) e->chain[v] = 0.0;
    e->chain[u] = 1.0;
    do {
        const double *from = e->graph->links + (size_t)a * e->graph->size;
        for (int32_t v = e->next[a]; v && v < end && e->chain[a] > 0; v = e->next[v]) e->chain[v] += e->chain[a] * share(e, from, a, v);
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
        for (int32_t v = a + 1; v < size && part > 0 && e->units[a] == 0; v++) row[v] += part * from[v];
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

/* All rows at once, each from those of its repeats: [size][size]. */
static int all_rows(fh_work *w, const fh_edges *e, double *values) {
    const fh_graph *g = e->graph;
    int32_t size = g->size;
    for (int32_t u = size - 1; u >= 0; u--) {
        const double *from = g->links + (size_t)u * size;
        double *to = values + (size_t)u * size;
        if (fh_go_on(w)) return w->error.code;
        for (int32_t v = 0; v < size; v++) to[v] = g->tokens[u] == g->tokens[v] ? 0.0 : from[v];
        for (int32_t v = e->next[u]; v; v = e->next[v]) {
            double part = share(e, from, u, v);
            const double *behind = values + (size_t)v * size;
            for (int32_t k = v + 1; k < size && part > 0; k++) to[k] += part * behind[k];
        }
    }
    return FH_OK;
}

static int broken(fh_work *w) {
    return fh_fail(&w->error, FH_NUMBER,
                   "a link of the graph leads nowhere: the model computed NaN; its weights are broken (a diverged or truncated training?); "
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

int fh_best_path(fh_work *w, fh_graph *g, const fh_edges *edges, int32_t most, int tokens) {
    int32_t size = g->size, last = size - 1;
    if (most > size - 2) most = size - 2;
    if (most < 1) most = 1;
    size_t n = (size_t)size;
    if (fh_reserve(&w->path, (n * n + 2 * n) * sizeof(double) + (size_t)most * n * sizeof(int32_t), 1, &w->error)) return w->error.code;
    double *now = w->path.data, *next = now + n;
    double *logs = next + n;
    int32_t *parents = (int32_t *)(logs + n * n), chosen = 0, end = -1;
    if (edges->next && all_rows(w, edges, logs)) return w->error.code;
    for (size_t i = 0; i < n * n; i++) {
        double link = edges->next ? logs[i] : g->links[i];
        if (isnan(link)) return broken(w);
        logs[i] = link > 0 ? log(link) + (edges->next ? edges->units[i / n] : 0.0) : -INFINITY;
    }
    double first = tokens ? g->scores[0] : 0.0, highest = -INFINITY;
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
            for (int32_t u = 1; u < last; u++) {
                if (now[u] == -INFINITY) continue;
                const double *row = logs + (size_t)u * n;
                for (int32_t v = u + 1; v < last; v++)
                    if (now[u] + row[v] > next[v]) {
                        next[v] = now[u] + row[v];
                        parent[v] = u;
                    }
            }
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
    /* Without inner vertices there is only the link from the first vertex to the last; where that is too far the best links lead on. */
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
