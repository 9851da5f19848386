/* Upper bounds of all values of few rows from the upper halves of the weights, see screen.h.
 * Included behind body_products.h by the instruction sets to which memory is what limits them. */

#define SCREEN_LOW(r, b) s##r##b = dot(s##r##b, v, m, w##b);
#define SCREEN_HIGH(r, b) s##r##b = dot(s##r##b, v, m, x##b);
#define SCREEN_STEP(r)                                                                             \
    {                                                                                              \
        const uint8_t *at = a + (ptrdiff_t)(r) * lda + i;                                          \
        vi v = i_four(at), m = magnitude(v);                                                       \
        EACH(SCREEN_LOW, r)                                                                        \
        v = i_four(at + 4), m = magnitude(v);                                                      \
        EACH(SCREEN_HIGH, r)                                                                       \
    }
#if COLUMNS == 4
#define UPPER_HALVES                                                                               \
    x0 = i_upper_halves(w0), x1 = i_upper_halves(w1), x2 = i_upper_halves(w2),                     \
    x3 = i_upper_halves(w3)
#define LOWER_HALVES                                                                               \
    w0 = i_lower_halves(w0), w1 = i_lower_halves(w1), w2 = i_lower_halves(w2),                     \
    w3 = i_lower_halves(w3)
#else
#define UPPER_HALVES x0 = i_upper_halves(w0), x1 = i_upper_halves(w1)
#define LOWER_HALVES w0 = i_lower_halves(w0), w1 = i_lower_halves(w1)
#endif

#define SCREEN_TILE(R)                                                                             \
    static INLINE void screen_tile_##R(const uint8_t *a, ptrdiff_t lda, const uint8_t *w,          \
                                       int32_t k, const vi start[COLUMNS], vi sums[R][COLUMNS]) {  \
        ROWS_##R(INT8_ROW_START)(void) lda;                                                        \
        for (int32_t i = 0; i < k; i += 8, w += 4 * FH_PANEL) {                                    \
            vi WEIGHTS(i_load, w, 4 * W), UPPER_HALVES;                                            \
            LOWER_HALVES;                                                                          \
            ROWS_##R(SCREEN_STEP)                                                                  \
        }                                                                                          \
        ROWS_##R(INT8_ROW_STORE)                                                                   \
    }
SCREEN_TILE(1)
SCREEN_TILE(2)
SCREEN_TILE(3)
SCREEN_TILE(4)

/* What a row contributes to its bounds: value = sum * sixteen + shift, error = reach * norm. */
typedef struct {
    vf sixteen, shift, scale, norm;
} screened_row;

static screened_row screen_row(const fh_input *input, int32_t row) {
    const uint8_t *a = input->integers + (size_t)row * (size_t)input->stride;
    int32_t sum = 0;
    double squares = 0;
    for (int32_t i = 0; i < input->inputs; i++) {
        int32_t integer = (input->offset > 0 ? a[i] : (int32_t)(int8_t)a[i]) - input->offset;
        sum += integer;
        squares += (double)integer * integer;
    }
    return (screened_row){f_all(16.f), f_all(-120.5f * (float)sum), f_all(input->scales[row]),
                          f_all((float)sqrt(squares) * (1.f + 1e-6f) * input->scales[row])};
}

#define SCREEN_CASE(R)                                                                             \
    case R:                                                                                        \
        screen_tile_##R(a, lda, w, k, start, sums);                                                \
        break;

/* bounds: [rows][outputs]. */
static NOINLINE void bounds_of(const fh_screen *screen, const fh_matrix *matrix,
                               const fh_input *input, float *bounds) {
    enum { MOST = 4 };
    int32_t k = matrix->stride, rows = input->rows;
    ptrdiff_t lda = input->stride;
    const uint8_t *a = input->integers;
    screened_row row[MOST];
    for (int32_t r = 0; r < rows; r++) row[r] = screen_row(input, r);
    for (int32_t first = 0; first < matrix->outputs; first += TILE) {
        const uint8_t *w = screen->nibbles +
                           (size_t)(first / FH_PANEL) * FH_PANEL * (size_t)(k / 2) +
                           4 * (first % FH_PANEL);
        vi start[COLUMNS], sums[MOST][COLUMNS];
        int8_start(input, screen->sums + first, start, COLUMNS);
        switch (rows) {
            SCREEN_CASE(1)
            SCREEN_CASE(2)
            SCREEN_CASE(3)
            SCREEN_CASE(4)
        }
        for (int32_t r = 0; r < rows; r++) {
            vf values[COLUMNS];
            const screened_row *s = row + r;
            for (int b = 0; b < COLUMNS; b++) {
                int32_t o = first + b * W;
                vf value = f_fma(f_of(sums[r][b]), s->sixteen, s->shift);
                value = f_fma(value, f_mul(s->scale, f_load(matrix->scales + o)),
                              f_load(matrix->bias + o));
                values[b] = f_fma(f_load(screen->reach + o), s->norm, value);
            }
            const target to = {bounds + (size_t)r * (size_t)matrix->outputs, 0, 0, NULL, 0};
            store(&to, matrix, 0, first, values, COLUMNS);
        }
    }
}
