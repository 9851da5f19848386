/* The operations in portable C: for processors without a table of their own, and the reference that
 * the others are tested against. */
#include "operations.h"

#include <math.h>
#include <string.h>

static const float INVALID = NAN;

/* Where an input of 16 bits is stored: of each four the first, third, second and fourth. */
static int32_t place_16(int32_t input) {
    return input % 4 == 1 || input % 4 == 2 ? input ^ 3 : input;
}

static void prepare_16(fh_input *input, void *buffer) {
    int32_t rows = input->rows, inputs = input->inputs, stride = (inputs + 63) / 64 * 64;
    int16_t *integers = buffer;
    float *scales = (float *)(void *)(integers + (size_t)rows * (size_t)stride),
          steps = (float)fh_levels(inputs);
    memset(integers, 0, (size_t)rows * (size_t)stride * sizeof *integers);
    for (int32_t r = 0; r < rows; r++) {
        const float *row = input->x + r * input->ldx;
        float largest = 0.f;
        int finite = 1;
        for (int32_t i = 0; i < inputs; i++) {
            finite &= isfinite(row[i]) != 0;
            largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
        }
        int usable = finite && largest >= 1e-36f;
        scales[r] = !finite ? INVALID : usable ? largest / steps : 0.f;
        float factor = usable ? steps / largest : 0.f;
        for (int32_t i = 0; usable && i < inputs; i++)
            integers[(size_t)r * (size_t)stride + (size_t)place_16(i)] =
                (int16_t)nearbyintf(row[i] * factor);
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
    int32_t stride = (inputs + 63) / 64 * 64;
    int8_t *integers = buffer;
    float *scales = (float *)(void *)((char *)buffer + (size_t)rows * (size_t)stride);
    float steps = positive ? 255.f : 127.f;
    int32_t offset = positive ? -128 : 0;
    for (int32_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        int8_t *to = integers + (size_t)r * (size_t)stride;
        uint32_t bits, top = 0; /* of |x|: as integers, not-a-number is the largest */
        for (int32_t i = 0; i < inputs; i++) {
            memcpy(&bits, row + i, 4);
            bits &= 0x7fffffffu;
            top = bits > top ? bits : top;
        }
        float largest;
        memcpy(&largest, &top, 4);
        int usable = top < 0x7f800000u && largest >= 1e-36f;
        scales[r] = top >= 0x7f800000u ? INVALID : usable ? largest / steps : 0.f;
        float factor = usable ? steps / largest : 0.f;
        memset(to, (uint8_t)offset, (size_t)stride);
        if (usable)
            for (int32_t i = 0; i < inputs; i++) {
                int32_t q = (int32_t)nearbyintf(row[i] * factor);
                to[i] = (int8_t)((positive && q < 0 ? 0 : q) + offset);
            }
    }
    input->stride = stride;
    input->integers = buffer;
    input->scales = scales;
    input->offset = offset;
}

/* FH_PANEL outputs of one row, bias included; those behind the last output are meaningless. */
static void panel(const fh_matrix *matrix, const fh_input *input, int32_t row, int32_t first,
                  float out[FH_PANEL]) {
    size_t at = (size_t)first * (size_t)matrix->stride;
    if (matrix->kind == FH_INT8_16) {
        const int16_t *a =
            (const int16_t *)(const void *)(input->integers + (size_t)row * (size_t)input->stride);
        const int8_t *w = (const int8_t *)matrix->weights + at;
        int32_t sums[FH_PANEL] = {0};
        for (int32_t i = 0; i < matrix->stride; i += 4, w += 4 * FH_PANEL)
            for (int32_t n = 0; n < FH_PANEL; n++)
                for (int32_t j = 0; j < 4; j++) sums[n] += a[place_16(i + j)] * w[4 * n + j];
        for (int32_t n = 0; n < FH_PANEL; n++)
            out[n] = (float)sums[n] * (input->scales[row] * matrix->scales[first + n]) +
                     matrix->bias[first + n];
    } else if (matrix->kind == FH_INT8) {
        const int8_t *a = (const int8_t *)input->integers + (size_t)row * (size_t)input->stride,
                     *w = (const int8_t *)matrix->weights + at;
        int32_t sums[FH_PANEL] = {0};
        for (int32_t i = 0; i < matrix->stride; i += 4, w += 4 * FH_PANEL)
            for (int32_t n = 0; n < FH_PANEL; n++)
                sums[n] += a[i] * w[4 * n] + a[i + 1] * w[4 * n + 1] + a[i + 2] * w[4 * n + 2] +
                           a[i + 3] * w[4 * n + 3];
        for (int32_t n = 0; n < FH_PANEL; n++) {
            float scale = input->scales[row] * matrix->scales[first + n];
            out[n] = (float)(sums[n] - input->offset * matrix->sums[first + n]) * scale +
                     matrix->bias[first + n];
        }
    } else {
        const float *a = input->x + row * input->ldx, *w = (const float *)matrix->weights + at;
        for (int32_t n = 0; n < FH_PANEL; n++) out[n] = 0.f;
        for (int32_t i = 0; i < matrix->inputs; i++, w += FH_PANEL)
            for (int32_t n = 0; n < FH_PANEL; n++) out[n] += a[i] * w[n];
        for (int32_t n = 0; n < FH_PANEL; n++) out[n] += matrix->bias[first + n];
    }
}

static void product(const fh_matrix *matrix, const fh_input *input, float *out, ptrdiff_t ldo,
                    int relu, const float *residual, ptrdiff_t ldr) {
    float values[FH_PANEL];
    for (int32_t first = 0; first < matrix->outputs; first += FH_PANEL) {
        int32_t count = matrix->outputs - first < FH_PANEL ? matrix->outputs - first : FH_PANEL;
        for (int32_t r = 0; r < input->rows; r++) {
            panel(matrix, input, r, first, values);
            for (int32_t n = 0; n < count; n++) {
                float value = values[n];
                if (residual) value += residual[r * ldr + first + n];
                out[r * ldo + first + n] = relu && value < 0.f ? 0.f : value;
            }
        }
    }
}

static int banned(const fh_rule *rule, int32_t id) {
    for (int32_t i = 0; rule && i < rule->bans; i++)
        if (rule->banned[i] == id) return 1;
    return 0;
}

static float after_penalty(const fh_rule *rule, int32_t id, float value) {
    return rule && rule->unk == id ? value - rule->unk_penalty : value;
}

static void best(const fh_matrix *matrix, const fh_input *input, const fh_rule *rules,
                 int32_t *tokens, float *values, float *logsumexp) {
    float out[FH_PANEL];
    for (int32_t r = 0; r < input->rows; r++) {
        const fh_rule *rule = rules ? rules + r : NULL;
        int32_t token = FH_NONE, invalid = 0;
        float found = -INFINITY, top = -INFINITY, sum = 0.f;
        for (int32_t first = 0; first < matrix->outputs; first += FH_PANEL) {
            panel(matrix, input, r, first, out);
            for (int32_t n = 0; n < FH_PANEL && first + n < matrix->outputs; n++) {
                invalid |= isnan(out[n]) || out[n] == INFINITY;
                if (logsumexp && out[n] > -INFINITY) {
                    if (out[n] > top) {
                        sum = sum * expf(top - out[n]) + 1.f;
                        top = out[n];
                    } else {
                        sum += expf(out[n] - top);
                    }
                }
                float value = after_penalty(rule, first + n, out[n]);
                if ((value > found || token == FH_NONE) && !banned(rule, first + n)) {
                    found = value;
                    token = first + n;
                }
            }
        }
        tokens[r] = invalid ? FH_NAN : token;
        if (values) values[r] = invalid ? INVALID : found;
        if (logsumexp) logsumexp[r] = invalid ? INVALID : sum > 0.f ? top + logf(sum) : -INFINITY;
    }
}

static int32_t top(const float *row, int32_t count, const fh_rule *rule, int32_t n, int32_t *tokens,
                   float *values) {
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++) {
        if (isnan(row[i]) || row[i] == INFINITY) return FH_NAN;
        float value = after_penalty(rule, i, row[i]);
        if (n < 1 || (found == n && value <= values[n - 1]) || banned(rule, i)) continue;
        int32_t place = found < n ? found++ : n - 1;
        for (; place > 0 && values[place - 1] < value; place--) {
            values[place] = values[place - 1];
            tokens[place] = tokens[place - 1];
        }
        values[place] = value;
        tokens[place] = i;
    }
    return found;
}

