/* kernels/cpu/quant/linear.c: quantize and dequantize, see linear.h. Elements are cut into flat chunks, the same for
 * any number of threads and at whole bytes of packed data. Inside a chunk, runs with one scale between f32 and 8-bit
 * integers have loops that compilers turn into vectors; everything else goes through doubles. */
#include "kernels/cpu/quant/linear.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"

#include <math.h>

enum { CHUNK = 1024, ITEM = 1 << 14 };

typedef struct place {
    int64_t at;  /* of the scale */
    int64_t run; /* elements from here on that have the same, or whose scales follow one another */
    bool steps;  /* the latter */
} place;

static place linear_place_of(const nck_linear *a, int64_t i) {
    int64_t in = i % a->inner, ax = i / a->inner % a->axis, o = i / a->inner / a->axis;
    place p = {.at = o * a->s_outer + ax / a->block * a->s_axis + in * a->s_inner, .run = a->inner - in};
    if (a->s_inner)
        p.steps = true;
    else if (!a->s_axis && !a->s_outer)
        p.run = INT64_MAX;
    else if (a->block > 1)
        p.run += (nc_min64(a->axis, (ax / a->block + 1) * a->block) - ax - 1) * a->inner;
    return p;
}

/* ---- f32 and 8-bit integers ---- */

