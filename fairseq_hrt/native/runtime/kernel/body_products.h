/* Products of packed matrices. Included by each operations_*.c behind body_outputs.h, which takes
 * the sums, and behind body_tiles.h where there is one.
 *
 * A tile is R rows by COLUMNS vectors of W outputs. Every accumulator is a variable of its own,
 * since compilers spill arrays, and KEEP stops them from loading the weights once a row. The sum of
 * one output is always one chain over the inputs, whatever R is. */

#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_3(X) ROWS_2(X) X(2)
#define ROWS_4(X) ROWS_3(X) X(3)
#define ROWS_5(X) ROWS_4(X) X(4)
#define ROWS_6(X) ROWS_5(X) X(5)

#if COLUMNS == 4
#define EACH(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
#define WEIGHTS(load, at, step)                                                                    \
    w0 = load(at), w1 = load(at + (step)), w2 = load(at + 2 * (step)), w3 = load(at + 3 * (step))
#define KEEP_WEIGHTS KEEP(w0) KEEP(w1) KEEP(w2) KEEP(w3)
#else
#define EACH(X, r) X(r, 0) X(r, 1)
#define WEIGHTS(load, at, step) w0 = load(at), w1 = load(at + (step))
#define KEEP_WEIGHTS KEEP(w0) KEEP(w1)
#endif

/* ------------------------------------------------------------------ int8 */

#define INT8_START(r, b) vi s##r##b = start[b];
#define INT8_ROW_START(r) EACH(INT8_START, r)
#define INT8_DOT(r, b) s##r##b = dot(s##r##b, v, m, w##b);
#define INT8_STEP(r)                                                                               \
    {                                                                                              \
        vi v = i_four(a + (ptrdiff_t)(r) * lda + i), m = magnitude(v);                             \
        EACH(INT8_DOT, r)                                                                          \
    }
#define INT8_STORE(r, b) sums[r][b] = s##r##b;
#define INT8_ROW_STORE(r) EACH(INT8_STORE, r)

/* a: quantised rows, lda bytes apart; w: the tile's part of its panel; k: multiple of 8; start:
 * what the sums begin with. */
#define INT8_TILE(R)                                                                               \
    static INLINE void int8_tile_##R(const uint8_t *a, ptrdiff_t lda, const int8_t *w, int32_t k,  \
                                     const vi start[COLUMNS], vi sums[R][COLUMNS]) {               \
        ROWS_##R(INT8_ROW_START)(void) lda;                                                        \
        for (int32_t i = 0; i < k; i += 4, w += 4 * FH_PANEL) {                                    \
            vi WEIGHTS(i_load, w, 4 * W);                                                          \
            KEEP_WEIGHTS                                                                           \
            ROWS_##R(INT8_STEP)                                                                    \
        }                                                                                          \
        ROWS_##R(INT8_ROW_STORE)                                                                   \
    }
INT8_TILE(2)
INT8_TILE(3)
INT8_TILE(4)
#if INT8_ROWS >= 6
INT8_TILE(5)
INT8_TILE(6)
#endif

/* One row, a whole panel: as many chains as hide the latency; two for each vector where a panel has
 * only four. */
#if VECTORS == 4
static INLINE void int8_panel(const uint8_t *a, const int8_t *w, int32_t k, const vi start[4],
                              vi sums[4]) {
    vi s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3], t0 = i_zero(), t1 = t0, t2 = t0,
       t3 = t0;
    for (int32_t i = 0; i < k; i += 8, w += 8 * FH_PANEL) {
        vi v = i_four(a + i), m = magnitude(v), u = i_four(a + i + 4), n = magnitude(u);
        s0 = dot(s0, v, m, i_load(w)), s1 = dot(s1, v, m, i_load(w + 4 * W)),
        s2 = dot(s2, v, m, i_load(w + 8 * W)), s3 = dot(s3, v, m, i_load(w + 12 * W));
        t0 = dot(t0, u, n, i_load(w + 16 * W)), t1 = dot(t1, u, n, i_load(w + 20 * W)),
        t2 = dot(t2, u, n, i_load(w + 24 * W)), t3 = dot(t3, u, n, i_load(w + 28 * W));
    }
    sums[0] = i_add(s0, t0), sums[1] = i_add(s1, t1), sums[2] = i_add(s2, t2),
    sums[3] = i_add(s3, t3);
}
#else
static INLINE void int8_eight(const uint8_t *a, const int8_t *w, int32_t k, const vi start[8],
                              vi sums[8]) {
    vi s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3], s4 = start[4], s5 = start[5],
       s6 = start[6], s7 = start[7];
    for (int32_t i = 0; i < k; i += 4, w += 4 * FH_PANEL) {
        vi v = i_four(a + i), m = magnitude(v);
        s0 = dot(s0, v, m, i_load(w)), s1 = dot(s1, v, m, i_load(w + 4 * W)),
        s2 = dot(s2, v, m, i_load(w + 8 * W)), s3 = dot(s3, v, m, i_load(w + 12 * W));
        s4 = dot(s4, v, m, i_load(w + 16 * W)), s5 = dot(s5, v, m, i_load(w + 20 * W)),
        s6 = dot(s6, v, m, i_load(w + 24 * W)), s7 = dot(s7, v, m, i_load(w + 28 * W));
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3, sums[4] = s4, sums[5] = s5,
    sums[6] = s6, sums[7] = s7;
}
static NOINLINE void int8_panel(const uint8_t *a, const int8_t *w, int32_t k,
                                const vi start[VECTORS], vi sums[VECTORS]) {
    for (int b = 0; b < VECTORS; b += 8) int8_eight(a, w + 4 * W * b, k, start + b, sums + b);
}
#endif