static float largest(const float *row, int32_t count) {
    float top = row[0];
    for (int32_t i = 1; i < count; i++) top = row[i] > top || isnan(row[i]) ? row[i] : top;
    return top;
}

static float logsumexp(const float *row, int32_t count) {
    float top = largest(row, count), sum = 0.f;
    if (isnan(top) || isinf(top)) {
        for (int32_t i = 0; i < count; i++) sum += row[i];
        return isnan(sum) ? sum : top;
    }
    for (int32_t i = 0; i < count; i++) sum += expf(row[i] - top);
    return top + logf(sum);
}

static void softmax(float *row, int32_t count) {
    float top = largest(row, count), sum = 0.f;
    for (int32_t i = 0; i < count; i++) sum += row[i] = expf(row[i] - top);
    for (int32_t i = 0; i < count; i++) row[i] /= sum;
}

static void exponential(float *x, int32_t count) {
    for (int32_t i = 0; i < count; i++) x[i] = expf(x[i]);
}

static void norm(const float *x, ptrdiff_t ldx, int32_t rows, int32_t width, const float *gain,
                 const float *bias, float eps, float *out, ptrdiff_t ldo) {
    for (int32_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        float *to = out + r * ldo, mean = 0.f, variance = 0.f;
        for (int32_t i = 0; i < width; i++) mean += row[i];
        mean /= (float)width;
        for (int32_t i = 0; i < width; i++) variance += (row[i] - mean) * (row[i] - mean);
        float factor = 1.f / sqrtf(variance / (float)width + eps);
        for (int32_t i = 0; i < width; i++) to[i] = (row[i] - mean) * factor * gain[i] + bias[i];
    }
}

