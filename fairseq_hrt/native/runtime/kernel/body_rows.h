/* What works on one row at a time: exp, quantising, softmax, layer normalisation, the best of a
 * row. Included by each operations_*.c. */

/* exp(x) to 2 ulp: 2^n p(f), f = x - n ln 2 in two steps (Cody and Waite, 1980), p of degree 6.
 * Infinities and NaN keep their meaning. */
/* Below it exp is 0: results that are not normal numbers cost some processors a hundred cycles
 * each, and -infinity, which stands for what is hidden, would be one. */
#define LEAST_EXPONENT (-87.3f)

static INLINE vf f_exp_of(vf y) { /* y from LEAST_EXPONENT to 89, or NaN */
    vf n = f_round(f_mul(y, f_all(1.44269504f)));
    vf f = f_fma(n, f_all(-0.693359375f), y);
    f = f_fma(n, f_all(2.12194440e-4f), f);
    vf p = f_fma(f_all(1.9875691500e-4f), f, f_all(1.3981999507e-3f));
    p = f_fma(p, f, f_all(8.3334519073e-3f));
    p = f_fma(p, f, f_all(4.1665795894e-2f));
    p = f_fma(p, f, f_all(1.6666665459e-1f));
    p = f_fma(p, f, f_all(5.0000001201e-1f));
    p = f_fma(f_mul(f, f), p, f_add(f, f_all(1.f)));
    return f_times_power(p, n);
}
static INLINE vf f_exp_below(vf x) {
    return f_zero_below(f_exp_of(f_max(f_all(LEAST_EXPONENT), x)), x, LEAST_EXPONENT);
} /* x up to 89. NaN comes through: it is the second operand */
static INLINE vf f_exp(vf x) { return f_exp_below(f_min(f_all(89.f), x)); }

static void exponential(float *x, int32_t count) {
    int32_t i = 0;
    for (; i + W <= count; i += W) f_store(x + i, f_exp(f_load(x + i)));
    if (i < count) f_store_part(x + i, count - i, f_exp(f_load_part(x + i, count - i, 0.f)));
}

/* ------------------------------------------------------------------ quantising */

/* Bits of the largest |x| of a row: as integers, NaN is larger than infinity. */
static INLINE int32_t largest_bits(const float *row, int32_t inputs) {
    int32_t whole = inputs / W * W, rest = inputs - whole;
    vi top = i_zero();
    for (int32_t i = 0; i < whole; i += W) top = i_max(top, f_magnitude_bits(f_load(row + i)));
    if (rest) top = i_max(top, f_magnitude_bits(f_load_part(row + whole, rest, 0.f)));
    return i_largest(top);
}

/* Rows of 16 bits: of each four inputs the first, third, second and fourth, so that a vector of
 * weights is taken apart into even and odd bytes. */
static void prepare_16(fh_input *input, void *buffer) {
    int32_t rows = input->rows, inputs = input->inputs, stride = (inputs + 63) / 64 * 64,
            whole = inputs / W * W, rest = inputs - whole;
    int16_t *integers = buffer;
    float *scales = (float *)(void *)(integers + (size_t)rows * (size_t)stride),
          steps = (float)fh_levels(inputs);
    for (int32_t r = 0; r < rows; r++) {
        const float *row = input->x + r * input->ldx;
        int16_t *to = integers + (size_t)r * (size_t)stride;
        int32_t bits = largest_bits(row, inputs);
        float largest;
        memcpy(&largest, &bits, sizeof largest);
        int finite = bits < 0x7f800000, usable = finite && largest >= 1e-36f;
        scales[r] = !finite ? NAN : usable ? largest / steps : 0.f;
        int32_t done = usable ? whole : 0;
        vf factor = f_all(usable ? steps / largest : 0.f);
        for (int32_t i = 0; i < done; i += W)
            i_store_fours(to + i, i_of(f_mul(f_load(row + i), factor)));
        if (usable && rest) {
            vf part = f_load_part(row + whole, rest, 0.f);
            i_store_fours(to + whole, i_of(f_mul(part, factor)));
            done += W;
        }
        memset(to + done, 0, (size_t)(stride - done) * sizeof *to);
    }
    input->stride = stride * (int32_t)sizeof *integers;
    input->integers = buffer;
    input->scales = scales;
}