/* Rounds |v| <= 2^22 to nearest even. */
static inline float round_small(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

static inline int quantized(float x, float scale, int zero, int low, int high) {
    float q = x / scale;
    q = q == q ? q : 0;
    q = q < -65536 ? -65536 : q > 65536 ? 65536 : q;
    int v = (int)round_small(q) + zero;
    return v < low ? low : v > high ? high : v;
}

static void quantize_u8(const float *x, int64_t n, float scale, int zero, uint8_t *y) {
    for (int64_t k = 0; k < n; k++) y[k] = (uint8_t)quantized(x[k], scale, zero, 0, UINT8_MAX);
}
static void quantize_i8(const float *x, int64_t n, float scale, int zero, int8_t *y) {
    for (int64_t k = 0; k < n; k++) y[k] = (int8_t)quantized(x[k], scale, zero, INT8_MIN, INT8_MAX);
}
static void dequantize_u8(const uint8_t *x, int64_t n, float scale, int zero, float *y) {
    for (int64_t k = 0; k < n; k++) y[k] = (float)((int)x[k] - zero) * scale;
}
static void dequantize_i8(const int8_t *x, int64_t n, float scale, int zero, float *y) {
    for (int64_t k = 0; k < n; k++) y[k] = (float)((int)x[k] - zero) * scale;
}

static bool is_byte(nc_dtype t) { return t == NC_UINT8 || t == NC_INT8; }

static void quantize_bytes(const nck_linear *a, int64_t i, int64_t end) {
    const float *x = a->x;
    while (i < end) {
        place p = linear_place_of(a, i);
        int64_t n = nc_min64(p.run, end - i), one = p.steps ? 1 : n;
        for (int64_t k = 0; k < n; k += one) {
            float scale = (float)a->scale[p.at + k * p.steps];
            int zero = (int)a->zero[p.at + k * p.steps];
            if (a->y_type == NC_UINT8)
                quantize_u8(x + i + k, one, scale, zero, (uint8_t *)a->y + i + k);
            else
                quantize_i8(x + i + k, one, scale, zero, (int8_t *)a->y + i + k);
        }
        i += n;
    }
}

static void dequantize_bytes(const nck_linear *a, int64_t i, int64_t end) {
    float *y = a->y;
    while (i < end) {
        place p = linear_place_of(a, i);
        int64_t n = nc_min64(p.run, end - i), one = p.steps ? 1 : n;
        for (int64_t k = 0; k < n; k += one) {
            float scale = (float)a->scale[p.at + k * p.steps];
            int zero = (int)a->zero[p.at + k * p.steps];
            if (a->x_type == NC_UINT8)
                dequantize_u8((const uint8_t *)a->x + i + k, one, scale, zero, y + i + k);
            else
                dequantize_i8((const int8_t *)a->x + i + k, one, scale, zero, y + i + k);
        }
        i += n;
    }
}

/* ---- all types ---- */

/* Elements [i, i+n) of dense data; i is a multiple of 8. */
static void part(nc_dtype t, const void *data, int64_t i, int64_t n, nc_tensor *out) {
    nc_tensor_set(out, (char *)(uintptr_t)data + i / 8 * nc_dtype_bits(t) + i % 8 * nc_dtype_bits(t) / 8, t, 1);
    out->dims[0] = n;
    out->strides[0] = 1;
}

static double in_precision(nc_dtype t, double q) {
    switch (t) {
    case NC_FLOAT16: return (double)nc_f16_to_f32(nc_f64_to_f16(q));
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(nc_f32_to_bf16((float)q));
    case NC_FLOAT: return (double)(float)q;
    default: return q;
    }
}

static bool is_integer(nc_dtype t) { return nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U'; }

static void ends(nc_dtype t, double *low, double *high) {
    double n = ldexp(1, (int)nc_dtype_bits(t));
    *low = nc_dtype_class(t) == 'I' ? -n / 2 : 0;
    *high = *low + n - 1;
}

static void quantize_chunk(const nck_linear *a, int64_t i, int64_t n) {
    double v[CHUNK], low = 0, high = 0;
    bool integer = is_integer(a->y_type);
    nc_tensor x, y, wide;
    part(a->x_type, a->x, i, n, &x);
    part(a->y_type, a->y, i, n, &y);
    part(NC_DOUBLE, v, 0, n, &wide);
    if (nck_convert(&x, &wide, NULL) != NC_OK) return;
    if (integer) ends(a->y_type, &low, &high);
    for (int64_t k = 0; k < n;) {
        place p = linear_place_of(a, i + k);
        for (int64_t end = p.run < n - k ? k + p.run : n; k < end; k++, p.at += p.steps) {
            double q = in_precision(a->precision, v[k] / a->scale[p.at]);
            if (integer) q = q == q ? rint(q) : 0;
            q += a->zero[p.at];
            v[k] = !integer ? q : q < low ? low : q > high ? high : q;
        }
    }
    if (nck_convert_how(&wide, &y, a->how, NULL) != NC_OK) return;
}

static void dequantize_chunk(const nck_linear *a, int64_t i, int64_t n) {
    double v[CHUNK];
    nc_tensor x, y, wide;
    part(a->x_type, a->x, i, n, &x);
    part(a->y_type, a->y, i, n, &y);
    part(NC_DOUBLE, v, 0, n, &wide);
    if (nck_convert(&x, &wide, NULL) != NC_OK) return;
    for (int64_t k = 0; k < n;) {
        place p = linear_place_of(a, i + k);
        for (int64_t end = p.run < n - k ? k + p.run : n; k < end; k++, p.at += p.steps)
            v[k] = (double)((float)(v[k] - a->zero[p.at]) * (float)a->scale[p.at]);
    }
    if (nck_convert(&wide, &y, NULL) != NC_OK) return;
}

static int64_t linear_count(const nck_linear *a) { return a->outer * a->axis * a->inner; }

static void quantize_item(void *ctx, int64_t item) {
    const nck_linear *a = ctx;
    int64_t i = item * ITEM, end = nc_min64(i + ITEM, linear_count(a));
    if (a->x_type == NC_FLOAT && a->precision == NC_FLOAT && is_byte(a->y_type)) {
        quantize_bytes(a, i, end);
        return;
    }
    for (; i < end; i += CHUNK) quantize_chunk(a, i, nc_min64(CHUNK, end - i));
}

static void dequantize_item(void *ctx, int64_t item) {
    const nck_linear *a = ctx;
    int64_t i = item * ITEM, end = nc_min64(i + ITEM, linear_count(a));
    if (is_byte(a->x_type) && a->y_type == NC_FLOAT) {
        dequantize_bytes(a, i, end);
        return;
    }
    for (; i < end; i += CHUNK) dequantize_chunk(a, i, nc_min64(CHUNK, end - i));
}

void nck_quantize(const nck_linear *a, nc_pool *pool) {
    nck_linear copy = *a;
    nc_parallel(pool, nc_ceil_div(linear_count(a), ITEM), quantize_item, &copy);
}

void nck_dequantize(const nck_linear *a, nc_pool *pool) {
    nck_linear copy = *a;
    nc_parallel(pool, nc_ceil_div(linear_count(a), ITEM), dequantize_item, &copy);
}

/* ---- ranges, and integers to narrower ones ---- */

void nck_range_f32(const float *x, int64_t n, float *low, float *high) {
    float lo = 0, hi = 0;
    for (int64_t k = 0; k < n; k++) {
        lo = x[k] < lo ? x[k] : lo;
        hi = x[k] > hi ? x[k] : hi;
    }
    *low = lo;
    *high = hi;
}

void nck_requantize(const int32_t *v, int64_t n, double scale, int zero, nc_dtype type, void *y) {
    double low, high;
    ends(type, &low, &high);
    for (int64_t k = 0; k < n; k++) {
        double q = rint((double)v[k] * scale);
        q = (q == q ? q : 0) + zero;
        int c = (int)(q < low ? low : q > high ? high : q);
        if (type == NC_UINT8)
            ((uint8_t *)y)[k] = (uint8_t)c;
        else
            ((int8_t *)y)[k] = (int8_t)c;
    }
}