static void scores(const fh_cache *cache, int32_t head, const float *query, int32_t tokens,
                   float *out) {
    int32_t width = cache->width, wide = (width + 15) / 16 * 16;
    size_t high = fh_key_width(width),
           block = (size_t)cache->heads * FH_BLOCK * (high + (size_t)wide);
    const float *keys = cache->data + (size_t)head * high * FH_BLOCK;
    float scale = 1.f / sqrtf((float)width);
    for (int32_t t = 0; t < tokens; t++) {
        const float *key = keys + (size_t)(t / FH_BLOCK) * block;
        float sum = 0.f;
        for (int32_t c = 0; c < width; c++)
            sum += query[c] * key[fh_key_place(high, (size_t)(t % FH_BLOCK), (size_t)c)];
        out[t] = sum * scale;
    }
}

static void attend(const fh_attention *a) {
    const fh_cache *cache = a->cache;
    int32_t width = cache->width, wide = (width + 15) / 16 * 16;
    size_t high = fh_key_width(width),
           block = (size_t)cache->heads * FH_BLOCK * (high + (size_t)wide);
    float *score = a->scratch, scale = 1.f / sqrtf((float)width);
    for (int32_t r = 0; r < a->rows; r++) {
        int32_t tokens = a->tokens;
        if (a->visible)
            tokens = a->visible[r] < 0 ? 0 : a->visible[r] < tokens ? a->visible[r] : tokens;
        const uint8_t *mask = a->mask ? a->mask + r * a->ldm : NULL;
        int32_t seen = 0;
        for (int32_t t = 0; t < tokens; t++) seen += !mask || mask[t];
        if (a->weights) memset(a->weights + r * a->ldw, 0, (size_t)a->tokens * sizeof(float));
        for (int32_t h = 0; h < cache->heads; h++) {
            const float *query = a->queries + r * a->ldq + h * width;
            float *out = a->out + r * a->ldo + h * width;
            if (!seen) {
                memset(out, 0, (size_t)width * sizeof(float));
                continue;
            }
            scores(cache, h, query, tokens, score);
            for (int32_t t = 0; t < tokens; t++) {
                if (a->relative) {
                    int32_t w = a->relative->window,
                            distance = a->key_positions[t] - a->query_positions[r];
                    distance = (distance < -w ? -w : distance > w ? w : distance) + w;
                    float sum = 0.f;
                    for (int32_t c = 0; c < width; c++)
                        sum += query[c] *
                               a->relative->data[fh_key_place(high, (size_t)distance, (size_t)c)];
                    score[t] += sum * scale;
                }
                if (mask && !mask[t]) score[t] = -INFINITY;
            }
            softmax(score, tokens);
            for (int32_t c = 0; c < width; c++) out[c] = 0.f;
            for (int32_t t = 0; t < tokens; t++) {
                if (mask && !mask[t]) continue; /* what is hidden may hold anything */
                const float *value = cache->data + (size_t)(t / FH_BLOCK) * block +
                                     (size_t)cache->heads * FH_BLOCK * high +
                                     ((size_t)h * FH_BLOCK + (size_t)(t % FH_BLOCK)) * (size_t)wide;
                for (int32_t c = 0; c < width; c++) out[c] += score[t] * value[c];
                if (a->weights) a->weights[r * a->ldw + t] += score[t] / (float)cache->heads;
            }
        }
    }
}

const fh_operations fh_operations_plain = {
    "plain", prepare,     product, best,         NULL,   top,    logsumexp,
    softmax, exponential, norm,    fh_cache_put, attend, scores, 0};
