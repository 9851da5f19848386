/* What becomes of the sums of a product: they are stored, or the best output of each row is chosen
 * from them. Included by each operations_*.c behind its vectors (see vectors_avx512.h for what an
 * instruction set has to define) and body_rows.h; not a header of its own. */

#define TILE (COLUMNS * W)     /* outputs of a tile; divides FH_PANEL */
#define VECTORS (FH_PANEL / W) /* vectors of outputs in a panel */

/* What the sums of `vectors` vectors of outputs begin with, so that the offset of the stored
 * integers drops out. */
static INLINE void int8_start(const fh_input *input, const int32_t *sums, vi *start, int vectors) {
    for (int b = 0; b < vectors; b++)
        start[b] = !input->offset      ? i_zero()
                   : input->offset > 0 ? i_sub(i_zero(), i_times_128(i_load(sums + b * W)))
                                       : i_times_128(i_load(sums + b * W));
}

static INLINE vf int8_value(vi sum, float scale, const fh_matrix *matrix, int32_t output) {
    return f_add(f_mul(f_of(sum), f_mul(f_all(scale), f_load(matrix->scales + output))),
                 f_load(matrix->bias + output));
}

/* ------------------------------------------------------------------ storing */

/* Where a product goes. */
typedef struct {
    float *out;
    ptrdiff_t ldo;
    int relu;
    const float *residual;
    ptrdiff_t ldr;
} target;

static INLINE void store(const target *u, const fh_matrix *matrix, int32_t row, int32_t first,
                         const vf *values, int vectors) {
    float *out = u->out + row * u->ldo + first;
    const float *residual = u->residual ? u->residual + row * u->ldr + first : NULL;
    int32_t left = matrix->outputs - first;
    if (left >= vectors * W) {
        for (int b = 0; b < vectors; b++) {
            vf value = values[b];
            if (residual) value = f_add(value, f_load(residual + b * W));
            f_store(out + b * W, u->relu ? f_relu(value) : value);
        }
        return;
    }
    for (int b = 0; b < vectors && b * W < left; b++) {
        vf value = values[b];
        int whole = left - b * W >= W;
        if (residual)
            value = f_add(value, whole ? f_load(residual + b * W)
                                       : f_load_part(residual + b * W, left - b * W, 0.f));
        if (u->relu) value = f_relu(value);
        if (whole)
            f_store(out + b * W, value);
        else
            f_store_part(out + b * W, left - b * W, value);
    }
}

/* ------------------------------------------------------------------ choosing */

/* Of one row, lane by lane: the best value and the first output of its vector, the running maximum
 * and sum of exponentials; and whether there was NaN or infinity. */
typedef struct {
    vf value;
    vi output;
    vf top, sum;
    int invalid;
} choice;

/* rule: NULL or what is banned in this row; v: values of the outputs of one tile from `first` on.
 * Always a tile, so that sums are the same for any number of rows. */
static INLINE void choose(choice *c, const fh_rule *rule, int with_sum, const fh_matrix *matrix,
                          int32_t first, vf v[COLUMNS]) {
    const int vectors = COLUMNS;
    int32_t count = TILE;
    if (first + count > matrix->outputs) {
        ALIGNED float padded[FH_PANEL];
        for (int b = 0; b < vectors; b++) f_store(padded + b * W, v[b]);
        for (int32_t i = matrix->outputs - first > 0 ? matrix->outputs - first : 0; i < count; i++)
            padded[i] = -INFINITY;
        for (int b = 0; b < vectors; b++) v[b] = f_load(padded + b * W);
    }
    /* The sum shows every value that is not finite; an overflow of finite ones is told apart by
     * looking closer. */
    vf together = v[0];
    for (int b = 1; b < vectors; b++) together = f_add(together, v[b]);
    if (f_any_invalid(together))
        for (int b = 0; b < vectors; b++) c->invalid |= f_any_invalid(v[b]);
    if (with_sum) {
        vf top = c->top;
        for (int b = 0; b < vectors; b++) top = f_max(top, v[b]);
        vf more = f_exp_below(f_sub(v[0], top));
        for (int b = 1; b < vectors; b++) more = f_add(more, f_exp_below(f_sub(v[b], top)));
        if (f_any_larger(top, c->top)) {
            c->sum = f_mul(c->sum, f_exp_below(f_sub(c->top, top)));
            c->top = top;
        }
        c->sum = f_add(c->sum, more);
    }
    if (rule) {
        int hits = (uint32_t)(rule->unk - first) < (uint32_t)count;
        for (int32_t i = 0; i < rule->bans; i++)
            hits |= (uint32_t)(rule->banned[i] - first) < (uint32_t)count;
        if (hits) {
            ALIGNED float ruled[FH_PANEL];
            for (int b = 0; b < vectors; b++) f_store(ruled + b * W, v[b]);
            if ((uint32_t)(rule->unk - first) < (uint32_t)count)
                ruled[rule->unk - first] -= rule->unk_penalty;
            for (int32_t i = 0; i < rule->bans; i++)
                if ((uint32_t)(rule->banned[i] - first) < (uint32_t)count)
                    ruled[rule->banned[i] - first] = -INFINITY;
            for (int b = 0; b < vectors; b++) v[b] = f_load(ruled + b * W);
        }
    }
    vf value = c->value;
    vi output = c->output;
    for (int b = 0; b < vectors; b++) f_better(&value, &output, v[b], i_all(first + b * W));
    c->value = value;
    c->output = output;
}