static void prepare(fh_input *input, void *buffer, fh_kind kind, const float *x, ptrdiff_t ldx,
                    int32_t rows, int32_t inputs, int positive) {
    *input = (fh_input){.kind = kind, .rows = rows, .inputs = inputs, .x = x, .ldx = ldx};
    if (kind == FH_FLOAT32) return;
    if (kind == FH_INT8_16) {
        prepare_16(input, buffer);
        return;
    }
    int32_t stride = (inputs + 63) / 64 * 64, whole = inputs / W * W, rest = inputs - whole;
    uint8_t *integers = buffer;
    float *scales = (float *)(void *)(integers + (size_t)rows * (size_t)stride),
          steps = positive ? 255.f : 127.f;
    int32_t offset = UNSIGNED_INTEGERS ? positive ? 0 : 128 : positive ? -128 : 0;
    for (int32_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        uint8_t *to = integers + (size_t)r * (size_t)stride;
        int32_t bits = largest_bits(row, inputs);
        float largest;
        memcpy(&largest, &bits, sizeof largest);
        int finite = bits < 0x7f800000, usable = finite && largest >= 1e-36f;
        scales[r] = !finite ? NAN : usable ? largest / steps : 0.f;
        if (!usable) {
            memset(to, (uint8_t)offset, (size_t)stride);
            continue;
        }
        vf factor = f_all(steps / largest);
        vi shift = i_all(offset), lowest = i_all(positive ? 0 : -127);
        for (int32_t i = 0; i < whole; i += W)
            i_store_bytes(to + i,
                          i_add(i_max(i_of(f_mul(f_load(row + i), factor)), lowest), shift));
        if (rest) {
            /* Behind the last input lie zero weights: any integer will do there, but it should not
             * depend on what was there before. */
            i_store_bytes(
                to + whole,
                i_add(i_max(i_of(f_mul(f_load_part(row + whole, rest, 0.f), factor)), lowest),
                      shift));
            whole += W;
        }
        if (whole < stride) memset(to + whole, (uint8_t)offset, (size_t)(stride - whole));
        whole = inputs / W * W;
    }
    input->stride = stride;
    input->integers = integers;
    input->scales = scales;
    input->offset = offset;
}

/* ------------------------------------------------------------------ softmax */

/* The largest value; NaN may be lost. */
static INLINE float row_largest(const float *row, int32_t count) {
    vf a = f_all(-INFINITY), b = a;
    int32_t i = 0;
    for (; i + 2 * W <= count; i += 2 * W) {
        a = f_max(a, f_load(row + i));
        b = f_max(b, f_load(row + i + W));
    }
    if (i + W <= count) a = f_max(a, f_load(row + i)), i += W;
    if (i < count) b = f_max(b, f_load_part(row + i, count - i, -INFINITY));
    return f_largest(f_max(a, b));
}

/* sum(exp(row - top)); the exponentials go to `to` unless NULL. */
static INLINE float row_exponentials(const float *row, int32_t count, float top, float *to) {
    vf a = f_zero(), b = a, shift = f_all(top);
    int32_t i = 0;
    for (; i + 2 * W <= count; i += 2 * W) {
        vf x = f_exp_below(f_sub(f_load(row + i), shift)),
           y = f_exp_below(f_sub(f_load(row + i + W), shift));
        if (to) f_store(to + i, x), f_store(to + i + W, y);
        a = f_add(a, x);
        b = f_add(b, y);
    }
    if (i + W <= count) {
        vf x = f_exp_below(f_sub(f_load(row + i), shift));
        if (to) f_store(to + i, x);
        a = f_add(a, x);
        i += W;
    }
    if (i < count) {
        vf x = f_exp_below(f_sub(f_load_part(row + i, count - i, -INFINITY), shift));
        if (to) f_store_part(to + i, count - i, x);
        b = f_add(b, x);
    }
    return f_total(f_add(a, b));
}

static float logsumexp(const float *row, int32_t count) {
    float top = row_largest(row, count);
    if (top == INFINITY ||
        top == -INFINITY) { /* the difference of infinities is not a number: only look for NaN */
        for (int32_t i = 0; i < count; i++)
            if (isnan(row[i])) return NAN;
        return top;
    }
    return top + logf(row_exponentials(row, count, top, NULL));
}

