/* Products of many rows on AMX tiles: 16 rows of 64 bytes each, 16 x 64 x 16 products an
 * instruction. Included by operations_amx_int8.c behind body_outputs.h.
 *
 * A panel [inputs / 4][64 outputs][4] is already what the tiles want: 16 rows of 4 inputs by 16
 * outputs, 256 bytes apart. The sums are the same integers as those of vectors. Tiles 0 to 3 hold
 * sums. */
enum { TILE_ROWS = 16, TILE_BYTES = 64, NEAR = 1 << 21 }; /* bytes of weights that stay near */

/* Whether rows are multiplied on tiles: only inputs that fill whole tiles are. */
static INLINE int tiles_pay(const fh_matrix *matrix, int32_t rows) {
    size_t bytes = (size_t)matrix->outputs * (size_t)matrix->stride;
    return matrix->stride % TILE_BYTES == 0 && rows >= (bytes > NEAR ? TILES_FROM_FAR : TILES_FROM);
}

/* What ldtilecfg reads (palette 1). */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;

static INLINE void shape_tiles(int32_t rows) {
    ALIGNED tile_shapes shapes = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        shapes.bytes[t] = TILE_BYTES;
        shapes.rows[t] = t < 6 ? (uint8_t)rows : TILE_ROWS; /* 6 and 7: weights */
    }
    _tile_loadconfig(&shapes);
}

/* Weights of the tiles after next, `lines` cache lines of each row, are fetched: the processor does
 * not foresee what a tile reads. Addresses behind the last panel do no harm. */
static INLINE void fetch_ahead(const int8_t *w, int lines) {
    enum { AHEAD = 2 * TILE_BYTES * FH_PANEL };
    for (int row = 0; row < TILE_ROWS; row++)
        for (int line = 0; line < lines; line++)
            _mm_prefetch((const char *)w + AHEAD + 4 * FH_PANEL * row + 64 * line, _MM_HINT_T0);
}

/* Up to 16 rows by a whole panel: sums [rows][64]; far: its weights are to be fetched. */
static INLINE void tiles_one_by_four(const uint8_t *a, ptrdiff_t lda, const int8_t *w, int32_t k,
                                     int far, const int32_t *start, int32_t *sums) {
    _tile_loadd(0, start, 0);
    _tile_loadd(1, start + 16, 0);
    _tile_loadd(2, start + 32, 0);
    _tile_loadd(3, start + 48, 0);
    for (int32_t i = 0; i < k; i += TILE_BYTES, w += TILE_BYTES * FH_PANEL) {
        if (far) fetch_ahead(w, 4);
        _tile_loadd(4, a + i, lda);
        _tile_loadd(6, w, 4 * FH_PANEL);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + 64, 4 * FH_PANEL);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(6, w + 128, 4 * FH_PANEL);
        _tile_dpbusd(2, 4, 6);
        _tile_loadd(7, w + 192, 4 * FH_PANEL);
        _tile_dpbusd(3, 4, 7);
    }
    _tile_stored(0, sums, 4 * FH_PANEL);
    _tile_stored(1, sums + 16, 4 * FH_PANEL);
    _tile_stored(2, sums + 32, 4 * FH_PANEL);
    _tile_stored(3, sums + 48, 4 * FH_PANEL);
}

/* 32 rows, the second half from a2 on, by half a panel: the loads of weights serve two tiles. */
static INLINE void tiles_two_by_two(const uint8_t *a, const uint8_t *a2, ptrdiff_t lda,
                                    const int8_t *w, int32_t k, int far, const int32_t *start,
                                    int32_t *sums, int32_t *sums2) {
    _tile_loadd(0, start, 0);
    _tile_loadd(1, start + 16, 0);
    _tile_loadd(2, start, 0);
    _tile_loadd(3, start + 16, 0);
    for (int32_t i = 0; i < k; i += TILE_BYTES, w += TILE_BYTES * FH_PANEL) {
        if (far) fetch_ahead(w, 2);
        _tile_loadd(6, w, 4 * FH_PANEL);
        _tile_loadd(4, a + i, lda);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + 64, 4 * FH_PANEL);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, a2 + i, lda);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums, 4 * FH_PANEL);
    _tile_stored(1, sums + 16, 4 * FH_PANEL);
    _tile_stored(2, sums2, 4 * FH_PANEL);
    _tile_stored(3, sums2 + 16, 4 * FH_PANEL);
}

/* As multiply_int8, for inputs that fill whole tiles. The last rows are multiplied together with
 * some that came before, which are not taken again. */
static INLINE void multiply_tiles(const target *store_to, const chooser *choose_for,
                                  const fh_matrix *matrix, const fh_input *input) {
    int32_t k = matrix->stride, rows = input->rows;
    int32_t high = rows < TILE_ROWS ? rows : TILE_ROWS;
    /* Of few rows and a small matrix the weights are mostly near, and fetching costs 2 %. */
    int fetch = rows > TILE_ROWS || (size_t)matrix->outputs * (size_t)k > NEAR;
    ptrdiff_t lda = input->stride;
    ALIGNED int32_t start[FH_PANEL], sums[2 * TILE_ROWS][FH_PANEL];
    shape_tiles(high);
    for (int32_t panel = 0; panel < matrix->outputs; panel += FH_PANEL) {
        const int8_t *w = (const int8_t *)matrix->weights + (size_t)panel * (size_t)k;
        vi begin[VECTORS];
        int8_start(input, matrix->sums + panel, begin, VECTORS);
        for (int b = 0; b < VECTORS; b++) i_store(start + b * W, begin[b]);
        /* Tile loads do not tell the compiler what they read. */
        __asm__ volatile("" : : : "memory");
        for (int32_t r = 0, n; r < rows; r += n) {
            /* rows from `from` on are multiplied, those from r on are taken */
            n = rows - r < 2 * TILE_ROWS ? rows - r : 2 * TILE_ROWS;
            int32_t from = r, second = 0;
            if (n <= high) {
                from = r + n - high;
                tiles_one_by_four(input->integers + (size_t)from * (size_t)lda, lda, w, k,
                                  fetch && !r, start, sums[0]);
            } else {
                second = n - TILE_ROWS;
                const uint8_t *a = input->integers + (size_t)r * (size_t)lda;
                for (int half = 0; half < FH_PANEL; half += FH_PANEL / 2)
                    tiles_two_by_two(a, a + (size_t)second * (size_t)lda, lda, w + 4 * half, k,
                                     fetch && !r, start + half, sums[0] + half,
                                     sums[second] + half);
            }
            take_int8(store_to, choose_for, matrix, input, r, n, panel,
                      (const vi *)(const void *)sums[r - from], VECTORS);
        }
    }
    _tile_release();
}