/* The first output that is not banned: the best one when all values are -infinity. */
static int32_t first_allowed(const fh_rule *rule, int32_t outputs) {
    for (int32_t id = 0; id < outputs; id++) {
        int32_t i = 0, bans = rule ? rule->bans : 0;
        while (i < bans && rule->banned[i] != id) i++;
        if (i == bans) return id;
    }
    return FH_NONE;
}

static void decide(const choice *c, const fh_rule *rule, int32_t outputs, int32_t *token,
                   float *value, float *logsumexp) {
    ALIGNED float values[W];
    ALIGNED int32_t ids[W];
    f_store(values, c->value);
    i_store(ids, c->output);
    int32_t best = 0, bad = c->invalid;
    for (int32_t i = 0; i < W; i++) {
        if (ids[i] != FH_NONE) ids[i] += i;
        if (values[i] > values[best] ||
            (values[i] == values[best] && (uint32_t)ids[i] < (uint32_t)ids[best]))
            best = i;
    }
    *token = bad ? FH_NAN : ids[best] == FH_NONE ? first_allowed(rule, outputs) : ids[best];
    if (value) *value = bad ? NAN : values[best];
    if (!logsumexp) return;
    float top = f_largest(c->top);
    float sum = f_total(f_mul(c->sum, f_exp(f_sub(c->top, f_all(top)))));
    *logsumexp = bad ? NAN : sum > 0.f ? top + logf(sum) : -INFINITY;
}

/* The choices of several rows: what a product is taken for when it is not stored. */
typedef struct {
    choice *choices;
    const fh_rule *rules;
    int with_sum;
} chooser;

/* rows x vectors sums (int8) from row `row` and output `first` on. */
static INLINE void choose_int8(const chooser *to, const fh_matrix *matrix, const fh_input *input,
                               int32_t row, int32_t rows, int32_t first, const vi *sums,
                               int vectors) {
    for (int32_t r = row; r < row + rows; r++, sums += vectors) {
        vf values[VECTORS];
        float scale = input->scales[r];
        for (int b = 0; b < vectors; b++)
            values[b] = int8_value(sums[b], scale, matrix, first + b * W);
        for (int b = 0; b < vectors; b += COLUMNS)
            choose(to->choices + r, to->rules ? to->rules + r : NULL, to->with_sum, matrix,
                   first + b * W, values + b);
    }
}
static NOINLINE void choose_float(const chooser *to, const fh_matrix *matrix, int32_t row,
                                  int32_t rows, int32_t first, const vf *sums, int vectors) {
    for (int32_t r = row; r < row + rows; r++, sums += vectors) {
        vf values[VECTORS];
        for (int b = 0; b < vectors; b++)
            values[b] = f_add(sums[b], f_load(matrix->bias + first + b * W));
        for (int b = 0; b < vectors; b += COLUMNS)
            choose(to->choices + r, to->rules ? to->rules + r : NULL, to->with_sum, matrix,
                   first + b * W, values + b);
    }
}

/* ------------------------------------------------------------------ either of them */

static INLINE void take_int8(const target *store_to, const chooser *choose_for,
                             const fh_matrix *matrix, const fh_input *input, int32_t row,
                             int32_t rows, int32_t first, const vi *sums, int vectors) {
    if (choose_for) {
        choose_int8(choose_for, matrix, input, row, rows, first, sums, vectors);
        return;
    }
    for (int32_t r = row; r < row + rows; r++, sums += vectors) {
        vf values[VECTORS];
        float scale = input->scales[r];
        for (int b = 0; b < vectors; b++)
            values[b] = int8_value(sums[b], scale, matrix, first + b * W);
        store(store_to, matrix, r, first, values, vectors);
    }
}
static INLINE void take_float(const target *store_to, const chooser *choose_for,
                              const fh_matrix *matrix, int32_t row, int32_t rows, int32_t first,
                              const vf *sums, int vectors) {
    if (choose_for) {
        choose_float(choose_for, matrix, row, rows, first, sums, vectors);
        return;
    }
    for (int32_t r = row; r < row + rows; r++, sums += vectors) {
        vf values[VECTORS];
        for (int b = 0; b < vectors; b++)
            values[b] = f_add(sums[b], f_load(matrix->bias + first + b * W));
        store(store_to, matrix, r, first, values, vectors);
    }
}