/* ------------------------------------------------------------------ int8, inputs of 16 bits */

#if COLUMNS == 4
#define SPLIT(X) X(0) X(1) X(2) X(3)
#else
#define SPLIT(X) X(0) X(1)
#endif
#define WIDE_START(r, b) vi s##r##b = i_zero();
#define WIDE_ROW_START(r) EACH(WIDE_START, r)
#define WIDE_WEIGHTS(b)                                                                            \
    vi w##b = i_load(w + 4 * W * (b)), e##b = even_16(w##b), o##b = odd_16(w##b);                  \
    KEEP(e##b)                                                                                     \
    KEEP(o##b)
#define WIDE_DOT(r, b) s##r##b = dot_16(dot_16(s##r##b, v, e##b), u, o##b);
#define WIDE_STEP(r)                                                                               \
    {                                                                                              \
        const uint8_t *at = a + (ptrdiff_t)(r) * lda + 2 * i;                                      \
        vi v = i_four(at), u = i_four(at + 4);                                                     \
        EACH(WIDE_DOT, r)                                                                          \
    }
#define WIDE_TILE(R)                                                                               \
    static INLINE void wide_tile_##R(const uint8_t *a, ptrdiff_t lda, const int8_t *w, int32_t k,  \
                                     vi sums[R][COLUMNS]) {                                        \
        ROWS_##R(WIDE_ROW_START)(void) lda;                                                        \
        for (int32_t i = 0; i < k; i += 4, w += 4 * FH_PANEL) {                                    \
            SPLIT(WIDE_WEIGHTS)                                                                    \
            ROWS_##R(WIDE_STEP)                                                                    \
        }                                                                                          \
        ROWS_##R(INT8_ROW_STORE)                                                                   \
    }
WIDE_TILE(2)
WIDE_TILE(3)
WIDE_TILE(4)

/* One row, a whole panel, four vectors at once. */
static INLINE void wide_panel(const uint8_t *a, const int8_t *panel, int32_t k, vi sums[VECTORS]) {
    for (int b = 0; b < VECTORS; b += 4) {
        const int8_t *w = panel + 4 * W * b;
        vi s0 = i_zero(), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
        for (int32_t i = 0; i < k; i += 4, w += 4 * FH_PANEL) {
            vi v = i_four(a + 2 * i), u = i_four(a + 2 * i + 4), w0 = i_load(w),
               w1 = i_load(w + 4 * W), w2 = i_load(w + 8 * W), w3 = i_load(w + 12 * W);
            s0 = dot_16(s0, v, even_16(w0)), t0 = dot_16(t0, u, odd_16(w0));
            s1 = dot_16(s1, v, even_16(w1)), t1 = dot_16(t1, u, odd_16(w1));
            s2 = dot_16(s2, v, even_16(w2)), t2 = dot_16(t2, u, odd_16(w2));
            s3 = dot_16(s3, v, even_16(w3)), t3 = dot_16(t3, u, odd_16(w3));
        }
        sums[b] = i_add(s0, t0), sums[b + 1] = i_add(s1, t1);
        sums[b + 2] = i_add(s2, t2), sums[b + 3] = i_add(s3, t3);
    }
}

/* ------------------------------------------------------------------ float32 */

#define FLOAT_START(r, b) vf s##r##b = f_zero();
#define FLOAT_ROW_START(r) EACH(FLOAT_START, r)
#define FLOAT_DOT(r, b) s##r##b = f_fma(v, w##b, s##r##b);
#define FLOAT_STEP(r)                                                                              \
    {                                                                                              \
        vf v = f_all(a[(ptrdiff_t)(r) * lda + i]);                                                 \
        EACH(FLOAT_DOT, r)                                                                         \
    }
#define FLOAT_STORE(r, b) sums[r][b] = s##r##b;
#define FLOAT_ROW_STORE(r) EACH(FLOAT_STORE, r)
#define FLOAT_TILE(R)                                                                              \
    static INLINE void float_tile_##R(const float *a, ptrdiff_t lda, const float *w, int32_t k,    \
                                      vf sums[R][COLUMNS]) {                                       \
        ROWS_##R(FLOAT_ROW_START)(void) lda;                                                       \
        for (int32_t i = 0; i < k; i++, w += FH_PANEL) {                                           \
            vf WEIGHTS(f_load, w, W);                                                              \
            KEEP_WEIGHTS                                                                           \
            ROWS_##R(FLOAT_STEP)                                                                   \
        }                                                                                          \
        ROWS_##R(FLOAT_ROW_STORE)                                                                  \
    }