static INLINE void softmax_row(float *row, int32_t count) {
    vf factor = f_all(1.f / row_exponentials(row, count, row_largest(row, count), row));
    int32_t i = 0;
    for (; i + W <= count; i += W) f_store(row + i, f_mul(f_load(row + i), factor));
    if (i < count)
        f_store_part(row + i, count - i, f_mul(f_load_part(row + i, count - i, 0.f), factor));
}
static void softmax(float *row, int32_t count) { softmax_row(row, count); }

/* ------------------------------------------------------------------ layer normalisation */

static void norm(const float *x, ptrdiff_t ldx, int32_t rows, int32_t width, const float *gain,
                 const float *bias, float eps, float *out, ptrdiff_t ldo) {
    int32_t whole = width / W * W, rest = width - whole, even = width / (2 * W) * (2 * W);
    for (int32_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        float *to = out + r * ldo;
        vf a = f_zero(), b = a;
        for (int32_t i = 0; i < even; i += 2 * W) {
            a = f_add(a, f_load(row + i));
            b = f_add(b, f_load(row + i + W));
        }
        if (even < whole) a = f_add(a, f_load(row + even));
        if (rest) b = f_add(b, f_load_part(row + whole, rest, 0.f));
        float centre = f_total(f_add(a, b)) / (float)width;
        vf mean = f_all(centre);
        a = b = f_zero();
        for (int32_t i = 0; i < even; i += 2 * W) {
            vf s = f_sub(f_load(row + i), mean), t = f_sub(f_load(row + i + W), mean);
            a = f_fma(s, s, a);
            b = f_fma(t, t, b);
        }
        if (even < whole) {
            vf s = f_sub(f_load(row + even), mean);
            a = f_fma(s, s, a);
        }
        if (rest) {
            vf s = f_sub(f_load_part(row + whole, rest, centre), mean);
            b = f_fma(s, s, b);
        }
        vf factor = f_all(1.f / sqrtf(f_total(f_add(a, b)) / (float)width + eps));
        for (int32_t i = 0; i < whole; i += W)
            f_store(to + i, f_fma(f_mul(f_sub(f_load(row + i), mean), factor), f_load(gain + i),
                                  f_load(bias + i)));
        if (rest) {
            vf s = f_mul(f_sub(f_load_part(row + whole, rest, 0.f), mean), factor);
            f_store_part(to + whole, rest,
                         f_fma(s, f_load_part(gain + whole, rest, 0.f),
                               f_load_part(bias + whole, rest, 0.f)));
        }
    }
}

/* ------------------------------------------------------------------ the best of a row */

/* Puts a value into the sorted list if it belongs there. */
static void insert(float value, int32_t id, int32_t n, int32_t *found, int32_t *tokens,
                   float *values) {
    if (*found == n) {
        if (value < values[n - 1] || (value == values[n - 1] && id > tokens[n - 1])) return;
    } else {
        ++*found;
    }
    int32_t place = *found - 1;
    for (; place > 0 &&
           (values[place - 1] < value || (values[place - 1] == value && tokens[place - 1] > id));
         place--) {
        values[place] = values[place - 1];
        tokens[place] = tokens[place - 1];
    }
    values[place] = value;
    tokens[place] = id;
}

static int is_banned(const fh_rule *rule, int32_t id) {
    for (int32_t i = 0; rule && i < rule->bans; i++)
        if (rule->banned[i] == id) return 1;
    return 0;
}

static int32_t top(const float *row, int32_t count, const fh_rule *rule, int32_t n, int32_t *tokens,
                   float *values) {
    int32_t found = 0, unk = rule && rule->unk >= 0 && rule->unk < count ? rule->unk : -1;
    int invalid = 0;
    for (int32_t i = 0; i < count; i += W) {
        int32_t part = count - i < W ? count - i : W;
        vf v = part == W ? f_load(row + i) : f_load_part(row + i, part, -INFINITY);
        invalid |= f_any_invalid(v);
        if (n < 1 || (found == n && !f_any_above(v, values[n - 1]))) continue;
        for (int32_t j = i; j < i + part; j++)
            if (j != unk && (found < n || row[j] > values[n - 1]) && !is_banned(rule, j))
                insert(row[j], j, n, &found, tokens, values);
    }
    if (invalid) return FH_NAN;
    if (unk >= 0 && n >= 1 && !is_banned(rule, unk))
        insert(row[unk] - rule->unk_penalty, unk, n, &found, tokens, values);
    return found;
}