FLOAT_TILE(1)
FLOAT_TILE(2)
FLOAT_TILE(3)
FLOAT_TILE(4)
FLOAT_TILE(5)
FLOAT_TILE(6)

static INLINE void float_panel(const float *a, const float *w, int32_t k, vf sums[VECTORS]) {
#if VECTORS == 8
    vf s0 = f_zero(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int32_t i = 0; i < k; i++, w += FH_PANEL) {
        vf v = f_all(a[i]);
        s0 = f_fma(v, f_load(w), s0), s1 = f_fma(v, f_load(w + W), s1),
        s2 = f_fma(v, f_load(w + 2 * W), s2), s3 = f_fma(v, f_load(w + 3 * W), s3);
        s4 = f_fma(v, f_load(w + 4 * W), s4), s5 = f_fma(v, f_load(w + 5 * W), s5),
        s6 = f_fma(v, f_load(w + 6 * W), s6), s7 = f_fma(v, f_load(w + 7 * W), s7);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3, sums[4] = s4, sums[5] = s5,
    sums[6] = s6, sums[7] = s7;
#else
    for (int b = 0; b < VECTORS; b += COLUMNS) {
        vf tile[1][COLUMNS];
        float_tile_1(a, 0, w + W * b, k, tile);
        for (int c = 0; c < COLUMNS; c++) sums[b + c] = tile[0][c];
    }
#endif
}

/* ------------------------------------------------------------------ every tile of a product */

/* Rows of the next tile: never one left over, which would have a tile of its own. */
static INLINE int32_t next_rows(int32_t left, int32_t most) {
    return left <= most ? left : left == most + 1 ? (most + 1) / 2 : most;
}

#define INT8_CASE(R)                                                                               \
    case R: {                                                                                      \
        vi sums[R][COLUMNS];                                                                       \
        int8_tile_##R(a + (size_t)r * (size_t)lda, lda, w, k, start, sums);                        \
        take_int8(store_to, choose_for, matrix, input, r, R, first, sums[0], COLUMNS);             \
        break;                                                                                     \
    }
/* Two rows have too few chains in a narrow tile: two tiles at once hide the latency and share what
 * is done for a row. INT8_WIDE_PAIR is 1 where that is best for two rows only, 2 where every even
 * number of rows is multiplied in pairs. */
#if COLUMNS == 2 && defined(INT8_WIDE_PAIR)
static INLINE void int8_pair(const uint8_t *a, ptrdiff_t lda, const int8_t *w, int32_t k,
                             const vi start[4], vi sums[2][4]) {
    vi s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3], t0 = s0, t1 = s1, t2 = s2,
       t3 = s3;
    for (int32_t i = 0; i < k; i += 4, w += 4 * FH_PANEL) {
        vi w0 = i_load(w), w1 = i_load(w + 4 * W), w2 = i_load(w + 8 * W), w3 = i_load(w + 12 * W),
           v = i_four(a + i), m = magnitude(v);
        KEEP(w0)
        KEEP(w1)
        KEEP(w2)
        KEEP(w3)
        s0 = dot(s0, v, m, w0);
        s1 = dot(s1, v, m, w1);
        s2 = dot(s2, v, m, w2);
        s3 = dot(s3, v, m, w3);
        v = i_four(a + lda + i), m = magnitude(v);
        t0 = dot(t0, v, m, w0);
        t1 = dot(t1, v, m, w1);
        t2 = dot(t2, v, m, w2);
        t3 = dot(t3, v, m, w3);
    }
    sums[0][0] = s0, sums[0][1] = s1, sums[0][2] = s2, sums[0][3] = s3;
    sums[1][0] = t0, sums[1][1] = t1, sums[1][2] = t2, sums[1][3] = t3;
}
#define INT8_PAIR                                                                                  \
    if (rows == 2 || (INT8_WIDE_PAIR == 2 && rows % 2 == 0)) {                                     \
        vi both[2][4], wide[4];                                                                    \
        int8_start(input, matrix->sums + first, wide, 4);                                          \
        for (int32_t r = 0; r < rows; r += 2) {                                                    \
            int8_pair(a + (size_t)r * (size_t)lda, lda, w, k, wide, both);                         \
            take_int8(store_to, choose_for, matrix, input, r, 2, first, both[0], 4);               \
        }                                                                                          \
        first += TILE;                                                                             \
        continue;                                                                                  \
    }
#else
#define INT8_PAIR
#endif
/* Exactly one of store_to and choose_for is not NULL; inlined twice. */
static INLINE void multiply_int8(const target *store_to, const chooser *choose_for,
                                 const fh_matrix *matrix, const fh_input *input) {
    int32_t k = matrix->stride, rows = input->rows;
    ptrdiff_t lda = input->stride;
    const uint8_t *a = input->integers;
#ifdef TILES_FROM
    if (tiles_pay(matrix, rows)) {
        multiply_tiles(store_to, choose_for, matrix, input);
        return;
    }
#endif
    for (int32_t panel = 0; panel < matrix->outputs; panel += FH_PANEL) {
        const int8_t *at = (const int8_t *)matrix->weights + (size_t)panel * (size_t)k;
        if (rows == 1) {
            vi start[VECTORS], sums[VECTORS];
            int8_start(input, matrix->sums + panel, start, VECTORS);
            int8_panel(a, at, k, start, sums);
            take_int8(store_to, choose_for, matrix, input, 0, 1, panel, sums, VECTORS);
            continue;
        }
        for (int32_t first = panel; first < panel + FH_PANEL && first < matrix->outputs;
             first += TILE) {
            const int8_t *w = at + 4 * (first - panel);
            vi start[COLUMNS];
            int8_start(input, matrix->sums + first, start, COLUMNS);
            INT8_PAIR
            for (int32_t r = 0, n; r < rows; r += n) {
                n = next_rows(rows - r, INT8_ROWS);
                switch (n) {
                    INT8_CASE(2)
                    INT8_CASE(3)
                    INT8_CASE(4)
#if INT8_ROWS >= 6
                    INT8_CASE(5)
                    INT8_CASE(6)
#endif
                }
            }
        }
    }
}

#define WIDE_CASE(R)                                                                               \
    case R: {                                                                                      \
        vi sums[R][COLUMNS];                                                                       \
        wide_tile_##R(a + (size_t)r * (size_t)lda, lda, w, k, sums);                               \
        take_int8(store_to, choose_for, matrix, input, r, R, first, sums[0], COLUMNS);             \
        break;                                                                                     \
    }
static INLINE void multiply_16(const target *store_to, const chooser *choose_for,
                               const fh_matrix *matrix, const fh_input *input) {
    int32_t k = matrix->stride, rows = input->rows;
    ptrdiff_t lda = input->stride;
    const uint8_t *a = input->integers;
    for (int32_t panel = 0; panel < matrix->outputs; panel += FH_PANEL) {
        const int8_t *at = (const int8_t *)matrix->weights + (size_t)panel * (size_t)k;
        if (rows == 1) {
            vi sums[VECTORS];
            wide_panel(a, at, k, sums);
            take_int8(store_to, choose_for, matrix, input, 0, 1, panel, sums, VECTORS);
            continue;
        }
        for (int32_t first = panel; first < panel + FH_PANEL && first < matrix->outputs;
             first += TILE) {
            const int8_t *w = at + 4 * (first - panel);
            for (int32_t r = 0, n; r < rows; r += n) {
                n = next_rows(rows - r, 4);
                switch (n) {
                    WIDE_CASE(2)
                    WIDE_CASE(3)
                    WIDE_CASE(4)
                }
            }
        }
    }
}

#define FLOAT_CASE(R)                                                                              \
    case R: {                                                                                      \
        vf sums[R][COLUMNS];                                                                       \
        float_tile_##R(a + r * lda, lda, w, k, sums);                                              \
        take_float(store_to, choose_for, matrix, r, R, first, sums[0], COLUMNS);                   \
        break;                                                                                     \
    }
static INLINE void multiply_float(const target *store_to, const chooser *choose_for,
                                  const fh_matrix *matrix, const fh_input *input) {
    int32_t k = matrix->inputs, rows = input->rows;
    ptrdiff_t lda = input->ldx;
    const float *a = input->x;
    for (int32_t panel = 0; panel < matrix->outputs; panel += FH_PANEL) {
        const float *at = (const float *)matrix->weights + (size_t)panel * (size_t)matrix->stride;
        if (rows == 1) {
            vf sums[VECTORS];
            float_panel(a, at, k, sums);
            take_float(store_to, choose_for, matrix, 0, 1, panel, sums, VECTORS);
            continue;
        }
        for (int32_t first = panel; first < panel + FH_PANEL && first < matrix->outputs;
             first += TILE) {
            const float *w = at + (first - panel);
            for (int32_t r = 0, n; r < rows; r += n) {
                n = next_rows(rows - r, 6);
                switch (n) {
                    FLOAT_CASE(2)
                    FLOAT_CASE(3)
                    FLOAT_CASE(4)
                    FLOAT_CASE(5)
                    FLOAT_CASE(6)
                }
            }
        }
    }
}

static NOINLINE void product_int8(const target *to, const fh_matrix *matrix,
                                  const fh_input *input) {
    multiply_int8(to, NULL, matrix, input);
}
static NOINLINE void product_16(const target *to, const fh_matrix *matrix, const fh_input *input) {
    multiply_16(to, NULL, matrix, input);
}
static NOINLINE void best_16(const chooser *to, const fh_matrix *matrix, const fh_input *input) {
    multiply_16(NULL, to, matrix, input);
}
static NOINLINE void product_float(const target *to, const fh_matrix *matrix,
                                   const fh_input *input) {
    multiply_float(to, NULL, matrix, input);
}
static NOINLINE void best_int8(const chooser *from, const fh_matrix *matrix,
                               const fh_input *input) {
    const chooser to = {from->choices, from->rules, 0};
    multiply_int8(NULL, &to, matrix, input);
}
static NOINLINE void best_int8_with_sum(const chooser *from, const fh_matrix *matrix,
                                        const fh_input *input) {
    const chooser to = {from->choices, from->rules, 1};
    multiply_int8(NULL, &to, matrix, input);
}
static NOINLINE void best_float(const chooser *to, const fh_matrix *matrix, const fh_input *input) {
    multiply_float(NULL, to, matrix, input);
}

static void product(const fh_matrix *matrix, const fh_input *input, float *out, ptrdiff_t ldo,
                    int relu, const float *residual, ptrdiff_t ldr) {
    const target to = {out, ldo, relu, residual, ldr};
    if (matrix->kind == FH_INT8)
        product_int8(&to, matrix, input);
    else if (matrix->kind == FH_INT8_16)
        product_16(&to, matrix, input);
    else
        product_float(&to, matrix, input);
}

enum {
    CHOICES = 96
}; /* rows whose choices are kept on the stack; more rows read the weights again */

static void best(const fh_matrix *matrix, const fh_input *input, const fh_rule *rules,
                 int32_t *tokens, float *values, float *logsumexp) {
    choice choices[CHOICES];
    for (int32_t from = 0; from < input->rows; from += CHOICES) {
        int32_t rows = input->rows - from < CHOICES ? input->rows - from : CHOICES;
        for (int32_t r = 0; r < rows; r++)
            choices[r] = (choice){f_all(-INFINITY), i_all(FH_NONE), f_all(-FLT_MAX), f_zero(), 0};
        fh_input part = fh_input_rows(input, from, rows);
        const chooser to = {choices, rules ? rules + from : NULL, logsumexp != NULL};
        if (matrix->kind == FH_INT8 && to.with_sum)
            best_int8_with_sum(&to, matrix, &part);
        else if (matrix->kind == FH_INT8)
            best_int8(&to, matrix, &part);
        else if (matrix->kind == FH_INT8_16)
            best_16(&to, matrix, &part);
        else
            best_float(&to, matrix, &part);
        for (int32_t r = 0; r < rows; r++)
            decide(choices + r, rules ? rules + from + r : NULL, matrix->outputs, tokens + from + r,
                   values ? values + from + r : NULL, logsumexp ? logsumexp + from + r : NULL);
    }
}
